r"""Why two rows close to one training row cannot stand for two: DR Theorem 2, with numbers.

Suppose both rows of a guess lie near $x_1$. Their features span $\varphi(x_1)$ and, in the limit,
one tangent $\phi'(Vx_1)\circ Vu$, and the theorem says that $\varphi(x_2)$ is not among these. For
wide features and $x_2 \perp x_1$ the best tangent is that towards $x_2$, and of $|\varphi(x_2)|^2$
the share

$$ 1 - \frac1{E\phi^2}\Bigl[\frac{\mu_0^4}{E\phi^2} + \frac{\mu_1^4}{E\phi'^2}\Bigr] $$

stays outside: $3/4 - 1/\pi^2$ for ReLU, 0.265 for tanh, 0 for linear features alone.
Near-duplicates at a finite distance reach further, along a curve that falls to 0 only when one of
them arrives at $x_2$. It is computed from the kernel, over pairs on the great circle through $x_1$
and $x_2$; no better pair off it was found, which is no proof.

Derived: test_duplicates.py compares with least squares on random features, and with pairs that are
drawn anywhere.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev

from jaxdp.core.numerics.hermite import host_function, scaled_coefficients
from jaxdp.problems.rows.infinite_width import infinite_width_kernel
from jaxdp.theory.reconstruction.error import Activation, activation_moments

_ANGLES, _GRID, _ROUNDS = 48, 129, 12
# The least angle between two rows that counts as a difference.
_CLOSEST = 2e-5


class NearDuplicates(NamedTuple):
    r"""The two near-duplicates of $x_1$ that come closest to the features of $x_2$.

    Attributes:
        share: the share of $|\varphi(x_2)|^2$ that they do not span.
        angles: the angles of both from $x_1$ towards $x_2$.
        coefficients: $a_1$, $a_2$ of DR (76); large and of opposite sign if the two are close.
    """

    share: float
    angles: tuple[float, float]
    coefficients: tuple[float, float]


def duplicate_limit(activation: Activation) -> float:
    r"""The share of a row's features that no pair of infinitely close duplicates of another spans.

    From 0 for linear features to 1, for wide features and orthogonal rows.

    Source: DR Theorem 2, in the limit of duplicates. Derived: in this module.
    """
    moments = activation_moments(activation)
    means, _ = scaled_coefficients(host_function(activation), np.ones(1), 1)
    constant = float(means[0, 0]) ** 4 / moments.square
    tangent = moments.squared_slope**2 / moments.slope_square
    return max(1 - (constant + tangent) / moments.square, 0.0)


def near_duplicates(
    activation: Activation, distance: float, *, cosine: float = 0.0
) -> NearDuplicates:
    r"""The best pair of rows within a distance of one training row, as a stand-in for another.

    Source: DR Theorem 2, at a finite distance; its proof's $\epsilon$ is `distance`, (83).

    Args:
        activation: phi, elementwise.
        distance: the largest $|\hat x - x_1|/\sqrt d$, in [0.01, $\sqrt 2$]. For nearer pairs
            use `duplicate_limit`: in float64 their difference drowns in rounding.
        cosine: the cosine of $x_1$ and $x_2$, within (-1, 1).
    """
    kernel, other = _kernel_of_angle(activation), float(np.arccos(cosine))
    farthest = 2 * np.arcsin(float(distance) / 2)

    def pair(larger, part):
        # The gap, from the least to the one that reaches the other end; dense for small gaps.
        return larger, larger - _CLOSEST - part**2 * (larger - _CLOSEST + farthest)

    # A square of choices, whose edges and corners are all on the grid.
    least, most = np.array([_CLOSEST - farthest, 0.0]), np.array([farthest, 1.0])
    low, high, best = least, most, np.zeros(2)
    for _ in range(_ROUNDS):
        larger, parts = (
            np.linspace(start, end, _GRID) for start, end in zip(low, high, strict=True)
        )
        shares, *_ = _fit(kernel, other, *pair(larger[:, None], parts))
        row, column = np.unravel_index(np.argmin(shares), shares.shape)
        best = np.array([larger[row], parts[column]])
        reach = (high - low) / 16
        low, high = np.maximum(best - reach, least), np.minimum(best + reach, most)
    first, second = pair(*best)
    share, *coefficients = _fit(kernel, other, first, second)
    return NearDuplicates(
        float(max(share, 0.0)),
        (float(first), float(second)),
        (float(coefficients[0]), float(coefficients[1])),
    )


def _fit(kernel, other, first, second):
    """Share of the features at angle `other` that two others leave, and their coefficients."""
    between = kernel(np.abs(first - second))
    one, two = kernel(np.abs(other - first)), kernel(np.abs(other - second))
    # Sum and difference of the two are orthogonal, and keep their digits even if they are close.
    along, across = (one + two) / (1 + between) / 2, (one - two) / (1 - between) / 2
    share = 1 - along * (one + two) - across * (one - two)
    return share, along + across, along - across


@functools.lru_cache(maxsize=32)
def _kernel_of_angle(activation: Activation):
    """The normalised kernel as a function of the angle between rows, on [0, pi]."""
    points = np.cos(np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES)
    angles = np.append(0.0, np.pi / 2 * (1 + points))
    rows = np.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)])
    values = infinite_width_kernel(activation, rows)[0]
    values = values[1:] / values[0]
    fitted = Chebyshev.fit(angles[1:], values, _ANGLES - 1, domain=[0, np.pi])

    def kernel(angle):
        # Angles beyond a half turn come back on the other side.
        return fitted(np.pi - np.abs(np.pi - angle)) / fitted(0.0)

    return kernel
