"""A linear model on given features: a table, a kernel's map, or the frozen body of a network."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from jaxdp.core.arrays import as_numbers, as_wide_float
from jaxdp.core.checks import require_callable, require_count, require_real, require_shape
from jaxdp.losses import AbstractLoss
from jaxdp.problems.rows.features import (
    SQUARED,
    AbstractFeatureProblem,
    require_arrays,
    require_labels,
    require_loss,
    seen_on_host,
    wide_array,
)


class FixedFeatures(AbstractFeatureProblem):
    r"""The linear model $f(x) = \varphi(x)^\top\theta$ on given features of each row.

    Training starts from theta = 0. The risk is the mean loss of the test rows. With a loss of k
    outputs, such as `jaxdp.losses.Softmax(k)`, theta has k columns, and a gradient is clipped by
    its norm over all of them. A model with an intercept has a column of ones among its features.

    Use `from_arrays`, or `from_network` for a network with a frozen body. `print` shows the root
    mean square norm of the training rows' features, computed without privacy, which gives the clip
    norm its scale.

    Attributes:
        train_inputs, test_inputs: the features, (n, p) and (m, p).
        train_labels, test_labels: y; classes are whole numbers from 0, stored as floats.
        loss: loss of a row, one of `jaxdp.losses`.

    Example:
        >>> import jax, jax.numpy as jnp, jaxdp
        >>> features = jax.random.normal(jax.random.key(0), (50, 8))
        >>> labels = jnp.where(features[:, 0] > 0, 1, -1)
        >>> rows = features[:40], labels[:40], features[40:], labels[40:]
        >>> problem = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Logistic())
        >>> problem.num_train, problem.num_test, problem.num_features
        (40, 10, 8)
    """

    train_inputs: Float[Array, "train features"] = eqx.field(converter=wide_array("train_features"))
    train_labels: Float[Array, " train"] = eqx.field(converter=wide_array("train_labels"))
    test_inputs: Float[Array, "test features"] = eqx.field(converter=wide_array("test_features"))
    test_labels: Float[Array, " test"] = eqx.field(converter=wide_array("test_labels"))
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
            train_features, train_labels: arrays of shapes (n, p) and (n,).
            test_features, test_labels: arrays of shapes (m, p) and (m,).
            loss: loss of a row, one of `jaxdp.losses`, default `Squared()`. It determines the
                labels: real numbers for `Squared()`, -1 and +1 for `Logistic()`, 0, ..., k - 1 for
                `Softmax(k)`.

        Raises:
            TypeError: an array is not made of real numbers, or the loss is of another kind.
            ValueError: shapes do not match, a number is not finite, or a label is invalid for the
                loss.
        """
        return cls(train_features, train_labels, test_features, test_labels, loss)

    @classmethod
    def from_network(
        cls,
        body: Callable[[Shaped[Array, "..."]], Shaped[Array, " features"]],
        inputs: Shaped[Any, "train ..."],
        labels: Shaped[Any, " train"],
        test_inputs: Shaped[Any, "test ..."],
        test_labels: Shaped[Any, " test"],
        *,
        loss: AbstractLoss,
        batch_size: int = 256,
    ) -> "FixedFeatures":
        """The problem of a new linear head on the frozen body of a network.

        The head starts from zero and has an intercept: a column of ones follows the features.

        Args:
            body: function of one input, without a batch axis, to a vector of features, in
                operations of JAX: an Equinox module from `equinox.nn.inference_mode`, or a
                function.
            inputs, labels: training rows, shapes (n, ...) and (n,).
            test_inputs, test_labels: test rows, shapes (m, ...) and (m,).
            loss: loss of a row, as in `from_arrays`.
            batch_size: number of inputs in memory at once, default 256.

        Raises:
            ValueError: the body needs more than an input (a key, a state, the rest of a batch) or
                returns no vector, shapes do not match, a feature is not finite, or a label is
                invalid for the loss.

        Example:
            >>> import equinox as eqx, jax, jax.numpy as jnp, jaxdp
            >>> body = eqx.nn.MLP(6, 16, 32, depth=1, key=jax.random.key(0))
            >>> images = jax.random.normal(jax.random.key(1), (50, 6))
            >>> labels = jnp.where(images[:, 0] > 0, 1, -1)
            >>> rows = images[:40], labels[:40], images[40:], labels[40:]
            >>> loss = jaxdp.losses.Logistic()
            >>> jaxdp.FixedFeatures.from_network(body, *rows, loss=loss).num_features
            17
        """
        require_loss(loss)
        require_callable("body", body, "a function of one input, or an Equinox module")
        require_count("batch_size", batch_size)
        inputs, test_inputs = _rows("inputs", inputs), _rows("test_inputs", test_inputs)
        labels = as_wide_float(labels, "labels")
        require_shape("test_inputs", test_inputs, (None, *inputs.shape[1:]))
        _require_body(body, inputs)
        train, test = (_features(body, part, batch_size) for part in (inputs, test_inputs))
        return cls.from_arrays(train, labels, test, test_labels, loss=loss)

    @property
    def num_features(self):
        return self.train_inputs.shape[1]

    @property
    def feature_norm(self) -> float:
        """Root mean square of the norms of the training rows' features."""
        norms = np.linalg.norm(np.asarray(self.train_inputs, np.float64), axis=1)
        return float(np.sqrt(np.mean(norms**2)))

    def _derived(self):
        return *super()._derived(), "feature_norm"

    def train_features(self):
        return self.train_inputs

    def test_features(self):
        return self.test_inputs

    def host_features(self):
        rows = self.train_inputs, self.test_inputs
        return seen_on_host(*(np.asarray(values, np.float64) for values in rows))


def _rows(name: str, value: Any) -> Any:
    """Inputs as an array of their own type, one for each row, without a copy off the device."""
    require_real(name, value)
    # Integers stay, for a body with an embedding.
    rows = as_numbers(value, name)
    if not rows.ndim or 0 in rows.shape:
        raise ValueError(f"expected {name} with a row for each sample, got shape {rows.shape}")
    return rows


def _require_body(body: Callable, inputs: Any) -> None:
    """Raise ValueError unless one input, alone, has a vector of features."""
    wanted = "expected body to map one input to a vector of features"
    one = jax.ShapeDtypeStruct(inputs.shape[1:], jax.dtypes.canonicalize_dtype(inputs.dtype))
    try:
        found = eqx.filter_eval_shape(body, one)
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise ValueError(
            f"{wanted}, in operations of JAX and without dropout, a key, a state or the other rows "
            "of a batch (an Equinox module: as equinox.nn.inference_mode gives it); for an input "
            f"of shape {one.shape} it raised {type(error).__name__}: {reason}"
        ) from error
    if getattr(found, "ndim", None) != 1:
        came = f"shape {found.shape}" if hasattr(found, "shape") else type(found).__name__
        raise ValueError(
            f"{wanted}, got {came} for an input of shape {one.shape}; a map of features is made a "
            "vector by lambda x: body(x).reshape(-1)"
        )


def _features(body: Callable, inputs: Any, batch_size: int) -> Float[Array, "rows features"]:
    """The body's features of all rows, batch by batch, and ones."""
    count = len(inputs)
    size = min(batch_size, count)
    # The last batch reaches back, so that all are of one size and the body is compiled once.
    starts = [min(start, count - size) for start in range(0, count, size)]
    found = [_of_batch(body, inputs[start : start + size]) for start in starts]
    found[-1] = found[-1][len(found) * size - count :]
    return jnp.pad(jnp.concatenate(found), ((0, 0), (0, 1)), constant_values=1)


@eqx.filter_jit
def _of_batch(body, inputs):
    return as_wide_float(jax.vmap(body)(inputs), "features")
