"""The verb `plan`: from a privacy budget to the settings of a private training run."""

from collections.abc import Callable
from typing import Any, overload

import optax

from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.core.checks import NotCoveredError, require_kind
from jaxdp.core.progress import listening_where_seen
from jaxdp.planning.features.private_training import plan_training
from jaxdp.planning.features.training_plan import TrainingPlan
from jaxdp.planning.streams.best_schedule import Box
from jaxdp.planning.streams.greedy_arc import Optimal
from jaxdp.planning.streams.one_pass_plan import OnePassPlan, plan_one_pass
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.privacy.budgets import AbstractBudget, budget_of, warn_of_budget
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem

# Arguments of one kind of problem only, with their defaults.
_OF_STREAMS = {"num_samples": None, "schedule": Optimal, "rho": None, "uncertainty": None}
_OF_FEATURES: dict[str, Any] = {
    "num_steps": (25, 100, 400),
    "sampling_rate": (0.05, 0.2, 1.0),
    "optimiser": optax.sgd,
    "average": None,
    "sampler": PoissonSampler,
    "criterion": "loss",
    "noise": "independent",
}


@overload
def plan(
    problem: LinearRegression | AbstractSignalProblem,
    *,
    num_samples: int,
    schedule: Any = Optimal,
    rho: float | None = None,
    epsilon: float | AbstractBudget | None = None,
    delta: float | None = None,
    uncertainty: Box | None = None,
    progress: Callable[[float], None] | bool | None = None,
) -> OnePassPlan: ...


@overload
def plan(
    problem: AbstractProblem,
    *,
    epsilon: float | AbstractBudget,
    delta: float | None = None,
    num_steps: int | tuple[int, ...] = ...,
    sampling_rate: float | tuple[float, ...] = ...,
    optimiser: Any = ...,
    average: AbstractAverage | None = None,
    sampler: type[AbstractSampler] = ...,
    criterion: str = ...,
    noise: str = ...,
    progress: Callable[[float], None] | bool | None = None,
) -> TrainingPlan: ...


def plan(
    problem: AbstractProblem,
    *,
    epsilon: float | AbstractBudget | None = None,
    delta: float | None = None,
    num_samples: int | None = None,
    schedule: Any = Optimal,
    rho: float | None = None,
    uncertainty: Box | None = None,
    num_steps: int | tuple[int, ...] = _OF_FEATURES["num_steps"],
    sampling_rate: float | tuple[float, ...] = _OF_FEATURES["sampling_rate"],
    optimiser: Any = optax.sgd,
    average: AbstractAverage | None = None,
    sampler: type[AbstractSampler] = PoissonSampler,
    criterion: str = "loss",
    noise: str = "independent",
    progress: Callable[[float], None] | bool | None = None,
) -> OnePassPlan | TrainingPlan:
    r"""Choose the settings of private learning within a budget, from the loss that theory predicts.

    Planning is not private: epsilon covers neither the rows of the problem nor numbers that were
    estimated from private rows. Plan on public rows that are like the private ones, with as many
    training rows as the private table. The plan minimises the loss of the problem's test rows, so
    measure on other rows.

    **Streams** use the arguments from `num_samples` to `uncertainty` and one pass of
    `OnePassDPSGD`, which is exactly $\rho$-GDP. For `LinearRegression` the default schedule is the
    best of all non-increasing ones (proof: `Optimal`). With logistic regression, `input_scales` or
    Huber's loss schedule and `.floor` are the best that gradient descent through `CoupledODE`
    finds.

    **Features on fixed rows and networks** (`Linearised`) use `epsilon`, `delta` and the arguments
    from `num_steps` on. Each pair of steps and sampling rate is a cell with the exact account's
    noise multiplier; its learning rate and clip norm minimise the test loss that
    `GaussianClosure(rank=0)` predicts within the limits of stability, for networks in the modes of
    tangent kernels. Softmax losses are searched on up to 1,024 rows, and finely in the best two
    cells only, on up to 4,096 rows (8,192 if noise is compared). The default theory predicts the
    best cell.

    Args:
        problem: a stream of linear or logistic regression, or features on fixed rows with any loss.
        epsilon, delta: budget, epsilon > 0 and delta in (0, 1). Or, without delta, a budget such as
            `jaxdp.privacy.MembershipAdvantage(0.1)`.
        num_samples: number n of samples of the one pass.
        schedule: `Optimal`; or a callable from free positive parameters to a schedule, such as
            `jaxdp.Constant` or `functools.partial(jaxdp.Polynomial, power=0.5)`; or
            `jaxdp.planning.FreeForm(num_knots)`.
        rho: budget in place of epsilon and delta, > 0.
        uncertainty: a `jaxdp.Box` of initial risks and label noises in place of the problem's, for
            least worst-case regret; for least squares on Gaussian inputs.
        num_steps: number of steps T, one or several.
        sampling_rate: expected share of the rows in a batch, in (0, 1], one or several.
        optimiser: factory from a learning rate to a transformation: `optax.sgd`,
            `functools.partial(optax.sgd, momentum=0.9)`, or `optax.adam` on up to 500 features.
        average: average of the iterates to release; None for the last iterate.
        sampler: class of the batches in `jaxdp.privacy`: `PoissonSampler` (zero-out-one), or, for
            replace-one, `ShuffledEpochs` (sizes that divide the rows) or `FixedSizeBatches`.
        criterion: "loss" of the test rows, or "accuracy" if labels are classes.
        noise: "independent" (default), or "correlated" to compare independent noise, cell by cell,
            with noise over the steps in a fixed order of the batches: `ScheduledNoise` at sampling
            rate 1, `BandedNoise` below. The plan keeps independent noise unless another saves 2 %
            of the excess over training without privacy, and says so. For features on fixed rows and
            linear optimisers; it takes several times as long.
        progress: True for a bar, False for none, None for one in a terminal or a notebook; or a
            function that is called with the share done.

    Returns:
        A `OnePassPlan` for streams, a `TrainingPlan` otherwise. Both print.

    Warns:
        UserWarning: delta is at least one over the number of samples or of training rows; or the
            best setting of a network is beyond the limits of its theory.

    Raises:
        NotCoveredError: no plan exists for the problem, or the closure does not cover the optimiser
            or the batches.
        TypeError, ValueError: an argument is of the wrong kind, out of range, or for another kind
            of problem; or `account` has no epsilon at this delta for the little noise of a cell.
        ImportError: dp_accounting, which Poisson batches need, is not installed.
        RuntimeError: no prediction of any cell is finite and stable.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 10, key=jax.random.key(0))
        >>> plan = jaxdp.plan(problem, epsilon=2.0, delta=1e-5, num_steps=20, sampling_rate=1.0)
        >>> cost = jaxdp.account(plan.algorithm, delta=1e-5)
        >>> print(f"epsilon {cost.epsilon:.2f}, {cost.adjacency}, {len(plan.table)} cell")
        epsilon 2.00, zero-out-one, 1 cell
        >>> stream = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(stream, num_samples=1000, epsilon=2.0, delta=1e-5)
        >>> print(f"risk {plan.predicted.final_risk:.3f}, without privacy {plan.floor:.4f}")
        risk 0.142, without privacy 0.0076
    """
    require_kind("problem", problem, AbstractProblem, "a problem, such as LinearRegression")
    of_streams = {
        "num_samples": num_samples,
        "schedule": schedule,
        "rho": rho,
        "uncertainty": uncertainty,
    }
    of_features = {
        "num_steps": num_steps,
        "sampling_rate": sampling_rate,
        "optimiser": optimiser,
        "average": average,
        "sampler": sampler,
        "criterion": criterion,
        "noise": noise,
    }
    if isinstance(problem, AbstractFeatureProblem | Linearised):
        _refuse(problem, of_streams, _OF_STREAMS, _OF_FEATURES)
        asked = budget_of(epsilon, delta)
        warn_of_budget(asked, problem.num_train, stacklevel=2)
        with listening_where_seen(progress, "plan") as told:
            found = plan_training(problem, budget=asked, **of_features, told=told)
            told(1.0)
        return found
    if isinstance(problem, LinearRegression | AbstractSignalProblem):
        _refuse(problem, of_features, _OF_FEATURES, _OF_STREAMS)
        with listening_where_seen(progress, "plan") as told:
            found = plan_one_pass(problem, epsilon=epsilon, delta=delta, **of_streams)
            told(1.0)
        return found
    raise NotCoveredError(
        "expected regression on a stream (LinearRegression, the .surrogate of a table, "
        "LogisticRegression) or features on fixed rows (FixedFeatures, RandomFeatures) to plan "
        f"for, got {type(problem).__name__}"
    )


def _refuse(problem, given, defaults, expected):
    """Raise TypeError if an argument of the other kind of problem is given."""
    others = [name for name, value in given.items() if value is not defaults[name]]
    if others:
        raise TypeError(
            f"expected for {type(problem).__name__} epsilon, delta and {', '.join(expected)}, "
            f"got {', '.join(others)}"
        )
