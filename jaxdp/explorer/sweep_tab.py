"""The sweep tab: a picture over any two axes, with a slider for each other axis."""

from typing import TYPE_CHECKING, Any

import numpy as np
import panel

from jaxdp.explorer.parts import WIDTH, pane, side_by_side, span
from jaxdp.plots import plot_grid

if TYPE_CHECKING:
    import xarray

_NO_AXIS = "(none)"


def sweep_view(dataset: "xarray.Dataset") -> panel.Column:
    """Make the widgets and the picture of a dataset; ValueError if no axis has several values."""
    names = [str(name) for name, each in dataset.data_vars.items() if each.dtype.kind in "biuf"]
    sizes = {str(dim): size for dim, size in dataset[names].sizes.items() if size > 1}
    if not sizes:
        raise ValueError("expected a sweep with a number over an axis of several values, got none")
    dims = sorted(sizes, key=lambda dim: -sizes[dim])
    first, second = (*dims, _NO_AXIS)[:2]
    look = {"width": WIDTH - 20}
    quantity = panel.widgets.Select(label="quantity", options=names, **look)
    across = panel.widgets.Select(label="horizontal axis", options=dims, value=first, **look)
    along = panel.widgets.Select(
        label="second axis", options=[_NO_AXIS, *dims], value=second, **look
    )
    sliders = [
        panel.widgets.DiscreteSlider(
            label=dim,
            options=dict(zip(texts_of(dataset, dim), range(sizes[dim]), strict=True)),
            # The axes in the picture need no slider.
            visible=panel.bind(lambda *drawn, dim=dim: dim not in drawn, across, along),
            **look,
        )
        for dim in dims
    ]

    def drawn(name: str, across: str, along: str, *places: int) -> Any:
        wanted = [dim for dim in (along, across) if dim != _NO_AXIS]
        at = {dim: place for dim, place in zip(dims, places, strict=True) if dim not in wanted}
        return picture(dataset[name], wanted, at)

    shown: Any = panel.bind(drawn, quantity, across, along, *sliders)
    return side_by_side(panel.Column(quantity, across, along, *sliders), shown)


def picture(values: "xarray.DataArray", drawn: list[str], at: dict[str, int]) -> Any:
    """Draw a slice and state its least value, or explain why it cannot be drawn."""
    try:
        part = values.astype(float).isel(at, missing_dims="ignore").squeeze(drop=True)
        part = part.transpose(*drawn)
    except (ValueError, IndexError) as error:
        axes = ", ".join(map(str, values.dims))
        return pane(span("refused", f"expected axes that differ among {axes}, got {error}"))
    return panel.Column(
        panel.pane.Matplotlib(slice_figure(part), sizing_mode="scale_width", max_width=800),
        pane(span("readout", least(part))),
        sizing_mode="stretch_width",
    )


def slice_figure(part: "xarray.DataArray") -> Any:
    """Draw `plot_grid`, with words at the ticks of axes whose values are words."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes = figure.subplots()
    words = {dim: texts_of(part, dim) for dim in part.dims if part[dim].dtype.kind not in "iuf"}
    numbered = part.assign_coords({dim: np.arange(part.sizes[dim]) for dim in words})
    plot_grid(numbered, label=str(part.name), ax=[axes])
    for dim, axis in zip(reversed(part.dims), (axes.xaxis, axes.yaxis), strict=False):
        if dim in words:
            axis.set_ticks(range(len(words[dim])), words[dim])
    return figure


def least(part: "xarray.DataArray") -> str:
    """Describe the least finite value of a slice and its coordinates."""
    finite = part.where(np.isfinite(part))
    if not finite.notnull().any():
        return "no finished cell here has a finite value"
    places = finite.argmin(...).items()
    at = ", ".join(f"{dim} = {texts_of(part, dim)[int(place)]}" for dim, place in places)
    return f"least {part.name}: {float(finite.min()):.4g} at {at}"


def texts_of(values: "xarray.DataArray | xarray.Dataset", dim: Any) -> list[str]:
    """Return the values of an axis as texts."""
    found = values[dim].data
    return [f"{each:.4g}" if found.dtype.kind in "iuf" else str(each) for each in found]
