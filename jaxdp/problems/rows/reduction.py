"""From features to the few coordinates that training and test rows span.

The features of all rows are factored by QR where there are few of them: that is right at p = n,
where a Gram matrix would lose the small directions. Where there are many, the Gram matrix is well
conditioned and several times cheaper.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.core.checks import require_finite
from jaxdp.core.numerics.one_at_a_time import one_at_a_time
from jaxdp.problems.rows.features import AbstractFeatureProblem, ReducedFeatures
from jaxdp.problems.rows.kernel_factors import split_factor

# How many features a row make the Gram matrix the better way.
_GRAM_RATIO = 4


def reduced_features(
    problem: AbstractFeatureProblem, joint_kernel: Callable[[], np.ndarray | Array]
) -> ReducedFeatures:
    """A problem on features in at most n + m coordinates.

    By QR of the features where p <= 4(n + m), or where they are traced, else from the kernel.
    """
    rows, width = problem.num_train + problem.num_test, problem.num_features
    is_known = not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(problem))
    if width is None or (width > _GRAM_RATIO * rows and is_known):
        labels = problem.train_labels, problem.test_labels
        return ReducedFeatures.from_kernel(joint_kernel(), *labels, loss=problem.loss)
    reduced = _reduced_by_qr(problem)
    require_finite("features", reduced.train_factor)
    require_finite("features", reduced.test_factor)
    return reduced


def seen_on_host(
    train: Float[np.ndarray, "train features"], test: Float[np.ndarray, "test features"]
) -> tuple[Float[np.ndarray, "train seen"], Float[np.ndarray, "test seen"]]:
    """Features of both kinds of rows, rotated to the coordinates that training sees."""
    if train.shape[1] <= train.shape[0]:
        return train, test
    orthonormal, upper = np.linalg.qr(train.T)
    return upper.T, test @ orthonormal


@eqx.filter_jit
def _reduced_by_qr(problem: AbstractFeatureProblem) -> ReducedFeatures:
    train, test = problem.train_features(), problem.test_features()
    if train.shape[1] <= train.shape[0]:
        factors = train, test, jnp.zeros((test.shape[0], 0), train.dtype)
    else:
        decompose = one_at_a_time(functools.partial(jnp.linalg.qr, mode="r"))
        upper = decompose(jnp.concatenate([train, test]).T)
        factors = split_factor(upper.T, train.shape[0])
    return ReducedFeatures(*factors, problem.train_labels, problem.test_labels, problem.loss)
