"""Forecasts: the accuracy, loss and leak of private training, from public stand-in rows alone."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.core.checks import NotCoveredError, require_count, require_kind
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.progress import listening_where_seen
from jaxdp.core.trajectory import Trajectory
from jaxdp.planning.features.private_training import plan_training, predicted_roughly
from jaxdp.planning.features.training_plan import LOOKED_AT, TrainingPlan
from jaxdp.privacy.accounting import cost_of
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP, budget_of, warn_of_budget
from jaxdp.problems.rows.fixed_features import FixedFeatures
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.theory.dispatch import predict

if TYPE_CHECKING:
    from jaxdp.attacks import PredictedMembership

_Rows = FixedFeatures | Linearised
_SPLITS, _SEED = 4, 2026  # number of new splits of the public rows, and their fixed seed
# Reduction of contrast, added standard deviation, share of rows kept of every second class.
_DIMMED, _NOISY, _KEPT = 0.2, 0.2, 0.5
_WIDTH = 1.645  # standard deviations to either side of 90 % of a normal distribution
_BUDGETS, _SIZES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 2.0)  # curve, over the forecast's
_OF_PLAN, _OF_CURVE = 0.4, 0.35  # shares of the plan and of the curve in the progress bar
_UNLIKE = (
    "the caller marks the stand-ins as unlike the private rows: settings transfer from them, "
    "accuracy and loss do not, so none is given"
)
_ALIKE = (
    "accuracy and loss hold as far as the stand-ins are like the private rows; the interval covers "
    "single runs and nine in ten disturbances like those that it was measured with"
)
_OF_TANGENTS = (
    "a network is predicted by its tangent features; in trials the loss was 2 to 15 % too high and "
    "the accuracy up to 0.015 too low, which the interval does not include"
)


class Level(NamedTuple):
    """An expected accuracy or loss: mean over runs, and interval of nine runs in ten."""

    mean: float
    low: float
    high: float
    std: float | None = None  # over runs on one table, if known


class CurvePoint(NamedTuple):
    """The best predicted test loss and accuracy (None without classes) of one budget and size."""

    epsilon: float
    num_samples: int
    loss: float
    accuracy: float | None


class Forecast(AbstractExplained, eqx.Module):
    """The expected result of private training, and its settings, as `jaxdp.forecast` found them.

    Attributes:
        plan: settings, planned on the stand-ins.
        num_samples: number n of rows of the private table.
        stand_in: "alike" or "unlike", as the caller says.
        loss, accuracy: expected levels; None for unlike stand-ins, and no accuracy for losses
            without classes.
        curve: predictions for other budgets, each with its own learning rate and clip norm, and for
            other sizes, interpolated between budgets of equal noise.
        leak: success of the best membership test by someone who knows all other records, for the
            record found most easily; None if `predicted_membership` does not cover the optimiser.

    Example:
        >>> import jax, jaxdp
        >>> x = jax.random.normal(jax.random.key(0), (120, 4))
        >>> public = jaxdp.FixedFeatures.from_arrays(x[:80], x[:80, 0], x[80:], x[80:, 0])
        >>> budget = {"epsilon": 2.0, "delta": 1e-5, "num_steps": 8, "sampling_rate": 0.2}
        >>> found = jaxdp.forecast(public, num_samples=80, **budget)
        >>> found.loss.low < found.loss.mean < found.loss.high
        True
    """

    plan: TrainingPlan
    num_samples: int = eqx.field(static=True)
    stand_in: str = eqx.field(static=True)
    loss: Level | None
    accuracy: Level | None
    curve: tuple[CurvePoint, ...]
    leak: "PredictedMembership | None"

    @property
    def over_epsilon(self) -> tuple[CurvePoint, ...]:
        """The points of the curve with this number of rows, by rising budget."""
        return tuple(one for one in self.curve if one.num_samples == self.num_samples)

    @property
    def over_samples(self) -> tuple[CurvePoint, ...]:
        """The points of the curve with this budget: sizes change only the noise on the mean."""
        same = [one for one in self.curve if one.epsilon == self.plan.epsilon]
        return tuple(sorted(same, key=lambda one: one.num_samples))

    @property
    def rows_worth(self) -> float:
        """The epsilon at which n rows have as little noise as 2n rows have at this budget."""
        algorithm = self.plan.algorithm
        halved = algorithm.replace(noise_multiplier=algorithm.noise_multiplier / 2)
        return float(cost_of(halved.release(), self.plan.delta).epsilon)

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain types for JSON."""
        chosen = self.plan.chosen
        return {
            "num_samples": self.num_samples,
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "adjacency": self.plan.adjacency,
            "stand_in": self.stand_in,
            "loss": None if self.loss is None else self.loss._asdict(),
            "accuracy": None if self.accuracy is None else self.accuracy._asdict(),
            "plan": {
                "num_steps": chosen.num_steps,
                "sampling_rate": chosen.sampling_rate,
                "learning_rate": chosen.learning_rate,
                "clip_norm": chosen.clip_norm,
                "noise_multiplier": float(chosen.noise_multiplier),
            },
            "curve": [one._asdict() for one in self.curve],
            "leak": None if self.leak is None else {"auc": self.leak.auc, "bound": self.leak.bound},
        }

    def _explanation(self):
        plan, chosen = self.plan, self.plan.chosen
        levels = [
            Row(name, f"{level.mean:.4g}", f"nine runs in ten: {level.low:.4g} to {level.high:.4g}")
            for name, level in (("accuracy", self.accuracy), ("loss", self.loss))
            if level is not None
        ]
        settings = (
            f"{chosen.num_steps} steps at sampling rate {chosen.sampling_rate:g}, learning rate "
            f"{chosen.learning_rate:.4g}, clip norm {chosen.clip_norm:.4g}, noise multiplier "
            f"{chosen.noise_multiplier:.4g}"
        )
        leak = [
            Row(
                "leak",
                f"AUC {one.auc:.3f}",
                f"best test, for the record found most easily; proved bound {one.bound:.3f}",
            )
            for one in (self.leak,)
            if one is not None
        ]
        curve = [
            Row(
                f"epsilon {one.epsilon:g}, n = {one.num_samples}",
                f"loss {one.loss:.4g}",
                "" if one.accuracy is None else f"accuracy {one.accuracy:.4g}",
            )
            for one in self.curve
        ]
        return Explanation(
            f"{LOOKED_AT} Forecast for n = {self.num_samples}, epsilon = {plan.epsilon:g}, delta = "
            f"{plan.delta:g}, {plan.adjacency}",
            (*levels, Row("settings", settings), *leak, *curve),
            (
                cost_of(plan.algorithm.release(), plan.delta).in_words,
                _ALIKE if self.stand_in == "alike" else _UNLIKE,
                *((_OF_TANGENTS,) * ("movement" in plan.predicted.observables)),
                f"twice the rows would have as little noise as epsilon {self.rows_worth:.2g} "
                f"instead of {plan.epsilon:g}",
                plan.line,
            ),
        )


def forecast(
    problem: _Rows,
    *,
    num_samples: int,
    epsilon: float | AbstractBudget,
    delta: float | None = None,
    stand_in: Literal["alike", "unlike"] = "alike",
    disturbed: Sequence[_Rows] = (),
    num_steps: int | tuple[int, ...] = (25, 100, 400),
    sampling_rate: float | tuple[float, ...] = (0.05, 0.2, 1.0),
    optimiser: Any = optax.sgd,
    average: AbstractAverage | None = None,
    criterion: Literal["loss", "accuracy"] = "loss",
    progress: Callable[[float], None] | bool | None = None,
) -> Forecast:
    """Forecast what private training on n rows will give, from public rows in their place.

    The settings are those of `jaxdp.plan` on the public rows, left out or repeated until there are
    n. Theory predicts the levels on the public test rows. The interval combines, as root sum of
    squares, the spread of single runs, of new splits of the rows, and of disturbed rows. Measured
    errors: docs/how_to/forecast.md.

    Args:
        problem: public training and test rows, as features or as a network (`Linearised`).
        num_samples: number n of private rows.
        epsilon, delta: budget; or, without delta, one such as
            `jaxdp.privacy.MembershipAdvantage(0.1)`, and the curve is over its epsilon at 1e-6.
        stand_in: "alike" if the public rows are like the private ones; "unlike" if they are only
            related, such as other classes: then no accuracy or loss is given.
        disturbed: public rows, in the problem's shapes, that differ as the private ones might.
            Default: dimmed and noisy features and unbalanced classes.
        num_steps, sampling_rate, optimiser, average, criterion, progress: see `jaxdp.plan`; batches
            are Poisson.

    Returns:
        A `Forecast`, which prints and which `jaxdp.plots.plot_forecast` draws.

    Warns:
        UserWarning: delta is at least 1/n.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind or out of range, or disturbed rows
            have other shapes.
        NotCoveredError, RuntimeError: see `jaxdp.plan`.

    Example:
        >>> import jax, jaxdp
        >>> features = jax.random.normal(jax.random.key(0), (120, 4))
        >>> labels = jax.numpy.where(features[:, 0] > 0, 1, -1)
        >>> rows = features[:80], labels[:80], features[80:], labels[80:]
        >>> public = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Logistic())
        >>> cell = {"num_steps": 8, "sampling_rate": 0.2}
        >>> found = jaxdp.forecast(public, num_samples=80, epsilon=2.0, delta=1e-5, **cell)
        >>> found.plan.chosen.num_steps, len(found.over_epsilon)
        (8, 5)
    """
    kinds = FixedFeatures, Linearised
    require_kind("problem", problem, kinds, "public rows in FixedFeatures or Linearised")
    num_samples = require_count("num_samples", num_samples)
    if stand_in not in ("alike", "unlike"):
        raise ValueError(f'expected stand_in to be "alike" or "unlike", got {stand_in!r}')
    for other in disturbed:
        require_kind("disturbed", other, type(problem), f"{type(problem).__name__}, as the problem")
        if _shapes(other) != _shapes(problem) or other.loss != problem.loss:
            raise ValueError(
                f"expected disturbed rows of the shapes {_shapes(problem)} and the loss of the "
                f"problem, got {_shapes(other)}"
            )
    budget = budget_of(epsilon, delta)
    warn_of_budget(budget, num_samples, stacklevel=2)
    rows = _of_size(problem, num_samples)

    def planned(budget, num_steps, sampling_rate, near=None, begun=0.0, share=_OF_PLAN):
        found = plan_training(
            rows,
            budget=budget,
            num_steps=num_steps,
            sampling_rate=sampling_rate,
            optimiser=optimiser,
            average=average,
            sampler=PoissonSampler,
            criterion=criterion,
            near=near,
            told=lambda done: told(begun + share * done),
        )
        told(begun + share)
        return found

    with listening_where_seen(progress, "forecast") as told:
        plan = planned(budget, num_steps, sampling_rate)
        cell = plan.chosen.num_steps, plan.chosen.sampling_rate
        share = _OF_CURVE / len(_BUDGETS)
        plans = {1.0: plan}
        # Outward, each search from the settings of the last budget.
        for place, one in enumerate(sorted(_BUDGETS, key=lambda one: abs(math.log(one)))):
            if one not in plans:
                budget = ApproximateDP(one * plan.epsilon, plan.delta)
                last = plans[one * 2 if one < 1 else one / 2].chosen
                plans[one] = planned(budget, *cell, last, _OF_PLAN + place * share, share)
        plans = [plans[one] for one in _BUDGETS]
        curve = _curve(plans, num_samples)
        loss = accuracy = None
        if stand_in == "alike":
            loss, accuracy = _levels(problem, plan, num_samples, disturbed)
            told(0.95)
        from jaxdp.attacks import predicted_membership

        features: Any = rows
        try:
            leak = predicted_membership(features, plan.algorithm, "worst")
        except NotCoveredError:
            leak = None
        told(1.0)
    return Forecast(plan, num_samples, stand_in, loss, accuracy, curve, leak)


def _rows(problem: _Rows) -> dict[str, Array]:
    """The rows by argument name: training inputs and labels, then test inputs and labels."""
    part = "train_" if isinstance(problem, FixedFeatures) else ""
    names = f"{part}inputs", f"{part}labels", "test_inputs", "test_labels"
    return {name: getattr(problem, name) for name in names}


def _with_rows(problem: _Rows, *rows: Any) -> _Rows:
    return problem.replace(**dict(zip(_rows(problem), rows, strict=True)))


def _shapes(problem: _Rows) -> tuple[tuple[int, ...], ...]:
    return tuple(part.shape for part in _rows(problem).values())


def _of_size(problem: _Rows, num_samples: int) -> _Rows:
    """The problem with n training rows, each as often as the others up to one repetition."""
    # Rows may be sorted by class: the first n are then unlike the whole.
    order = np.random.default_rng(_SEED).permutation(problem.num_train)
    taken = np.resize(order, num_samples)
    inputs, labels, *test = _rows(problem).values()
    return _with_rows(problem, inputs[taken], labels[taken], *test)


def _curve(plans: list[TrainingPlan], num_samples: int) -> tuple[CurvePoint, ...]:
    """Predictions for each budget, in rising order, and for other sizes at the middle one."""
    levels = [_level(one.predicted) for one in plans]
    middle = plans[len(plans) // 2]
    found = [(one.epsilon, num_samples, level) for one, level in zip(plans, levels, strict=True)]
    logs = [-math.log(one.chosen.noise_multiplier) for one in plans]
    # A mean over f times as many rows has 1/f of the noise, as with a larger budget: interpolated.
    for factor in _SIZES:
        place = math.log(factor / middle.chosen.noise_multiplier)
        between = [float(np.interp(place, logs, values)) for values in zip(*levels, strict=True)]
        found.append((middle.epsilon, round(factor * num_samples), between))
    return tuple(
        CurvePoint(epsilon, size, loss, None if math.isnan(accuracy) else accuracy)
        for epsilon, size, (loss, accuracy) in found
    )


def _level(predicted: Trajectory) -> list[float]:
    """Loss and accuracy of the released iterate; NaN without classes."""
    accuracy = predicted.observables.get("accuracy", [math.nan])
    return [float(predicted.final_risk), float(accuracy[-1])]


def _levels(
    problem: _Rows, plan: TrainingPlan, num_samples: int, disturbed: Sequence[_Rows]
) -> tuple[Level, Level | None]:
    """Loss and accuracy, each with its interval."""

    def found(other: _Rows) -> list[float]:
        rows = _of_size(other, num_samples)
        with warnings.catch_warnings():
            # A plan at the limit of stability may be beyond it on a copy of the rows.
            warnings.simplefilter("ignore")
            return _level(predicted_roughly(rows, plan.algorithm))

    predicted = plan.predicted
    if predicted.final_std is None:
        # Plans of several outputs leave out the spread, which costs as much as all steps.
        rows = _of_size(problem, num_samples)
        predicted = predict(rows, plan.algorithm, records=1)
    mean = _level(predicted)
    split = np.std([found(other) for other in _split_anew(problem)], axis=0, ddof=1)
    # Test rows drawn without replacement vary too little.
    split *= math.sqrt(1 + problem.num_test / problem.num_train)
    moved = [found(other) for other in disturbed or _disturbed(problem)]
    shift = np.sqrt(np.mean((np.asarray(moved) - found(problem)) ** 2, axis=0))
    stds = predicted.final_std, predicted.observables.get("accuracy_std", [None])[-1]
    levels = []
    for place, found_std in enumerate(stds):
        std = None if found_std is None else float(found_std)
        half = _WIDTH * math.hypot(std or 0.0, split[place], shift[place])
        low, high = mean[place] - half, mean[place] + half
        high = min(high, 1.0) if place else high
        levels.append(Level(mean[place], max(low, 0.0), high, std))
    return levels[0], None if math.isnan(mean[1]) else levels[1]


def _split_anew(problem: _Rows) -> Iterator[_Rows]:
    """The public rows, split anew into training and test rows."""
    train_inputs, train_labels, test_inputs, test_labels = _rows(problem).values()
    inputs = jnp.concatenate([train_inputs, test_inputs])
    labels = jnp.concatenate([train_labels, test_labels])
    for seed in range(_SPLITS):
        order = np.random.default_rng((_SEED, seed)).permutation(len(labels))
        train, test = order[: problem.num_train], order[problem.num_train :]
        yield _with_rows(problem, inputs[train], labels[train], inputs[test], labels[test])


def _disturbed(problem: _Rows) -> Iterator[_Rows]:
    """Copies of the rows: dimmed, noisy, unbalanced. A constant column stays constant."""
    random = np.random.default_rng(_SEED)
    train, train_labels, test, test_labels = map(np.asarray, _rows(problem).values())
    mean, std = train.mean(axis=0), train.std(axis=0)

    def changed(change):
        return _with_rows(problem, change(train), train_labels, change(test), test_labels)

    yield changed(lambda part: (1 - _DIMMED) * part + _DIMMED * mean)
    yield changed(lambda part: part + _NOISY * std * random.normal(size=part.shape))
    if (classes := problem.loss.class_labels) is not None:
        yield _unbalanced(problem, classes[::2], random)


def _unbalanced(problem: _Rows, rarer: tuple[float, ...], random: np.random.Generator) -> _Rows:
    """As many rows, drawn with replacement, with some classes rarer."""
    found = []
    train_inputs, train_labels, test_inputs, test_labels = _rows(problem).values()
    for inputs, labels in ((train_inputs, train_labels), (test_inputs, test_labels)):
        weights = np.where(np.isin(np.asarray(labels), rarer), _KEPT, 1.0)
        taken = random.choice(len(labels), size=len(labels), p=weights / weights.sum())
        found += [inputs[taken], labels[taken]]
    return _with_rows(problem, *found)
