"""The verb `plan`: from a budget to how to run it."""

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
from jaxdp.privacy.arguments import check_budget, warn_of_large_delta
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem

# What is asked of one kind of problem only, and what it is where nobody says.
_OF_STREAMS: dict[str, Any] = {
    "num_samples": None,
    "schedule": Optimal,
    "rho": None,
    "uncertainty": None,
}
_OF_FEATURES: dict[str, Any] = {
    "num_steps": (25, 100, 400),
    "sampling_rate": (0.05, 0.2, 1.0),
    "optimiser": optax.sgd,
    "average": None,
    "sampler": PoissonSampler,
    "criterion": "loss",
}


@overload
def plan(
    problem: LinearRegression | AbstractSignalProblem,
    *,
    num_samples: int,
    schedule: Any = Optimal,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    uncertainty: Box | None = None,
    progress: Callable[[float], None] | bool | None = None,
) -> OnePassPlan: ...


@overload
def plan(
    problem: AbstractProblem,
    *,
    epsilon: float,
    delta: float,
    num_steps: int | tuple[int, ...] = ...,
    sampling_rate: float | tuple[float, ...] = ...,
    optimiser: Any = ...,
    average: AbstractAverage | None = None,
    sampler: type[AbstractSampler] = ...,
    criterion: str = ...,
    progress: Callable[[float], None] | bool | None = None,
) -> TrainingPlan: ...


def plan(
    problem: AbstractProblem,
    *,
    epsilon: float | None = None,
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
    progress: Callable[[float], None] | bool | None = None,
) -> OnePassPlan | TrainingPlan:
    r"""How to run private learning within a budget, by what theory predicts of it.

    **Linear regression on a stream** (`LinearRegression`): `num_samples`, the budget as `rho` or as
    `epsilon` and `delta`, `schedule`, `uncertainty`. One pass of `OnePassDPSGD`, which is exactly
    $\rho$-GDP: a learning rate and a clip scale with the least predicted risk. By default the
    schedule is the best of all non-increasing ones (`Optimal` has the proof). The problem's numbers
    are taken as known; where they are not, `uncertainty` names a box of them, and the plan's worst
    regret over it is least.

    **Other streams** (`LogisticRegression`; `LinearRegression` with `input_scales` or Huber's
    loss): the same arguments but `uncertainty`. No theorem names the best schedule there. Families
    are fitted by gradients through the equations of `CoupledODE`, from many starts, and `Optimal`
    is the best `FreeForm` that is found, from the best hyperbola on; `.assumptions` says so. The
    floor is found in the same way, without noise and with any clip scale.

    **Features on fixed rows** (`FixedFeatures`, `RandomFeatures`): `epsilon`, `delta`, `num_steps`,
    `sampling_rate`, `optimiser`, `average`, `sampler`, `criterion`. How to train with DP-SGD. Every
    pair of steps and sampling rate is a cell. Its noise multiplier is that of the exact account.
    Its learning rate and clip norm minimise the test loss that `GaussianClosure(rank=0)` predicts,
    by gradients through the closure, within the limits of stability up to which it is to be
    trusted. With the softmax loss they are searched for without gradients and with few nodes of its
    quadrature, on up to 4,096 of the rows: coarsely first, and then finely in the two best cells,
    where they are within 2 % of each other. The best cell is predicted once more, by the default
    theory.

    **Networks** (`Linearised`): the same arguments, for all weights that are trained. Every cell is
    searched with the tangent kernel of the start, and once more with the mean kernel of training
    with what was best (`TangentClosure`); a setting beyond that theory's limits is warned of.

    Planning is not private. On features it looks at the rows, and what it chooses is not covered by
    epsilon. Give it public rows, or proxy rows that are like the private ones, with as many
    training rows as the private table has: from fewer follows another plan. What is then predicted
    is the loss of training on the rows that were given, not on the private ones. And the test rows
    of the problem are what is minimised: they are validation rows, so measure on rows that neither
    training nor planning saw. On a stream the same holds of the initial risk, the label noise and
    the spectrum, where they were estimated from private rows.

    All cells have the adjacency of the sampler, so that they can be compared. Poisson batches are
    zero-out-one; with them a rate of 1 is the full batch, also zero-out-one, with half the noise
    that replace-one asks for. `ShuffledEpochs` and `FixedSizeBatches` are replace-one, and a rate
    of 1 is there the full batch of `DPGD`.

    Args:
        problem: a stream of linear or logistic regression, or features on fixed rows with any loss.
        epsilon: > 0.
        delta: in (0, 1).
        num_samples: n, the length of the one pass.
        schedule: `Optimal`, or a family of schedules to be fitted: a callable from free positive
            parameters to a schedule, such as `jaxdp.Constant`, `jaxdp.Polynomial`,
            `jaxdp.Hyperbolic` or `functools.partial(jaxdp.Polynomial, power=0.5)`; or
            `jaxdp.FreeForm(num_knots)`.
        rho: the budget in place of epsilon and delta, > 0.
        uncertainty: a `jaxdp.Box` of initial risks and label noises, in place of the problem's.
        num_steps: T, one or several.
        sampling_rate: the expected share of the rows in a batch, in (0, 1], one or several; of
            batches of one size, rounded to a whole number of rows.
        optimiser: a factory, which makes a transformation of a learning rate: `optax.sgd`,
            `functools.partial(optax.sgd, momentum=0.9)`, or `optax.adam` on up to 500 features.
        average: of the iterates, to be released instead of the last one; None for no average.
        sampler: the class of the batches: `jaxdp.privacy.PoissonSampler`, `ShuffledEpochs` (sizes
            that divide the rows) or `FixedSizeBatches`.
        criterion: of the test rows, "loss", or "accuracy" where labels are classes.
        progress: True for a bar, False for none, None for one in a terminal or a notebook; or a
            function, called with the share done.

    Returns:
        A stream has a `OnePassPlan`: `.algorithm`, `.predicted`, `.floor`, `.sensitivities`,
        `.assumptions`, `.status`. Features have a `TrainingPlan`: `.algorithm`, `.predicted`,
        `.table`. Both have a text to print.

    Warns:
        UserWarning: delta is at least one over the number of samples or of training rows.

    Raises:
        NotCoveredError: of such problems there is no plan, or none with `uncertainty`; or the
            closure does not cover the optimiser or the batches.
        TypeError, ValueError: an argument is of the wrong kind or out of range, or belongs to the
            other kind of problem; or the simulated noise of a cell is so little that `account`
            has no epsilon for it at this delta.
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
    budget = {"epsilon": epsilon, "delta": delta}
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
    }
    if isinstance(problem, AbstractFeatureProblem | Linearised):
        _refuse(problem, of_streams, _OF_STREAMS, _OF_FEATURES)
        check_budget(epsilon, delta)
        warn_of_large_delta(delta, problem.num_train, stacklevel=2)
        with listening_where_seen(progress, "plan") as told:
            found = plan_training(problem, **budget, **of_features, told=told)
            told(1.0)
        return found
    if isinstance(problem, LinearRegression | AbstractSignalProblem):
        _refuse(problem, of_features, _OF_FEATURES, _OF_STREAMS)
        with listening_where_seen(progress, "plan") as told:
            found = plan_one_pass(problem, **budget, **of_streams)
            told(1.0)
        return found
    raise NotCoveredError(
        "a plan is for regression on a stream (LinearRegression; of a table, its .surrogate; "
        "LogisticRegression) or for features on fixed rows (FixedFeatures, RandomFeatures), got "
        f"{type(problem).__name__}"
    )


def _refuse(problem, given, defaults, expected):
    """Raise TypeError where an argument of the other kind of problem is given."""
    others = [name for name, value in given.items() if value is not defaults[name]]
    if others:
        raise TypeError(
            f"expected for {type(problem).__name__} epsilon, delta and {', '.join(expected)}, "
            f"got {', '.join(others)}"
        )
