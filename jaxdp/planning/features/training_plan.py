"""A plan of private training: its settings, its prediction and all cells of the search."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.trajectory import Trajectory
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP

# The first printed line, at most 80 columns.
LOOKED_AT = "Settings were chosen by looking at these rows; if private, no cost covers it."
ASSUMPTIONS = (
    "planning is not private: learning rate, clip norm, steps, sampling rate and noise over the "
    "steps were chosen from the problem's rows, which epsilon does not cover; use public or "
    "proxy rows, with as many training rows as the private table has",
    "the plan minimises the loss of the problem's test rows, which are validation rows from then "
    "on: measure on rows that neither training nor planning saw",
    "the predicted loss is that of training on the planned rows; with proxy rows it is not the "
    "loss on the private rows",
)
LIMITED = "the largest rate at which the prediction is valid; a larger one may be better"
_COARSE = "~: searched coarsely, as it was not among the best; its risk may be percents too high"


INDEPENDENT, SCHEDULE, BANDS = "independent", "schedule", "bands"
_IN_WORDS = {
    SCHEDULE: "full batches with a noise schedule",
    BANDS: "batches in a fixed order with banded noise",
}
_ENOUGH_GAIN = 0.02  # share of the excess over training without privacy to be saved


class Cell(NamedTuple):
    """The best settings found for one number of steps and one sampling rate."""

    num_steps: int
    sampling_rate: float  # expected share of the rows in a batch
    learning_rate: float  # to four digits, as clip_norm; both NaN if nothing is stable
    clip_norm: float
    noise_multiplier: float  # calibrated to the budget
    # Test loss, or 1 minus the accuracy if that is the criterion, as `GaussianClosure(rank=0)` or
    # Adam's closure predicts it; infinite if nothing is stable.
    risk: float
    adjacency: str
    is_at_limit: bool  # the learning rate is the largest valid one: a larger one may be better
    is_polished: bool = True  # the search was finished; else the risk may be percents too high
    # "independent" noise with Poisson batches, a "schedule" with full batches, or "bands" with
    # batches in a fixed order.
    noise: str = INDEPENDENT


def best_cell(table: tuple[Cell, ...], floor: float = 0.0) -> Cell:
    """The cell of least risk among those with a finished search.

    Independent noise is kept unless other noise has an excess over the risk `floor`, that without
    privacy, which is at least 2 % less.
    """
    best, other = _best_by_noise(table)
    # A risk that is not finite never wins.
    if other is not None and _gain(best, other, floor) >= _ENOUGH_GAIN:
        return other
    return best


def _best_by_noise(table: tuple[Cell, ...]) -> tuple[Cell, Cell | None]:
    """The best cell with independent noise, and the best one with other noise, if any."""
    found = []
    for is_independent in (True, False):
        cells = [cell for cell in table if (cell.noise == INDEPENDENT) == is_independent]
        best = min(cells, key=lambda cell: (not cell.is_polished, cell.risk), default=None)
        found.append(best)
    return found[0], found[1]


def _gain(one: Cell, other: Cell, floor: float) -> float:
    """The share of the excess over the floor by which that of another cell is less.

    It is a share of the whole risk if a private run is below the floor: clipping may improve it.
    """
    floor = 0.0 if _is_below(one, other, floor) else floor
    return (one.risk - other.risk) / (one.risk - floor) if one.risk > floor else 0.0


def _is_below(one: Cell, other: Cell, floor: float) -> bool:
    return min(one.risk, other.risk) < floor


class TrainingPlan(AbstractExplained, eqx.Module):
    """How to train a linear model on features within a budget, as `jaxdp.plan` found it.

    Attributes:
        algorithm: algorithm of the best cell, calibrated to the budget.
        predicted: trajectory of the algorithm, by the default theory.
        table: all cells, by `num_steps`, then by `sampling_rate`; those of other noise come last.
        epsilon, delta: budget; for one of another kind the algorithm's epsilon at delta = 1e-6.
        budget: budget as an object.
        floor: risk without clipping and noise, which a plan of correlated noise compares with.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 10, key=jax.random.key(0))
        >>> plan = jaxdp.plan(problem, epsilon=2.0, delta=1e-5, num_steps=20, sampling_rate=1.0)
        >>> plan.chosen.num_steps, plan.adjacency, len(plan.table)
        (20, 'zero-out-one', 1)
    """

    algorithm: PrivateOptimiser
    predicted: Trajectory
    table: tuple[Cell, ...]
    epsilon: float = eqx.field(static=True)
    delta: float = eqx.field(static=True)
    budget: AbstractBudget = eqx.field(static=True)
    floor: float = eqx.field(static=True, default=0.0)

    @property
    def adjacency(self) -> str:
        """The adjacency for which the budget holds, in all cells."""
        return self.algorithm.sampler.adjacency

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The limits of a plan, in sentences."""
        return ASSUMPTIONS

    @property
    def chosen(self) -> Cell:
        """The cell of the algorithm."""
        return best_cell(self.table, self.floor)

    @property
    def about_noise(self) -> str:
        """Which noise wins and by how much, in a sentence; empty if one kind was planned."""
        best, other = _best_by_noise(self.table)
        if other is None:
            return ""
        gain = _gain(best, other, self.floor)
        less = f"{abs(gain):.1%} {'less' if gain >= 0 else 'more'}"
        if not _is_below(best, other, self.floor):
            less = f"{less} above training without privacy, {self.floor:.5g}"
        found = (
            f"{_IN_WORDS[other.noise]} give a risk of {other.risk:.5g} in place of "
            f"{best.risk:.5g}: {less}"
        )
        if self.chosen.noise == INDEPENDENT:
            return f"independent noise is kept, as {found}, and at least 2 % less is asked"
        return found

    @property
    def line(self) -> str:
        """The algorithm as a line of Python, for `import functools, jaxdp, optax`."""
        one, sampler = self.algorithm, self.algorithm.sampler
        is_pair, pair = isinstance(self.budget, ApproximateDP), f"{self.epsilon!r}, {self.delta!r}"
        parts = [
            _factory(one.optimiser),
            pair if is_pair else f"jaxdp.privacy.{self.budget!r}",
            f"learning_rate={self.chosen.learning_rate!r}",
            f"clip_norm={one.clip_norm!r}",
            f"num_steps={one.num_steps}",
            f"sampler=jaxdp.privacy.{sampler!r}",
        ]
        if one.noise is not None:
            parts.append("noise=plan.algorithm.noise")
        if one.average is not None:
            parts.append(f"average={_average(one.average)}")
        return f"jaxdp.PrivateOptimiser.calibrated({', '.join(parts)})"

    def __str__(self):
        head = ["steps", "sampling rate", "noise multiplier", "learning rate", "clip norm", "risk"]
        has_kinds = any(cell.noise != INDEPENDENT for cell in self.table)
        head = ["noise"] * has_kinds + head
        rows = [
            [
                *([cell.noise] * has_kinds),
                f"{cell.num_steps}",
                f"{cell.sampling_rate:g}",
                f"{cell.noise_multiplier:.4g}",
                f"{cell.learning_rate:.4g}{'*' if cell.is_at_limit else ' '}",
                f"{cell.clip_norm:.4g}",
                f"{cell.risk:.5g}{self._mark(cell)}",
            ]
            for cell in self.table
        ]
        head[-1] += "  "
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        ruler = ["-" * width for width in widths]
        lines = [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in (head, ruler, *rows)
        ]
        final = float(self.predicted.final_risk)
        lines = [
            LOOKED_AT,
            f"Plan for epsilon = {self.epsilon:g}, delta = {self.delta:g}, {self.adjacency}, in "
            "every row",
            *lines,
            *([f"*: {LIMITED}"] if any(cell.is_at_limit for cell in self.table) else []),
            *([] if all(cell.is_polished for cell in self.table) else [_COARSE]),
            *([f"Noise: {self.about_noise}."] if has_kinds else []),
            f"chosen (<): predicted loss {final:.5g} by the {self.predicted.label}",
            self.line,
            *(f"Note: {sentence}." for sentence in self.assumptions),
        ]
        return "\n".join(lines) + "\n"

    def __repr__(self):
        return str(self)

    def _mark(self, cell):
        if cell == self.chosen:
            return " <"
        return "  " if cell.is_polished else " ~"

    def _explanation(self):
        rows = tuple(
            Row(
                f"{cell.num_steps} steps at sampling rate {cell.sampling_rate:g}"
                + f", {cell.noise}" * (cell.noise != INDEPENDENT),
                f"risk {cell.risk:.5g}",
                f"learning rate {cell.learning_rate:.4g}, clip norm {cell.clip_norm:.4g}, noise "
                f"multiplier {cell.noise_multiplier:.4g}{' (chosen)' * (cell == self.chosen)}",
            )
            for cell in self.table
        )
        budget = f"epsilon = {self.epsilon:g}, delta = {self.delta:g}, {self.adjacency}"
        title = f"{LOOKED_AT} Plan for {budget}"
        limited = (LIMITED,) * any(cell.is_at_limit for cell in self.table)
        about = (self.about_noise,) * bool(self.about_noise)
        return Explanation(title, rows, (*about, self.line, *limited, *self.assumptions))


def _factory(optimiser: Callable[..., Any]) -> str:
    """A factory as Python source, or a placeholder name."""
    if isinstance(optimiser, functools.partial):
        given = itertools.chain(
            (repr(value) for value in optimiser.args),
            (f"{name}={value!r}" for name, value in optimiser.keywords.items()),
        )
        return f"functools.partial({', '.join([_factory(optimiser.func), *given])})"
    name = getattr(optimiser, "__name__", "")
    return f"optax.{name}" if getattr(optax, name or "_", None) is optimiser else "OPTIMISER"


def _average(average: AbstractAverage) -> str:
    numbers = ", ".join(f"{np.asarray(leaf).item():.9g}" for leaf in jax.tree.leaves(average))
    return f"jaxdp.{type(average).__name__}({numbers})"
