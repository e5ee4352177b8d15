r"""Plans of noise over the steps: the best strategy for each cell, with its rate and clip norm.

A strategy C is the matrix of noise $C^{-1}Z$ over the steps (`jaxdp.privacy.noise_over_steps`). For
each number of steps and batches, a cell, a plan looks for the strategy, the learning rate and the
clip norm of the least predicted risk. The best strategy depends on rate and clip norm, and they on
it, so they are improved in turns. To first order in the covariance V of the noise over the steps
the predicted risk R changes by $\mathrm{tr}(W\,\mathrm dV)$,

$$ W = \sum_j\Bigl(h_j r_jr_j^\top + \sum_t p_{tj}\,g_{tj}g_{tj}^\top\Bigr), $$

with $r_j$ and $g_{tj}$ the responses of mode j, at the end and before step t, to the noise of each
step; $h_j$ the derivative of R in the final variance of mode j; and $p_{tj}$ that in its variance
before step t as the clipped slopes of this step see it. This price of the noise on the way is
decisive: strategies for the final variance alone have noise that cancels at the end and grows
without limit before it, where clipping spoils the cancellation.

Derived: here; test_correlated_training (the derivative by differences).
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_wide_float, float_dtype, in_types_of
from jaxdp.losses.linear_model import slope_limits
from jaxdp.planning.features.closure_risk import (
    FINE_ROWS,
    MOST_ROWS,
    Draw,
    LinearRisk,
    largest_rate,
    search_bounds,
)
from jaxdp.planning.features.search import Point, best_of_values, is_held_back
from jaxdp.planning.features.strategies import (
    least_noise_strategy,
    rows_of,
    weights_of_strategy,
)
from jaxdp.privacy.noise_over_steps import BandedNoise, ScheduledNoise
from jaxdp.theory.features.closed_moments import Closure
from jaxdp.theory.features.linear_recursion import covariance_of
from jaxdp.theory.features.modes import KernelModes, sum_over_rows
from jaxdp.theory.features.readout import Readout

_MOST_BANDS = 64
# Descent without privacy: momentum, records, and steps between them.
_MOMENTUM, _RECORDS, _BETWEEN = 0.9, 40, 25
# Half sides of the squares in which rate and clip norm are searched, first and last.
_FIRST_SQUARES, _LAST_SQUARES = (0.7, 0.35), (0.35, 0.12)
_FALLS = (0.0, 0.1, 0.7, 1.4)  # logarithms of falls of the rate with which a search starts

_OnRows = tuple[LinearRisk, Draw]  # a risk on some of the rows, with the draw that fits them


class Correlated(NamedTuple):
    """A point of a cell, with the strategy that is best there."""

    point: Point
    strategy: Float[np.ndarray, "steps steps"]

    def noise(self) -> ScheduledNoise | BandedNoise:
        """The noise of the strategy."""
        diagonal = np.diagonal(self.strategy)
        if np.array_equal(self.strategy, np.diag(diagonal)):
            return ScheduledNoise(diagonal**2)
        return BandedNoise(self.strategy)


class CorrelatedSearch:
    """The search of a cell, from an algorithm with independent noise and one in a fixed order."""

    def __init__(self, independent: Any, risk: Any, first, algorithm):
        self.whole, self.whole_draw = risk, Draw.of(algorithm)
        self.num_steps, self.cycle = int(algorithm.num_steps), algorithm.sampler.num_batches
        self.num_bands = min(self.cycle, self.num_steps, _MOST_BANDS)
        self.largest_rate = largest_rate(risk, self.whole_draw)
        (coarse, share), (fine, fine_share) = _fewer(risk, MOST_ROWS), _fewer(risk, FINE_ROWS)
        self.coarse = coarse, Draw.of(algorithm, share)
        self.fine = fine, Draw.of(algorithm, fine_share)
        self.independent = _fewer(independent, MOST_ROWS)[0], Draw.of(first, share)

    def first(self, point: Point, norm: float) -> Correlated | None:
        """A point near the best one with independent noise, at which the prices are taken.

        `norm` is the size of a row's gradient.
        """
        if not self.largest_rate > 0:
            return None
        self.bounds = search_bounds(self.largest_rate, norm)
        return self._round(self.independent, point, self.coarse, _FIRST_SQUARES)

    def improved(self, found: Correlated) -> Correlated:
        """A better point and strategy on more rows, or the same."""
        risk, draw = self.fine
        own = self._with(risk, found.strategy), draw
        other = self._round(own, found.point, self.fine, _LAST_SQUARES)
        same = found._replace(point=self._value(*own, found.point[:2]))
        return same if other is None or other.point.risk >= same.point.risk else other

    def finished(self, found: Correlated, log_rate: float, log_clip_norm: float) -> Correlated:
        """The same strategy at rounded settings, with the risk on all rows."""
        risk = self._with(self.whole, found.strategy)
        return found._replace(point=self._value(risk, self.whole_draw, (log_rate, log_clip_norm)))

    def is_at_limit(self, found: Correlated) -> bool:
        """Whether a slightly larger rate is beyond a limit."""
        risk = self._with(self.whole, found.strategy)
        value = functools.partial(self._value, risk, self.whole_draw)
        return is_held_back(value, found.point, self.bounds["log_rates"])

    def _round(
        self, priced: _OnRows, start: Point, searched: _OnRows, widths: tuple[float, ...]
    ) -> Correlated | None:
        """The best strategy for prices at a point, and the best point near it with the strategy."""
        weights = noise_weights(*priced, start, self.num_steps)
        # One band needs the sizes of the columns alone.
        rows = rows_of(weights) if self.num_bands > 1 else np.sqrt(np.diagonal(weights))[None]
        strategy = least_noise_strategy(rows, self.num_bands, self.cycle)
        value = functools.partial(self._value, self._with(searched[0], strategy), searched[1])
        # A rate may be beyond the limit with other batches.
        starts = [(start.log_rate - fall, start.log_clip_norm) for fall in _FALLS]
        point = best_of_values(value, starts, widths=widths, **self.bounds)
        return None if point is None else Correlated(point, strategy)

    def _with(self, risk: LinearRisk, strategy: np.ndarray) -> LinearRisk:
        return dataclasses.replace(risk, noise=as_wide_float(covariance_of(strategy)))

    def _value(self, risk: LinearRisk, draw: Draw, place) -> Point:
        return risk.point(place, draw, jnp.asarray(self.num_steps))


def _fewer(risk: LinearRisk, most: int) -> tuple[LinearRisk, float]:
    return risk.on_fewer_rows(most) if risk.is_coarse else (risk, 1.0)


def noise_weights(
    risk: LinearRisk, draw: Draw, point: Point, num_steps: int
) -> Float[np.ndarray, "steps steps"]:
    """The derivative W of the predicted risk in the noise's covariance over the steps.

    Prices below zero count as zero, so that W is positive semidefinite.
    """
    place = jnp.asarray(point[:2])
    found = _prices(risk, place, draw, num_steps)
    prices, paces, final, transitions, gradient, injections = (
        np.asarray(part, np.float64) for part in found
    )
    # The last mode is a coordinate that training never sees.
    paces, prices = (np.pad(part, ((0, 0), (0, 1))) for part in (paces, prices))
    moves = np.repeat(transitions[:, None], paces.shape[1], axis=1)
    moves[..., 0] += gradient[:, None] * paces[:, :, None]
    prices, final = np.maximum(prices, 0), np.maximum(final, 0)
    rate, clip_norm = jnp.exp(place)
    output = risk.recursion(rate, clip_norm, draw).output
    return weights_of_strategy(moves, injections, prices, final, output)


@eqx.filter_jit
def _prices(risk: LinearRisk, place: Float[Array, "2"], draw: Draw, num_steps: int):
    """Derivatives of the risk in variances, and the coefficients of all steps."""
    rate, clip_norm = jnp.exp(place)
    recursion = risk.recursion(rate, clip_norm, draw)
    modes, dtype = risk.modes, float_dtype(risk.modes, recursion)
    closure = Closure(modes, slope_limits(clip_norm, modes.feature_norms), 0)
    readout = Readout(closure, recursion.output)
    start = closure.start(dtype, recursion.size, recursion.num_draws)
    updates = jax.vmap(recursion.at)(jnp.arange(num_steps))

    def step(moments, given):
        update, more = given
        weights = moments.leading[0, 0], moments.others[0, 0] + more, moments.unseen[0, 0]
        forces = closure.forces(moments.mean[0], *weights)
        after, _ = closure.step_with(forces, moments, recursion, update)
        return in_types_of(after, moments), forces.others

    def final(more, at_end):
        moments, paces = lax.scan(jax.checkpoint(step), start, (updates, more))
        output = recursion.output
        others = moments.others.at[output, output].add(at_end[:-1])
        unseen = moments.unseen.at[output, output].add(at_end[-1])
        moments = dataclasses.replace(moments, others=others, unseen=unseen)
        value = readout.risk(moments) if risk.criterion == "loss" else readout.errors(moments)
        return value, paces

    count = len(modes.eigenvalues)
    nothing = jnp.zeros((num_steps, count), dtype), jnp.zeros(count + 1, dtype)
    (prices, at_end), paces = jax.grad(final, argnums=(0, 1), has_aux=True)(*nothing)
    return prices, paces, at_end, updates.transition, updates.gradient, updates.noise


def risk_without_privacy(modes: KernelModes, criterion: str) -> float:
    """The least test loss, or share of errors, of descent with momentum on all rows."""
    rate = modes.stability_limit() / 2
    return float(_least_on_the_way(modes, rate, criterion)) if math.isfinite(rate) else 0.0


@eqx.filter_jit
def _least_on_the_way(modes: KernelModes, rate, criterion: str):
    def step(_, state):
        weights, velocity = state
        slopes = modes.loss.slope(modes.train_predictions(weights), modes.train_labels)
        velocity = _MOMENTUM * velocity + sum_over_rows(modes.factor, slopes) / modes.num_train
        return weights - rate * velocity, velocity

    def record(state, _):
        state = lax.fori_loop(0, _BETWEEN, step, state)
        predictions = modes.test_predictions(state[0])
        if criterion == "loss":
            found = modes.loss.value(predictions, modes.test_labels)
        else:
            found = 1 - modes.loss.measures(predictions, modes.test_labels)["accuracy"]
        return state, jnp.mean(found)

    start = jnp.zeros((len(modes.eigenvalues), *modes.outputs), modes.factor.dtype)
    return jnp.min(lax.scan(record, (start, start), None, _RECORDS)[1])
