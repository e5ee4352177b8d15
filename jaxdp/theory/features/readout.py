r"""Errors of training and test rows, from the moments of the Gaussian closure.

Test predictions are normal with means $M\mu$ and covariance $G = MSM^\top + s\,NN^\top$: N belongs
to the coordinates that training never sees, which share one variance s.

**Spread.** With $b = M^\top(M\mu - y)/m$, $H = M^\top M/m$, normal coordinates would give the test
error the variance $4b^\top Sb + 2\,\mathrm{tr}(HSHS)$ (`SquaredForm`). But a run with more noise
clips more, and so forgets less. The variance is also the sum of the contributions of each step's
draws,

$$ \sum_t p_t^\top Q_tp_t + 4\,\mathrm{tr}(P_tQ_tP_tS'_t) + 2\,\mathrm{tr}(P_tQ_tP_tQ_t), $$

where $Q_t$ is the covariance that step t injects, $S'_t$ the one before it, and $p_t$, $P_t$ the
derivatives of the final mean test error in mean and covariance after the step, by reverse
differentiation through the closure. Without clipping the sum telescopes to the first formula.
Derived: here; test_everyday (against stored numbers) and test_everyday_agreement (against simulated
runs).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.core.arrays import in_types_of
from jaxdp.core.numerics.batching import cholesky
from jaxdp.core.numerics.precision import product, safe_sqrt
from jaxdp.theory.features.closed_moments import Closure, Moments, variances_of
from jaxdp.theory.features.linear_recursion import LinearRecursion
from jaxdp.theory.features.modes import sum_over_rows

# Fractions of the steps at which the spread is computed.
_PLACES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


class Readout(eqx.Module):
    """The released weights' errors, as functions of the moments."""

    closure: Closure
    output: int = eqx.field(static=True)  # index of the released number of a coordinate

    def test_predictions(self, moments: Moments):
        modes, rank = self.closure.modes, self.closure.rank
        factor = modes.test_factor
        mean, leading, others, unseen = self.released(moments)
        spread = variances_of(factor[:, :rank], leading) + product(factor[:, rank:] ** 2, others)
        # Rounding may leave a small variance negative.
        spread = jnp.maximum(spread, 0) + unseen * modes.unseen_norms
        return modes.test_predictions(mean), spread

    def train_predictions(self, moments: Moments):
        mean, *spread = self.released(moments)
        return self.closure.modes.train_predictions(mean), self.closure.train_variance(*spread)

    def risk(self, moments: Moments) -> Float[Array, ""]:
        modes = self.closure.modes
        found = self.test_predictions(moments)
        return jnp.mean(modes.loss.expected_value(*found, modes.test_labels))

    def errors(self, moments: Moments) -> Float[Array, ""]:
        """The expected share of misclassified test rows."""
        modes = self.closure.modes
        found = self.test_predictions(moments)
        right = modes.loss.expected_measures(*found, modes.test_labels)["accuracy"]
        return 1 - jnp.mean(right)

    def observables(self, moments: Moments) -> dict[str, Float[Array, ""]]:
        """Training risk and the loss's other measures; for squares also bias and variance."""
        modes = self.closure.modes
        train = self.train_predictions(moments)
        test = self.test_predictions(moments)
        found = {"train_risk": jnp.mean(modes.loss.expected_value(*train, modes.train_labels))}
        for prefix, rows, labels in (
            ("", test, modes.test_labels),
            ("train_", train, modes.train_labels),
        ):
            measures = modes.loss.expected_measures(*rows, labels)
            found |= {f"{prefix}{name}": jnp.mean(each) for name, each in measures.items()}
        if modes.is_square:
            mean, spread = test
            found["bias"] = jnp.mean(modes.loss.value(mean, modes.test_labels))
            found["variance"] = modes.loss.curvature_bound / 2 * jnp.mean(spread)
        return found

    def released(self, moments: Moments):
        """Mean, covariances, variances and unseen variance of the released weights."""
        place = self.output
        return (
            moments.mean[place],
            moments.leading[place, place],
            moments.others[place, place],
            moments.unseen[place, place],
        )


class SquaredForm(eqx.Module):
    r"""The variance of squared test errors, $4b^\top Gb/m^2 + 2|G|^2/m^2$ with $b = M\mu - y$."""

    readout: Readout
    form: Float[Array, "modes modes"]  # $M^\top M/m$
    crossed: Float[Array, "modes modes"]  # $M^\top NN^\top M/m^2$
    unseen: Float[Array, ""]  # $|NN^\top|^2/m^2$

    def __init__(self, readout: Readout):
        modes = readout.closure.modes
        factor, unseen_factor = modes.test_factor, modes.unseen_factor
        rows = factor.shape[0]
        seen = product(factor.T, unseen_factor)
        self.readout = readout
        self.form = product(factor.T, factor) / rows
        self.crossed = product(seen, seen.T) / rows**2
        self.unseen = jnp.sum(product(unseen_factor.T, unseen_factor) ** 2) / rows**2

    def variances(self, moments: Moments) -> dict[str, Float[Array, ""]]:
        """The variance over runs of "risk", the mean squared error of the test rows."""
        closure = self.readout.closure
        modes, rank = closure.modes, closure.rank
        factor, rows = modes.test_factor, modes.test_labels.shape[0]
        mean, leading, others, unseen = self.readout.released(moments)
        residual = modes.test_predictions(mean) - modes.test_labels
        pull = sum_over_rows(factor, residual) / rows
        away = sum_over_rows(modes.unseen_factor, residual) / rows
        linear = product(pull[:rank], product(leading, pull[:rank]))
        linear += product(pull[rank:] ** 2, others) + unseen * jnp.sum(away**2)
        own = product(self.form[:rank, :rank], leading)
        between = self.form[:rank, rank:]
        squares = jnp.sum(own * own.T)
        squares += 2 * jnp.sum(product(between * others[None], between.T) * leading)
        squares += product(others, product(self.form[rank:, rank:] ** 2, others))
        squares += 2 * unseen * jnp.sum(self.crossed[:rank, :rank] * leading)
        squares += 2 * unseen * product(jnp.diagonal(self.crossed)[rank:], others)
        squares += unseen**2 * self.unseen
        # So far in units of (f - y)^2.
        return {"risk": (4 * linear + 2 * squares) * (modes.loss.curvature_bound / 2) ** 2}


class DrawnSpread(eqx.Module):
    r"""The variances over runs of a test loss other than squared, and of the accuracy.

    Weights are normal with the closure's moments. The part linear in their deviation from the mean
    has the variance $p^\top Sp$, with p the derivative of the expected measure in the mean weights.
    The rest, uncorrelated with it in Hermite's series, is sampled by a fixed Latin hypercube: each
    coordinate takes every quantile once, in random order. The rest has heavy tails, and independent
    draws put the standard deviation of the loss 2 to 7 % off (root mean square over seeds), the
    hypercube 1 to 2 %. Derived: here; test_everyday_agreement.
    """

    readout: Readout
    draws: Float[Array, "draws coordinates"]  # standard normal; unseen coordinates are last

    def __init__(self, readout: Readout, num_draws: int = 256):
        modes = readout.closure.modes
        width = modes.test_factor.shape[1] + modes.unseen_factor.shape[1]
        normals = fixed_normals(num_draws, width)
        self.readout, self.draws = readout, jnp.asarray(normals, modes.test_factor.dtype)

    def variances(self, moments: Moments) -> dict[str, Float[Array, ""]]:
        """Variances over runs of "risk" and of the loss's other measures, by name."""
        modes, rank = self.readout.closure.modes, self.readout.closure.rank
        _, leading, others, unseen = self.readout.released(moments)
        centre, spread = self.readout.test_predictions(moments)
        # Keeps derivatives finite at zero variance.
        floor = jnp.finfo(centre.dtype).eps ** 0.75

        def expected(centre):
            rows = centre, spread + floor, modes.test_labels
            values = {"risk": modes.loss.expected_value(*rows)}
            values |= modes.loss.expected_measures(*rows)
            return {name: jnp.mean(each) for name, each in values.items()}

        slopes = jax.jacrev(expected)(centre)
        seen = {name: sum_over_rows(modes.test_factor, one) for name, one in slopes.items()}
        away = {name: sum_over_rows(modes.unseen_factor, one) for name, one in slopes.items()}
        steps, beyond = self._steps(leading, others, unseen)
        logits = centre + product(steps, modes.test_factor.T)
        logits = logits + product(beyond, modes.unseen_factor.T)
        drawn = {"risk": modes.loss.value(logits, modes.test_labels)}
        drawn |= modes.loss.measures(logits, modes.test_labels)
        found = {}
        for name, values in drawn.items():
            pull = seen[name]
            linear = product(pull[:rank], product(leading, pull[:rank]))
            linear += product(pull[rank:] ** 2, others) + unseen * jnp.sum(away[name] ** 2)
            rest = jnp.mean(values, axis=1) - product(steps, pull) - product(beyond, away[name])
            found[name] = jnp.maximum(linear, 0) + jnp.var(rest, ddof=1)
        return found

    def _steps(self, leading, others, unseen):
        """Drawn deviations of the weights from their mean, in seen and in unseen coordinates."""
        rank, width = len(leading), len(leading) + len(others)
        floor = jnp.finfo(leading.dtype).eps * (jnp.trace(leading) + 1e-30)
        # LAPACK refuses empty matrices.
        root = cholesky(leading + floor * jnp.eye(rank, dtype=leading.dtype)) if rank else leading
        stds = jnp.sqrt(jnp.maximum(others, 0))
        parts = product(self.draws[:, :rank], root.T), self.draws[:, rank:width] * stds
        beyond = self.draws[:, width:] * jnp.sqrt(jnp.maximum(unseen, 0))
        return jnp.concatenate(parts, axis=1), beyond


def fixed_normals(count: int, width: int) -> Float[np.ndarray, "draws width"]:
    """Standard normal vectors of a fixed seed: a Latin hypercube of quantiles."""
    ranks = np.argsort(np.random.default_rng(0).random((count, width)), axis=0)
    quantiles = scipy.special.ndtri((np.arange(count) + 0.5) / count)
    return (quantiles / np.sqrt(np.mean(quantiles**2)))[ranks]


def spread_places(at_record: np.ndarray) -> np.ndarray:
    """The records, as numbers of steps, at which the spread over runs is computed."""
    wanted = at_record[-1] * np.asarray(_PLACES)
    found = np.unique(at_record[np.abs(at_record[None] - wanted[:, None]).argmin(axis=1)])
    return found[found > 0]


def all_states(
    step: Callable[[Any, Int[Array, ""]], Any], start: PyTree[Array], num_steps: int
) -> PyTree[Array]:
    """The states before the first step and after each of a known number of steps."""

    def forward(state, index):
        new = in_types_of(step(state, index), state)
        return new, new

    _, afters = lax.scan(forward, start, jnp.arange(num_steps))
    return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), start, afters)


def spread_over_runs(
    closure: Closure,
    recursion: LinearRecursion,
    states: Moments,
    readout: Readout,
    at_record: Int[Array, " records"],
    places: Int[Array, " places"],
) -> Float[Array, " records"]:
    """The standard deviation of the test error over runs, with the feedback of clipping.

    The Gaussian's variance plus the feedback's sum over the steps minus the same sum without
    feedback; their ratio is interpolated between `places`.
    """
    variance = jax.vmap(SquaredForm(readout).variances)(moments_at(states, at_record))["risk"]
    added = _feedback(closure, recursion, readout, states, places)
    plain = variance[jnp.searchsorted(at_record, places)]
    ratio = jnp.where(plain > 0, 1 + added / jnp.where(plain > 0, plain, 1), 1)
    dtype = variance.dtype
    steps = jnp.concatenate([jnp.zeros(1, dtype), places.astype(dtype)])
    ratio = jnp.concatenate([jnp.ones(1, dtype), ratio])
    ratio = jnp.interp(at_record.astype(dtype), steps, ratio)
    return safe_sqrt(variance * ratio)


def moments_at(states: Moments, counts: Int[Array, "*shape"]) -> Moments:
    return jax.tree.map(lambda part: part[counts], states)


def _feedback(closure, recursion, readout: Readout, states: Moments, places):
    """The sum over the steps minus the same sum without feedback, at each place."""

    ends, num_steps = moments_at(states, places), len(states.clipped) - 1
    # Derivatives of the risk in the moments, which have the shapes of moments.
    begun = _symmetric(jax.vmap(jax.grad(readout.risk))(ends))
    without = jax.vmap(lambda slope, end: _variance(slope, end, None))(begun, ends)

    def back(carry, part):
        slope, total = carry
        index, before = part

        def begin(old, new):
            return jnp.where((places == index + 1).reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        slope = jax.tree.map(begin, slope, begun)
        after, pull, noise = jax.vjp(
            lambda at: closure.step_with(closure.forces_at(at), at, recursion, recursion.at(index)),
            before,
            has_aux=True,
        )
        found = jax.tree.map(jnp.subtract, after, noise)
        total += jax.vmap(lambda one: _variance(one, noise, found))(slope)
        return (_symmetric(jax.vmap(lambda one: pull(one)[0])(slope)), total), None

    nothing = jax.tree.map(jnp.zeros_like, begun)
    befores = jax.tree.map(lambda part: part[:-1], states)
    start = nothing, jnp.zeros_like(without)
    (_, total), _ = lax.scan(back, start, (jnp.arange(num_steps), befores), reverse=True)
    return total - without


def _symmetric(slope: Moments) -> Moments:
    """The slopes symmetrised in the two sides of the covariances."""
    turned = jnp.swapaxes(jnp.swapaxes(slope.leading, -4, -3), -2, -1)
    others = (slope.others + jnp.swapaxes(slope.others, -3, -2)) / 2
    return dataclasses.replace(slope, leading=(slope.leading + turned) / 2, others=others)


def _variance(slope: Moments, noise: Moments, found: Moments | None) -> Float[Array, ""]:
    """The variance that noise adds to a number with these derivatives, on top of `found`."""
    there = jax.tree.map(jnp.zeros_like, noise) if found is None else found
    rank = noise.leading.shape[-1]
    size = noise.others.shape[0]
    mean = slope.mean.reshape(*slope.mean.shape[:2])
    # Leading modes: all their numbers as one vector.
    leading, added, others = (
        jnp.swapaxes(part, 1, 2).reshape(size * rank, size * rank)
        for part in (slope.leading, noise.leading, there.leading)
    )
    first = mean[:, :rank].reshape(size * rank)
    linear = jnp.sum(first * product(added, first))
    turned = product(leading, added)
    squares = jnp.sum(turned * product(leading, 2 * others + added).T)
    # Others: one small matrix a mode.
    first = mean[:, rank:]
    linear += jnp.einsum("aj,abj,bj->", first, noise.others, first, precision=Precision.HIGHEST)
    turned = _small(slope.others, noise.others)
    rest = _small(slope.others, 2 * there.others + noise.others)
    squares += jnp.sum(turned * jnp.swapaxes(rest, 0, 1))
    return linear + 2 * squares


def _small(left, right):
    return jnp.einsum("abj,bcj->acj", left, right, precision=Precision.HIGHEST)
