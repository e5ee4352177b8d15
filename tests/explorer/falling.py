"""A study that needs no JAX: a risk that falls by a rate, for tests of the page around it."""

import numpy as np

import jaxdp
from jaxdp.explorer.studies.base import AbstractStudy, Band, Curve, Described, Runs
from jaxdp.explorer.studies.fields import Choice, Number

TIME = np.linspace(0, 1, 5)


class Falling(AbstractStudy):
    """A risk that falls by a rate; each pace compiles its own program."""

    name, label, time_label, risk_label = "falling", "falling", "time", "risk"
    fields = (
        Number("rate", "rate", 0.1, 10.0, 1.0, "Problem", is_log=True),
        Choice("pace", "pace", {"slow": "slow", "fast": "fast"}, "slow", "Problem"),
        Number("extra", "extra", 0.0, 1.0, 0.5, "Problem", shown=("pace", ("fast",))),
        Number("delta", "δ", 1e-9, 1e-2, 1e-5, "Problem", is_log=True),
    )

    def __init__(self):
        self.said = []
        self.watch = None
        # How often settings were described: the first thing that is computed of them.
        self.num_described = 0
        # Called while a plan is looked for.
        self.meanwhile = lambda: None

    def check(self, values):
        if values["rate"] == 7:
            raise ValueError("expected <another> rate, got 7")

    def describe(self, values):
        self.num_described += 1
        if values["rate"] == 9:
            raise ValueError("expected a rate that can be described, got 9")
        return Described(dict(values), None, jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10))

    def curve(self, described):
        if self.watch is not None:
            self.said.append(self.watch.status.object)
        risk = np.exp(-described.values["rate"] * TIME)
        return Curve(TIME, risk, float(risk[-1]) + 0.1, "theory")

    def program(self, values):
        return ("falling", id(self), values["pace"])

    def band(self, described):
        return Band(np.full(5, 0.01), 0.02)

    def check_runs(self, values, num_runs):
        if num_runs > 50:
            raise ValueError("expected fewer runs")

    def simulate(self, described, num_runs, progress=None):
        self.check_runs(described.values, num_runs)
        mean = np.exp(-described.values["rate"] * TIME)
        return Runs(TIME, mean, 0.01 * mean, float(mean[-1]), 0.01, num_runs, 0)

    def plan(self, described):
        self.meanwhile()
        return {"rate": 3.0}

    def code(self, described, num_runs):
        return f"rate = {described.values['rate']!r}  # {num_runs}"
