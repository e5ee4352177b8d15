"""One data set at many widths: nested weights, so that each feature is evaluated once."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

import jaxdp
from experiments.privacy_for_free.batches import interpolator_risk
from jaxdp.problems.rows.features import ReducedFeatures

# Features a row from which the kernel, summed in float32, is conditioned well enough.
_WIDE = 1.5


class AtWidth(NamedTuple):
    """A width's problem, and the test error of its interpolator."""

    width: float
    problem: ReducedFeatures
    interpolator_risk: float

    @classmethod
    def of(cls, width: float, problem: ReducedFeatures) -> "AtWidth":
        return cls(width, problem, interpolator_risk(problem))


def at_widths(
    limit: jaxdp.RandomFeatures, widths: Sequence[float], *, key: Key[Array, ""]
) -> Iterator[AtWidth]:
    """The problems that share rows, and weights of which a narrow one has the first.

    Args:
        limit: the rows, at infinite width.
        widths: rising; infinity stands for infinite width.
        key: of the weights.
    """
    finite = [int(width) for width in widths if math.isfinite(width)]
    weights = jr.normal(key, (max(finite), limit.dim)) / np.sqrt(limit.dim)
    rows = limit.num_train + limit.num_test
    wide = [width for width in finite if width > _WIDE * rows]
    for width in finite:
        if width not in wide:
            problem = _with_weights(limit, weights[:width])
            yield AtWidth.of(float(width), problem.reduced())
    yield from _cumulative(limit, weights, wide)
    if math.inf in widths:
        yield AtWidth.of(math.inf, limit.reduced())


def _cumulative(limit: jaxdp.RandomFeatures, weights, widths: Sequence[int]) -> Iterator[AtWidth]:
    rows = limit.num_train + limit.num_test
    kernel, start = np.zeros((rows, rows)), 0
    for width in widths:
        kernel += np.asarray(_with_weights(limit, weights[start:width]).joint_kernel(), np.float64)
        start = width
        reduced = ReducedFeatures.from_kernel(kernel, limit.train_labels, limit.test_labels)
        yield AtWidth.of(float(width), reduced)


def _with_weights(limit: jaxdp.RandomFeatures, weights) -> jaxdp.RandomFeatures:
    return jaxdp.RandomFeatures.from_arrays(
        limit.train_inputs,
        limit.train_labels,
        limit.test_inputs,
        limit.test_labels,
        weights,
        limit.activation,
    )
