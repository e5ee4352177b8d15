"""Images as rows of a table, and back: chosen, pooled, scaled onto the sphere.

One number, the mean over all images, pixels and colours, is subtracted before a row is scaled to
norm sqrt(d): without that, photographs are nearly parallel (cosines of 0.8 to 0.9). Scaling loses
only an image's contrast; `images_of` puts the true image's contrast back.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from experiments.harness.cifar10 import Cifar10
from jaxdp.core.checks import host_array, require_count, require_host, require_kind, require_real


class ImageRows(NamedTuple):
    """Images as rows of norm sqrt(d); an image is `mean` + `contrasts` times its row."""

    inputs: Float[np.ndarray, "images dim"]
    mean: float
    contrasts: Float[np.ndarray, " images"]
    shape: tuple[int, ...]

    def images_of(self, rows: Any) -> Float[np.ndarray, "images side side colours"]:
        """Rows in the order of `inputs` as images, each with the contrast of the true image."""
        rows = host_array("rows", rows)
        if rows.shape != self.inputs.shape:
            raise ValueError(f"expected rows of shape {self.inputs.shape}, got {rows.shape}")
        return (self.mean + self.contrasts[:, None] * rows).reshape(-1, *self.shape)


def first_of_classes(data: Cifar10, classes: Sequence[int], num_each: int) -> Cifar10:
    """The first images of each class, class by class.

    Args:
        data: images and labels from `read_cifar10`.
        classes: class numbers, in the order of the result.
        num_each: number of images of each class.

    Returns:
        `num_each` images and labels of each class.

    Raises:
        ValueError: a class is named twice, or the data have fewer images of it.

    Example:
        >>> import numpy as np
        >>> from experiments.harness.images import first_of_classes
        >>> from experiments.harness.cifar10 import Cifar10
        >>> data = Cifar10(np.zeros((6, 32, 32, 3), np.uint8), np.array([3, 5, 3, 8, 5, 3]))
        >>> first_of_classes(data, [5, 3], num_each=2).labels.tolist()
        [5, 5, 3, 3]
    """
    require_kind("data", data, Cifar10, "Cifar10 images, such as read_cifar10() returns")
    require_count("num_each", num_each)
    require_kind("classes", classes, Sequence, "a sequence of whole numbers")
    for number in classes:
        require_count("every one of classes", number, least=0)
    if len(set(classes)) != len(classes):
        raise ValueError(f"expected different classes, got {classes}")
    chosen = [np.flatnonzero(data.labels == number)[:num_each] for number in classes]
    for number, rows in zip(classes, chosen, strict=True):
        if len(rows) < num_each:
            raise ValueError(f"expected {num_each} images of class {number}, got {len(rows)}")
    rows = np.concatenate(chosen)
    return Cifar10(data.images[rows], data.labels[rows])


def pooled(images: Any, side: int) -> Float[np.ndarray, "images side side colours"]:
    """Averages over squares of pixels, `side` of them along each edge; float64.

    Args:
        images: (images, height, width, colours), square.
        side: edge of the result, in pixels.

    Returns:
        Smaller images, in the unit of the pixels.

    Example:
        >>> import numpy as np
        >>> from experiments.harness.images import pooled
        >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
        >>> pooled(image, 2)[0, :, :, 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    require_host("images", images)
    require_real("images", images)
    require_count("side", side)
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[1] != images.shape[2]:
        raise ValueError(f"expected images x side x side x colours, got {images.shape}")
    count, old, _, colours = images.shape
    if old % side:
        raise ValueError(f"expected a side that divides {old}, got {side}")
    squares = images.reshape(count, side, old // side, side, old // side, colours)
    return squares.mean(axis=(2, 4), dtype=np.float64)


def on_sphere(images: Any) -> ImageRows:
    r"""Rows of norm sqrt(d), one for each image less the mean of all; float64.

    Args:
        images: (images, side, side, colours), of any unit.

    Returns:
        The rows as `inputs`, with the numbers that turn rows into pictures again.

    Raises:
        ValueError: images of another shape, not finite, or without any contrast (says which).

    Example:
        >>> import numpy as np
        >>> from experiments.harness.images import on_sphere
        >>> rows = on_sphere(np.random.default_rng(0).uniform(0, 255, (2, 4, 4, 3)))
        >>> rows.inputs.shape, (rows.inputs**2).sum(axis=1).round(6).tolist()
        ((2, 48), [48.0, 48.0])
    """
    images = _checked(images)
    rows = images.reshape(len(images), -1)
    mean = float(rows.mean())
    norms = np.linalg.norm(rows - mean, axis=1)
    contrasts = norms / np.sqrt(rows.shape[1])
    return ImageRows((rows - mean) / contrasts[:, None], mean, contrasts, images.shape[1:])


def _checked(images: Any) -> np.ndarray:
    images = host_array("images", images)
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(f"expected images x side x side x colours, got {images.shape}")
    if not np.isfinite(images).all():
        raise ValueError("expected finite images, got NaN or infinite pixels")
    # One colour all over: nothing to see, and no direction at all if that colour is the mean.
    constant = np.flatnonzero(np.ptp(images, axis=(1, 2)).max(axis=1) == 0)
    if constant.size:
        raise ValueError(
            f"expected images that vary, got {constant.size} of a single colour (number "
            f"{', '.join(map(str, constant[:5]))}{', ...' if constant.size > 5 else ''})"
        )
    return images
