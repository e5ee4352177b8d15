"""Plans of private training on features of fixed rows.

A plan compares pairs of a number of steps and a sampling rate, called cells, and chooses the best
one. The noise multiplier of a cell follows from the budget by the exact account, on the host and
outside of every gradient. Learning rate and clip norm are free of cost, and are searched for by
gradients through the closure.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.checks import host_number
from jaxdp.planning.features.closure_risk import (
    AbstractClosureRisk,
    Draw,
    LinearRisk,
    StableRates,
    closure_risk,
    stable_rates,
)
from jaxdp.planning.features.drafts import drafts, is_covered_as_linear
from jaxdp.planning.features.search import Evaluation, Point, around, best_point, grid
from jaxdp.planning.features.training_plan import Cell, TrainingPlan
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.calibration import calibrated_noise_multiplier
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.dispatch import predict

# How far below the grid a rate may go, and the clip norms around a gradient's, as factors.
_LEAST_RATE, _CLIP_NORMS = 1e-6, (1e-5, 1e2)
# With fewer clipped rows the draw of the batches is not held back; with a margin to the status's.
_LITTLE_CLIPPED = 0.55
_DIGITS = 4
# Up to how many times as many steps what was found for fewer is where a search starts.
_LIKE_LENGTHS = 4
# From which share of the largest rate on a plan says that it was held back.
_NEAR = 0.99


class _Found(NamedTuple):
    """The best point of a cell, None where nothing is stable, and the largest rate to be tried."""

    point: Point | None
    largest_rate: float


def plan_training(
    problem: AbstractFeatureProblem,
    *,
    epsilon: Any,
    delta: Any,
    num_steps: Any,
    sampling_rate: Any,
    optimiser: Any,
    average: AbstractAverage | None,
    sampler: Any,
) -> TrainingPlan:
    """The plan for features on fixed rows, with the arguments of `jaxdp.plan`."""
    check_budget(epsilon, delta)
    epsilon, delta = host_number("epsilon", epsilon), host_number("delta", delta)
    cells = drafts(
        problem,
        num_steps=num_steps,
        sampling_rate=sampling_rate,
        optimiser=optimiser,
        average=average,
        sampler=sampler,
    )
    is_linear = all([is_covered_as_linear(problem, draft) for draft in cells.values()])
    algorithms = {place: _calibrated(draft, epsilon, delta) for place, draft in cells.items()}
    risks = closure_risk(problem, list(algorithms.values()), is_linear=is_linear)
    found: dict[Any, _Found] = {}
    # Few steps cost little, and what is best for them is a start for a few times as many.
    for (length, rate), risk in sorted(zip(cells, risks, strict=True), key=lambda one: one[0]):
        earlier = [
            found[place].point
            for place in found
            if place[1] == rate and length <= _LIKE_LENGTHS * place[0]
        ]
        algorithm = algorithms[length, rate]
        found[length, rate] = _searched(risk, algorithm, earlier[-1] if earlier else None)
    table = tuple(_cell(algorithms[place], place[1], found[place]) for place in cells)
    best = min(table, key=lambda cell: cell.risk)
    if not math.isfinite(best.risk):
        raise RuntimeError(
            "expected a finite and stable prediction in at least one cell, got none: are the "
            "features or the noise extremely large?"
        )
    algorithm = algorithms[best.num_steps, best.sampling_rate].replace(
        learning_rate=best.learning_rate, clip_norm=best.clip_norm
    )
    return TrainingPlan(algorithm, predict(problem, algorithm), table, epsilon, delta)


def _calibrated(draft: PrivateOptimiser, epsilon: float, delta: float) -> PrivateOptimiser:
    multiplier = calibrated_noise_multiplier(
        epsilon, delta, sampler=draft.sampler, num_steps=int(draft.num_steps)
    )
    return draft.replace(noise_multiplier=multiplier)


def _searched(
    risk: AbstractClosureRisk, algorithm: PrivateOptimiser, earlier: Point | None
) -> _Found:
    """The best learning rate and clip norm of a cell.

    Args:
        risk: predicts it.
        algorithm: with the cell's noise, batches and number of steps.
        earlier: what was found for fewer steps, to start from.
    """
    draw, length = Draw.of(algorithm), jnp.asarray(int(algorithm.num_steps))
    limits = _limits(risk, draw)
    largest = max(limits)
    if not largest > 0:
        return _Found(None, 0.0)
    norm = _gradient_norm(risk)
    starts = grid(rate=largest, clip_norm=norm) if earlier is None else around(earlier)
    evaluate = _evaluation(risk, draw, length, limits)
    low, high = (math.log(factor * norm) for factor in _CLIP_NORMS)
    lowest = math.log(_LEAST_RATE * largest)

    def within(highest: float, starts: list[tuple[float, float]]) -> Point | None:
        rates = lowest, math.log(highest)
        return best_point(evaluate, starts, log_rates=rates, log_clip_norms=(low, high))

    best = within(largest, starts)
    if 0 < limits.unclipped < largest and (
        best is None or best.log_rate > math.log(0.9 * limits.unclipped)
    ):
        # What holds a larger rate back is clipping; without it there may be a better one.
        other = within(limits.unclipped, starts if best is None else around(best))
        best = min((one for one in (best, other) if one), key=lambda one: one.risk, default=None)
    return _Found(None if best is None else _rounded(best, evaluate), largest)


def _limits(risk: AbstractClosureRisk, draw: Draw) -> StableRates:
    if isinstance(risk, LinearRisk):
        return stable_rates(risk, draw)
    # Adam's rate is the length of a step: those that cross in one step the way to go are useless.
    modes = risk.modes
    width = float(jnp.sqrt(jnp.mean(modes.feature_norms**2) * modes.factor.shape[1]))
    way = float(jnp.sqrt(jnp.mean(modes.train_labels**2))) / max(width, 1e-30)
    return StableRates(4 * way, 4 * way) if way > 0 else StableRates(1.0, 1.0)


def _gradient_norm(risk: AbstractClosureRisk) -> float:
    """The median norm of a row's gradient at the start, or 1 where it is zero."""
    modes = risk.modes
    start = jnp.zeros((modes.num_train, *modes.outputs))
    slopes = modes.loss.slope(start, modes.train_labels)
    sizes = jnp.sqrt(jnp.sum(slopes.reshape(modes.num_train, -1) ** 2, axis=1))
    norm = float(jnp.median(sizes * modes.feature_norms))
    return norm if norm > 0 else 1.0


def _evaluation(
    risk: AbstractClosureRisk, draw: Draw, length: Any, limits: StableRates
) -> Callable[[float, float], Evaluation]:
    def evaluate(log_rate: float, log_clip_norm: float) -> Evaluation:
        place = jnp.asarray([log_rate, log_clip_norm])
        value, gradient, clipped = risk.value_and_gradient(place, draw, length)
        rate, share = math.exp(log_rate), float(clipped)
        is_stable = rate <= limits.unclipped * (1 + 1e-6)
        is_stable |= rate <= limits.clipped * (1 + 1e-6) and share > _LITTLE_CLIPPED
        point = Point(log_rate, log_clip_norm, float(value), is_stable)
        return Evaluation(point, np.asarray(gradient, np.float64))

    return evaluate


def _rounded(best: Point, evaluate: Callable[[float, float], Evaluation]) -> Point:
    """The point at numbers of few digits, which a plan can be copied with."""
    return evaluate(*(math.log(_shortened(one)) for one in best[:2])).point


def _shortened(logarithm: float) -> float:
    return float(f"{math.exp(logarithm):.{_DIGITS}g}")


def _cell(algorithm: PrivateOptimiser, sampling_rate: float, found: _Found) -> Cell:
    point = found.point
    rate, clip_norm = (math.nan, math.nan) if point is None else map(_shortened, point[:2])
    return Cell(
        num_steps=int(algorithm.num_steps),
        sampling_rate=sampling_rate,
        learning_rate=rate,
        clip_norm=clip_norm,
        noise_multiplier=algorithm.noise_multiplier,
        risk=math.inf if point is None else point.risk,
        adjacency=algorithm.sampler.adjacency,
        is_at_limit=rate > _NEAR * found.largest_rate,
    )
