r"""Error of a reconstructed row as a function of the noise, up to the error of a guess.

For one unknown row, least squares maximises $s\,\psi(x)\cdot\theta$ over the sphere: at overlap
$q = \cos\omega$ with the true row a signal $\tfrac\mu2 k(q)$, k the normalised kernel of the
features, plus a Gaussian field of covariance k. For large d the field's maximum at that overlap,
over $\sqrt d$, is $\sqrt{k'(1)}\sin\omega$ where the replica-symmetric form of a spherical spin
glass holds. Signal plus field is largest where

$$ t = \frac{k'(\cos\omega)}{k'(1)}\tan\omega, \qquad \rho = 2\sin(\omega/2), $$

with t the ratio of noise to signal in the tangent plane; $t = (1 - \omega/\pi)\tan\omega$ for ReLU.
Exact for a linear activation. For ReLU, whose kink breaks replica symmetry, the full solution is at
most 1.2 % smaller.

Source of the maximum: Crisanti and Sommers (1992), at zero temperature. Derived:
test_reconstruction_error.py compares with the full solution and with the maximum itself.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.checks import NotCoveredError
from jaxdp.problems.rows.infinite_width import infinite_width_kernel

Activation = Callable[[Array], Array]

# The slope of the kernel is analytic in the angle, for kinks as well.
_ANGLES = 24
_TABLE, _LEAST_ANGLE = 4001, 1e-5
# Least slope of the kernel at orthogonal rows, where only the activation's linear part has one.
_LEAST_SLOPE = 1e-6


def saturated_error(ratio: ArrayLike, activation: Activation) -> Float[np.ndarray, "..."]:
    r"""$\rho = 2\sin(\omega/2)$ with $t = k'(\cos\omega)\tan\omega/k'(1)$."""
    slope = kernel_slope(activation)

    def ratio_at(angles):
        return slope(angles) * np.tan(angles)

    return 2 * np.sin(angles_at(ratio, ratio_at, float(slope(np.pi / 2))) / 2)


def angles_at(
    ratio: ArrayLike,
    ratio_at: Callable[[Float[np.ndarray, " angles"]], Float[np.ndarray, " angles"]],
    flattest: float,
) -> Float[np.ndarray, "..."]:
    r"""The angles in $[0, \pi/2]$ at which a curve that starts as $t = \omega$ has given ratios t.

    `flattest` is the limit of $t\,(\pi/2 - \omega)$ at the end.
    """
    ratio = np.asarray(ratio, np.float64)
    near = np.geomspace(_LEAST_ANGLE, np.pi / 4, _TABLE)
    angles = np.append(near, np.pi / 2 - near[-2::-1])
    ratios = ratio_at(angles)
    if not (flattest > _LEAST_SLOPE and np.all(np.diff(ratios) > 0)):
        raise NotCoveredError(
            "the error after a private step is predicted for activations with a sufficient linear "
            "part; here it would jump"
        )
    # Beyond the table the first order is exact to rounding.
    small, large = np.minimum(ratio, ratios[0]), np.maximum(ratio, ratios[-1])
    found = np.exp(np.interp(np.log(np.maximum(ratio, ratios[0])), np.log(ratios), np.log(angles)))
    found = np.where(ratio < ratios[0], small, found)
    return np.where(ratio > ratios[-1], np.pi / 2 - flattest / large, found)


@functools.lru_cache(maxsize=32)
def kernel_slope(activation: Activation) -> np.polynomial.Chebyshev:
    r"""$k'(\cos\omega)/k'(1)$ as a function of $\omega$ on $[0, \pi/2]$."""
    points = np.cos(np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES)
    angles = np.append(0.0, np.pi / 4 * (1 + points))
    rows = math.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)])
    kernel = infinite_width_kernel(slope_of(activation), rows)[0]
    return np.polynomial.Chebyshev.fit(
        angles[1:], kernel[1:] / kernel[0], _ANGLES - 1, domain=[0, np.pi / 2]
    )


def slope_of(activation: Activation) -> Activation:
    """The derivative phi', elementwise."""

    def slope(values):
        values = jnp.asarray(values)
        try:
            return jax.jvp(activation, (values,), (jnp.ones_like(values),))[1]
        except TypeError as error:
            raise TypeError(
                "expected activation to be written in jax.numpy, as its derivative is taken by "
                f"JAX, got {activation!r}"
            ) from error

    return slope
