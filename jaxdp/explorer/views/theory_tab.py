"""The first tab: settings on the left; the curve, its cost and its Python on the right."""

import html
from collections.abc import Callable
from typing import Any

import numpy as np
import panel

from jaxdp.comparison.picture import Spread, spread_of
from jaxdp.core.trajectory import Trajectory
from jaxdp.explorer.studies.base import AbstractStudy, Described, is_shown, note_on
from jaxdp.explorer.studies.schedules import OPTIMAL
from jaxdp.explorer.views.background import PROGRAMS, AbstractTab, Latest, Poster, guarded
from jaxdp.explorer.views.curve_figure import CurveFigure
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

    _doing = "a simulation or a plan is running"

    def __init__(self, study: AbstractStudy, poster: Poster):
        self._set_up(study, poster)
        self._described: Described | None = None
        self._curves = Latest()
        self.figure = CurveFigure(study.time_label, study.risk_label)
        self.status.object = status_html("starting ...")
        self.readout, self.cost = pane(min_height=26), pane()
        self.code = pane(sizing_mode="stretch_width")
        self.code_card = folding_card(
            "The Python that makes this picture", self.code, css_class="card-code", is_open=False
        )
        self.text = panel.widgets.TextAreaInput(value="", visible=False)
        self.simulate = panel.widgets.Button(label="Simulate", color="primary", width=110)
        self.runs = panel.widgets.Select(options=_RUNS, value=30, width=110)
        self.plan = panel.widgets.Button(label="Plan", color="primary", width=90)
        self.copy = panel.widgets.Button(label="Copy Python", width=120)
        self.scale = panel.widgets.Checkbox(label="logarithmic risk", value=False, align="center")
        self.keep = panel.widgets.Checkbox(label="keep this curve", value=False, align="center")
        # The risk before a plan, until the planned one is there.
        self._risk_before: float | None = None
        self.simulate.on_click(lambda _: self._act(self._simulated))
        self.plan.on_click(lambda _: self._act(self._planned))
        self.copy.js_on_click(args={"text": self.text}, code=CLIPBOARD)
        self.scale.param.watch(lambda _: self._draw(), "value")
        self.keep.param.watch(lambda event: self.figure.keep(event.new), "value")
        self.code_card.param.watch(lambda _: self._fill_code(), "collapsed")
        # Empty until there is something to draw.
        self._place = panel.Column(sizing_mode="stretch_width", min_height=430)
        self.view = self._layout()
        self._show_controls()
        poster.when_open(self.predict)

    def predict(self) -> None:
        """Compute what the settings say: the curve, then its cost, then its band."""
        values = dict(self.values)
        self._curves.ask(
            lambda number: guarded(lambda: self._predicted(values, number), self._failed)
        )

    def _changed(self, name, value):
        try:
            self._set({name: value})
        except ValueError as error:
            self.controls[name].show(self.values[name])
            if (name, value) == ("schedule", OPTIMAL):
                # Nothing is wrong with it: it has to be planned first.
                self._act(lambda: self._planned(schedule=value))
            else:
                self.refuse(str(error))

    def _set(self, changes: dict[str, Any]) -> None:
        """Change settings, show them and predict; ValueError, and no change, where one is wrong."""
        self.values = self.study.changed(self.values, **changes)
        self.message.visible = False
        for name in changes.keys() & self.controls.keys():
            self.controls[name].show(self.values[name])
        self._show_controls()
        self.predict()

    def _predicted(self, values: dict[str, Any], number: int) -> None:
        """Runs in a thread, and shows nothing once something newer has been asked for."""

        def post(change: Callable[[], None]) -> None:
            self._poster.post(lambda: change() if number == self._curves.number else None)

        program = self.study.program(values)
        self._say("" if ("curve", program) in PROGRAMS else "compiling the prediction ...")
        described = self.study.describe(values)
        curve = self.study.curve(described)
        PROGRAMS.add(("curve", program))
        notes = [note_on(curve)]

        def show_curve():
            self._described = described
            self.figure.show_curve(curve)
            if not len(self._place):
                self._draw()
            notes.append(self._gained(float(curve.final_risk)))
            self.readout.object = _readout(curve, None, "; ".join(filter(None, notes)))

        def show_band(band: Trajectory | None):
            if band is None:
                notes.append("no band is known for these settings")
            else:
                self.figure.show_band(band)
            self.readout.object = _readout(curve, band, "; ".join(filter(None, notes)))

        post(show_curve)
        code = self.study.code(described, None)
        post(lambda: self._show_code(code))
        cost = cost_html(described.algorithm, values["delta"])
        post(lambda: setattr(self.cost, "object", cost))
        if number == self._curves.number:
            is_known = ("band", program) in PROGRAMS
            self._say("computing the band ..." if is_known else "compiling the band ...")
            band = self.study.band(described)
            PROGRAMS.add(("band", program))
            post(lambda: show_band(band))
        self._say("")

    def _simulated(self) -> None:
        """Runs in a thread."""
        described = self._current(self.values)
        count = self.runs.value
        if count not in _RUNS.values():
            raise ValueError(f"expected one of {', '.join(_RUNS)}, got {count!r:.40}")
        self._say(f"simulating {count} runs, compiling first ...")
        runs = self.study.simulate(
            described, count, lambda share: self._say(f"simulating {count} runs: {share:.0%}")
        )
        spread, time = spread_of(runs), np.asarray(runs.time, np.float64)
        code = self.study.code(described, count)

        def show():
            if described.values == self.values:
                self.figure.show_runs(time, spread)
                self.readout.object += _readout_of_runs(spread, count)
                self._show_code(code)

        self._poster.post(show)
        self._say("")

    def _planned(self, **changes: Any) -> None:
        """Runs in a thread."""
        before = self.values
        described = self._current(before)
        self._say("planning: looking for the least predicted risk within the budget ...")
        found = self.study.plan(described._replace(values={**before, **changes}))
        before_risk = float(self.study.curve(described).final_risk)

        def show():
            if self.values != before:
                self.refuse("the settings were changed while it was planned: press Plan again")
                return
            try:
                self.study.changed(before, **found)
            except ValueError as error:
                self.refuse(f"the plan is beyond a slider's range: {error}")
                return
            # Before the curve of the plan is there.
            self._risk_before = before_risk
            self.keep.value = True
            self.figure.keep(True)
            self._set(found)

        self._poster.post(show)
        self._say("")

    def _gained(self, risk: float) -> str:
        """What a plan has changed, and an axis that shows it; "" where none has just been made."""
        before, self._risk_before = self._risk_before, None
        if before is None:
            return ""
        if 0 < risk < before / 3:
            self.scale.value = True
        times = f", {before / risk:.3g} times less" if 0 < risk < before else ""
        return f"before the plan {before:.4g}{times}"

    def _current(self, values: dict[str, Any]) -> Described:
        described = self._described
        if described is None or described.values != values:
            described = self.study.describe(dict(values))
        return described

    def _show_controls(self) -> None:
        for field in self.study.fields:
            self.controls[field.name].view.visible = is_shown(field, self.values)

    def _draw(self) -> None:
        drawn = self.figure.log if self.scale.value else self.figure.linear
        self._place[:] = [panel.pane.Bokeh(drawn, sizing_mode="stretch_width")]

    def _show_code(self, code: str) -> None:
        self.text.value = code
        self._fill_code()

    def _fill_code(self) -> None:
        """Show the code where the reader has unfolded it.

        A browser lays the whole page out again for what changes in a folded card, which takes it
        longer than the curve and everything else together.
        """
        if not self.code_card.collapsed:
            self.code.object = code_html(self.text.value)

    def _layout(self) -> panel.Column:
        buttons = self.simulate, self.runs, self.plan, self.copy, self.scale, self.keep
        right = (
            panel.Row(self.status, margin=0),
            self.message,
            self._place,
            self.readout,
            panel.Row(*buttons, margin=(4, 0), styles={"flex-wrap": "wrap"}),
            folding_card("What it costs", self.cost, css_class="card-cost", is_open=True),
            self.code_card,
            self.text,
        )
        return side_by_side(grouped_cards(self.study.fields, self.controls), right)


def _readout(curve: Trajectory, band: Trajectory | None, note: str) -> str:
    """The released risk in words, with the spread of single runs where it is known."""
    spread = meaning = ""
    if band is not None:
        spread = f" ± {float(np.asarray(band.final_std)):.2g}"
        meaning = "(± standard deviation of single runs) "
    risk = f"<b>{float(curve.final_risk):.4g}</b>{spread}"
    return (
        f'<span class="readout">predicted, released: {risk}</span> '
        f'<span class="note">{meaning}{html.escape(note)}</span>'
    )


def _readout_of_runs(runs: Spread, count: int) -> str:
    failed = f", {count - runs.count} more diverged" if runs.count < count else ""
    return (
        f'<br><span class="readout">simulated, released: <b>{runs.final:.4g}</b> ± '
        f'{runs.final_error:.2g}</span> <span class="note">(± standard error of '
        f"{runs.count} runs{failed})</span>"
    )
