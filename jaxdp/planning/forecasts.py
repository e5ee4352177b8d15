"""Forecasts: the accuracy, loss and leak of private training, from public stand-in rows alone."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array

from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.core.checks import NotCoveredError, require_count, require_kind
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.keys import numbered_key
from jaxdp.core.progress import listening_where_seen
from jaxdp.core.trajectory import Trajectory
from jaxdp.planning.features.private_training import plan_training, predicted_roughly
from jaxdp.planning.features.training_plan import LIMITED, LOOKED_AT, Cell, TrainingPlan
from jaxdp.privacy.accounting import cost_of
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP, budget_of, warn_of_budget
from jaxdp.problems.rows.fixed_features import FixedFeatures
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.simulation.dispatch import simulate

if TYPE_CHECKING:
    from jaxdp.attacks import PredictedMembership

_Rows = FixedFeatures | Linearised
_SPLITS, _SEED = 4, 2026  # number of new splits of the public rows, and their fixed seed
# Reduction of contrast, added standard deviation, share of rows kept of every second class.
_DIMMED, _NOISY, _KEPT = 0.2, 0.2, 0.5
# Runs of a network on the public rows: of each copy, and of the rows, as a multiple of these.
_RUNS, _TIMES = 4, 4
# Standard deviations to either side of 90 %: of a normal distribution; of Student's with the
# freedom of four splits; of a new run beside the mean of 16 runs, whose spread is estimated.
_NORMAL, _OF_SPLITS, _OF_RUNS = 1.645, 2.353, 1.807
_MOST_CARRIED = 0.95  # largest share of a column in the mean square of features without a warning
_BUDGETS, _SIZES = (0.5, 0.25, 2.0, 4.0), (0.5, 2.0)  # curve, over the forecast's
_NEAR = 2.01  # largest ratio of two epsilons for a search that starts from the other's settings
_OF_PLAN, _OF_CURVE = 0.4, 0.35  # shares of the plan and of the curve in the progress bar
_UNLIKE = (
    "the caller marks the stand-ins as unlike the private rows: settings transfer from them, "
    "accuracy and loss do not, so none is given"
)
_ALIKE = (
    "accuracy and loss hold as far as the stand-ins are like the private rows; by chance: single "
    "runs and the draw of the public rows; by differences: private rows that differ from public "
    "ones as disturbed copies do"
)
_OF_NETWORKS = (
    "the levels of a network are means of private runs on the public rows; settings and the "
    "results for other budgets and sizes are predicted"
)


class Level(NamedTuple):
    """An expected accuracy or loss: mean over runs, and interval of nine runs in ten."""

    mean: float
    low: float
    high: float
    std: float | None = None  # over runs on one table, if known
    # Half widths; the root sum of their squares is that of the interval, which is cut at 0 and 1.
    sampling: float = 0.0  # of single runs, and of the draw of public training and test rows
    difference: float = 0.0  # as far as results on disturbed copies differ; 0 without copies


class CurvePoint(NamedTuple):
    """The best predicted test loss and accuracy (None without classes) of one budget and size."""

    epsilon: float
    num_samples: int
    loss: float
    accuracy: float | None
    learning_rate: float | None = None  # None, as the clip norm, for other sizes
    clip_norm: float | None = None


class Forecast(AbstractExplained, eqx.Module):
    """The expected result of private training, and its settings, as `jaxdp.forecast` found them.

    Attributes:
        plan: settings, planned on the stand-ins.
        num_samples: number n of rows of the private table.
        stand_in: "alike" or "unlike", as the caller says.
        loss, accuracy: expected levels; None for unlike stand-ins, and no accuracy for losses
            without classes.
        curve: predictions for other budgets, each with its own learning rate and clip norm, and for
            other sizes, interpolated between budgets of equal noise as far as these reach.
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
                "is_at_limit": chosen.is_at_limit,
            },
            "curve": [one._asdict() for one in self.curve],
            "leak": None if self.leak is None else {"auc": self.leak.auc, "bound": self.leak.bound},
        }

    def _explanation(self):
        plan, chosen = self.plan, self.plan.chosen
        levels = [
            Row(name, f"{level.mean:.4g}", _interval_in_words(level))
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
                ", ".join(
                    f"{name.replace('_', ' ')} {getattr(one, name):.4g}"
                    for name in ("accuracy", "learning_rate", "clip_norm")
                    if getattr(one, name) is not None
                ),
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
                *((_OF_NETWORKS,) * ("movement" in plan.predicted.observables)),
                *((f"learning rate: {LIMITED}",) * chosen.is_at_limit),
                f"twice the rows would have as little noise as epsilon {self.rows_worth:.2g} "
                f"instead of {plan.epsilon:g}",
                plan.line,
            ),
        )


def forecast(
    problem: _Rows,
    *,
    num_samples: int,
    epsilon: float | AbstractBudget | Sequence[float | AbstractBudget],
    delta: float | None = None,
    stand_in: Literal["alike", "unlike"] = "alike",
    disturbed: Sequence[_Rows] | None = None,
    num_steps: int | tuple[int, ...] = (25, 100, 400),
    sampling_rate: float | tuple[float, ...] = (0.05, 0.2, 1.0),
    optimiser: Any = optax.sgd,
    average: AbstractAverage | None = None,
    criterion: Literal["loss", "accuracy"] = "loss",
    progress: Callable[[float], None] | bool | None = None,
) -> Forecast:
    """Forecast what private training on n rows will give, from public rows in their place.

    The settings are those of `jaxdp.plan` on the public rows, left out or repeated until there are
    n. Theory predicts the levels on the public test rows; those of a network are the means of 16
    simulated private runs, which cost no budget.

    The interval has two parts. The first covers single runs and the draw of the public rows: the
    spread over runs (and the standard error of the mean of 16), and Student's factor 2.35 times the
    spread over four new splits of the rows into training and test rows, for the accuracy at least
    1.645 binomial standard errors of the m test rows, with (right + 1)/(m + 2) as the probability.
    For the loss, only the spread over splits shows the error from few test rows. The second part is
    1.645 times the root mean square change of the level on disturbed rows. Levels of networks on
    splits and disturbed rows are means of four runs, whose variance is taken off. Disturbed rows
    are compared with the rows under the same batches and noise. Measured errors:
    docs/how_to/forecast.md.

    Args:
        problem: public training and test rows, as features or as a network (`Linearised`).
        num_samples: number n of private rows.
        epsilon, delta: budget; or, without delta, one such as
            `jaxdp.privacy.MembershipAdvantage(0.1)`, and the curve is over its epsilon at 1e-6. Or
            several epsilons or budgets in a sequence: the forecast is for the first, and the curve
            is over all of them in place of 0.25 to 4 times epsilon.
        stand_in: "alike" if the public rows are like the private ones; "unlike" if they are only
            related, such as other classes: then no accuracy or loss is given.
        disturbed: tuple of public rows, in the problem's shapes, that differ as the private ones
            might; `()` leaves out the second part of the interval. None (default): dimmed and noisy
            features and unbalanced classes.
        num_steps, sampling_rate, optimiser, average, criterion, progress: see `jaxdp.plan`; batches
            are Poisson.

    Returns:
        A `Forecast`, which prints and which `jaxdp.plots.plot_forecast` draws.

    Warns:
        UserWarning: delta is at least 1/n; no public training row has one of the classes; one
            column has more than 0.95 of the features' mean square; or a warning of `jaxdp.plan`, at
            any budget.

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
        >>> several = jaxdp.forecast(public, num_samples=80, epsilon=[1.0, 3.0], delta=1e-5, **cell)
        >>> [one.epsilon for one in several.over_epsilon]
        [1.0, 3.0]
    """
    kinds = FixedFeatures, Linearised
    require_kind("problem", problem, kinds, "public rows in FixedFeatures or Linearised")
    num_samples = require_count("num_samples", num_samples)
    if stand_in not in ("alike", "unlike"):
        raise ValueError(f'expected stand_in to be "alike" or "unlike", got {stand_in!r}')
    wanted = f"a tuple of problems {type(problem).__name__}, () for none of them, or None"
    require_kind("disturbed", disturbed, (list, tuple, type(None)), wanted)
    for other in disturbed or ():
        require_kind("disturbed", other, type(problem), f"{type(problem).__name__}, as the problem")
        if _shapes(other) != _shapes(problem) or other.loss != problem.loss:
            raise ValueError(
                f"expected disturbed rows of the shapes {_shapes(problem)} and the loss of the "
                f"problem, got {_shapes(other)}"
            )
    asked: Any = epsilon
    is_one = not isinstance(asked, (list, tuple)) and np.ndim(asked) != 1
    budgets = [budget_of(one, delta) for one in ([asked] if is_one else asked)]
    if not budgets:
        raise ValueError("expected at least one epsilon, got none")
    if len(deltas := {float(one.stated[1]) for one in budgets}) > 1:
        raise ValueError(f"expected budgets of one delta, got {sorted(deltas)}")
    warn_of_budget(budgets[0], num_samples, stacklevel=2)
    _warn_of_rows(problem, stacklevel=3)
    rows = _of_size(problem, num_samples)

    def planned(budget, num_steps, sampling_rate, near=None, begun=0.0, share=_OF_PLAN, **more):
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
            **more,
        )
        told(begun + share)
        return found

    with (
        warnings.catch_warnings(record=True) as caught,
        listening_where_seen(progress, "forecast") as told,
    ):
        warnings.simplefilter("always")
        plan = planned(budgets[0], num_steps, sampling_rate, has_spread=stand_in == "alike")
        cell = plan.chosen.num_steps, plan.chosen.sampling_rate
        others = budgets[1:]
        if is_one:
            others = [ApproximateDP(one * plan.epsilon, plan.delta) for one in _BUDGETS]
        share = _OF_CURVE / max(len(others), 1)
        plans = [plan]
        for place, one in enumerate(others):
            near = _nearest(plans, one)
            plans.append(planned(one, *cell, near, _OF_PLAN + place * share, share))
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
    # Plans repeat a warning, with other numbers after its first colon.
    for one in {str(one.message).partition(":")[0]: one for one in reversed(caught)}.values():
        warnings.warn(one.message, stacklevel=2)
    return Forecast(plan, num_samples, stand_in, loss, accuracy, curve, leak)


def _interval_in_words(level: Level) -> str:
    parts = f"±{level.sampling:.2g} by chance"
    if level.difference:
        parts += f", ±{level.difference:.2g} by differences"
    return f"nine runs in ten: {level.low:.4g} to {level.high:.4g} ({parts})"


def _warn_of_rows(problem: _Rows, *, stacklevel: int) -> None:
    """Warn of a class without training rows, and of a column that carries nearly all features."""
    classes = problem.loss.class_labels or ()
    missing = [f"{one:g}" for one in classes if not np.any(np.asarray(problem.train_labels) == one)]
    if missing:
        warnings.warn(
            f"expected public training rows of every class, got none of class {missing[0]} (of "
            f"{len(missing)} such classes): the forecast says nothing about it",
            stacklevel=stacklevel,
        )
    if isinstance(problem, FixedFeatures) and problem.num_features > 1:
        squares = np.mean(np.asarray(problem.train_inputs, np.float64) ** 2, axis=0)
        place = int(np.argmax(squares))
        if (share := squares[place] / max(squares.sum(), 1e-300)) > _MOST_CARRIED:
            warnings.warn(
                f"column {place} (from 0) has {share:.1%} of the features' mean square and decides "
                "alone what is clipped: scale the columns alike, by numbers from public rows",
                stacklevel=stacklevel,
            )


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


def _nearest(plans: list[TrainingPlan], budget: AbstractBudget) -> Cell | None:
    """The settings of the plan whose epsilon is nearest to a budget's; None if none is near."""
    if not isinstance(budget, ApproximateDP):
        return None
    ratios = [math.exp(abs(math.log(one.epsilon / budget.epsilon))) for one in plans]
    return plans[int(np.argmin(ratios))].chosen if min(ratios) < _NEAR else None


def _curve(plans: list[TrainingPlan], num_samples: int) -> tuple[CurvePoint, ...]:
    """Predictions for each budget, in rising order, and for other sizes at the first one."""
    plan, plans = plans[0], sorted(plans, key=lambda one: one.epsilon)
    levels = [_level(one.predicted) for one in plans]
    found: list[tuple[Any, ...]] = [
        (one.epsilon, num_samples, level, one.chosen.learning_rate, one.chosen.clip_norm)
        for one, level in zip(plans, levels, strict=True)
    ]
    logs = [-math.log(one.chosen.noise_multiplier) for one in plans]
    # A mean over f times as many rows has 1/f of the noise, as with a larger budget: interpolated.
    for factor in _SIZES:
        place = math.log(factor / plan.chosen.noise_multiplier)
        if logs[0] <= place <= logs[-1]:
            between = [np.interp(place, logs, values) for values in zip(*levels, strict=True)]
            found.append((plan.epsilon, max(1, round(factor * num_samples)), between, None, None))
    return tuple(
        CurvePoint(epsilon, size, float(loss), None if np.isnan(right) else float(right), *settings)
        for epsilon, size, (loss, right), *settings in found
    )


def _level(found: Trajectory) -> np.ndarray:
    """Loss and accuracy of the released iterate, or of that of each run; NaN without classes."""
    accuracy = found.observables.get("accuracy", np.full_like(found.risk, math.nan))
    return np.asarray([found.final_risk, accuracy[..., -1]], np.float64)


def _levels(
    problem: _Rows, plan: TrainingPlan, num_samples: int, disturbed: Sequence[_Rows] | None
) -> tuple[Level, Level | None]:
    """Loss and accuracy, each with its interval."""
    is_network = isinstance(problem, Linearised)

    def levels(other: _Rows, part: int = 0) -> np.ndarray:
        """Loss and accuracy in columns: of runs of a network, or the prediction of a head."""
        rows: Any = _of_size(other, num_samples)
        if is_network:
            key = numbered_key(jr.key(_SEED), part)
            return _level(simulate(rows, plan.algorithm, num_runs=_RUNS, records=1, key=key))
        with warnings.catch_warnings():
            # A plan at the limit of stability may be beyond it on a copy of the rows.
            warnings.simplefilter("ignore")
            return predicted_roughly(rows, plan.algorithm)[:, None]

    start = levels(problem)
    if is_network:
        runs = [start, *(levels(problem, part) for part in range(1, _TIMES))]
        mean, std = np.mean(runs, axis=(0, 2)), np.std(np.concatenate(runs, axis=1), axis=1, ddof=1)
        own, noise = _OF_RUNS * std, std**2 / _RUNS
    else:
        stds = plan.predicted.final_std, plan.predicted.observables.get("accuracy_std", [None])[-1]
        mean, std = _level(plan.predicted), np.asarray(stds, np.float64)
        own, noise = _NORMAL * np.nan_to_num(std), 0.0
    others = enumerate(_split_anew(problem), _TIMES)
    split = np.var([levels(other, part).mean(axis=1) for part, other in others], axis=0, ddof=1)
    # Test rows drawn without replacement vary too little.
    factor = 1 + problem.num_test / problem.num_train
    split = np.sqrt(factor * np.maximum(split - noise, 0))
    right = (mean[1] * problem.num_test + 1) / (problem.num_test + 2)
    drawn = math.sqrt(right * (1 - right) / problem.num_test)
    sampling = np.hypot(own, np.fmax(_OF_SPLITS * split, [0.0, _NORMAL * drawn]))
    copies = _disturbed(problem) if disturbed is None else disturbed
    changes = [levels(other) - start for other in copies]
    # The mean of several runs varies, which adds to the square of its change.
    squares = [one.mean(1) ** 2 - one.var(1) / max(len(one[0]) - 1, 1) for one in changes]
    squares = np.maximum(np.sum(squares, axis=0), 0) / max(len(squares), 1)
    difference = _NORMAL * np.sqrt(np.broadcast_to(squares, 2))
    half, most = np.hypot(sampling, difference), (math.inf, 1.0)
    loss, accuracy = (
        Level(
            float(mean[place]),
            max(float(mean[place] - half[place]), 0.0),
            min(float(mean[place] + half[place]), most[place]),
            None if np.isnan(std[place]) else float(std[place]),
            float(sampling[place]),
            float(difference[place]),
        )
        for place in range(2)
    )
    return loss, None if math.isnan(mean[1]) else accuracy


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
