r"""The strategy of correlated noise with the least predicted risk.

The noise $\xi = C^{-1}Z$ of `CorrelatedDPSGD` enters the final risk $R_K$ through its covariance
$V = (C^\top C)^{-1}$ over the steps alone: after step k mode i has $|h_{i,k}|^2 = g_{i,k}^\top V
g_{i,k}$ of it, with g the responses of `DiscreteVolterra`. The variable is X, the inverse of V,
with $X_{jj} = |c_j|^2 = 1$. To first order about a path,

$$ \mathrm dR_K = \mathrm{tr}(W\,\mathrm dV), \qquad
   W = \sum_{i,k} p_{i,k}\,g_{i,k}g_{i,k}^\top, \qquad
   p_{i,k} = \mathrm dR_K/\mathrm d|h_{i,k}|^2, $$

with p the total derivative, through all later descent factors. The least $\mathrm{tr}(WX^{-1})$
with $X_{jj} = 1$ has a diagonal $X^{-1}WX^{-1}$ with entries v, hence
$X = v^{-1/2}(v^{1/2}Wv^{1/2})^{1/2}v^{-1/2}$, and its diagonal gives the fixed point
$v = \mathrm{diag}\,(v^{1/2}Wv^{1/2})^{1/2}$. Path and X are improved in turns.

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
import scipy
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.core.checks import given_array, require_host, require_kind
from jaxdp.core.numerics.precision import on_host
from jaxdp.privacy.strategies import independent_strategy
from jaxdp.problems.base import AbstractProblem
from jaxdp.theory.streams.modes import Modes
from jaxdp.theory.streams.volterra import DiscreteVolterra, path_of

_MOST_SWEEPS, _ENOUGH = 30, 1e-10  # most sweeps, relative fall of the risk at their end
# Most rounds of the fixed point, and the relative move of multipliers that ends them.
_MOST_ROUNDS, _SAME = 2000, 1e-10
_FLOOR = 1e-10  # least eigenvalue of the weights, relative to their trace: low rank is common


def optimal_strategy(
    problem: AbstractProblem, rates: Any, clip_scale: Any, rho: Any, *, batch_size: int
) -> Float[np.ndarray, "steps steps"]:
    """Return the strategy with the least final risk that `DiscreteVolterra` predicts for these
    rates.

    The minimum is local, from independent noise on. It depends on the problem's initial risk, label
    noise and spectrum, which have to be public: rho does not cover a choice made from private data.

    Args:
        problem: a `LinearRegression`.
        rates, clip_scale, rho, batch_size: see `jaxdp.CorrelatedDPSGD`; not traced.

    Returns:
        Lower triangular matrix with columns of norm 1, in float64.

    Raises:
        NotCoveredError: the theory does not cover the problem.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> given = dict(rates=[3.0, 1.2, 0.7, 0.4], clip_scale=0.45, rho=1.0, batch_size=2500)
        >>> independent = jaxdp.privacy.independent_strategy(4)
        >>> for strategy in (independent, jaxdp.planning.optimal_strategy(problem, **given)):
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
    # A step whose noise has no effect (a rate of 0) stays independent of the others.
    weights = weights / trace + _FLOOR * np.eye(count)
    multipliers = _best_multipliers(weights)
    for _ in range(_MOST_ROUNDS):
        root = _fourth_root_between(weights, multipliers)
        found = np.einsum("ij,ij->j", root, root)
        moved = np.max(np.abs(found / multipliers - 1))
        multipliers = found
        if moved < _SAME:
            break
    factor = _fourth_root_between(weights, multipliers) / np.sqrt(multipliers)
    # The lower triangular factor of C'C, without the product: Cholesky fails at low rank.
    strategy = np.asarray(np.linalg.qr(factor[:, ::-1], mode="r"))[::-1, ::-1]
    strategy = strategy * np.where(np.diag(strategy) < 0, -1, 1)[:, None]
    return np.tril(strategy / np.linalg.norm(strategy, axis=0)) + 0.0


def _best_multipliers(weights: np.ndarray) -> np.ndarray:
    r"""The v with the highest lower bound $(\mathrm{tr}(v^{1/2}Wv^{1/2})^{1/2})^2/\sum v$.

    At low rank the fixed point alone is too slow. The bound is the dual problem's.
    """

    def negative_bound(logarithms):
        shares = np.exp(logarithms - logarithms.max())
        shares /= shares.sum()
        root = _fourth_root_between(weights, shares)
        found = np.einsum("ij,ij->j", root, root)
        return -np.log(found.sum()), (shares - found / found.sum()) / 2

    start = np.log(np.diag(weights)) / 2
    options = {"maxiter": _MOST_ROUNDS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-10}
    search = scipy.optimize.minimize
    found = search(negative_bound, start, jac=True, method="L-BFGS-B", options=options).x
    # Multipliers of the fixed point have the sum of the square root's trace.
    shares = np.exp(found - found.max())
    root = _fourth_root_between(weights, shares / shares.sum())
    return shares / shares.sum() * (root**2).sum() ** 2


def _fourth_root_between(weights: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    r"""A matrix A with $A^\top A = (v^{1/2}Wv^{1/2})^{1/2}$."""
    scale = np.sqrt(multipliers)
    values, vectors = np.linalg.eigh(scale[:, None] * weights * scale[None])
    # Rounding may leave an eigenvalue at or below 0, without an invertible strategy.
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    return values[:, None] ** 0.25 * vectors.T


@eqx.filter_jit
def _risk_and_weights(
    modes: Modes, algorithm: CorrelatedDPSGD
) -> tuple[Float[Array, ""], Float[Array, "steps steps"]]:
    """The predicted final risk, and its derivative in the noise's covariance over the steps."""

    def final(more_noise):
        path = path_of(modes, algorithm, more_noise)
        return path.risk[-1], path.responses

    nothing = jnp.zeros((algorithm.num_steps, len(modes.descent)), modes.initial.dtype)
    (risk, responses), price = jax.value_and_grad(final, has_aux=True)(nothing)
    flat = responses.reshape(-1, algorithm.num_steps)
    weights = jnp.matmul(flat.T * price.reshape(-1), flat, precision=Precision.HIGHEST)
    return risk, weights


def _in_float64(tree: Any) -> Any:
    """A pytree with its floating-point arrays in float64, within a context that has it."""
    floats, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), floats), rest)
