"""No engine waits for itself on two cores."""

import pytest
import watchdog


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setenv("WATCHDOG_IDLE_SECONDS", "10")


def test_a_softmax_head_is_predicted_and_does_not_lock_up():
    assert watchdog.verdict(*watchdog.SMALL[0]) == "ends"


@pytest.mark.slow
@pytest.mark.parametrize("engine", watchdog.SMALL[1:], ids=lambda engine: engine[0].__name__)
def test_small_programs_do_not_lock_up(engine):
    assert watchdog.verdict(*engine) == "ends"
