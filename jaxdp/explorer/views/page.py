"""The page: a tab for what theory predicts, and one for what a sweep has found."""

from typing import TYPE_CHECKING, Any

import panel

from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.explorer.views.document import Poster
from jaxdp.explorer.views.theory_tab import TheoryTab

if TYPE_CHECKING:
    import xarray

TITLE = "jaxdp explore"


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
        # Made when it is first looked at: each compiles its own.
        if label not in made:
            made[label] = TheoryTab(studies[label], poster)
        place[:] = [made[label].view]

    def chosen(event) -> None:
        if event.new in studies:
            show(event.new)

    choice.param.watch(chosen, "value")
    show(first)
    tabs: list[tuple[str, Any]] = [
        ("Theory", panel.Column(choice, place, sizing_mode="stretch_width"))
    ]
    if dataset is not None:
        from jaxdp.explorer.views.store_tab import StoreTab

        tabs.append(("Sweep", StoreTab(dataset).view))
    return panel.Tabs(*tabs, sizing_mode="stretch_width", margin=(4, 16))
