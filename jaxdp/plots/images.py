"""Pictures of what an attack found beside the truth: images below images, or rows of numbers."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.pictures import BLUE, VERMILLION, given_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Gaps between neighbours and between blocks of rows, and room for a caption, in image widths.
_GAP, _BLOCK_GAP, _CAPTION = 0.06, 0.22, 0.2
# Inches.
_IMAGE, _LABEL = 0.62, 0.9
_FOUND, _TRUE, _GREY = VERMILLION, BLUE, "#777777"
_LEAST = 1e-9
# More dots than these cannot be told apart.
_MOST_DOTS = 20_000


def plot_images(
    *rows: Any,
    labels: Sequence[str] = (),
    captions: Sequence[Sequence[str]] = (),
    columns: int = 10,
    title: str = "",
    figure: "Figure | SubFigure | None" = None,
    ax: "Axes | None" = None,
) -> "Figure | SubFigure":
    """Stacks of images, one below the other: the truth in odd rows, what was found in even ones.

    Stacks of more than `columns` images are broken like lines of text. An image stands below its
    fellows in the other stacks.

    Args:
        rows: each (images, height, width) or (images, height, width, 3): whole numbers from 0 to
            255, or numbers in [0, 1], beyond which they are cut.
        labels: of the stacks, at the left.
        captions: of each stack's images, below them; an empty sequence for none.
        columns: images side by side.
        title: above all.
        figure: one to draw into; a new one, of a size that suits the images, when None.
        ax: matplotlib's Axes to draw into, in the place of a figure.

    Returns:
        The figure, to save or to show.

    Raises:
        ValueError: stacks of different length, of no images or not of images, or captions and
            labels that do not go with them, or both a figure and axes.

    Example:
        >>> import numpy as np
        >>> from jaxdp.plots import plot_images
        >>> truth = np.linspace(0, 1, 3 * 4 * 4).reshape(3, 4, 4)
        >>> type(plot_images(truth, 1 - truth, labels=["truth", "found"])).__name__
        'Figure'
    """
    if figure is not None and ax is not None:
        raise ValueError("expected figure or ax, got both")
    stacks = [_colours(stack) for stack in rows]
    counts = {len(stack) for stack in stacks}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"expected stacks of as many images each, got {[*map(len, stacks)]}")
    (count,) = counts
    for name, given in (("labels", labels), ("captions", captions)):
        if len(given) not in (0, len(stacks)):
            raise ValueError(f"expected {name} for {len(stacks)} stacks, got {len(given)}")
    for given in captions:
        if len(given) not in (0, count):
            raise ValueError(f"expected captions of {count} images, got {len(given)}")
    columns = min(columns, count)
    heights = [
        1 + (_CAPTION if captions and len(captions[number]) else 0) + _GAP
        for number in range(len(stacks))
    ]
    block = sum(heights) + _BLOCK_GAP
    num_blocks = math.ceil(count / columns)
    width, height = columns * (1 + _GAP), num_blocks * block - _BLOCK_GAP
    if ax is not None:
        (axes,) = given_axes(ax, 1, "all images")
    elif figure is not None:
        axes = figure.subplots()
    else:
        size = (
            _IMAGE * width + (_LABEL if labels else 0) + 0.1,
            _IMAGE * height + (0.35 if title else 0.1),
        )
        axes = new_figure(size).subplots()
    for number, stack in enumerate(stacks):
        for which, image in enumerate(stack):
            line, column = divmod(which, columns)
            top = line * block + sum(heights[:number])
            caption = captions[number][which] if captions and len(captions[number]) else ""
            _draw(axes, image, column * (1 + _GAP), top, caption)
            if labels and column == 0:
                style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": "small"}
                axes.text(-0.1, top + 0.5, labels[number], **style)
    axes.set(xlim=(0, width - _GAP), ylim=(height, 0), aspect="equal")
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize="medium")
    return axes.figure


def _draw(axes: "Axes", image: np.ndarray, left: float, top: float, caption: str) -> None:
    axes.imshow(image, extent=(left, left + 1, top + 1, top), interpolation="nearest")
    if caption:
        style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": "x-small"}
        axes.text(left + 0.5, top + 1.02, caption, **style)


def _colours(stack: Any) -> np.ndarray:
    """Images of three colours in [0, 1]."""
    stack = np.asarray(stack)
    if stack.ndim not in (3, 4) or (stack.ndim == 4 and stack.shape[-1] != 3):
        raise ValueError(
            f"expected images x height x width, or x 3 colours as well, got {stack.shape}"
        )
    scaled = stack / 255 if stack.dtype.kind in "iu" else stack
    if not np.isfinite(scaled).all():
        raise ValueError("expected finite images, got NaN or infinite pixels")
    if stack.ndim == 3:
        scaled = np.repeat(scaled[..., None], 3, axis=-1)
    return np.clip(scaled, 0, 1)


def plot_reconstruction(
    found_inputs: Any,
    true_inputs: Any = None,
    *,
    levels: dict[str, float] | None = None,
    allow_sign_flips: bool = False,
    title: str = "",
    ax: Any = None,
) -> "Figure | SubFigure":
    """Errors of the rows and found entries against true ones; the found rows alone as a map.

    Args:
        found_inputs: (n, d).
        true_inputs: (n, d), in any order; None when they are not known.
        levels: errors to mark, by name, such as what chance would give.
        allow_sign_flips: as for `jaxdp.attacks.reconstruction_error`.
        title: above all.
        ax: matplotlib's Axes to draw into: two, or one for the map; a new figure when None.

    Returns:
        The figure, to save or to show.

    Raises:
        TypeError: `ax` is no Axes.
        ValueError: the shapes differ, something is not finite, or `ax` is not as many Axes.

    Example:
        >>> import numpy as np
        >>> from jaxdp.plots import plot_reconstruction
        >>> truth = np.random.default_rng(0).normal(size=(5, 8))
        >>> type(plot_reconstruction(truth[::-1], truth, levels={"chance": 1.4})).__name__
        'Figure'
    """
    found = _rows("found_inputs", found_inputs)
    true = None if true_inputs is None else _rows("true_inputs", true_inputs)
    if true is not None and true.shape != found.shape:
        raise ValueError(
            f"expected as many found rows as true ones, and of as many entries, got "
            f"{found.shape} and {true.shape}"
        )
    if ax is not None:
        axes = given_axes(ax, 1, "a map") if true is None else given_axes(ax, 2, "errors, entries")
        axes[0].set_title(title, fontsize="medium", loc="left")
    elif true is None:
        axes = [(figure := new_figure((6.0, 3.2))).subplots()]
        figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    else:
        axes = (figure := new_figure((8.0, 3.4))).subplots(1, 2, width_ratios=(1.5, 1))
        figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    if true is None:
        _map(axes[0], found)
    else:
        _errors(axes[0], true, found, levels or {}, allow_sign_flips)
        _entries(axes[1], true, found, allow_sign_flips)
    return axes[0].figure


def _rows(name: str, inputs: Any) -> np.ndarray:
    rows = np.asarray(inputs, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"expected {name} to be rows of numbers (n, d), got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"expected {name} to be finite, got NaN or infinite entries")
    return rows


def _errors(axes: "Axes", true, found, levels: dict[str, float], allow_sign_flips: bool) -> None:
    from jaxdp.attacks import row_errors

    errors = np.sort(row_errors(true, found, allow_sign_flips=allow_sign_flips))
    # A copy of the row has error zero, which a logarithm does not have.
    shown = np.maximum(errors, _LEAST)
    axes.semilogy(np.arange(1, len(errors) + 1), shown, ".", color=_FOUND, markersize=7)
    for name, level in levels.items():
        axes.axhline(level, color=_GREY, linestyle="--", linewidth=1)
        # Beside the panel, where no point is; of two close ones the higher stands above the other.
        axes.annotate(
            name,
            (1.01, level),
            xycoords=("axes fraction", "data"),
            va="bottom" if level == max(levels.values()) else "top",
            fontsize="small",
            color=_GREY,
        )
    axes.set(xlabel="row, by error", ylim=(shown[0] / 3, 4))
    axes.set_ylabel(r"$|x - \hat x|\,/\,\sqrt{d}$")
    axes.spines[["top", "right"]].set_visible(False)


def _entries(axes: "Axes", true, found, allow_sign_flips: bool) -> None:
    from jaxdp.attacks import matching

    order, signs = matching(true, found, allow_sign_flips=allow_sign_flips)
    pairs = np.stack([true.ravel(), (signs[:, None] * found[order]).ravel()])
    shown = pairs[:, :: -(-pairs.shape[1] // _MOST_DOTS)]
    reach = 1.05 * np.abs(shown).max()
    axes.plot([-reach, reach], [-reach, reach], color=_GREY, linewidth=1)
    axes.plot(*shown, ".", color=_TRUE, markersize=3, alpha=0.6, markeredgewidth=0)
    axes.set(xlabel="true entry", ylabel="found entry", xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_aspect("equal")
    axes.spines[["top", "right"]].set_visible(False)


def _map(axes: "Axes", found) -> None:
    reach = np.abs(found).max()
    drawn = axes.imshow(found, aspect="auto", cmap="RdBu_r", vmin=-reach, vmax=reach)
    axes.set(xlabel="entry", ylabel="found row")
    # Rows and entries are counted: there is none between two of them.
    axes.locator_params(integer=True)
    axes.figure.colorbar(drawn, ax=axes)
