"""The cells of a plan before the search: checked arguments, samplers, and drafts of algorithms.

A draft is a `PrivateOptimiser` whose learning rate, clip norm and noise are placeholders.
"""

import inspect
from typing import Any

import numpy as np

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
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.theory.features.gaussian_closure import ClosureReading, GaussianClosure
from jaxdp.theory.features.tangent_closure import TangentClosure

_MOST_STEPS = 2**31 - 1
_A_RATE = 0.1  # placeholder, with which the optimiser is read before the search


def drafts(
    problem: AbstractFeatureProblem | Linearised,
    *,
    num_steps: Any,
    sampling_rate: Any,
    optimiser: Any,
    average: AbstractAverage | None,
    sampler: Any,
) -> dict[tuple[int, float], PrivateOptimiser]:
    """A draft for each number of steps and sampling rate; arguments as in `jaxdp.plan`."""
    require_host("problem", problem)
    lengths = [_length(one) for one in _listed("num_steps", num_steps)]
    rates = [_rate(one) for one in _listed("sampling_rate", sampling_rate)]
    # Two rates may round to one batch size.
    samplers = dict(_sampler(sampler, problem.num_train, rate) for rate in rates)
    require_callable(
        "optimiser",
        optimiser,
        "a factory, which makes a transformation of a learning rate, such as optax.sgd",
    )
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


def is_covered_as_linear(
    problem: AbstractFeatureProblem | Linearised, draft: PrivateOptimiser
) -> bool:
    """Whether the closure covers the optimiser as linear, else as Adam; or NotCoveredError."""
    theory = TangentClosure() if isinstance(problem, Linearised) else GaussianClosure()
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


def require_criterion(problem: AbstractFeatureProblem | Linearised, criterion: Any) -> None:
    """Raise unless criterion is "loss", or "accuracy" for a loss of classes."""
    if criterion not in ("loss", "accuracy"):
        raise ValueError(f'expected criterion "loss" or "accuracy", got {described(criterion)}')
    if criterion == "accuracy" and problem.loss.class_labels is None:
        came = type(problem.loss).__name__
        raise ValueError(f'expected a loss of classes for criterion "accuracy", got {came}')


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
