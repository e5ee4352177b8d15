"""The first tab: settings on the left; the curve, its cost and its Python on the right."""

import asyncio
import functools
import html
from typing import Any

import numpy as np
import panel

from jaxdp.comparison.picture import Spread, spread_of
from jaxdp.core.trajectory import Trajectory
from jaxdp.explorer.studies.base import AbstractStudy, Values, note_on
from jaxdp.explorer.studies.schedules import OPTIMAL
from jaxdp.explorer.views.curve_figure import CurveFigure
from jaxdp.explorer.views.tab import AbstractTab
from jaxdp.explorer.views.widgets import (
    CLIPBOARD,
    code_html,
    cost_html,
    folding_card,
    grouped_cards,
    pane,
    side_by_side,
    status_html,
)

_RUNS = {"2 runs": 2, "10 runs": 10, "30 runs": 30, "100 runs": 100}


class TheoryTab(AbstractTab):
    """One study with its widgets, in one session."""

    def __init__(self, study: AbstractStudy):
        self.study = study
        self._set_up(study)
        self._predicted: Values | None = None
        self.figure = CurveFigure(study.time_label, study.risk_label)
        self.status.object = status_html("starting ...")
        self.readout, self.cost = pane(min_height=26), pane()
        self.code = pane(sizing_mode="stretch_width")
        self.code_card = folding_card(
            "The Python that makes this picture", self.code, is_open=False
        )
        self.text = panel.widgets.TextAreaInput(value="", visible=False)
        self.simulate = panel.widgets.Button(label="Simulate", color="primary", width=110)
        self.runs = panel.widgets.Select(options=_RUNS, value=30, width=110)
        self.plan = panel.widgets.Button(label="Plan", color="primary", width=90)
        copy = panel.widgets.Button(label="Copy Python", width=120)
        self.scale = panel.widgets.Checkbox(label="logarithmic risk", align="center")
        self.keep = panel.widgets.Checkbox(label="keep this curve", align="center")
        # The risk before a plan, until the planned one is there.
        self._risk_before: float | None = None
        self.simulate.on_click(lambda _: self.start("simulating", self._simulate))
        self.plan.on_click(lambda _: self._start_plan())
        copy.js_on_click(args={"text": self.text}, code=CLIPBOARD)
        panel.bind(lambda is_log: self.figure.draw(is_log=is_log), self.scale, watch=True)
        panel.bind(self._keep, self.keep, watch=True)
        panel.bind(lambda _: self._fill_code(), self.code_card.param.collapsed, watch=True)
        buttons = self.simulate, self.runs, self.plan, copy, self.scale, self.keep
        right = (
            panel.Row(self.status, margin=0),
            self.message,
            self.figure.pane,
            self.readout,
            panel.Row(*buttons, margin=(4, 0), styles={"flex-wrap": "wrap"}),
            folding_card("What it costs", self.cost, is_open=True),
            self.code_card,
            self.text,
        )
        self.view = side_by_side(grouped_cards(study.fields, self.views), right)
        # An address of the page in a picture of another page starts no computation.
        panel.state.onload(self._predict_latest)

    def _follow(self):
        panel.state.execute(self._predict_latest)

    def _refused(self, name, value, message):
        if (name, value) == ("schedule", OPTIMAL):
            # Nothing is wrong with it: it has to be planned first.
            self._start_plan(schedule=value)
        else:
            self.refuse(message)

    async def _predict_latest(self) -> None:
        """Predict until the settings that are shown are predicted; those in between are left out.

        A slider that is dragged sends values faster than a curve can follow.
        """
        if self.is_predicting:
            return
        self.is_predicting = True
        while self._predicted is not self.values:
            self._predicted = self.values
            await self.guarded(functools.partial(self._predict, self.values))
        self.is_predicting = False
        self.say(self.doing)

    async def _predict(self, values: Values) -> None:
        """Show the curve, its cost and its Python, and then its band."""
        self.say("computing the prediction ...")
        described = await asyncio.to_thread(self.study.describe, values)
        curve = await asyncio.to_thread(self.study.curve, described)
        notes = [note_on(curve), self._gained(float(curve.final_risk))]
        self._draw(functools.partial(self.figure.show_curve, curve))
        self.readout.object = _readout(curve, None, notes)
        self._show_code(self.study.code(described, None))
        arguments = described.algorithm, values["delta"]
        self.cost.object = await asyncio.to_thread(cost_html, *arguments)
        if self.values is not values:
            return
        self.say("computing the band ...")
        band = await asyncio.to_thread(self.study.band, described)
        if self.values is values:
            if band is None:
                notes.append("no band is known for these settings")
            else:
                self._draw(functools.partial(self.figure.show_band, band))
            self.readout.object = _readout(curve, band, notes)

    async def _simulate(self) -> None:
        values, count = self.values, self.runs.value
        if count not in _RUNS.values():
            raise ValueError(f"expected one of {', '.join(_RUNS)}, got {count!r:.40}")
        progress = self.progress()

        def simulated() -> tuple[Trajectory, str]:
            described = self.study.describe(values)
            runs = self.study.simulate(described, count, progress)
            return runs, self.study.code(described, count)

        runs, code = await asyncio.to_thread(simulated)
        if self.values is values:
            spread, time = spread_of(runs), np.asarray(runs.time, np.float64)
            self._draw(functools.partial(self.figure.show_runs, time, spread))
            self.readout.object += _readout_of_runs(spread, count)
            self._show_code(code)

    def _start_plan(self, **changes: Any) -> None:
        self.start(
            "planning: looking for the least predicted risk within the budget",
            functools.partial(self._plan, changes),
        )

    async def _plan(self, changes: Values) -> None:
        before = self.values

        def planned() -> tuple[dict[str, Any], float]:
            described = self.study.describe(before)
            found = self.study.plan(described._replace(values={**before, **changes}))
            return found, float(self.study.curve(described).final_risk)

        found, risk = await asyncio.to_thread(planned)
        if self.values is not before:
            raise ValueError("the settings were changed while it was planned: press Plan again")
        try:
            self._settings.changed(before, **found)
        except ValueError as error:
            raise ValueError(f"the plan is beyond a slider's range: {error}") from None
        self._risk_before = risk
        self.keep.value = True
        self._keep(is_kept=True)
        self.change(**found)

    def _keep(self, is_kept: bool) -> None:
        self._draw(functools.partial(self.figure.keep, is_kept))

    def _gained(self, risk: float) -> str:
        """The gain of a plan, with an axis that shows it; "" unless one has just been made."""
        before, self._risk_before = self._risk_before, None
        if before is None:
            return ""
        if 0 < risk < before / 3:
            self.scale.value = True
        times = f", {before / risk:.3g} times less" if 0 < risk < before else ""
        return f"before the plan {before:.4g}{times}"

    def _draw(self, change) -> None:
        """Change the picture, which Bokeh allows in the session's own turn alone."""

        def changed():
            change()
            if self.figure.pane.object is None:
                self.figure.draw(is_log=self.scale.value)

        panel.state.execute(changed, schedule=True)

    def _show_code(self, code: str) -> None:
        self.text.value = code
        self._fill_code()

    def _fill_code(self) -> None:
        """Show the code once the reader has unfolded it.

        A browser lays the whole page out again for a change in a folded card, which takes it
        longer than the curve and everything else together.
        """
        if not self.code_card.collapsed:
            self.code.object = code_html(self.text.value)


def _readout(curve: Trajectory, band: Trajectory | None, notes: list[str]) -> str:
    """The released risk in words, with the spread of single runs if it is known."""
    spread = meaning = ""
    if band is not None:
        spread = f" ± {float(np.asarray(band.final_std)):.2g}"
        meaning = "(± standard deviation of single runs) "
    risk = f"<b>{float(curve.final_risk):.4g}</b>{spread}"
    return (
        f'<span class="readout">predicted, released: {risk}</span> '
        f'<span class="note">{meaning}{html.escape("; ".join(filter(None, notes)))}</span>'
    )


def _readout_of_runs(runs: Spread, count: int) -> str:
    failed = f", {count - runs.count} more diverged" if runs.count < count else ""
    return (
        f'<br><span class="readout">simulated, released: <b>{runs.final:.4g}</b> ± '
        f'{runs.final_error:.2g}</span> <span class="note">(± standard error of '
        f"{runs.count} runs{failed})</span>"
    )
