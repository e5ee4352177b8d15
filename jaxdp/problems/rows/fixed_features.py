r"""A linear model on given features: a table, a kernel's map, or the frozen body of a network."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float, Shaped

from jaxdp.core.arrays import as_wide_float
from jaxdp.losses import AbstractLoss
from jaxdp.problems.rows.feature_arguments import (
    SQUARED,
    require_arrays,
    require_labels,
    require_loss,
)
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.reduction import reduced_features, seen_on_host


class FixedFeatures(AbstractFeatureProblem):
    r"""The linear model $f(x) = \varphi(x)^\top\theta$ on features that are given, row by row.

    Training starts from theta = 0. The risk is the mean loss of the test rows. With a loss of k
    outputs, such as `jaxdp.losses.Softmax(k)`, theta has k columns, and a gradient is clipped by
    its norm over all of them. A model with an intercept has a column of ones among its features.

    Made by `from_arrays`.

    Attributes:
        train_inputs, test_inputs: the features, (n, p) and (m, p).
        train_labels, test_labels: y; classes are whole numbers from 0, stored as floats.
        loss: of a row, one of `jaxdp.losses`.

    Example:
        >>> import jax, jax.numpy as jnp, jaxdp
        >>> features = jax.random.normal(jax.random.key(0), (50, 8))
        >>> labels = jnp.where(features[:, 0] > 0, 1, -1)
        >>> rows = features[:40], labels[:40], features[40:], labels[40:]
        >>> problem = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Logistic())
        >>> problem.num_train, problem.num_test, problem.num_features
        (40, 10, 8)
    """

    train_inputs: Float[Array, "train features"] = eqx.field(
        converter=functools.partial(as_wide_float, name="train_features")
    )
    train_labels: Float[Array, " train"] = eqx.field(
        converter=functools.partial(as_wide_float, name="train_labels")
    )
    test_inputs: Float[Array, "test features"] = eqx.field(
        converter=functools.partial(as_wide_float, name="test_features")
    )
    test_labels: Float[Array, " test"] = eqx.field(
        converter=functools.partial(as_wide_float, name="test_labels")
    )
    loss: AbstractLoss = SQUARED

    def __check_init__(self):
        require_loss(self.loss)
        require_arrays(
            ("train_features", self.train_inputs, self.train_labels),
            ("test_features", self.test_inputs, self.test_labels),
        )
        require_labels(self)

    @classmethod
    def from_arrays(
        cls,
        train_features: Shaped[Any, "train features"],
        train_labels: Shaped[Any, " train"],
        test_features: Shaped[Any, "test features"],
        test_labels: Shaped[Any, " test"],
        *,
        loss: AbstractLoss = SQUARED,
    ) -> "FixedFeatures":
        """The problem of given rows.

        Args:
            train_features, train_labels: shapes (n, p) and (n,).
            test_features, test_labels: shapes (m, p) and (m,).
            loss: of a row, one of `jaxdp.losses`; it says which labels there are: real numbers for
                `Squared()`, -1 and +1 for `Logistic()`, 0, ..., k - 1 for `Softmax(k)`.

        Raises:
            TypeError: something is not made of real numbers, or the loss is of another kind.
            ValueError: shapes do not match, something is not finite, or a label is none of the
                loss.
        """
        return cls(
            train_inputs=train_features,
            train_labels=train_labels,
            test_inputs=test_features,
            test_labels=test_labels,
            loss=loss,
        )

    @property
    def num_features(self):
        return self.train_inputs.shape[1]

    @property
    def is_valid(self):
        leaves = jax.tree.leaves(self)
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()

    def train_features(self):
        return self.train_inputs

    def test_features(self):
        return self.test_inputs

    def reduced(self):
        """This problem in at most n + m coordinates.

        By QR of the features where p <= 4(n + m), else from their Gram matrix, in the features' own
        type, by a Cholesky factorisation in float64.
        """
        return reduced_features(self, self.joint_kernel)

    def joint_kernel(self) -> Float[Array, "rows rows"]:
        """The kernel of all rows, training rows first, (n + m, n + m)."""
        rows = jnp.concatenate([self.train_inputs, self.test_inputs])
        return jnp.matmul(rows, rows.T, precision=Precision.HIGHEST)

    def host_features(self):
        train, test = (
            np.asarray(values, np.float64) for values in (self.train_inputs, self.test_inputs)
        )
        return seen_on_host(train, test)

    @property
    def host_accuracy(self):
        return 0.0
