"""Pictures of an attack's findings below the truth."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.pictures import given_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_GAP, _BLOCK_GAP, _CAPTION = 0.06, 0.22, 0.2  # in image widths
_IMAGE, _LABEL = 0.62, 0.9  # inches


def plot_images(
    *rows: Any,
    labels: Sequence[str] = (),
    captions: Sequence[Sequence[str]] = (),
    columns: int = 10,
    title: str = "",
    figure: "Figure | SubFigure | None" = None,
    ax: "Axes | None" = None,
) -> "Figure | SubFigure":
    """Draw stacks of images one below the other, such as the truth above the images that were
    found.

    Args:
        rows: stacks of shape (images, height, width) or (images, height, width, 3): whole numbers
            from 0 to 255, or numbers that are clipped to [0, 1].
        labels: labels of the stacks, at the left.
        captions: captions of each stack's images, below them; an empty sequence for none.
        columns: images side by side; longer stacks are broken like lines of text.
        title: title above all.
        figure: figure to draw into; None for a new one that fits the images.
        ax: matplotlib's Axes to draw into, instead of a figure.

    Returns:
        The figure.

    Raises:
        ValueError: stacks of different length, or captions or labels of another number.

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
            left = column * (1 + _GAP)
            axes.imshow(image, extent=(left, left + 1, top + 1, top), interpolation="nearest")
            if captions and len(captions[number]):
                style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": "x-small"}
                axes.text(left + 0.5, top + 1.02, captions[number][which], **style)
            if labels and column == 0:
                style = {"ha": "right", "va": "center", "fontsize": "small"}
                axes.text(-0.1, top + 0.5, labels[number], **style)
    axes.set(xlim=(0, width - _GAP), ylim=(height, 0), aspect="equal")
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize="medium")
    return axes.figure


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
