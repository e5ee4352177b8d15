r"""An Equinox model near its start: the true network, its tangent, and the kernel of that tangent.

A network f(w, x) whose weights move little is linear in them, $f(w_0, x) + \nabla f(w_0, x)^\top (w
- w_0)$: a model on the *tangent features* $\nabla f(w_0, x)$ that starts from the predictions of
the given weights. Source: Jacot, Gabriel and Hongler (2018), "Neural tangent kernel", and Lee et
al. (2019), "Wide neural networks of any depth evolve as linear models under gradient descent".
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.core.checks import described, require_callable, require_shape
from jaxdp.core.numerics.precision import full_products
from jaxdp.losses import AbstractLoss
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.rows.features import (
    are_finite,
    require_filled,
    require_labels,
    require_loss,
    wide_array,
)

# Rows that are differentiated together.
BLOCK_ROWS = 256


class Linearised(AbstractProblem):
    """An Equinox model whose weights are trained from those that it is given.

    The model maps one input to one number (of shape () or (1,)) or, with a loss of k outputs such
    as `jaxdp.losses.Softmax(k)`, to k logits. The risk is the mean loss of the test rows.
    `jaxdp.simulate` trains the true network, and with
    `simulator=jaxdp.simulation.LinearisedNetwork()` the linear one. `jaxdp.predict` uses
    `jaxdp.MeanPath`.

    With `trainable` only the biases (BitFit) or the last layers are trained, and only they have
    tangent features. A head that starts at zero hides the body from the tangent, and in low-rank
    adapters (LoRA) the factor that starts at zero hides the other one: `MeanPath` with several
    segments takes the tangent anew.

    Args:
        model: function of one input, without a key or a state; its inexact arrays are the weights.
        inputs, labels: training rows, (n, ...) and (n,).
        test_inputs, test_labels: test rows, (m, ...) and (m,).
        loss: loss of a row, one of `jaxdp.losses`; it determines the labels.
        trainable: Equinox filter of the trained weights: a tree like the model of True and False, a
            prefix of one, or a function of one leaf; None (default) for all weights.

    Raises:
        TypeError: an argument is of another kind, or no weight is trained.
        ValueError: shapes do not match, a number is not finite, a label is invalid for the loss,
            the model draws numbers (active dropout) or mixes rows (BatchNorm), or it does not
            return one number, or one for each class.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, jaxdp
        >>> model = eqx.nn.MLP(5, "scalar", 16, 1, jnp.tanh, key=jax.random.key(0))
        >>> inputs = jax.random.normal(jax.random.key(1), (50, 5))
        >>> labels = jnp.where(inputs[:, 0] > 0, 1, -1)
        >>> rows = inputs[:40], labels[:40], inputs[40:], labels[40:]
        >>> problem = jaxdp.Linearised(model, *rows, loss=jaxdp.losses.Logistic())
        >>> problem.num_train, problem.num_test, problem.num_weights
        (40, 10, 113)
    """

    model: Callable[..., Any]
    inputs: Float[Array, " train *shape"] = eqx.field(converter=wide_array("inputs"))
    labels: Float[Array, " train"] = eqx.field(converter=wide_array("labels"))
    test_inputs: Float[Array, " test *shape"] = eqx.field(converter=wide_array("test_inputs"))
    test_labels: Float[Array, " test"] = eqx.field(converter=wide_array("test_labels"))
    loss: AbstractLoss = eqx.field(kw_only=True)
    trainable: PyTree = eqx.field(kw_only=True, default=None)

    def __check_init__(self):
        require_callable("model", self.model, "an Equinox model, called with one input")
        require_loss(self.loss)
        _refuse_layers(self.model)
        _require_filter(self.model, self.trainable)
        shape = (None, *self.inputs.shape[1:])
        for kind in ("", "test_"):
            rows, labels_of = getattr(self, f"{kind}inputs"), getattr(self, f"{kind}labels")
            require_shape(f"{kind}inputs", rows, shape)
            require_filled(f"{kind}inputs", rows)
            require_shape(f"{kind}labels", labels_of, (len(rows),))
        require_labels(self)
        if not jax.tree.leaves(self.weights):
            raise TypeError("expected a model with weights that are trained, got none")
        self._require_outputs()

    def _require_outputs(self):
        """Raise unless the model's output fits the loss; no number is computed."""
        row = jax.ShapeDtypeStruct(self.inputs.shape[1:], self.inputs.dtype)
        try:
            found = eqx.filter_eval_shape(self.model, row)
        except Exception as error:
            error.add_note(f"raised by model(input) at one input, of shape {row.shape}")
            raise
        count = self.loss.num_outputs
        shapes = ((), (1,)) if count is None else ((count,),)
        if getattr(found, "shape", None) not in shapes:
            wanted = "one number" if count is None else f"{count} numbers, one a class,"
            came = getattr(found, "shape", type(found).__name__)
            raise ValueError(f"expected model(input) to give {wanted} for the loss, got {came}")

    @property
    def train_labels(self) -> Float[Array, " train"]:
        """The labels of the training rows."""
        return self.labels

    @property
    def num_train(self) -> int:
        """n, the number of training rows."""
        return len(self.labels)

    @property
    def num_test(self) -> int:
        """m, the number of test rows."""
        return len(self.test_labels)

    @property
    def num_weights(self) -> int:
        """P, the number of trained weights."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.weights))

    @property
    def weights(self) -> PyTree[Array]:
        """$w_0$: the given values of the trained weights, with None in place of others."""
        chosen = True if self.trainable is None else self.trainable
        return eqx.filter(eqx.filter(self.model, chosen), eqx.is_inexact_array)

    @property
    def is_valid(self) -> Bool[Array, ""]:
        return are_finite(self)

    def _derived(self):
        return "num_train", "num_test", "num_weights"

    def prediction(self, weights: PyTree[Array], row: Float[Array, "*shape"]) -> Array:
        """The network's output for one input: a number, or one for each class."""
        found = eqx.combine(weights, self.model)(row)
        return jnp.reshape(found, () if self.loss.num_outputs is None else (-1,))

    def tangent_prediction(self, weights: PyTree[Array], row: Float[Array, "*shape"]) -> Array:
        """The output, for one input, of the network linearised at $w_0$."""
        start = self.weights
        change = jax.tree.map(jnp.subtract, weights, start)
        found, moved = jax.jvp(lambda at: self.prediction(at, row), (start,), (change,))
        return found + moved

    def predictions(self, weights: PyTree[Array], rows: Float[Array, " rows *shape"]) -> Array:
        """The network's outputs for several inputs, in blocks, at full precision."""
        with full_products():
            one = functools.partial(self.prediction, weights)
            return lax.map(one, rows, batch_size=min(BLOCK_ROWS, len(rows)))


def _require_filter(model: Callable[..., Any], trainable: Any) -> None:
    if trainable is None:
        return
    try:
        eqx.filter(model, trainable)
    # A user's filter may raise anything.
    except Exception as error:
        raise TypeError(
            "expected trainable to be None, a tree of True and False like the model, such as "
            "eqx.tree_at(where, jax.tree.map(lambda _: False, model), replace=True), or a function "
            "of one leaf (a weight, or a function of the model) to True or False, such as "
            f"eqx.is_array; got {described(trainable)}, which raised {type(error).__name__}"
        ) from error


def _refuse_layers(model: Any) -> None:
    """Raise ValueError if a layer draws numbers or uses other rows."""

    def is_refused(node):
        kinds = eqx.nn.Dropout, eqx.nn.BatchNorm
        return isinstance(node, kinds) and not node.inference

    for path, node in jax.tree_util.tree_flatten_with_path(model, is_leaf=is_refused)[0]:
        if is_refused(node):
            does = "draws numbers" if isinstance(node, eqx.nn.Dropout) else "mixes rows"
            raise ValueError(
                "expected a model whose prediction of a row is a function of that row alone, got "
                f"{type(node).__name__} at model{jax.tree_util.keystr(path)}, which {does}: switch "
                "it off with equinox.nn.inference_mode(model)"
            )
