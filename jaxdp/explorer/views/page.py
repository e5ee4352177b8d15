"""The page: a tab for what theory predicts, and one for what a sweep has found."""

from typing import TYPE_CHECKING, Any

import panel

from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.explorer.views.background import Poster
from jaxdp.explorer.views.sweep_tab import SweepTab
from jaxdp.explorer.views.theory_tab import TheoryTab

if TYPE_CHECKING:
    import xarray


def new_page(dataset: "xarray.Dataset | None") -> panel.Tabs:
    """The page of one session.

    Args:
        dataset: of a sweep; None for a page without the second tab.
    """
    poster = Poster()
    made: dict[str, TheoryTab] = {}
    studies = {study.label: study for study in (LinearStream(), SyntheticRows())}
    first = next(iter(studies))
    choice = panel.widgets.RadioButtonGroup(
        options=list(studies), value=first, margin=(8, 5, 12, 5)
    )
    place = panel.Column(sizing_mode="stretch_width")

    def show(label: str) -> None:
        # What a browser sends may be no study; one is made when it is first looked at.
        if label in studies:
            if label not in made:
                made[label] = TheoryTab(studies[label], poster)
            place[:] = [made[label].view]

    choice.param.watch(lambda event: show(event.new), "value")
    show(first)
    theory = panel.Column(choice, place, sizing_mode="stretch_width")
    tabs: list[tuple[str, Any]] = [("Theory", theory)]
    if dataset is not None:
        tabs.append(("Sweep", SweepTab(dataset).view))
    return panel.Tabs(*tabs, sizing_mode="stretch_width", margin=(4, 16))
