r"""The strategy of correlated noise that leaves the least predicted risk.

The noise $\xi = C^{-1}Z$ of `CorrelatedDPSGD` enters the final risk $R_K$ through its covariance
$V = (C^\top C)^{-1}$ over the steps alone: after step k there is $|h_{i,k}|^2 = g_{i,k}^\top V
g_{i,k}$ of it in mode i, g the responses of `DiscreteVolterra`. So with X the inverse of V the
problem is to choose X with $X_{jj} = |c_j|^2 = 1$. To first order about a path,

$$ \mathrm dR_K = \mathrm{tr}(W\,\mathrm dV), \qquad
   W = \sum_{i,k} p_{i,k}\,g_{i,k}g_{i,k}^\top, \qquad
   p_{i,k} = \mathrm dR_K/\mathrm d|h_{i,k}|^2, $$

where p is the total derivative: what more noise after step k does to all later descent factors is
part of it. The least $\mathrm{tr}(WX^{-1})$ with $X_{jj} = 1$ has a diagonal $X^{-1}WX^{-1}$, of
entries v say, hence $X = v^{-1/2}(v^{1/2}Wv^{1/2})^{1/2}v^{-1/2}$, and its diagonal says $v =
\mathrm{diag}\,(v^{1/2}Wv^{1/2})^{1/2}$: a fixed point, found by iteration. The path and X are
improved in turns.

Source: Denisov, McMahan, Rush, Smith and Thakurta (2022), "Improved differential privacy for SGD
via optimal private linear operators on adaptive streams" (the fixed point, for a sum of squared
errors). Derived (the weights W of the final risk):
test_no_small_change_of_the_strategy_lowers_the_risk.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.core.checks import given_array, require_host, require_kind
from jaxdp.core.numerics.precision import on_host
from jaxdp.privacy.strategies import independent_strategy
from jaxdp.problems.base import AbstractProblem
from jaxdp.theory.streams.modes import Modes
from jaxdp.theory.streams.volterra import DiscreteVolterra, path_of

# The risk and the strategy are improved in turns until the risk falls by less than this share.
_MOST_SWEEPS, _ENOUGH = 30, 1e-10
# Rounds of the fixed point, until no multiplier moves by more than this share: the trace, which is
# stationary there, is then known to rounding.
_MOST_ROUNDS, _SAME = 2000, 1e-10
# Least eigenvalue of the weights, relative to their trace, that is told from none.
_FLOOR = 1e-14


def optimal_strategy(
    problem: AbstractProblem, rates: Any, clip_scale: Any, rho: Any, *, batch_size: int
) -> Float[np.ndarray, "steps steps"]:
    r"""The strategy with the least final risk that `DiscreteVolterra` predicts for these rates.

    Locally the least: path and strategy are improved in turns from independent noise on, in
    float64 on the host, until neither changes. The noise of the last steps is negatively
    correlated: each takes back part of the noise before it.

    The strategy depends on the problem's initial risk, label noise and spectrum, which are to be
    public knowledge: what is chosen by looking at the data is not covered by rho.

    Args:
        problem: a `LinearRegression`.
        rates, clip_scale, rho, batch_size: as for `jaxdp.CorrelatedDPSGD`; none of them traced.

    Returns:
        Lower triangular, in float64, with columns of norm 1.

    Raises:
        NotCoveredError: the theory does not cover the problem.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> given = dict(rates=[3.0, 1.2, 0.7, 0.4], clip_scale=0.45, rho=1.0, batch_size=2500)
        >>> for strategy in (
        ...     jaxdp.privacy.independent_strategy(4),
        ...     jaxdp.planning.optimal_strategy(problem, **given),
        ... ):
        ...     algorithm = jaxdp.CorrelatedDPSGD(**given, strategy=strategy)
        ...     print(f"{jaxdp.predict(problem, algorithm).final_risk:.5f}")
        0.00107
        0.00090
    """
    require_kind("problem", problem, AbstractProblem, "a problem, such as LinearRegression")
    given = {"rates": rates, "clip_scale": clip_scale, "rho": rho, "batch_size": batch_size}
    require_host("arguments of optimal_strategy", (problem, given))
    with on_host():
        wide, given = _in_float64(problem), _in_float64(given)
        best = independent_strategy(given_array("rates", rates).size)
        algorithm = CorrelatedDPSGD(**given, strategy=best)
        modes, _ = DiscreteVolterra().read(wide, algorithm)
        least, weights = _risk_and_weights(modes, algorithm)
        for _ in range(_MOST_SWEEPS):
            strategy = least_trace_strategy(np.asarray(weights))
            risk, weights = _risk_and_weights(modes, algorithm.replace(strategy=strategy))
            if not risk < least:
                break
            gain, least, best = (least - risk) / least, risk, strategy
            if gain < _ENOUGH:
                break
    return best


def least_trace_strategy(weights: Float[np.ndarray, "steps steps"]) -> Float[np.ndarray, "..."]:
    r"""The lower triangular C, columns of norm 1, of the least $\mathrm{tr}(W(C^\top C)^{-1})$."""
    count = len(weights)
    trace = np.trace(weights)
    if not trace > 0:
        return np.eye(count)
    # A step whose noise leaves no trace (a rate of 0) is left independent of the others.
    weights = weights / trace + _FLOOR * np.eye(count)
    multipliers = np.sqrt(np.diag(weights))
    for _ in range(_MOST_ROUNDS):
        root = _fourth_root_between(weights, multipliers)
        found = np.einsum("ij,ij->j", root, root)
        moved = np.max(np.abs(found / multipliers - 1))
        multipliers = found
        if moved < _SAME:
            break
    factor = _fourth_root_between(weights, multipliers) / np.sqrt(multipliers)
    # The factor of C'C that is lower triangular, without the product: weights of low rank are none
    # for Cholesky's algorithm.
    strategy = np.asarray(np.linalg.qr(factor[:, ::-1], mode="r"))[::-1, ::-1]
    strategy = strategy * np.where(np.diag(strategy) < 0, -1, 1)[:, None]
    return np.tril(strategy / np.linalg.norm(strategy, axis=0)) + 0.0


def _fourth_root_between(weights: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    r"""A matrix A with $A^\top A = (v^{1/2}Wv^{1/2})^{1/2}$."""
    scale = np.sqrt(multipliers)
    values, vectors = np.linalg.eigh(scale[:, None] * weights * scale[None])
    # Rounding may leave an eigenvalue at or below 0, with which no strategy could be inverted.
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    return values[:, None] ** 0.25 * vectors.T


@eqx.filter_jit
def _risk_and_weights(
    modes: Modes, algorithm: CorrelatedDPSGD
) -> tuple[Float[Array, ""], Float[Array, "steps steps"]]:
    """The predicted final risk, and how it depends on the noise's covariance over the steps."""

    def final(more_noise):
        path = path_of(modes, algorithm, more_noise)
        return path.risk[-1], path.responses

    nothing = jnp.zeros((algorithm.num_steps, len(modes.descent)), modes.initial.dtype)
    (risk, responses), price = jax.value_and_grad(final, has_aux=True)(nothing)
    flat = responses.reshape(-1, algorithm.num_steps)
    weights = jnp.matmul(flat.T * price.reshape(-1), flat, precision=Precision.HIGHEST)
    return risk, weights


def _in_float64(tree: Any) -> Any:
    """A pytree with its floating-point arrays in float64; for a context in which JAX has it."""

    def wide(leaf):
        is_array = isinstance(leaf, (jax.Array, np.ndarray))
        is_float = is_array and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.float64) if is_float else leaf

    return jax.tree.map(wide, tree)
