"""The page: a tab for what theory predicts, one for a forecast, one for what a sweep has found."""

from typing import TYPE_CHECKING, Any

import panel

import jaxdp
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.explorer.views.forecast_tab import ForecastTab
from jaxdp.explorer.views.sweep_tab import sweep_view
from jaxdp.explorer.views.theory_tab import TheoryTab
from jaxdp.explorer.views.widgets import docs_link, pane

if TYPE_CHECKING:
    import xarray

_HEAD = (
    "<h1>What will private learning give?</h1>"
    '<p class="note">Move a slider: what theory predicts of DP-SGD follows, with what it costs in '
    "privacy. Labels with dots under them explain themselves where the mouse rests. "
    f"{docs_link('how_to/explore.md', 'How to use this page')}, "
    f"{docs_link('glossary.md', 'what the words mean')}.</p>"
)


def new_page(
    dataset: "xarray.Dataset | None", features: tuple[str, jaxdp.FixedFeatures] | None = None
) -> panel.Column:
    """The page of one session, with tabs for a sweep's dataset and a file of features if given."""
    studies = {study.label: study for study in (LinearStream(), SyntheticRows())}
    choice = panel.widgets.RadioButtonGroup(
        options=list(studies), margin=(8, 5, 12, 5), orientation="vertical"
    )
    made: dict[str, TheoryTab] = {}

    def shown(label: str) -> Any:
        # A study is made when it is first looked at; a browser may send the name of none.
        if label in studies and label not in made:
            made[label] = TheoryTab(studies[label])
        return made[label].view if label in made else None

    theory = panel.Column(choice, panel.bind(shown, choice), sizing_mode="stretch_width")
    tabs: list[tuple[str, Any]] = [("Theory", theory)]
    if features is not None:
        path, public = features
        tabs.append(("Forecast", ForecastTab(public, path).view))
    if dataset is not None:
        tabs.append(("Sweep", sweep_view(dataset)))
    return panel.Column(
        pane(_HEAD, sizing_mode="stretch_width"),
        panel.Tabs(*tabs, sizing_mode="stretch_width"),
        sizing_mode="stretch_width",
        margin=(4, 8),
    )
