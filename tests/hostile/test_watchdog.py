"""No engine waits for itself on two cores."""

import pytest
import watchdog


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setenv("WATCHDOG_IDLE_SECONDS", "10")


@pytest.mark.slow
@pytest.mark.parametrize("engine", watchdog.SMALL, ids=lambda engine: engine[0].__name__)
def test_small_programs_do_not_lock_up(engine):
    assert watchdog.verdict(*engine) == "ends"
