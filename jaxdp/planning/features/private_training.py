"""Plans of private training on fixed rows: checked cells, and the search over them."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import linear_state_of
from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.core.checks import (
    NotCoveredError,
    described,
    host_number,
    require_callable,
    require_count,
    require_host,
)
from jaxdp.planning.features.closure_risk import (
    FINE_ROWS,
    FIRST_ROWS,
    MOST_ROWS,
    AbstractClosureRisk,
    Draw,
    LinearRisk,
    closure_risk,
    largest_rate,
    search_bounds,
)
from jaxdp.planning.features.correlated_training import (
    Correlated,
    CorrelatedSearch,
    risk_without_privacy,
)
from jaxdp.planning.features.search import (
    Evaluation,
    Point,
    around,
    best_of_values,
    best_point,
    grid,
    is_held_back,
)
from jaxdp.planning.features.training_plan import (
    BANDS,
    INDEPENDENT,
    SCHEDULE,
    Cell,
    TrainingPlan,
    best_cell,
)
from jaxdp.privacy.accounting import cost_of
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.privacy.batches.unamplified import FixedOrder
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP
from jaxdp.privacy.calibration import multiplier_for
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.theory.dispatch import predict
from jaxdp.theory.features.gaussian_closure import ClosureReading, GaussianClosure
from jaxdp.theory.features.mean_path import MeanPath
from jaxdp.theory.features.modes import (
    KernelModes,
    explicit_modes,
    kernel_modes,
)
from jaxdp.theory.features.modewise_closure import ModewiseClosure

_DIGITS = 4
_LIKE_LENGTHS = 4  # a search starts from a cell with up to this factor fewer steps
# Half sides of squares in a cell's first search, after fewer steps, and in the best cells' last.
_FIRST_SQUARES, _LATER_SQUARES, _LAST_SQUARES = (1.0, 0.5), (0.7,), (0.35, 0.12)
_NEAR_SQUARES = (0.35,)  # in a search that starts from the settings for another budget
_FEW_RECORDS = 10
_FALLS, _NEAR_BEST = (0.0, 0.7, 1.4), 1.02
_FIRST_RATE = 5.0  # the largest rate at which a search starts over the limit without clipping
_FALL, _MOST_FALLS = 0.95, 8  # factor by which a rate beyond a limit falls, and most such factors
_MOST_STEPS = 2**31 - 1
_CORRELATED = "correlated"
_A_RATE = 0.1  # placeholder, with which the optimiser is read before the search


class _Found(NamedTuple):
    """The best point of a cell, None if nothing is stable, and whether a limit holds it back."""

    point: Point | None
    is_at_limit: bool


def plan_training(
    problem: AbstractFeatureProblem | Linearised,
    *,
    budget: AbstractBudget,
    num_steps: Any,
    sampling_rate: Any,
    optimiser: Any,
    average: AbstractAverage | None,
    sampler: Any,
    criterion: Any,
    noise: Any = INDEPENDENT,
    near: Cell | None = None,
    has_spread: bool = False,
    told: Callable[[float], None],
) -> TrainingPlan:
    """The plan for fixed rows, as `jaxdp.plan` asks; calls `told` with the share done.

    If `near` is given, the best cell of a plan for a similar budget, the search of the only cell
    starts from its settings. The prediction for several outputs has few records, or if `near` is
    given one; with `has_spread`, it has one and the spread over runs.
    """
    _require_criterion(problem, criterion)
    _require_noise(problem, noise, sampler)
    cells = _drafts(problem, num_steps, sampling_rate, optimiser, average, sampler)
    is_linear = all([_is_linear(problem, draft) for draft in cells.values()])
    if noise == _CORRELATED and not is_linear:
        raise NotCoveredError(
            'noise="correlated" is planned for linear optimisers such as optax.sgd, got Adam'
        )
    lengths = [length for length, _ in cells]
    algorithms = {}
    for place, draft in cells.items():
        multiplier = multiplier_for(budget, draft.sampler, int(draft.num_steps))
        algorithms[place] = draft.replace(noise_multiplier=multiplier)
    searches = 2 if isinstance(problem, Linearised) else 1
    if noise == _CORRELATED:
        searches += 4
    # Steps searched so far and in all, with extra for the best cells and the last prediction.
    done, whole = 0, searches * sum(lengths) + 3 * max(lengths)
    floor = 0.0

    def advance(length: int) -> None:
        nonlocal done
        done += length
        told(min(done / whole, 0.99))

    def planned(modes: KernelModes) -> tuple[tuple[Cell, ...], PrivateOptimiser]:
        parts = list(algorithms.values())
        risks = closure_risk(modes, parts, is_linear=is_linear, criterion=criterion)
        last_rows = FINE_ROWS if noise == _CORRELATED else MOST_ROWS
        if near is None:
            table = _table(dict(zip(cells, risks, strict=True)), algorithms, advance, last_rows)
        else:
            found = _searched(risks[0], parts[0], _point(near), last_rows, _NEAR_SQUARES)
            table = (_cell(parts[0], near.sampling_rate, found, is_polished=True),)
        best = best_cell(table)
        if not math.isfinite(best.risk):
            raise RuntimeError(
                "expected a finite and stable prediction in at least one cell, got none: are the "
                "features or the noise extremely large?"
            )
        chosen = {"learning_rate": best.learning_rate, "clip_norm": best.clip_norm}
        return table, algorithms[best.num_steps, best.sampling_rate].replace(**chosen)

    if isinstance(problem, Linearised):
        # All cells share the mean kernel along the training that the start's kernel chooses.
        _, first = planned(MeanPath().modes(problem))
        table, algorithm = planned(MeanPath().modes(problem, first))
    else:
        modes = (kernel_modes if is_linear else explicit_modes)(problem)
        table, algorithm = planned(modes)
        if noise == _CORRELATED:
            others = _correlated(modes, table, algorithms, budget, criterion, advance)
            table += tuple(others)
            floor = risk_without_privacy(modes, criterion)
            algorithm = others.get(best_cell(table, floor), algorithm)
    # A record of a softmax loss costs as much as several steps, the spread as much as all steps.
    few: dict[str, Any] = {}
    if problem.loss.num_outputs is not None:
        few["records"] = 1 if has_spread or near is not None else _FEW_RECORDS
        if not (has_spread or isinstance(problem, Linearised)):
            few["theory"] = ModewiseClosure(spread_draws=None)
    predicted = predict(problem, algorithm, **few)
    epsilon, delta = (float(number) for number in budget.stated)
    if not isinstance(budget, ApproximateDP):
        epsilon = float(cost_of(algorithm.release(), delta).epsilon)
    return TrainingPlan(algorithm, predicted, table, epsilon, delta, budget, floor)


def _correlated(
    modes: KernelModes,
    table: tuple[Cell, ...],
    algorithms: dict[tuple[int, float], PrivateOptimiser],
    budget: AbstractBudget,
    criterion: str,
    advance: Callable[[int], None],
) -> dict[Cell, PrivateOptimiser]:
    """The best noise over the steps of every cell, in a fixed order of the batches."""
    searches: dict[tuple[int, int], tuple[CorrelatedSearch, PrivateOptimiser]] = {}
    found: dict[tuple[int, int], Correlated] = {}
    for cell in table:
        independent = algorithms[cell.num_steps, cell.sampling_rate]
        sampler = FixedOrder.of_share(modes.num_train, cell.sampling_rate)
        place = cell.num_steps, sampler.num_batches
        if place in searches or not math.isfinite(cell.risk):
            continue
        multiplier = multiplier_for(budget, sampler, cell.num_steps)
        ours = independent.replace(sampler=sampler, noise_multiplier=multiplier)
        risks = closure_risk(modes, [independent, ours], is_linear=True, criterion=criterion)
        search = CorrelatedSearch(risks[0], risks[1], independent, ours)
        first = search.first(_point(cell), _gradient_norm(risks[1]))
        searches[place] = search, ours
        if first is not None:
            found[place] = first
        advance(2 * cell.num_steps)
    # The best of schedules and the best of bands.
    near = [
        min(places, key=lambda place: found[place].point.risk)
        for places in ([p for p in found if (p[1] == 1) == whole] for whole in (True, False))
        if places
    ]
    cells = {}
    for place, one in found.items():
        search, ours = searches[place]
        if place in near:
            one = search.improved(one)
            advance(2 * place[0])
        one = search.finished(one, *(math.log(_shortened(log)) for log in one.point[:2]))
        rate, clip_norm = (_shortened(log) for log in one.point[:2])
        kind = SCHEDULE if place[1] == 1 else BANDS
        cell = _cell(
            ours,
            1 / place[1],
            _Found(one.point, search.is_at_limit(one)),
            is_polished=place in near,
        )
        chosen = {"learning_rate": rate, "clip_norm": clip_norm, "noise": one.noise()}
        cells[cell._replace(noise=kind)] = ours.replace(**chosen)
    return cells


def predicted_roughly(
    problem: AbstractFeatureProblem, algorithm: PrivateOptimiser
) -> Float[np.ndarray, "2"]:
    """Loss and accuracy, for comparing tables of rows: several outputs are taken as independent.

    The errors are nearly the same for similar tables, so that they cancel in differences.
    """
    if problem.loss.num_outputs is None:
        found = predict(problem, algorithm)
        levels = found.final_risk, found.observables.get("accuracy", [math.nan])[-1]
    else:
        risk = closure_risk(kernel_modes(problem), [algorithm], is_linear=True)[0]
        place = jnp.log(jnp.asarray([algorithm.learning_rate, algorithm.clip_norm]))
        steps = jnp.asarray(int(algorithm.num_steps))
        # The search has compiled this program already.
        loss, _, found = risk.value(place, Draw.of(algorithm), steps)
        measures = eqx.filter_jit(problem.loss.expected_measures)(*found, problem.test_labels)
        levels = loss, jnp.mean(measures["accuracy"])
    return np.asarray(levels, np.float64)


def _table(
    risks: dict[tuple[int, float], AbstractClosureRisk],
    algorithms: dict[tuple[int, float], PrivateOptimiser],
    advance: Callable[[int], None],
    last_rows: int,
) -> tuple[Cell, ...]:
    """Every cell with the best learning rate and clip norm found."""
    found: dict[tuple[int, float], _Found] = {}
    # The best point for few steps, found cheaply, is a start for a few times as many.
    for length, rate in sorted(risks):
        earlier = [
            one.point
            for place, one in found.items()
            if place[1] == rate and length <= _LIKE_LENGTHS * place[0]
        ]
        cell = risks[length, rate], algorithms[length, rate]
        found[length, rate] = _searched(*cell, earlier[-1] if earlier else None)
        advance(length)
    is_coarse = any(risk.is_coarse for risk in risks.values())
    known = {place: one.point.risk for place, one in found.items() if one.point is not None}
    near = sorted(known, key=lambda place: known[place])[:2]
    near = [place for place in near if known[place] <= _NEAR_BEST * known[near[0]]]
    if is_coarse:
        for place in near:
            cell = risks[place], algorithms[place]
            found[place] = _searched(*cell, found[place].point, last_rows)
            advance(place[0])
    return tuple(
        _cell(algorithms[place], place[1], found[place], is_polished=place in near or not is_coarse)
        for place in risks
    )


def _searched(
    risk: AbstractClosureRisk,
    algorithm: PrivateOptimiser,
    earlier: Point | None,
    last_rows: int = 0,
    last_squares: tuple[float, ...] = _LAST_SQUARES,
) -> _Found:
    """The best learning rate and clip norm of a cell, searched from an earlier point if any.

    A last search, near the earlier point, is on up to `last_rows` rows in these squares.
    """
    draw, length = Draw.of(algorithm), jnp.asarray(int(algorithm.num_steps))
    largest, first = _rates(risk, draw)
    if not largest > 0:
        return _Found(None, False)
    norm = _gradient_norm(risk)
    bounds = search_bounds(largest, norm)
    starts = grid(rate=first, clip_norm=norm) if earlier is None else around(earlier)
    widths = _FIRST_SQUARES if earlier is None else _LATER_SQUARES
    if risk.is_coarse and earlier is not None:
        # Four times as many steps of a quarter of the length move equally far.
        starts = [(earlier[0] - one, earlier[1] + one - _FALLS[-1]) for one in _FALLS]
    if last_rows and earlier is not None:
        starts, widths = [earlier[:2]], last_squares
    if risk.is_coarse:
        fewer, share = risk.on_fewer_rows(last_rows or FIRST_ROWS)
        value = functools.partial(fewer.point, draw=Draw.of(algorithm, share), num_steps=length)
        best = best_of_values(value, starts, widths=widths, **bounds)
        if last_rows:
            value = functools.partial(risk.point, draw=draw, num_steps=length)
    else:
        evaluate = functools.partial(_evaluation, risk, draw, length)
        best = best_point(evaluate, starts, **bounds)

        def value(place):
            return evaluate(place).point

    if best is None:
        # Nothing near an earlier point is stable.
        none = _Found(None, False)
        return none if earlier is None else _searched(risk, algorithm, None, last_rows)
    return _within_limits(value, best, bounds["log_rates"])


def _within_limits(value: Any, best: Point, log_rates: tuple[float, float]) -> _Found:
    """The point with rounded settings, at a smaller rate if it is not stable."""
    place = math.log(_shortened(best.log_rate)), math.log(_shortened(best.log_clip_norm))
    found = value(place)
    for _ in range(_MOST_FALLS):
        # On all rows, or rounded, a point at the limit may be beyond it.
        if not found.is_stable:
            found = value((math.log(_shortened(found.log_rate + math.log(_FALL))), place[1]))
    return _Found(found, is_held_back(value, found, log_rates))


def _rates(risk: AbstractClosureRisk, draw: Draw) -> tuple[float, float]:
    """The largest learning rate of a search, and the largest one with which it starts."""
    if isinstance(risk, LinearRisk):
        largest = largest_rate(risk, draw)
        return largest, min(1, _FIRST_RATE / risk.beyond) * largest
    # Adam's rate is the length of a step: a step need not exceed the whole distance.
    modes = risk.modes
    width = float(jnp.sqrt(jnp.mean(modes.feature_norms**2) * modes.factor.shape[1]))
    way = float(jnp.sqrt(jnp.mean(modes.train_labels**2))) / max(width, 1e-30)
    return (4 * way, 4 * way) if way > 0 else (1.0, 1.0)


def _gradient_norm(risk: AbstractClosureRisk) -> float:
    """The median norm of a row's gradient at the start, or 1 if that is zero."""
    modes = risk.modes
    start = modes.train_start
    start = jnp.zeros((modes.num_train, *modes.outputs)) if start is None else start
    slopes = modes.loss.slope(start, modes.train_labels)
    sizes = jnp.sqrt(jnp.sum(slopes.reshape(modes.num_train, -1) ** 2, axis=1))
    norm = float(jnp.median(sizes * modes.feature_norms))
    return norm if norm > 0 else 1.0


def _evaluation(risk: AbstractClosureRisk, draw, length, place) -> Evaluation:
    value, gradient, is_stable = risk.value_and_gradient(jnp.asarray(place), draw, length)
    return Evaluation(
        Point(place[0], place[1], float(value), bool(is_stable)), np.asarray(gradient, float)
    )


def _point(cell: Cell) -> Point:
    return Point(math.log(cell.learning_rate), math.log(cell.clip_norm), cell.risk, True)


def _shortened(logarithm: float) -> float:
    return float(f"{math.exp(logarithm):.{_DIGITS}g}")


def _cell(
    algorithm: PrivateOptimiser, sampling_rate: float, found: _Found, *, is_polished: bool
) -> Cell:
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
        is_at_limit=found.is_at_limit,
        is_polished=is_polished,
    )


def _drafts(
    problem, num_steps, sampling_rate, optimiser, average, sampler
) -> dict[tuple[int, float], PrivateOptimiser]:
    """A checked algorithm for each cell, with placeholders for rate, clip norm and noise."""
    require_host("problem", problem)
    lengths = [_length(one) for one in _listed("num_steps", num_steps)]
    rates = [_rate(one) for one in _listed("sampling_rate", sampling_rate)]
    # Two rates may round to one batch size.
    samplers = dict(_sampler(sampler, problem.num_train, rate) for rate in rates)
    expected = "a factory, which makes a transformation of a learning rate, such as optax.sgd"
    require_callable("optimiser", optimiser, expected)
    return {
        (length, share): PrivateOptimiser(
            optimiser,
            learning_rate=_A_RATE,
            clip_norm=1.0,
            noise_multiplier=1.0,
            num_steps=length,
            sampler=one,
            average=average,
        )
        for length in lengths
        for share, one in samplers.items()
    }


def _is_linear(problem: AbstractFeatureProblem | Linearised, draft: PrivateOptimiser) -> bool:
    """Whether the closure covers the optimiser as linear, else as Adam; or NotCoveredError."""
    theory = MeanPath() if isinstance(problem, Linearised) else GaussianClosure()
    try:
        reading = theory.read(problem, draft)
    except NotCoveredError as error:
        raise NotCoveredError(f"a plan asks {type(theory).__name__}: {error}") from None
    adam = reading.adam if isinstance(reading, ClosureReading) else None
    if adam is None:
        _require_use_of_the_rate(draft)
        return True
    if not np.allclose(adam.learning_rate, _A_RATE):
        raise NotCoveredError(
            "Adam is planned with one learning rate for all steps: expected a factory such as "
            "optax.adam, got one that changes the given rate"
        )
    return False


def _require_criterion(problem: AbstractFeatureProblem | Linearised, criterion: Any) -> None:
    """Raise unless criterion is "loss", or "accuracy" for a loss of classes."""
    if criterion not in ("loss", "accuracy"):
        raise ValueError(f'expected criterion "loss" or "accuracy", got {described(criterion)}')
    if criterion == "accuracy" and problem.loss.class_labels is None:
        came = type(problem.loss).__name__
        raise ValueError(f'expected a loss of classes for criterion "accuracy", got {came}')


def _require_noise(problem: Any, noise: Any, sampler: Any) -> None:
    """Raise unless noise is "independent", or "correlated" for features on fixed rows."""
    if noise not in (INDEPENDENT, _CORRELATED):
        raise ValueError(f'expected noise "independent" or "correlated", got {described(noise)}')
    if noise == INDEPENDENT:
        return
    if isinstance(problem, Linearised):
        raise NotCoveredError('noise="correlated" is planned for features on fixed rows only')
    if sampler is not PoissonSampler:
        raise ValueError(
            'expected no sampler with noise="correlated", which compares Poisson batches with '
            f"batches in a fixed order, got {described(sampler)}"
        )


def _require_use_of_the_rate(draft: PrivateOptimiser) -> None:
    one, other = (linear_state_of(draft.replace(learning_rate=k * _A_RATE)) for k in (1, 2))
    if np.array_equal(one.injections, other.injections):
        raise ValueError(
            "expected an optimiser that uses the learning rate that it is given, such as "
            "optax.sgd, got one whose steps do not depend on it"
        )


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    """One number or several, without repetitions."""
    try:
        if isinstance(value, (str, bytes, dict)):
            raise TypeError
        values = tuple(dict.fromkeys(value)) if np.ndim(value) else (value,)
    except TypeError:
        came = described(value)
        raise TypeError(f"expected {name} to be a number or a tuple of them, got {came}") from None
    if not values:
        raise ValueError(f"expected at least one {name}, got none")
    return values


def _length(value: Any) -> int:
    length = require_count("num_steps", value)
    if length > _MOST_STEPS:
        raise ValueError(f"expected num_steps <= {_MOST_STEPS}, got {length}")
    return length


def _rate(value: Any) -> float:
    rate = host_number("sampling_rate", value)
    if not 0 < rate <= 1:
        raise ValueError(f"expected 0 < sampling_rate <= 1, got {value}")
    return rate


def _sampler(kind: Any, num_records: int, rate: float) -> tuple[float, AbstractSampler]:
    """The share of the rows in a batch, and the sampler nearest to a rate."""
    is_class = isinstance(kind, type) and issubclass(kind, AbstractSampler)
    if is_class and not inspect.isabstract(kind):
        sampler = kind.of_share(num_records, rate)
        share = sampler.expected_batch_size / num_records
        # Samplers round rates to multiples of 2^-32, which a table need not show.
        return rate if abs(share - rate) < 2.0**-32 else share, sampler
    raise TypeError(
        "expected sampler to be a class of jaxdp.privacy: PoissonSampler, ShuffledEpochs or "
        f"FixedSizeBatches, got {described(kind)}"
    )
