r"""The eigenbasis of the training kernel, in which the theories of DP-GD on features are written.

A rotation of the seen coordinates turns $L = U\,\mathrm{diag}(\sqrt\lambda) V^\top$ into $W = LV$
with $W^\top W = \mathrm{diag}(\lambda)$, the eigenvalues of the kernel $K = LL^\top$. Columns of W
are never divided by singular values, so null modes need no care.
"""

import dataclasses
import functools
import math
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import concrete
from jaxdp.core.numerics.batching import one_at_a_time
from jaxdp.core.numerics.precision import product
from jaxdp.core.trajectory import record_steps
from jaxdp.losses import AbstractLoss
from jaxdp.losses.linear_model import slope_limits
from jaxdp.problems.rows.features import AbstractFeatureProblem

# Nodes of the softmax's quadrature for all rows together, unless a row would get more than
# `_MOST_NODES`. With a quarter of them, risks are within 0.1 % (2 % if noise dominates).
_ROW_NODES, _MOST_NODES = 2**14, 50
_SEED = 2026  # of the rows that stand for all


class KernelModes(eqx.Module):
    """A problem in the eigenbasis of its training kernel, largest eigenvalue first.

    Coordinates c predict $Wc$ on the training rows and $Mc$, plus unseen noise, on the test rows.
    """

    eigenvalues: Float[Array, " modes"]  # $\lambda_j$ of the kernel
    factor: Float[Array, "train modes"]  # W, orthogonal columns of squared length $\lambda_j$
    pull: Float[Array, " modes"]  # $W^\top y$, the force on each mode at c = 0
    test_factor: Float[Array, "test modes"]  # M
    feature_norms: Float[Array, " train"]  # $\|\varphi(x_i)\|$
    train_labels: Float[Array, " train"]
    test_labels: Float[Array, " test"]
    is_valid: Bool[Array, ""]  # whether the problem's traced parameters are in range
    loss: AbstractLoss
    unseen_factor: Float[Array, "test unseen"]  # N, for coordinates that training never sees
    # train_start, test_start: predictions before the first step; None for zeros.
    train_start: Float[Array, " train *outputs"] | None = None
    test_start: Float[Array, " test *outputs"] | None = None
    # Squared norm of each training row's part outside the modes, which carries noise and does not
    # learn; None if there is none.
    train_unseen: Float[Array, " train"] | None = None

    def with_shared_nodes(self) -> Self:
        """The modes with the softmax's quadrature nodes divided among many rows."""
        return dataclasses.replace(self, loss=with_shared_nodes(self.loss, self.num_train))

    def on_rows(self, rows: Int[np.ndarray | Array, " rows"]) -> Self:
        """The modes with some of the training rows."""
        names = "factor", "feature_norms", "train_labels", "train_start", "train_unseen"
        parts = {name: getattr(self, name) for name in names}
        fewer = {name: part[rows] for name, part in parts.items() if part is not None}
        return dataclasses.replace(self, **fewer)

    def train_predictions(self, mean: Float[Array, " modes *outputs"]) -> Array:
        moved = product(self.factor, mean)
        return moved if self.train_start is None else self.train_start + moved

    def test_predictions(self, mean: Float[Array, " modes *outputs"]) -> Array:
        moved = product(self.test_factor, mean)
        return moved if self.test_start is None else self.test_start + moved

    def with_unseen(self, spread: Float[Array, " train *square"], unseen: Any) -> Array:
        """`spread` plus variance in the directions of training rows that the modes leave out."""
        if self.train_unseen is None:
            return spread
        added = unseen * self.train_unseen
        if spread.ndim == 1:
            return spread + added
        return spread + added[:, None, None] * jnp.eye(spread.shape[-1], dtype=spread.dtype)[None]

    @property
    def unseen_norms(self) -> Float[Array, " test"]:
        r"""$\|N_i\|^2$ of each test row."""
        return jnp.sum(self.unseen_factor**2, axis=1)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of one prediction."""
        return () if self.loss.num_outputs is None else (self.loss.num_outputs,)

    @property
    def is_square(self) -> bool:
        """Whether the test error is a bias and a variance."""
        return self.loss.square_curvature is not None

    @property
    def num_train(self) -> int:
        return self.train_labels.shape[0]

    def stability_limit(self) -> float:
        r"""$2n/(c\lambda_{max})$ for a loss of curvature c; NaN if traced."""
        known, curvature = concrete(self.eigenvalues), concrete(self.loss.curvature_bound)
        if known is None or curvature is None or not known.max(initial=0) > 0:
            return math.nan
        return 2 * self.num_train / (float(curvature) * float(known.max()))

    def slope_limits(self, algorithm: DPGD | PrivateOptimiser) -> Float[Array, " train"]:
        r"""$C/\|\varphi(x_i)\|$: a sample is clipped if its loss has a larger slope."""
        return slope_limits(algorithm.clip_norm, self.feature_norms)

    def clipped_slopes(self, predictions, variances, limits):
        """Moments of the clipped slopes of the training rows, with independent Gaussian outputs."""
        return self.loss.clipped_slope(predictions, variances, self.train_labels, limits)

    def bias(self, mean: Float[Array, "*records modes"]) -> Float[Array, "*records"]:
        """Test error of the mean predictor."""
        labels = lax.broadcast_to_rank(self.test_labels, mean.ndim)
        return jnp.mean(self.loss.value(product(mean, self.test_factor.T), labels), axis=-1)


def some_rows(count: int, most: int) -> np.ndarray:
    """Indices of at most so many of `count` rows, drawn from a fixed seed."""
    # Evenly spaced rows might all be of one class.
    return np.sort(np.random.default_rng(_SEED).permutation(count)[:most])


def with_shared_nodes(loss: AbstractLoss, num_rows: int) -> AbstractLoss:
    """The loss; if softmax, with its quadrature nodes divided among so many rows, if many."""
    per_row = 2 * math.ceil(_ROW_NODES / (2 * num_rows))
    if loss.num_outputs is None or per_row > _MOST_NODES:
        return loss
    return dataclasses.replace(loss, nodes_per_row=per_row)


def kernel_modes(problem: AbstractFeatureProblem) -> KernelModes:
    """The problem in the eigenbasis of its training kernel; known values in float64 on the host."""
    reduced = problem.reduced()
    dtype = float_dtype(reduced)
    train, test, labels = (
        concrete(part) for part in (reduced.train_factor, reduced.test_factor, reduced.train_labels)
    )
    if train is not None and test is not None and labels is not None:
        values, vectors = np.linalg.eigh(train.T @ train)
        eigenvalues, basis = np.maximum(values[::-1], 0), vectors[:, ::-1]
        pull = (train @ basis).T @ labels
        factor, test_factor = (jnp.asarray(part @ basis, dtype) for part in (train, test))
    else:
        rows, columns = reduced.train_factor.shape
        # More columns than rows leave null modes, which carry noise to the test rows.
        is_wide = columns > rows
        svd = one_at_a_time(functools.partial(jnp.linalg.svd, full_matrices=is_wide))
        _, roots, transposed = svd(reduced.train_factor)
        eigenvalues = jnp.pad(roots**2, (0, max(0, columns - rows)))
        factor = product(reduced.train_factor, transposed.T)
        test_factor = product(reduced.test_factor, transposed.T)
        pull = product(factor.T, reduced.train_labels)
    # Under jit known arrays are constants, whose products would take the compiler minutes.
    factor, test_factor, reduced = lax.optimization_barrier((factor, test_factor, reduced))
    return KernelModes(
        eigenvalues=jnp.asarray(eigenvalues, dtype),
        factor=factor,
        pull=jnp.asarray(pull, dtype),
        test_factor=test_factor,
        feature_norms=reduced.feature_norms(),
        train_labels=reduced.train_labels,
        test_labels=reduced.test_labels,
        unseen_factor=reduced.unseen_factor,
        is_valid=reduced.is_valid,
        loss=reduced.loss,
    )


def explicit_modes(problem: AbstractFeatureProblem) -> KernelModes:
    """The problem in its own features, whose columns are not orthogonal, for Adam."""
    train, test = problem.train_features(), problem.test_features()
    return KernelModes(
        eigenvalues=one_at_a_time(jnp.linalg.eigvalsh)(product(train.T, train))[::-1],
        factor=train,
        pull=product(train.T, problem.train_labels),
        test_factor=test,
        feature_norms=jnp.linalg.norm(train, axis=1),
        train_labels=problem.train_labels,
        test_labels=problem.test_labels,
        is_valid=problem.is_valid,
        loss=problem.loss,
        unseen_factor=jnp.zeros((len(problem.test_labels), 0), train.dtype),
    )


def record_times(algorithm: DPGD, records: int) -> tuple[Array, Array]:
    """Numbers of updates done at the records, and the times eta k."""
    at_record = jnp.asarray(record_steps(algorithm.num_steps, records))
    return at_record, at_record * algorithm.learning_rate


def sum_over_rows(factor: Float[Array, "rows modes"], weights: Array) -> Array:
    r"""$W^\top w$ at full precision; for a vector in the order in which W is stored."""
    return product(weights, factor) if weights.ndim == 1 else product(factor.T, weights)


def of_rows(factor: Float[Array, "rows modes"], parts: Array) -> Array:
    """Sums over modes of arrays (modes, ...), weighted by the squares of a row of the factor."""
    flat = parts.reshape(len(parts), -1)
    return product(factor**2, flat).reshape(-1, *parts.shape[1:])
