"""What the page says of a cost is a guarantee too."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jaxdp
from jaxdp.explorer.studies.base import cost_table, rounded_up


@given(st.floats(1e-300, 1e300))
@example(4.000000001)
@example(math.nextafter(4.0, 5.0))
@example(9.9999)
def test_what_is_shown_is_never_less_and_hardly_more(value):
    shown = rounded_up(value)
    assert value <= float(shown) <= value * (1 + 1.001e-3)
    assert len(shown.split("e")[0].replace(".", "").strip("0")) <= 4


@pytest.mark.parametrize("text", ["4", "0.1", "2.001", "0.3", "1e-07", "0", "inf"])
def test_a_number_of_four_digits_stays_as_it_is(text):
    assert rounded_up(float(text)) == text


def test_no_smaller_delta_is_shown_than_the_one_that_holds():
    algorithm = jaxdp.OnePassDPSGD(1.0, clip_scale=1.0, rho=1.0, num_steps=10)
    shown = dict(cost_table(algorithm, 1.2344e-5).rows)
    assert 1.2344e-5 <= float(shown["δ"]) <= 1.235e-5
