"""The tab of a sweep: any two of its axes, at values of the others that sliders choose."""

import functools
import html
from typing import TYPE_CHECKING, Any

import numpy as np
import panel

from jaxdp.explorer.sweep_slices import quantities, slice_of, texts_of
from jaxdp.explorer.views.widgets import WIDTH, message_html, pane, side_by_side
from jaxdp.plots import plot_grid

if TYPE_CHECKING:
    import xarray

_NO_AXIS, _MOST_TICKS = "(none)", 12


def sweep_view(dataset: "xarray.Dataset") -> panel.Column:
    """The widgets and the picture of a sweep's dataset, in one session."""
    names = list(quantities(dataset))
    quantity = panel.widgets.Select(label="quantity", options=names, width=WIDTH - 20)
    shown: Any = panel.bind(functools.partial(quantity_view, dataset), quantity)
    return panel.Column(quantity, shown, sizing_mode="stretch_width")


def quantity_view(dataset: "xarray.Dataset", quantity: str) -> Any:
    """The widgets and the picture of one quantity: axes to choose, and a slider for each other."""
    dims = quantities(dataset).get(quantity)
    if dims is None:
        return pane(message_html(f"expected one of {', '.join(quantities(dataset))}"))
    first, *others = dims
    second = others[0] if others else _NO_AXIS
    wide = {"width": WIDTH - 20}
    across = panel.widgets.Select(label="horizontal axis", options=[*dims], value=first, **wide)
    along = panel.widgets.Select(
        label="second axis", options=[_NO_AXIS, *dims], value=second, **wide
    )
    sliders = {
        name: panel.widgets.IntSlider(
            label=f"place on {name}",
            start=0,
            end=dataset.sizes[name] - 1,
            bar_color="#0072B2",
            # A slider of an axis that is drawn chooses nothing.
            visible=panel.bind(functools.partial(_is_free, name), across, along),
            **wide,
        )
        for name in dims
    }

    def drawn(across: str, along: str, *places: int) -> Any:
        return picture(dataset, quantity, across, along, dict(zip(dims, places, strict=True)))

    shown: Any = panel.bind(drawn, across, along, *sliders.values())
    return side_by_side((across, along, *sliders.values()), (shown,))


def _is_free(name: str, *drawn: str) -> bool:
    return name not in drawn


def picture(
    dataset: "xarray.Dataset", quantity: str, across: str, along: str, at: dict[str, int]
) -> Any:
    """The picture of a slice with its least value in words, or why there is none."""
    second = None if along == _NO_AXIS else along
    try:
        part = slice_of(dataset, quantity, across, second, at)
    except (ValueError, TypeError) as error:
        return pane(message_html(str(error)), sizing_mode="stretch_width")
    drawn = panel.pane.Matplotlib(
        slice_figure(dataset, part, quantity), sizing_mode="scale_width", max_width=800
    )
    others = [
        f"{name} = {texts_of(dataset, name)[place]}"
        for name, place in at.items()
        if name not in part.dims
    ]
    return panel.Column(
        pane(
            f'<span class="note">{html.escape("at " + ", ".join(others) if others else "")}</span>'
        ),
        drawn,
        pane(least_html(dataset, part, quantity)),
        sizing_mode="stretch_width",
    )


def slice_figure(dataset: "xarray.Dataset", part: "xarray.DataArray", label: str) -> Any:
    """The picture of `plot_grid`, with words at the ticks of axes of words."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes = figure.subplots()
    plot_grid(part, label=label, ax=[axes])
    for dim, axis in zip(reversed(part.dims), (axes.xaxis, axes.yaxis), strict=False):
        texts = texts_of(dataset, str(dim))
        if dataset[dim].dtype.kind not in "iuf":
            kept = np.unique(np.linspace(0, len(texts) - 1, _MOST_TICKS).round().astype(int))
            axis.set_ticks(kept, [texts[place] for place in kept])
    return figure


def least_html(dataset: "xarray.Dataset", part: "xarray.DataArray", label: str) -> str:
    """The least finite value of a slice, and its place."""
    finite = part.where(np.isfinite(part))
    if not finite.notnull().any():
        return '<span class="note">nothing here is finished, or finite</span>'
    place = finite.argmin(...)
    where = ", ".join(
        f"{dim} = {texts_of(dataset, str(dim))[int(index)]}" for dim, index in place.items()
    )
    return (
        f'<span class="readout">least {html.escape(label)}: '
        f"<b>{float(finite.min()):.4g}</b> at {html.escape(where)}</span>"
    )
