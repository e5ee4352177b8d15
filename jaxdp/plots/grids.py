"""Pictures of a quantity over a grid: lines and maps."""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.pictures import given_axes, letter_panels, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from xarray import DataArray

# Ranges of a map's colours, above the least value and above the largest of the panels' least ones.
_RANGE, _PANEL_RANGE = 100, 10
_MOST_COLUMNS = 4
_LABELS = {
    "clip_scale": "clip scale $c$",
    "peak": r"learning rate $\tilde\eta(0)$",
    "power": r"power $\alpha$",
    "aspect_ratio": r"aspect ratio $\gamma$",
    "rho": r"$\rho$",
}


def plot_grid(
    values: "DataArray", *, label: str = "", most_panels: int = 12, ax: Any = None
) -> "Figure | SubFigure":
    """Draw a quantity over a grid: a line over one axis, a map over two, with the least value
    marked.

    With more axes the two longest numeric ones make the map, and each choice of the others a panel.

    Args:
        values: DataArray with the grid's axes as coordinates; axes of one value do not count.
        label: label of the quantity; its name if empty.
        most_panels: largest number of panels; the title counts those left out.
        ax: matplotlib's Axes to draw into, one for each panel; None for a new figure.

    Returns:
        The figure.

    Raises:
        TypeError: `values` is not a DataArray, or `ax` holds no Axes.
        ValueError: `ax` has not one Axes for each panel.

    Example:
        >>> import numpy as np, xarray
        >>> from jaxdp.plots import plot_grid
        >>> axes = {"clip": [0.5, 1.0], "rate": [0.1, 0.2, 0.4]}
        >>> risks = np.array([[0.3, 0.2, 0.4], [0.25, 0.15, 0.5]])
        >>> figure = plot_grid(xarray.DataArray(risks, axes, name="risk"))
        >>> type(figure).__name__
        'Figure'
    """
    is_array = hasattr(values, "squeeze") and hasattr(values, "dims")
    if not is_array or hasattr(values, "data_vars"):
        came = type(values).__name__
        raise TypeError(f'expected a DataArray, such as dataset["risk"], got {came}')
    label = label or str(values.name or "value")
    values = values.squeeze(drop=True)
    numeric = [dim for dim in values.dims if values[dim].dtype.kind in "iuf"]
    drawn_over = sorted(numeric, key=lambda dim: -values.sizes[dim])[:2]
    others = [dim for dim in values.dims if dim not in drawn_over]
    choices = list(itertools.product(*(values[dim].data for dim in others)))
    panels = [dict(zip(others, choice, strict=True)) for choice in choices[:most_panels]]
    figure, cells = _cells(ax, len(panels))
    is_map = len(drawn_over) > 1
    drawn: Any = None
    scale = _color_scale(values, values.min(drawn_over)) if is_map else None
    for axes, chosen in zip(cells.ravel(), panels, strict=False):
        part = values.sel(chosen) if chosen else values
        drawn = _draw_map(axes, part, scale) if is_map else _draw_line(axes, part)
        named = ", ".join(_named(dim, value) for dim, value in chosen.items())
        axes.set_title(named, fontsize="medium")
    for axes in cells.ravel()[len(panels) :]:
        axes.set_visible(False)
    _label_axes(cells, [str(dim) for dim in values.dims if dim in drawn_over], label)
    if is_map:
        is_cut = bool((values > drawn.norm.vmax).any())
        figure.colorbar(
            drawn, ax=cells.ravel().tolist(), label=label, extend="max" if is_cut else "neither"
        )
    hidden = len(choices) - len(panels)
    if hidden and ax is None:
        figure.suptitle(f"{hidden} more panels left out", fontsize="medium")
    return figure


def _cells(ax: Any, count: int) -> "tuple[Figure | SubFigure, np.ndarray]":
    """Rows of axes for this many panels, or the given ones as a column."""
    if ax is not None:
        cells = np.asarray(given_axes(ax, count, "panels"), object)[:, None]
        return cells[0, 0].figure, cells
    columns = min(count, _MOST_COLUMNS)
    rows = math.ceil(count / columns)
    size = (5.0, 3.8) if count == 1 else (1.2 + 3.0 * columns, 2.9 * rows)
    figure = new_figure(size)
    cells = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    letter_panels(cells.ravel()[:count].tolist())
    return figure, cells


def _draw_map(axes: "Axes", values: "DataArray", scale: Any) -> Any:
    """A map over (vertical, horizontal), with a cross at the least value."""
    vertical, horizontal = (values[dim].data for dim in values.dims)
    drawn = axes.pcolormesh(
        cell_edges(horizontal), cell_edges(vertical), values.data, norm=scale, cmap="viridis_r"
    )
    # The colour of cells without a finite value.
    axes.set_facecolor("0.85")
    if np.isfinite(values.data).any():
        row, column = np.unravel_index(np.nanargmin(values.data), values.shape)
        cross = {"marker": "X", "color": "white", "markeredgecolor": "black", "markersize": 8}
        axes.plot(horizontal[column], vertical[row], **cross)
    for set_scale, along in ((axes.set_xscale, horizontal), (axes.set_yscale, vertical)):
        if is_geometric(along):
            set_scale("log")
    return drawn


def _draw_line(axes: "Axes", values: "DataArray") -> None:
    along = values[values.dims[0]].data if values.dims else np.zeros(1)
    axes.plot(along, np.atleast_1d(values.data), color="#0072B2", marker=".")
    axes.spines[["top", "right"]].set_visible(False)
    if is_geometric(along):
        axes.set_xscale("log")
    if (values > 0).all():
        axes.set_yscale("log")


def _label_axes(cells: np.ndarray, dims: list[str], label: str) -> None:
    names = [_LABELS.get(dim, dim) for dim in dims]
    vertical, horizontal = (names[0], names[1]) if len(names) > 1 else (label, "".join(names))
    for axes in cells[:, 0]:
        axes.set_ylabel(vertical)
    for axes in cells[-1]:
        axes.set_xlabel(horizontal)


def _color_scale(values: "DataArray", least_values: "DataArray") -> Any:
    """One scale for all panels, logarithmic if all values are positive."""
    from matplotlib.colors import LogNorm, Normalize

    finite = values.data[np.isfinite(values.data)]
    if not finite.size:
        return Normalize(0, 1)
    least, most = float(finite.min()), float(finite.max())
    if least <= 0:
        return Normalize(least, most)
    top = max(_RANGE * least, _PANEL_RANGE * float(least_values.max()))
    return LogNorm(least, max(min(most, top), least * (1 + 1e-6)))


def cell_edges(values: np.ndarray) -> np.ndarray:
    """Edges of cells half way between the values, on the axis's scale."""
    if is_geometric(values):
        return np.exp(cell_edges(np.log(values)))
    middle = (values[1:] + values[:-1]) / 2
    first, last = 2 * values[0] - middle[0], 2 * values[-1] - middle[-1]
    return np.concatenate([[first], middle, [last]])


def is_geometric(values: np.ndarray) -> bool:
    """Whether neighbours' ratios vary less than their differences."""
    if len(values) < 3 or (values <= 0).any():
        return False
    ratios, gaps = np.diff(np.log(values)), np.diff(values)
    return np.ptp(ratios) / abs(ratios).mean() < np.ptp(gaps) / abs(gaps).mean()


def _named(dim: Any, value: Any) -> str:
    """A panel's value, with the symbol at the end of its axis's label."""
    if isinstance(value, str):
        return value
    return f"{_LABELS.get(str(dim), str(dim)).split(' ')[-1]} = {value:.3g}"
