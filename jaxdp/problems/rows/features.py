"""Models that are linear in their parameters, on fixed rows: features, and their reduction.

Clipped gradients are combinations of the n training rows' features and the noise is isotropic, so a
rotation of the parameters changes nothing. One rotation brings p features to at most n + m
coordinates: the first r = min(n, p) are all that training sees, the others only carry noise.
Source: the function-space view of PF (6.5); Derived here, test_function_space.
"""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Shaped

from jaxdp.core.arrays import as_wide_float, float_dtype
from jaxdp.core.checks import (
    NotCoveredError,
    concrete,
    require_count,
    require_finite,
    require_kind,
    require_non_negative,
    require_shape,
)
from jaxdp.core.numerics.batching import one_at_a_time
from jaxdp.losses import AbstractLoss, Squared
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.rows.kernel_factors import (
    SpectralGap,
    kernel_accuracy,
    largest_eigenvalue,
    ridge_coefficients,
    split_factor,
    triangular_root,
)

# The default loss.
SQUARED = Squared()


def wide_array(name: str) -> Callable[[Any], Array]:
    """A field's converter to an array, whose errors use this name."""
    return functools.partial(as_wide_float, name=name)


def are_finite(tree: Any) -> Bool[Array, ""]:
    """Whether all real numbers in a pytree are finite, traced ones too."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()


def require_loss(loss: Any) -> None:
    require_kind("loss", loss, AbstractLoss, "one of jaxdp.losses such as Squared()")


def require_arrays(train: tuple[str, Any, Any], test: tuple[str, Any, Any]) -> None:
    """Raise ValueError unless rows and labels, by (name, rows, labels), fit together."""
    columns = None
    for kind, (name, rows, labels) in (("train", train), ("test", test)):
        require_shape(name, rows, (None, columns))
        count, columns = rows.shape
        require_shape(f"{kind}_labels", labels, (count,))
    for name, rows, _ in (train, test):
        require_filled(name, rows)


def require_filled(name: str, values: Any) -> None:
    """Raise ValueError unless an array has entries, and all of them are finite."""
    require_finite(name, values)
    if 0 in values.shape:
        raise ValueError(f"expected a non-empty {name}, got shape {values.shape}")


def require_labels(problem: Any) -> None:
    """Raise unless all labels are valid for the problem's loss; traced ones pass."""
    problem.loss.require_labels("train_labels", problem.train_labels)
    problem.loss.require_labels("test_labels", problem.test_labels)


def _require_rows_of_both(train_labels: Any, test_labels: Any) -> None:
    for kind, labels in (("training", train_labels), ("test", test_labels)):
        if not len(labels):
            raise ValueError(f"expected at least one {kind} row, got none")


def reason_not_squared(problem: Any) -> str | None:
    """Why a result for the loss $(f - y)^2$ does not apply to the problem, or None."""
    if problem.loss.square_curvature == SQUARED.square_curvature:
        return None
    return f"it describes the squared loss, got {type(problem.loss).__name__}"


# Features per row above which the Gram matrix is cheaper.
_GRAM_RATIO = 4


class AbstractFeatureProblem(AbstractProblem):
    r"""Loss $\ell(\varphi(x)^\top\theta, y)$; the risk is its mean over the test rows.

    Attributes:
        train_labels, test_labels: y of the training rows and of the test rows.
        loss: loss of a row, $(f - y)^2$ or another of `jaxdp.losses`. For k outputs (`Softmax`),
            theta has k columns.
    """

    train_labels: eqx.AbstractVar[Float[Array, " train"]]
    test_labels: eqx.AbstractVar[Float[Array, " test"]]
    loss: eqx.AbstractVar[AbstractLoss]

    @property
    @abc.abstractmethod
    def num_features(self) -> int | None:
        """p, the number of parameters of an output; None if infinite."""

    @abc.abstractmethod
    def train_features(self) -> Float[Array, "train features"]:
        """phi of the training rows; NotCoveredError for infinite width."""

    @abc.abstractmethod
    def test_features(self) -> Float[Array, "test features"]:
        """phi of the test rows; NotCoveredError for infinite width."""

    @abc.abstractmethod
    def host_features(self) -> tuple[np.ndarray, np.ndarray]:
        """Features of the training and the test rows in float64, up to a common rotation."""

    @property
    def host_accuracy(self) -> float:
        """The error of `host_features`, relative to their norm."""
        return 0.0

    def joint_kernel(self) -> np.ndarray | Float[Array, "rows rows"]:
        """The kernel of all rows, training rows first, (n + m, n + m)."""
        rows = jnp.concatenate([self.train_features(), self.test_features()])
        return jnp.matmul(rows, rows.T, precision=Precision.HIGHEST)

    def reduced(self) -> "ReducedFeatures":
        """This problem in at most n + m coordinates.

        By QR of the features if p <= 4(n + m), which is right at p = n, or if they are traced.
        Otherwise from the kernel, by a Cholesky factorisation in float64, which is several times
        cheaper and well conditioned.
        """
        rows, width = self.num_train + self.num_test, self.num_features
        is_known = not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self))
        if width is None or (width > _GRAM_RATIO * rows and is_known):
            labels = self.train_labels, self.test_labels
            return ReducedFeatures.from_kernel(self.joint_kernel(), *labels, loss=self.loss)
        reduced = _reduced_by_qr(self)
        require_finite("features", reduced.train_factor)
        require_finite("features", reduced.test_factor)
        return reduced

    @property
    def num_train(self) -> int:
        """n, the number of training rows."""
        return self.train_labels.shape[0]

    @property
    def num_test(self) -> int:
        """m, the number of test rows."""
        return self.test_labels.shape[0]

    @property
    def is_valid(self):
        return are_finite(self)

    def _derived(self):
        return "num_train", "num_test", *(() if self.num_features is None else ("num_features",))

    def interpolator_risk(self) -> float:
        r"""Test error of the minimum-norm least-squares solution $\theta^* = \Phi^+ Y$ (PF (3.7)).

        In float64 on the host. Explicit features are solved by QR and SVD, never through their Gram
        matrix: right at p = n too, where the risk peaks. A reduced problem is solved to the
        accuracy of its factors, a kernel without the directions below its rounding.

        Raises:
            NotCoveredError: the loss is not the squared one.
        """
        return self.ridge_risk(0.0)

    def ridge_risk(self, ridge: float) -> float:
        r"""Test error of the ridge solution $(\Phi^\top\Phi + \lambda I)^{-1}\Phi^\top Y$.

        Source: PF (6.116). In float64 on the host.

        Args:
            ridge: $\lambda$ >= 0, in the units of the kernel; 0 is the limit, `interpolator_risk`.

        Raises:
            NotCoveredError: the loss is not the squared one.
        """
        reason = reason_not_squared(self)
        if reason is not None:
            raise NotCoveredError(
                f"the closed form needs the squared loss: {reason}; give the problem "
                "loss=jaxdp.losses.Squared(), or simulate training without noise"
            )
        require_non_negative("ridge", ridge)
        train, test = self.host_features()
        solution = ridge_coefficients(
            train, np.asarray(self.train_labels, np.float64), ridge, self.host_accuracy
        )
        return float(np.mean((test @ solution - np.asarray(self.test_labels, np.float64)) ** 2))

    def kernel_eigenvalues(self) -> np.ndarray:
        r"""Eigenvalues of $K = \Phi\Phi^\top$, (num_train,), falling; float64 on the host."""
        features = self.host_features()[0]
        values = np.linalg.svd(features, compute_uv=False) ** 2
        # Zeros beyond number p.
        return np.pad(values, (0, len(features) - len(values)))

    def spectral_gap(self, rank: int) -> SpectralGap:
        """The kernel's eigenvalues number `rank` and the next, with a ridge and times between them.

        Args:
            rank: number of eigenvalues above the gap: the number of inputs d for random features
                with $d << n << d^2$ (PF Lemma C.5).

        Raises:
            NotCoveredError: the loss is not a square, so modes have no rates of their own.
            ValueError: there are not that many eigenvalues.
        """
        if self.loss.square_curvature is None:
            came = f"{type(self.loss).__name__}; kernel_eigenvalues() takes any loss"
            raise NotCoveredError(f"expected the loss Squared() or HalfSquared(), got {came}")
        rank, eigenvalues = require_count("rank", rank), self.kernel_eigenvalues()
        if rank >= len(eigenvalues):
            raise ValueError(f"expected rank < {len(eigenvalues)}, the number of rows, got {rank}")
        above, below = float(eigenvalues[rank - 1]), float(eigenvalues[rank])
        return SpectralGap(rank, above, below, self.num_train, self.loss.curvature_bound)


class ReducedFeatures(AbstractFeatureProblem):
    r"""A problem after the rotation that separates the coordinates that training sees.

    With seen coordinates c (r of them) and unseen u (q of them), predictions are $Lc$ on the
    training rows and $Mc + Nu$ on the test rows. $LL^\top$ is the training rows' kernel, $ML^\top$
    the test rows' with them, $MM^\top + NN^\top$ the test rows' own.

    Args:
        train_factor: L, (num_train, r).
        test_factor: M, (num_test, r).
        unseen_factor: N, (num_test, q); q may be 0.
        train_labels, test_labels: y.
        loss: loss of a row, default `Squared()`.

    Raises:
        TypeError: the loss is not one of `jaxdp.losses`.
        ValueError: shapes do not match, a number is not finite, or a label is invalid for the loss.

    Example:
        >>> import numpy as np
        >>> from jaxdp.problems import ReducedFeatures
        >>> factors = np.eye(3, dtype=np.float32), np.ones((2, 3)), np.zeros((2, 0))
        >>> problem = ReducedFeatures(*factors, np.array([1.0, -1.0, 1.0]), np.ones(2))
        >>> problem.num_train, problem.num_test, problem.num_features
        (3, 2, 3)
    """

    train_factor: Float[Array, "train seen"]
    test_factor: Float[Array, "test seen"]
    unseen_factor: Float[Array, "test unseen"]
    train_labels: Float[Array, " train"]
    test_labels: Float[Array, " test"]
    loss: AbstractLoss

    def __init__(
        self,
        train_factor: Float[Any, "train seen"],
        test_factor: Float[Any, "test seen"],
        unseen_factor: Float[Any, "test unseen"],
        train_labels: Shaped[Any, " train"],
        test_labels: Shaped[Any, " test"],
        loss: AbstractLoss = SQUARED,
    ):
        self.train_factor = as_wide_float(train_factor, "train_factor")
        self.test_factor = as_wide_float(test_factor, "test_factor")
        self.unseen_factor = as_wide_float(unseen_factor, "unseen_factor")
        self.train_labels = as_wide_float(train_labels, "train_labels")
        self.test_labels = as_wide_float(test_labels, "test_labels")
        self.loss = loss
        require_loss(loss)
        require_shape("train_labels", self.train_labels, (None,))
        require_shape("test_labels", self.test_labels, (None,))
        rows = {"train": self.num_train, "test": self.num_test, "unseen": self.num_test}
        for name, count in rows.items():
            require_shape(f"{name}_factor", getattr(self, f"{name}_factor"), (count, None))
            require_finite(f"{name}_factor", getattr(self, f"{name}_factor"))
        require_labels(self)
        _require_rows_of_both(self.train_labels, self.test_labels)
        if self.train_factor.shape[1] != self.test_factor.shape[1]:
            shapes = f"{self.train_factor.shape} and {self.test_factor.shape}"
            raise ValueError(f"expected factors with one number of columns, got shapes {shapes}")

    @classmethod
    def from_kernel(
        cls,
        kernel: Float[Any, "rows rows"],
        train_labels: Shaped[Any, " train"],
        test_labels: Shaped[Any, " test"],
        *,
        loss: AbstractLoss = SQUARED,
    ) -> "ReducedFeatures":
        """The problem with a given kernel, computed in float64 on the host.

        Args:
            kernel: positive semi-definite matrix, (n + m, n + m), training rows first.
            train_labels, test_labels: arrays of shapes (n,) and (m,).
            loss: loss of a row, default `Squared()`.

        Raises:
            TypeError: the kernel is traced, or the loss is not one of `jaxdp.losses`.
            ValueError: shapes do not match, the kernel is not positive semi-definite, or a label is
                invalid for the loss.
        """
        train_labels = as_wide_float(train_labels, "train_labels")
        test_labels = as_wide_float(test_labels, "test_labels")
        known = concrete(kernel, "kernel")
        if known is None:
            raise TypeError("expected a kernel with known values, got a traced one")
        require_shape("train_labels", train_labels, (None,))
        require_shape("test_labels", test_labels, (None,))
        _require_rows_of_both(train_labels, test_labels)
        size = len(train_labels) + len(test_labels)
        if known.shape != (size, size):
            rows = f"{len(train_labels)} training and {len(test_labels)} test rows"
            wanted = f"a kernel of shape {(size, size)} for {rows}"
            raise ValueError(f"expected {wanted}, got {known.shape}")
        require_finite("kernel", known)
        largest = np.abs(known).max(initial=0)
        gap = np.abs(known - known.T).max(initial=0)
        if gap > 1e-4 * largest:
            raise ValueError(f"expected a symmetric kernel, got entries that differ by {gap:.3g}")
        dtype = float_dtype(train_labels, test_labels)
        factors = split_factor(triangular_root(known, kernel_accuracy(kernel)), len(train_labels))
        train, test, unseen = (jnp.asarray(part, dtype) for part in factors)
        return cls(train, test, unseen, train_labels, test_labels, loss)

    @property
    def num_features(self):
        return self.train_factor.shape[1] + self.unseen_factor.shape[1]

    def train_features(self):
        unseen = self.unseen_factor.shape[1]
        return jnp.pad(self.train_factor, ((0, 0), (0, unseen)))

    def test_features(self):
        return jnp.concatenate([self.test_factor, self.unseen_factor], axis=1)

    def host_features(self):
        factors: Any = self.train_factor, self.test_factor
        return tuple(np.asarray(factor, np.float64) for factor in factors)

    @property
    def host_accuracy(self):
        return float(jnp.finfo(self.train_factor.dtype).eps)

    def reduced(self):
        return self

    def feature_norms(self) -> Float[Array, " train"]:
        r"""$\|\varphi(x_i)\|$ of the training rows."""
        # At full precision: a norm that is too small clips too little.
        rows = self.train_factor
        return jnp.sqrt(jnp.einsum("ij,ij->i", rows, rows, precision=Precision.HIGHEST))

    def stability_limit(self) -> float:
        r"""$2n/(c\lambda_{max})$: the step size from which unclipped gradient descent diverges.

        c is a bound on the loss's curvature, 2 for the squared loss; if the loss curves less,
        larger steps may be stable. NaN if factor or loss is traced, infinite if the factor is zero.
        """
        curvature = concrete(self.loss.curvature_bound)
        if curvature is None or isinstance(self.train_factor, Tracer):
            return math.nan
        largest = largest_eigenvalue(self.train_factor)
        return 2 * self.num_train / (float(curvature) * largest) if largest > 0 else math.inf


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
