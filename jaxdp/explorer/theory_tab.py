"""The theory tab: settings on the left; the curve, its cost and its Python on the right."""

from typing import Any

import numpy as np
import panel

from jaxdp.comparison.picture import plot_comparison, spread_of
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.explorer.fields import read
from jaxdp.explorer.parts import Progress, Run, Work, code_html, form, pane, side_by_side, span
from jaxdp.explorer.studies import Study
from jaxdp.privacy.accounting import cost_of, release_of

_RUNS = {"no runs": 0, "10 runs": 10, "30 runs": 30, "100 runs": 100}
_COPY = """
navigator.clipboard.writeText(text.value);
cb_obj.label = "copied";
setTimeout(() => { cb_obj.label = "Copy Python"; }, 1500);
"""


class TheoryTab:
    """One study with its widgets, in one session.

    Attributes:
        view: the Panel object.
        widgets: one widget for each setting, "runs" and "keep".
        shown, kept: the prediction on the page, and an earlier one to compare with.
    """

    def __init__(self, study: Study):
        self.study, self.work = study, Work("starting ...", self._follow)
        self.shown: Trajectory | None = None
        self.kept: Trajectory | None = None
        settings, self.widgets = form(study.fields)
        self.widgets["runs"] = panel.widgets.Select(
            label="Simulate", options=_RUNS, value=0, width=110, css_classes=["box-runs"]
        )
        self.widgets["keep"] = panel.widgets.Checkbox(label="keep this curve", align="end")
        copy = panel.widgets.Button(label="Copy Python", width=120, align="end")
        self.text = panel.widgets.TextAreaInput(value="", visible=False)
        copy.js_on_click(args={"text": self.text}, code=_COPY)
        self.picture = panel.pane.Matplotlib(None, sizing_mode="scale_width", max_width=800)
        self.readout, self.cost, self.code = pane(), pane(), pane()
        look: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": (8, 0, 0, 0)}
        self.view = side_by_side(
            settings,
            self.work.state,
            self.picture,
            self.readout,
            panel.FlexBox(self.widgets["runs"], self.widgets["keep"], copy),
            panel.Card(self.cost, title="What it costs", **look),
            panel.Card(self.code, title="The Python of this picture", collapsed=True, **look),
            self.text,
        )
        panel.bind(self.work.do, *self.widgets.values(), watch=True)
        # Another site's page that only requests this address starts no computation.
        panel.state.onload(self.work.do)

    async def _follow(self, run: Run, progress: Progress) -> None:
        """Predict, and simulate if asked, with the values of the widgets."""
        given = {name: widget.value for name, widget in self.widgets.items()}
        values, num_runs = read(self.study.fields, given), given["runs"]
        if num_runs not in _RUNS.values():
            raise ValueError(f"expected one of {', '.join(_RUNS)}, got {num_runs!r:.40}")
        if not (given["keep"] and self.kept):
            self.kept = self.shown if given["keep"] else None
        described = await run("describing", self.study.describe, values, progress)
        self.shown = predicted = await run("predicting", self.study.predict, described)
        cost = await run("accounting", cost_html, described.algorithm, values["delta"])
        plan = "" if described.plan is None else described.plan._repr_html_()
        self.cost.object = cost + plan
        self._show(self.study.code(values, 0), predicted, None)
        if num_runs:
            runs = await run("simulating", self.study.simulate, described, num_runs, progress)
            self._show(self.study.code(values, num_runs), predicted, runs)

    def _show(self, code: str, predicted: Trajectory, runs: Trajectory | None) -> None:
        self.picture.object = figure_of(self.study, predicted, runs, self.kept)
        self.readout.object = readout(predicted, runs)
        self.text.value, self.code.object = code, code_html(code)


def figure_of(
    study: Study, predicted: Trajectory, runs: Trajectory | None, kept: Trajectory | None
) -> Any:
    """Draw the prediction, alone or with simulated runs, and a kept prediction in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.9 if runs is None else 5.4), layout="constrained")
    if runs is None:
        axes = figure.subplots()
        predicted.plot(ax=axes)
        axes.set(xlabel=study.time_label, ylabel=study.risk_label)
    else:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.6))
        plot_comparison(
            *(runs, predicted),
            time_label=study.time_label,
            risk_label=study.risk_label,
            ax=(axes, below),
        )
    if kept is not None:
        axes.plot(kept.time, kept.risk, color="0.55", zorder=0, label="kept, to compare with")
        axes.legend(frameon=False)
    return figure


def readout(predicted: Trajectory, runs: Trajectory | None) -> str:
    """Return the risks of the released parameters as HTML."""
    spread = "" if predicted.std is None else f" ± {float(np.asarray(predicted.final_std)):.2g}"
    meaning = "" if predicted.std is None else "± standard deviation of single runs"
    text = span("readout", f"predicted, released: {float(predicted.final_risk):.4g}{spread}")
    text += span("note", meaning)
    status = Status(int(predicted.status))
    if status != Status.OK:
        text += span("refused", f"do not trust this prediction: {status.name.lower()}")
    if runs is not None:
        found = spread_of(runs)
        failed = len(runs.final_risk) - found.count
        diverged = f", {failed} more diverged" if failed else ""
        mean = f"simulated, released: {found.final:.4g} ± {found.final_error:.2g}"
        text += span("readout", mean)
        text += span("note", f"± standard error of {found.count} runs{diverged}")
    return text


def cost_html(algorithm: Any, delta: float) -> str:
    """Return an algorithm's cost as HTML, with a warning if delta is at least 1/n."""
    release = release_of(algorithm)
    count, warning = release.num_records, ""
    if count is not None and delta >= 1 / count:
        warning = span(
            "refused",
            f"δ = {delta:g} is at least 1/n = {1 / count:.2g}: with such a budget publishing one "
            "record chosen at random would count as private",
        )
    try:
        return warning + cost_of(release, delta)._repr_html_()
    except ValueError as error:
        return warning + span("note", f"ε at δ = {delta:g} is not known: {error}")
