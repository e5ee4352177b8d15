"""A study that needs no JAX: a risk that falls by a rate, for tests of the page around it."""

import asyncio
import dataclasses
import functools

import numpy as np

import jaxdp
from jaxdp.explorer.studies.base import AbstractStudy, Choice, Described, Number

TIME = np.linspace(0, 1, 5)


def _falling(values):
    risk = np.exp(-values["rate"] * TIME)
    return jaxdp.Trajectory(TIME, risk, risk[-1] + 0.1, np.asarray(0), {}, label="theory")


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
        await asyncio.sleep(0.005)
        is_followed = getattr(tab, "_predicted", tab.values) is tab.values
        if is_followed and not tab.is_predicting and not tab.doing:
            assert "up to date" in tab.status.object
            return
    raise AssertionError("the page did not come to rest")


class Falling(AbstractStudy):
    """A risk that falls by a rate; each pace compiles its own program."""

    label, time_label, risk_label = "falling", "time", "risk"
    fields = (
        Number("rate", "rate", 0.1, 10.0, 1.0, "Problem", is_log=True),
        Choice("pace", "pace", {"slow": "slow", "fast": "fast"}, "slow", "Problem"),
        Number("extra", "extra", 0.0, 1.0, 0.5, "Problem", shown=("pace", ("fast",))),
        Number("delta", "δ", 1e-9, 1e-2, 1e-5, "Problem", is_log=True),
    )

    def __init__(self):
        # How often settings were described: the first thing that is computed of them.
        self.num_described = 0
        # meanwhile: called while a plan is looked for; during: while settings are described.
        self.meanwhile = self.during = lambda: None

    def check(self, values):
        if values["rate"] == 7:
            raise ValueError("expected <another> rate, got 7")

    def describe(self, values):
        self.num_described += 1
        self.during()
        if values["rate"] == 9:
            raise ValueError("expected a rate that can be described, got 9")
        return Described(dict(values), None, jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10))

    def curve(self, described):
        return _falling(described.values)

    def band(self, described):
        return dataclasses.replace(_falling(described.values), std=np.full(5, 0.01), final_std=0.02)

    def check_runs(self, values, num_runs):
        if num_runs > 50:
            raise ValueError("expected fewer runs")

    def simulate(self, described, num_runs, progress=None):
        self.check_runs(described.values, num_runs)
        mean = np.exp(-described.values["rate"] * TIME)
        risks = np.tile(mean, (num_runs, 1))
        return jaxdp.Trajectory(TIME, risks, risks[:, -1], np.zeros(num_runs, int), {})

    def plan(self, described):
        self.meanwhile()
        return {"rate": 3.0}

    def code(self, described, num_runs):
        return f"rate = {described.values['rate']!r}  # {num_runs}"
