"""The verb `plan`: from a budget to how to run it."""

from typing import Any

import optax

from jaxdp.algorithms.averages import AbstractAverage
from jaxdp.core.checks import require_kind
from jaxdp.core.errors import NotCoveredError
from jaxdp.planning.features.private_training import plan_training
from jaxdp.planning.features.training_plan import TrainingPlan
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.features import AbstractFeatureProblem


def plan(
    problem: AbstractProblem,
    *,
    epsilon: float,
    delta: float,
    num_steps: int | tuple[int, ...] = (25, 100, 400),
    sampling_rate: float | tuple[float, ...] = (0.05, 0.2, 1.0),
    optimiser: Any = optax.sgd,
    average: AbstractAverage | None = None,
    sampler: type[AbstractSampler] = PoissonSampler,
) -> TrainingPlan:
    """How to train within a budget: steps, sampling rate, learning rate, clip norm and noise.

    Every pair of steps and sampling rate is a cell. Its noise multiplier is that of the exact
    account. Its learning rate and clip norm minimise the test loss that `GaussianClosure(rank=0)`
    predicts, by gradients through the closure, within the limits of stability up to which it is to
    be trusted. The best cell is predicted once more, by the default theory.

    Planning is not private. It looks at the rows, and what it chooses is not covered by epsilon.
    Give it public rows, or proxy rows that are like the private ones, with as many training rows
    as the private table has: from fewer follows another plan. What is then predicted is the loss
    of training on the rows that were given, not on the private ones. And the test rows of the
    problem are what is minimised: they are validation rows, so measure on rows that neither
    training nor planning saw.

    All cells have the adjacency of the sampler, so that they can be compared. Poisson batches are
    zero-out-one; with them a rate of 1 is the full batch, also zero-out-one, with half the noise
    that replace-one asks for. `ShuffledEpochs` and `FixedSizeBatches` are replace-one, and a rate
    of 1 is there the full batch of `DPGD`.

    Args:
        problem: features on fixed rows (`FixedFeatures`, `RandomFeatures`), with any loss.
        epsilon: > 0.
        delta: in (0, 1).
        num_steps: T, one or several.
        sampling_rate: the expected share of the rows in a batch, in (0, 1], one or several; of
            batches of one size, rounded to a whole number of rows.
        optimiser: a factory, which makes a transformation of a learning rate: `optax.sgd`,
            `functools.partial(optax.sgd, momentum=0.9)`, or `optax.adam` on up to 500 features.
        average: of the iterates, to be released instead of the last one; None for no average.
        sampler: the class of the batches: `jaxdp.privacy.PoissonSampler`, `ShuffledEpochs` (sizes
            that divide the rows) or `FixedSizeBatches`.

    Returns:
        A `TrainingPlan`: `.algorithm`, `.predicted`, `.table`, and a text to print.

    Raises:
        NotCoveredError: of problems other than features on fixed rows there is no plan, or the
            closure does not cover the optimiser or the batches.
        TypeError, ValueError: an argument is of the wrong kind or out of range, or the simulated
            noise of a cell is so little that `account` has no epsilon for it at this delta.
        ImportError: dp_accounting, which Poisson batches need, is not installed.
        RuntimeError: no prediction of any cell is finite and stable.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 10, key=jax.random.key(0))
        >>> plan = jaxdp.plan(problem, epsilon=2.0, delta=1e-5, num_steps=20, sampling_rate=1.0)
        >>> cost = jaxdp.account(plan.algorithm, delta=1e-5)
        >>> print(f"epsilon {cost.epsilon:.2f}, {cost.adjacency}, {len(plan.table)} cell")
        epsilon 2.00, zero-out-one, 1 cell
    """
    require_kind("problem", problem, AbstractProblem, "a problem, such as FixedFeatures")
    if isinstance(problem, AbstractFeatureProblem):
        return plan_training(
            problem,
            epsilon=epsilon,
            delta=delta,
            num_steps=num_steps,
            sampling_rate=sampling_rate,
            optimiser=optimiser,
            average=average,
            sampler=sampler,
        )
    raise NotCoveredError(
        "a plan is for features on fixed rows (FixedFeatures, RandomFeatures), got "
        f"{type(problem).__name__}"
    )
