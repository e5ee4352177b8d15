"""The page: a tab for what theory predicts, one for a forecast, one for what a sweep has found."""

import html
from typing import TYPE_CHECKING, Any

import panel

import jaxdp
from jaxdp.core.packages import repository_address
from jaxdp.explorer.forecast_tab import ForecastTab
from jaxdp.explorer.parts import pane
from jaxdp.explorer.studies import STUDIES
from jaxdp.explorer.sweep_tab import sweep_view
from jaxdp.explorer.theory_tab import TheoryTab

if TYPE_CHECKING:
    import xarray

_HEAD = (
    "<h1>What will private learning give?</h1>"
    '<p class="note">Move a slider: what theory predicts of DP-SGD follows, with what it costs in '
    "privacy.{}</p>"
)


def new_page(
    dataset: "xarray.Dataset | None", features: tuple[str, jaxdp.FixedFeatures] | None = None
) -> panel.Column:
    """The page of one session, with tabs for a sweep's dataset and a file of features if given."""
    studies = {study.label: study for study in STUDIES}
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
    address = html.escape(f"{repository_address()}/blob/main/docs/how_to/explore.md")
    link = f' <a href="{address}" target="_blank" rel="noreferrer">How to use this page</a>'
    head = pane(_HEAD.format(link if repository_address() else ""))
    look: dict[str, Any] = {"sizing_mode": "stretch_width"}
    return panel.Column(head, panel.Tabs(*tabs, **look), margin=(4, 8), **look)
