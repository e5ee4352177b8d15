"""Rows of images as DR scales them, and the error that this leaves a perfect attack."""

from typing import Any

import numpy as np


def published_scaling(images: Any, *, per_channel: bool = False) -> np.ndarray:
    r"""Rows as DR's experiments have them: less the mean, over the standard deviation, of all.

    Both are single numbers, or one for each colour. Rows so scaled have norm sqrt(d) only on
    average, while those that are found have it exactly: the reconstruction error of a perfect
    attack is their `distance_from_sphere`, not 0, and with an activation that is not homogeneous
    the truth is not among the candidates.

    Source: DR Appendix D ("subset statistics"). Images are (images, side, side, colours).
    """
    images = np.asarray(images, np.float64)
    axes = (0, 1, 2) if per_channel else None
    scaled = (images - images.mean(axis=axes)) / images.std(axis=axes)
    return scaled.reshape(len(images), -1)


def distance_from_sphere(rows: Any) -> float:
    r"""Least reconstruction error of unit directions, the mean of | |x_i| - sqrt(d) | / sqrt(d).

    Derived: the nearest point to x_i on the sphere of radius sqrt(d) is along x_i; the test of the
    published scaling's floor checks it against the reconstruction error of those points.
    """
    rows = np.asarray(rows, np.float64)
    return float(np.mean(np.abs(np.linalg.norm(rows, axis=1) / np.sqrt(rows.shape[1]) - 1)))
