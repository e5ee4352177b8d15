r"""Rates, clips and strategies that minimise the predicted risk of correlated noise in one pass.

All by gradients through `DiscreteVolterra`, in float64. The parameters of a strategy are planned
together with the clip and the rates. The optimal strategy has its own solver and is planned in
alternation with them. Searches are local, from a few starts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

import jaxdp
from experiments.everyday_dp_sgd.multi_pass_plans import Setting
from jaxdp.planning import optimal_strategy
from jaxdp.privacy import independent_strategy, square_root_strategy
from jaxdp.theory.streams.modes import eigen_modes
from jaxdp.theory.streams.volterra import path_of

# Only d/B enters a prediction: the batch size is fixed, and gamma sets the dimension.
_BATCH = 10_000
_SEARCH = {"method": "BFGS", "options": {"gtol": 1e-8, "maxiter": 300}}
_TURNS, _ENOUGH = 20, 1e-6


class Cell(NamedTuple):
    """Ratio gamma = d/n and budget rho."""

    gamma: float
    rho: float


class Family(NamedTuple):
    """Strategies of a few parameters.

    Attributes:
        make: parameters and the number of steps to a strategy, traced.
        start: parameters to search from.
    """

    make: Callable[[Float[Array, " parameters"], int], Any]
    start: tuple[float, ...]


class Plan(NamedTuple):
    """A plan, its predicted final risk, and the end point of the search."""

    risk: float
    point: np.ndarray
    rates: np.ndarray
    clip_scale: float
    strategy: np.ndarray


def _toeplitz(first: Float[Array, " steps"]) -> Float[Array, "steps steps"]:
    lag = np.arange(len(first))[:, None] - np.arange(len(first))
    return jnp.where(lag >= 0, first[np.abs(lag)], 0)


def _normalised(matrix: Float[Array, "steps steps"]) -> Float[Array, "steps steps"]:
    return matrix / jnp.sqrt(jnp.sum(matrix**2, axis=0))


def _buffered(parameters, num_steps: int):
    """Buffers of past noise, partly removed by each step: scales, then logits of the decays."""
    scales, logits = jnp.split(parameters, 2)
    powers = jax.nn.sigmoid(logits)[:, None] ** np.arange(num_steps - 1)
    inverse = _toeplitz(jnp.append(1.0, scales @ powers))
    identity = jnp.eye(num_steps, dtype=inverse.dtype)
    return _normalised(jax.scipy.linalg.solve_triangular(inverse, identity, lower=True))


def _banded(parameters, num_steps: int):
    first = jnp.zeros(num_steps).at[0].set(1.0)
    return _normalised(_toeplitz(first.at[1 : 1 + len(parameters)].set(parameters)))


def _buffered_with_one_scale(parameters, num_steps: int):
    """Buffers of one scale for all steps: only the first column of the strategy has norm 1."""
    return _toeplitz(_buffered(parameters, num_steps)[:, 0])


FAMILIES = {
    "independent": Family(lambda _, count: independent_strategy(count), ()),
    "square root": Family(
        lambda logit, count: square_root_strategy(count, jax.nn.sigmoid(logit[0])), (-1.0,)
    ),
}
# One coefficient per lag. Except in the last family, the columns are divided by their norms, so
# that no noise is wasted at the last steps.
TOEPLITZ = {
    "square root": FAMILIES["square root"],
    "1 buffer": Family(_buffered, (-0.3, 1.0)),
    "2 buffers": Family(_buffered, (-0.2, -0.2, 2.0, 0.0)),
    "4 bands": Family(_banded, (0.5, 0.3, 0.2)),
    "2 buffers, one scale": Family(_buffered_with_one_scale, (-0.2, -0.2, 2.0, 0.0)),
}


def hyperbolic(point, num_steps: int):
    """v/(1 + t/k0) at t = 0, 1/K, ..., over K; the point has ln c, ln c v and ln k0."""
    time = np.arange(num_steps) / num_steps
    return jnp.exp(point[1] - point[0]) / (1 + time * jnp.exp(-point[2])) / num_steps


def free(point, num_steps: int):
    """Every rate by itself; the point has ln c and ln c eta_k."""
    del num_steps
    return jnp.exp(point[1:] - point[0])


def planned(setting: Setting, cell: Cell, num_steps: int, family: Family) -> Plan:
    """The least risk of a family, with hyperbolic rates."""
    best, identity = None, independent_strategy(num_steps)
    for start in (np.log([0.35, 5.0, 0.15]), np.log([0.2, 2.0, 1.0 / num_steps])):
        point = np.append(start, family.start)
        end = _minimum(setting, cell, num_steps, hyperbolic, family.make, point, identity)
        best = end if best is None or end.fun < best.fun else best
    assert best is not None
    strategy = family.make(jnp.asarray(best.x[3:]), num_steps)
    return _as_plan(best.fun, hyperbolic, best.x[:3], np.asarray(strategy, np.float64))


def planned_optimal(setting: Setting, cell: Cell, start: Plan) -> Plan:
    """The least risk with the optimal strategy and hyperbolic rates, from a plan with such rates.

    Alternates between rates with clip, and the strategy, until neither gains.
    """
    return _in_turns(setting, cell, hyperbolic, start.point, start.strategy)


def planned_freely(setting: Setting, cell: Cell, smooth: Plan) -> Plan:
    """The least risk with the optimal strategy and free rates, from a plan by `planned_optimal`."""
    point = np.append(smooth.point[0], smooth.point[0] + np.log(smooth.rates))
    return _in_turns(setting, cell, free, point, smooth.strategy)


def _in_turns(setting, cell, rates_of, point, strategy) -> Plan:
    num_steps, last = len(strategy), np.inf
    problem = _problem(setting, cell, num_steps)
    for _ in range(_TURNS):
        end = _minimum(setting, cell, num_steps, rates_of, _as_given, point, strategy)
        point = end.x
        if last - end.fun < _ENOUGH:
            break
        last = end.fun
        rates = np.asarray(rates_of(jnp.asarray(point), num_steps))
        scale = float(np.exp(point[0]))
        strategy = optimal_strategy(problem, rates, scale, cell.rho, batch_size=_BATCH)
    return _as_plan(end.fun, rates_of, point, strategy)


def _as_given(parameters, num_steps: int) -> None:
    """No parametrised strategy: the given one is used."""
    del parameters, num_steps


def _as_plan(log_risk: float, rates_of, point, strategy) -> Plan:
    rates = np.asarray(rates_of(jnp.asarray(point), len(strategy)))
    return Plan(float(np.exp(log_risk)), point, rates, float(np.exp(point[0])), strategy)


def _problem(setting: Setting, cell: Cell, num_steps: int) -> jaxdp.LinearRegression:
    return setting.stream(round(cell.gamma * num_steps * _BATCH))


def _minimum(setting, cell, num_steps, rates_of, strategy_of, point, given) -> Any:
    modes = eigen_modes(_problem(setting, cell, num_steps))
    length = len(point) if rates_of is free else 3
    given, rho = jnp.asarray(given), jnp.asarray(cell.rho)

    def value(point):
        at = jnp.asarray(point)
        parts, by_point = _parts_and_slopes(num_steps, length, rates_of, strategy_of, at, given)
        log_risk, by_part = _risk_and_slopes(modes, parts, rho)
        slope = sum(
            np.tensordot(outer, inner, np.ndim(outer))
            for outer, inner in zip(by_part, by_point, strict=True)
        )
        return float(log_risk), np.asarray(slope, np.float64)

    return scipy.optimize.minimize(value, point, jac=True, **_SEARCH)


@eqx.filter_jit
def _parts_and_slopes(num_steps, length, rates_of, strategy_of, point, given):
    """Rates, clip scale and strategy of a point, and the derivatives of each by the point."""

    def parts(point):
        made = strategy_of(point[length:], num_steps)
        found = (
            rates_of(point[:length], num_steps),
            jnp.exp(point[0]),
            given if made is None else jnp.asarray(made),
        )
        return found, found

    by_point, found = jax.jacfwd(parts, has_aux=True)(point)
    return found, by_point


@eqx.filter_jit
def _risk_and_slopes(modes, parts, rho):
    """Logarithm of the predicted final risk, and its derivatives by rates, clip and strategy.

    Compiled once per number of steps, for all families of rates and strategies.
    """

    def log_risk(parts):
        rates, clip_scale, strategy = parts
        algorithm = jaxdp.CorrelatedDPSGD(
            rates, clip_scale, rho, batch_size=_BATCH, strategy=strategy
        )
        return jnp.log(path_of(modes, algorithm).risk[-1])

    return jax.value_and_grad(log_risk)(parts)
