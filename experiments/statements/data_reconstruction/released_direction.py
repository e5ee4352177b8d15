"""The least error of any attack on one row of linear features, exactly, at every dimension.

No statement of DR: it judges the attacks on one unknown row that jaxdp makes.
"""

import functools
import math

import numpy as np

# Standard deviations that an integral covers, and its nodes in each direction.
_REACH, _NODES = 10.0, 128
_FAR = 1e6


def released_direction_error(mu: float, dim: int) -> float:
    r"""The least expected error of any attack on a direction that is released with Gaussian noise.

    $u + \tfrac2\mu\xi$ with u uniform on the unit sphere of d dimensions: a clipped gradient, or
    one row of linear features. Exactly the expected $|u - \hat u|$ of the best guess on the sphere.

    Derived: the posterior falls away from the observed direction alike on all sides, so that this
    direction is the best guess on the sphere; its mean distance is an integral in two dimensions.
    test_released_direction.py compares.

    Args:
        mu: Gaussian DP of the release under replace-one; an infinite one leaves no error.
        dim: d >= 2.
    """
    if math.isinf(mu):
        return 0.0
    half, root = mu / 2, math.sqrt(dim)
    if half > _FAR * root:
        # Nothing but the noise across, of which the angle is the share: to half's square.
        across = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2)
        return math.sqrt(2) * math.exp(across) / half
    # In units of the noise: lengths about the root of half^2 + d, angles about atan(root / half).
    length = math.hypot(half, root)
    lengths, length_weights = _nodes(max(length - _REACH, 0.0), length + _REACH)
    # The released vector has half, plus or minus a deviation, along u, and the rest across.
    least_across = max(math.sqrt(dim - 1) - _REACH, 0.0)
    nearest = math.atan2(least_across, half + _REACH)
    if half > _REACH:
        farthest = math.atan2(root + _REACH, half - _REACH)
    else:
        farthest = math.atan2(least_across, min(half - _REACH, -1e-300))
    angles, angle_weights = _nodes(nearest, farthest)
    logarithms = (dim - 1) * np.log(lengths)[:, None] + (dim - 2) * np.log(np.sin(angles))
    # |length u' - half u|^2, without the cancellation of long vectors at small angles.
    gaps = (lengths[:, None] - half) ** 2 + 4 * half * np.outer(lengths, np.sin(angles / 2) ** 2)
    exponents = logarithms - gaps / 2
    weights = np.exp(exponents - exponents.max()) * np.outer(length_weights, angle_weights)
    return float(np.sum(weights * 2 * np.sin(angles / 2)) / np.sum(weights))


@functools.lru_cache(maxsize=1)
def _legendre():
    return np.polynomial.legendre.leggauss(_NODES)


def _nodes(low: float, high: float):
    """Gauss-Legendre nodes and weights between two ends."""
    nodes, weights = _legendre()
    return (low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights
