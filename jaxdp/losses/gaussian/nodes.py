r"""Nodes of equal weight for the mean of a function of k logits that ignores their common shift.

The nodes are points of $R^k$ whose entries sum to zero: plus and minus the axes of random
orthogonal frames of that space of k - 1 dimensions, each frame stretched by one radius. The radii
are root mean squares of the chi distribution with k - 1 degrees over ranges of equal probability,
so that moments up to the third are exact. The frames are drawn once from a fixed seed, and turned
by the golden ratio where there are three classes, whose frames lie in a plane.
"""

import functools

import numpy as np
import scipy
from jaxtyping import Float

_GOLDEN = (np.sqrt(5) - 1) / 2


@functools.cache
def contrasts(num_classes: int) -> Float[np.ndarray, "k contrasts"]:
    """An orthonormal basis of the vectors of k entries that sum to zero, one a column."""
    basis = np.zeros((num_classes, num_classes - 1))
    for column in range(num_classes - 1):
        basis[: column + 1, column], basis[column + 1, column] = 1, -1 - column
    return _fixed(basis / np.linalg.norm(basis, axis=0))


@functools.cache
def directions(dim: int, count: int) -> Float[np.ndarray, "nodes dim"]:
    """At least `count` unit vectors: whole frames and their negatives."""
    num_frames = _num_frames(dim, count)
    if dim == 2:
        angles = np.pi / 2 * ((np.arange(num_frames) * _GOLDEN + 0.5) % 1)
        cosines, sines = np.cos(angles), np.sin(angles)
        frames = np.stack([cosines, sines, -sines, cosines], axis=1).reshape(-1, 2, 2)
    else:
        normals = np.random.default_rng([dim, num_frames]).standard_normal((num_frames, dim, dim))
        frames = np.linalg.qr(normals)[0]
    return _fixed(np.concatenate([frames, -frames], axis=1).reshape(-1, dim))


@functools.cache
def normal_nodes(dim: int, count: int) -> Float[np.ndarray, "nodes dim"]:
    """At least `count` nodes of equal weight for a standard normal vector."""
    num_frames = _num_frames(dim, count)
    edges = scipy.special.gammaincinv(dim / 2, np.arange(num_frames + 1) / num_frames)
    squares = num_frames * dim * np.diff(scipy.special.gammainc(dim / 2 + 1, edges))
    return _fixed(np.repeat(np.sqrt(squares), 2 * dim)[:, None] * directions(dim, count))


def _num_frames(dim, count):
    return -(-count // (2 * dim))


def _fixed(array):
    """Cached arrays are shared, and must not be written to."""
    array.flags.writeable = False
    return array
