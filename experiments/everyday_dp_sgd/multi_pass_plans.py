r"""Rates and clips that minimise the predicted risk of one pass and of full batches, at equal rho.

Both are planned on the same description: isotropic rows, $|\theta^*|^2/2 = R(0)$ and label noise
zeta. The one-pass plan minimises the coupled ODE over a shrinking grid. The full-batch plan
minimises the Gaussian closure, by gradients through it, on rows that are not used for measurements.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import scipy.optimize
from jaxtyping import Float

import jaxdp
from jaxdp.privacy import ShuffledEpochs

_DIM = 1000
# The spread over runs is not needed, and would make either several times slower.
_PLANNING = jaxdp.GaussianClosure(rank=0, spread_rank=None)
_MEASURING = jaxdp.GaussianClosure(spread_rank=None)
_SIDE, _ROUNDS, _KEPT = 9, 20, 0.7
_SEARCH = {"method": "L-BFGS-B", "options": {"maxiter": 40, "ftol": 1e-6}}
# Starts of a full-batch plan: c, and c times the sum of the rates (a distance).
_STARTS = ((0.15, 3.0), (0.5, 6.0))


@dataclasses.dataclass(frozen=True)
class Setting:
    """The shared setting of all cells: dimension, label noise zeta and R(0)."""

    dim: int = 100
    label_noise: float = 0.3
    initial_risk: float = 0.5

    def stream(self, dim: int | None = None) -> jaxdp.LinearRegression:
        """The problem with fresh rows."""
        return jaxdp.LinearRegression.isotropic(
            self.dim if dim is None else dim,
            label_noise=self.label_noise,
            initial_risk=self.initial_risk,
        )

    def rows(self, num_train: int, *, key) -> jaxdp.FixedFeatures:
        r"""The problem with fixed rows, whose test loss is exactly R.

        Test rows are $\sqrt d\,e_i$ with noiseless labels: the mean of half their squared errors is
        $|\theta - \theta^*|^2/2$.
        """
        inputs_key, noise_key = jr.split(key)
        target = jnp.full(self.dim, (2 * self.initial_risk / self.dim) ** 0.5)
        inputs = jr.normal(inputs_key, (num_train, self.dim))
        labels = inputs @ target + self.label_noise * jr.normal(noise_key, (num_train,))
        tests = self.dim**0.5 * jnp.eye(self.dim)
        return jaxdp.FixedFeatures.from_arrays(
            inputs, labels, tests, tests @ target, loss=jaxdp.losses.HalfSquared()
        )


class Plan(NamedTuple):
    """A schedule's parameters, the clip scale c = C/sqrt(d), the number of steps and the risk.

    Attributes:
        peak: the first learning rate.
        shape: a polynomial's power, or the time in [0, 1] at which a hyperbola has halved.
        clip_scale: c.
        num_steps: T.
        risk: predicted risk on the rows of the plan.
    """

    peak: float
    shape: float
    clip_scale: float
    num_steps: int
    risk: float


def schedule(family: str, peak, shape):
    """A polynomial or hyperbolic schedule."""
    return (jaxdp.Polynomial if family == "polynomial" else jaxdp.Hyperbolic)(peak, shape)


def one_pass(family: str, plan: Plan, rho: float) -> jaxdp.OnePassDPSGD:
    """The one-pass algorithm of a plan."""
    rate = schedule(family, plan.peak, plan.shape)
    return jaxdp.OnePassDPSGD(rate, plan.clip_scale, rho, plan.num_steps)


def full_batch(num_train: int, dim: int, rho, peak, knee, clip_scale, num_steps: int):
    """Descent on all rows in every step; all iterates together are rho-GDP for replace-one."""
    return jaxdp.PrivateOptimiser(
        optax.sgd,
        learning_rate=jaxdp.Hyperbolic(peak, knee),
        clip_norm=clip_scale * dim**0.5,
        noise_multiplier=2 * num_steps**0.5 / rho,
        num_steps=num_steps,
        sampler=ShuffledEpochs(num_train, num_train),
    )


def least_squares_risk(problem: jaxdp.FixedFeatures) -> float:
    """R of the least-squares solution on these rows, without privacy."""
    rows = (
        np.asarray(problem.train_inputs, np.float64),
        np.asarray(problem.train_labels, np.float64),
    )
    solution = np.linalg.lstsq(*rows)[0]
    residual = np.asarray(problem.test_inputs) @ solution - np.asarray(problem.test_labels)
    return float(np.mean(residual**2) / 2)


def planned_one_pass(setting: Setting, family: str, gamma: float, rho: float, dim: int) -> Plan:
    """The schedule of a family and the clip that minimise the coupled ODE's risk, in float64."""
    # The optimum lies within the box for gamma from 1e-3 to 1 and rho from 0.1 to 10.
    shapes = (0.0, 4.0) if family == "polynomial" else (np.log(1e-3), np.log(1e2))
    low = np.array([np.log(0.01), np.log(0.05), shapes[0]])
    high = np.array([np.log(5.0), np.log(500.0), shapes[1]])
    steps = round(_DIM / gamma)

    def risks(points):
        with jax.enable_x64():
            return np.asarray(_ode_risks(setting, family, jnp.asarray(points), steps, float(rho)))

    best, risk = _shrinking_grid(risks, low, high)
    scale = float(np.exp(best[0]))
    shape = float(best[2] if family == "polynomial" else np.exp(best[2]))
    return Plan(float(np.exp(best[1])) / scale, shape, scale, round(dim / gamma), risk)


def planned_full_batch(
    problem: jaxdp.FixedFeatures, rhos: tuple[float, ...], num_steps: tuple[int, ...]
) -> list[Plan]:
    """Rate, knee, clip and number of steps that minimise the closure's risk, for each rho.

    Args:
        problem: rows to plan on.
        rhos: rho of all iterates together.
        num_steps: numbers of steps to try.
    """
    best: list[Plan | None] = [None] * len(rhos)
    for steps in num_steps:
        risk_of = _closure_risk(problem, steps)
        for place, rho in enumerate(rhos):

            def value(point, rho=rho, risk_of=risk_of):
                found, gradient = risk_of(jnp.asarray(point, float), float(rho))
                return float(found), np.asarray(gradient, np.float64)

            starts = [np.log([scale, way / steps, 0.5]) for scale, way in _STARTS]
            ends = [scipy.optimize.minimize(value, start, jac=True, **_SEARCH) for start in starts]
            end = min(ends, key=lambda end: end.fun)
            scale, product, knee = (float(part) for part in np.exp(end.x))
            plan = Plan(product / scale, knee, scale, steps, float(np.exp(end.fun)))
            known = best[place]
            best[place] = plan if known is None or plan.risk < known.risk else known
    return [plan for plan in best if plan is not None]


def predicted_full_batch(
    problem: jaxdp.FixedFeatures, rho: float, plan: Plan
) -> tuple[float, bool]:
    """The closure's risk on these rows, and whether a rate is beyond its limit of stability."""
    parts = plan.peak, plan.shape, plan.clip_scale
    risk, status = _closure_prediction(problem, plan.num_steps, float(rho), *parts)
    return float(risk), int(status) == int(jaxdp.Status.UNSTABLE)


@functools.partial(jax.jit, static_argnums=1)
def _closure_prediction(problem: jaxdp.FixedFeatures, num_steps: int, rho, peak, knee, clip_scale):
    algorithm = full_batch(
        problem.num_train, problem.num_features, rho, peak, knee, clip_scale, num_steps
    )
    predicted = jaxdp.predict(problem, algorithm, theory=_MEASURING, records=1)
    return predicted.final_risk, predicted.status


def _closure_risk(problem: jaxdp.FixedFeatures, num_steps: int):
    """Logarithm of the predicted risk and its gradient in (ln c, ln c v, ln knee).

    Forwards: for three numbers that is compiled in half the time, and runs in a third.
    """
    dim = problem.num_features

    def risk(point, rho):
        scale, product, knee = jnp.exp(point)
        algorithm = full_batch(problem.num_train, dim, rho, product / scale, knee, scale, num_steps)
        found = jaxdp.predict(problem, algorithm, theory=_PLANNING, records=1).final_risk
        return jnp.log(found), jnp.log(found)

    @jax.jit
    def risk_and_slope(point, rho):
        slope, found = jax.jacfwd(risk, has_aux=True)(point, rho)
        return found, slope

    return risk_and_slope


@functools.partial(jax.jit, static_argnums=(0, 1))
def _ode_risks(setting: Setting, family: str, points, num_steps, rho):
    def one(point):
        scale, product = jnp.exp(point[0]), jnp.exp(point[1])
        shape = point[2] if family == "polynomial" else jnp.exp(point[2])
        rate = schedule(family, product / scale, shape)
        algorithm = jaxdp.OnePassDPSGD(rate, scale, rho, num_steps)
        return jaxdp.predict(setting.stream(_DIM), algorithm, records=1).final_risk

    return jax.vmap(one)(points)


def _shrinking_grid(
    risks: Callable[[Float[np.ndarray, "points 3"]], Float[np.ndarray, " points"]],
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, float]:
    """The best point of grids that shrink around the best one so far, within a box."""
    middle, sides = (low + high) / 2, (high - low) / 2
    risk = np.inf
    for _ in range(_ROUNDS):
        axes = [
            np.clip(centre + side * np.linspace(-1, 1, _SIDE), first, last)
            for centre, side, first, last in zip(middle, sides, low, high, strict=True)
        ]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
        found = risks(points)
        place = np.nanargmin(found)
        middle, risk, sides = points[place], float(found[place]), _KEPT * sides
    return middle, risk
