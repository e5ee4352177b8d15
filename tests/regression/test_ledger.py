"""A ledger: shares that add up to one, exactly."""

import math

import pytest

from jaxdp.regression import Ledger


def test_shares_compose_to_the_budget_and_not_beyond():
    ledger = Ledger(0.7)
    mus = [ledger.spend(f"part {place}", 0.1) for place in range(9)]
    mus.append(ledger.spend_rest("the rest"))
    assert math.hypot(*mus) <= 0.7
    assert math.hypot(*mus) == pytest.approx(0.7, rel=1e-11)
    assert ledger.left == 0
    assert [entry.mu for entry in ledger.entries] == mus
    assert str(ledger).startswith("0.7-GDP in all\n 10.00%")


@pytest.mark.parametrize("share", [0.0, -0.1, 0.6000000001, 1.0])
def test_what_is_not_left_is_not_spent(share):
    ledger = Ledger(1.0)
    ledger.spend("first", 0.4)
    with pytest.raises(ValueError, match=r"expected a share in \(0, 0\.6\]"):
        ledger.spend("second", share)
    assert ledger.left == 0.6
