r"""Strategy matrices: the correlation of noise over the steps, and its privacy.

Step k of a mechanism adds $\tau\xi_k$ with $\xi = C^{-1}Z$, Z standard normal, row by row. The
*strategy* C is lower triangular with a positive diagonal, so the noise of a step needs no later
draws. Releasing $g + \tau C^{-1}Z$ is the same as releasing $Cg + \tau Z$, so a record that moves
the value of step j alone moves the release by column j of C. If all columns have norm at most 1,
the steps together cost as much as one step with independent noise (`jaxdp.CorrelatedDPSGD` has the
proof). Shorter columns waste noise.

Source: Denisov, McMahan, Rush, Smith and Thakurta (2022), "Improved differential privacy for SGD
via optimal private linear operators on adaptive streams" (adaptive inputs, columns of norm 1).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jaxdp.core.checks import concrete, require_count, require_finite, require_real, require_scalar
from jaxdp.core.numerics.batching import inverse_of_lower, one_at_a_time
from jaxdp.core.numerics.precision import full_products

# Rounding of a column's norm above 1 that is accepted, in float32 or float64.
_ROUNDING = 1e-5
_ATTEMPTS = 8
# Share of the noise that covers the rounding of a traced inverse, by bytes of its type.
_TRACED_MARGIN = {4: 2e-3, 8: 1e-6}


def independent_strategy(num_steps: int) -> Float[np.ndarray, "steps steps"]:
    """The identity matrix: independent noise in every step.

    Args:
        num_steps: K.

    Returns:
        The strategy, (K, K), in float64.

    Example:
        >>> from jaxdp.privacy import independent_strategy
        >>> independent_strategy(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(require_count("num_steps", num_steps))


def square_root_strategy(num_steps: int, nu: Any) -> Float[Any, "steps steps"]:
    r"""The normalised square root of the matrix of prefix sums with forgetting rate nu.

    It is the Toeplitz matrix with generating function $(1 - (1-\nu)x)^{-1/2}$, each column divided
    by its norm. $\nu = 0$ forgets nothing, $\nu = 1$ gives the identity.

    Source: Choquette-Choo, Dvijotham, Pillutla, Ganesh, Steinke and Thakurta (2024), "Correlated
    noise provably beats independent noise for differentially private learning" ($\nu$-DP-FTRL).

    Args:
        num_steps: K.
        nu: number in [0, 1].

    Returns:
        The strategy, (K, K): a float64 NumPy array, or a JAX array for a traced nu.

    Example:
        >>> from jaxdp.privacy import square_root_strategy
        >>> strategy = square_root_strategy(3, 0.0)
        >>> [round(value, 4) for value in (strategy[:, 0] / strategy[0, 0]).tolist()]
        [1.0, 0.5, 0.375]
    """
    count = require_count("num_steps", num_steps)
    require_scalar("nu", nu)
    known = concrete(nu)
    if known is not None and not 0 <= known <= 1:
        raise ValueError(f"expected 0 <= nu <= 1, got {float(known)}")
    numpy: Any = jnp if known is None else np
    decay = 1 - (nu if known is None else known)
    order = np.arange(1, count)
    factors = numpy.cumprod((2 * order - 1) / (2 * order) * decay)
    first = numpy.concatenate([numpy.ones(1), factors])
    lag = np.arange(count)[:, None] - np.arange(count)
    matrix = numpy.where(lag >= 0, first[np.abs(lag)], 0)
    return matrix / numpy.sqrt((matrix**2).sum(axis=0))


def check_strategy(strategy: Any, num_steps: int) -> None:
    """Raise ValueError unless it is a strategy for the steps; a traced one only needs its shape."""
    require_real("strategy", strategy)
    shape = np.shape(strategy)
    if shape != (num_steps, num_steps):
        raise ValueError(f"expected a strategy of shape {(num_steps,) * 2}, got {shape}")
    matrix = concrete(strategy)
    if matrix is None:
        return
    require_finite("strategy", matrix)
    above, diagonal = np.abs(np.triu(matrix, 1)).max(), np.diag(matrix).min()
    longest = np.linalg.norm(matrix, axis=0).max()
    if above > 0:
        raise ValueError(
            f"expected a lower triangular strategy, got {above:.3g} above the diagonal"
        )
    if not diagonal > 0:
        raise ValueError(f"expected a strategy of positive diagonal, got an entry {diagonal:.3g}")
    if longest > 1 + _ROUNDING:
        raise ValueError(
            "expected columns of the strategy of norm at most 1, which is what rho is proved for, "
            f"got one of norm {longest:.6g}; divide each column by its norm"
        )


def is_strategy(strategy: Float[Array, "steps steps"]) -> Bool[Array, ""]:
    """Whether a matrix, maybe traced, satisfies `check_strategy` up to rounding."""
    known = concrete(strategy)
    numpy: Any = jnp if known is None else np
    matrix = strategy if known is None else known
    is_lower = numpy.all(numpy.triu(matrix, 1) == 0)
    is_short = numpy.all(numpy.sum(matrix**2, axis=0) <= (1 + 2 * _ROUNDING) ** 2)
    positive = numpy.all(numpy.diagonal(matrix) > 0)
    return is_lower & is_short & positive & numpy.all(numpy.isfinite(matrix))


def noise_mixing(strategy: Any, dtype: Any) -> Float[Any, "steps steps"]:
    r"""$M \approx C^{-1}$ for the noise $\xi = MZ$ of a strategy, rounded toward privacy.

    The release depends on the rounded M, so the inverse of the rounded M, not the intended C, must
    have columns of norm at most 1. M is the float64 inverse, rounded to `dtype` and enlarged by one
    factor until the columns of its inverse are proved to have norm at most 1: by about 1e-12, in
    float32 by about 1e-6 if C is well conditioned. A traced matrix is inverted in its own type, and
    its noise is 0.2 % larger (1e-6 in float64), far above the rounding if the inverse has entries
    up to a hundred; `longest_column_of` charges for any remainder. ValueError if C is nearly
    singular.

    Derived: test_the_mixing_as_rounded_keeps_every_column_below_one.
    """
    if isinstance(strategy, Tracer):
        matrix = jnp.asarray(strategy).astype(dtype)
        inverse = one_at_a_time(inverse_of_lower)(matrix)
        norms = jnp.sqrt(jnp.sum(matrix**2, axis=0))
        margin = _TRACED_MARGIN[jnp.dtype(dtype).itemsize]
        return jnp.tril(inverse) * jnp.maximum(jnp.max(norms), 1) * (1 + margin)
    matrix = np.asarray(strategy, np.float64)
    exact = np.tril(np.linalg.inv(matrix))
    factor, unit = 1.0, float(np.finfo(dtype).eps)
    for attempt in range(_ATTEMPTS):
        with np.errstate(over="ignore", invalid="ignore"):
            mixing = (factor * exact).astype(dtype)
        longest = longest_column_of(mixing)
        if longest <= 1:
            return mixing
        if not longest < 2:
            break
        # Rounding may undo part of the factor, so each attempt enlarges more.
        factor *= longest * (1 + attempt * unit)
    raise ValueError(
        "expected a strategy that floating point can invert, got one that is nearly singular: its "
        f"smallest diagonal entry is {np.diag(matrix).min():.3g}"
    )


def longest_column_of(mixing: Float[Any, "steps steps"]) -> Any:
    r"""A bound of at least 1 on the norms of the columns of $C = M^{-1}$, whatever the rounding.

    It is infinite if M is nearly singular. The arithmetic is float64, for a traced M its own type.

    For any $\hat C$ and $F = I - \hat CM$, $M^{-1} = (I - F)^{-1}\hat C$, so column j has norm at
    most $|\hat Ce_j|/(1 - \|F\|)$. An entry of F is a sum of at most K + 1 products and is computed
    to $(K + 2)u$ times the sum of their sizes, u the unit of rounding (Higham (2002), section 3.1).
    """
    if isinstance(mixing, Tracer):
        inverse = jnp.tril(one_at_a_time(inverse_of_lower)(mixing))
        return jnp.maximum(1, _column_bound(jnp, mixing, inverse))
    matrix = np.asarray(mixing, np.float64)
    if not (np.all(np.isfinite(matrix)) and np.diag(matrix).min() > 0):
        return np.inf
    return max(1.0, float(_column_bound(np, matrix, np.tril(np.linalg.inv(matrix)))))


def _column_bound(numpy: Any, matrix: Any, inverse: Any) -> Any:
    count, unit = len(matrix), float(np.finfo(matrix.dtype).eps)
    with full_products():
        rest = numpy.linalg.norm(numpy.eye(count, dtype=matrix.dtype) - inverse @ matrix)
        sizes = numpy.abs(inverse) @ numpy.abs(matrix) + numpy.eye(count, dtype=matrix.dtype)
    error = (rest + (count + 2) * unit * numpy.linalg.norm(sizes)) * (1 + 4 * count**2 * unit)
    longest = numpy.linalg.norm(inverse, axis=0).max() * (1 + 2 * count * unit)
    # Written so that NaN proves nothing.
    is_proved = error < 0.5
    return numpy.where(is_proved, longest / numpy.where(is_proved, 1 - error, 1), numpy.inf)
