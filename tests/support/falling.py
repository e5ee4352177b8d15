"""A study that needs no JAX: a risk that falls by a rate, for tests of the page around it."""

import asyncio
import functools
import types

import numpy as np

import jaxdp
from jaxdp.explorer.fields import Choice, Number

TIME = np.linspace(0, 1, 5)


def falling(rate):
    """A prediction with a band."""
    risk = np.exp(-rate * TIME)
    band = {"std": np.full(5, 0.01), "final_std": np.asarray(0.02)}
    return jaxdp.Trajectory(TIME, risk, risk[-1] + 0.1, np.asarray(0), {}, label="theory", **band)


def on_a_loop(test):
    """A test that is a coroutine, as what the page does is."""

    @functools.wraps(test)
    def run(*given, **named):
        asyncio.run(test(*given, **named))

    return run


async def rest(tab):
    """Wait until a tab has nothing to do."""
    for _ in range(1000):
        # What has just been asked for is not yet begun.
        await asyncio.sleep(0.02)
        if "up to date" in tab.work.state.object or "refused" in tab.work.state.object:
            return
    raise AssertionError("the page did not come to rest")


class Falling:
    """A study of a risk that falls by a rate."""

    label, time_label, risk_label = "falling", "time", "risk"
    fields = (
        Number("rate", "rate", 0.1, 10.0, 1.0, "Problem", is_log=True),
        Choice("pace", "pace", {"slow": "slow", "fast": "fast"}, "slow", "Problem"),
        Number("extra", "extra", 0.0, 1.0, 0.5, "Problem", shown=("pace", ("fast",))),
        Number("delta", "δ", 1e-9, 1e-2, 1e-5, "Problem", is_log=True),
    )

    def __init__(self):
        # The rates that were described: the first thing that is computed of settings.
        self.described = []
        self.during = lambda progress: None  # called while settings are described

    def describe(self, values, progress):
        self.described.append(values["rate"])
        self.during(progress)
        if values["rate"] == 9:
            raise ValueError("expected <another> rate, got 9")
        algorithm = jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10)
        return types.SimpleNamespace(rate=values["rate"], algorithm=algorithm, plan=None)

    def predict(self, described):
        return falling(described.rate)

    def simulate(self, described, num_runs, progress):
        risks = np.tile(np.exp(-described.rate * TIME), (num_runs, 1))
        return jaxdp.Trajectory(TIME, risks, risks[:, -1], np.zeros(num_runs, int), {})

    def code(self, values, num_runs):
        return f"rate = {values['rate']!r}  # {num_runs}"
