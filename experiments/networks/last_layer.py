r"""Networks whose last layer is attacked, and that layer trained alone.

Source: DR Section 5.2. All k outputs of a network share the h features: the last layer has
p(L) = k h numbers, but it gives away only a span of k directions among h features.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.attacks import NetworkTarget, RandomFeaturesTarget
from jaxdp.core.keys import purpose_key
from jaxdp.core.numerics.precision import full_products


class AbstractLastLayerNetwork(eqx.Module):
    r"""$f(x) = W\varphi(x)$: a linear last layer on the features of the layers before it.

    Attributes:
        last: W.
    """

    last: eqx.AbstractVar[Float[Array, "outputs features"]]

    @property
    @abc.abstractmethod
    def in_size(self) -> int:
        """d, the length of a flat input."""

    @abc.abstractmethod
    def features(self, input: Float[Array, " in"]) -> Float[Array, " features"]:
        r"""$\varphi(x)$, the penultimate layer's output for one input."""

    def __call__(self, input: Float[Array, " in"]) -> Float[Array, " outputs"]:
        """f(x)."""
        return jnp.matmul(self.last, self.features(input), precision=Precision.HIGHEST)


class TwoLayerNetwork(AbstractLastLayerNetwork):
    r"""A two-layer ReLU network without biases, $f(x) = W_2\,\mathrm{ReLU}(W_1 x)$.

    The first weights are independent, $N(0, 1/d)$ in $W_1$ and $N(0, 1/h)$ in $W_2$.
    Of d inputs, h neurons and k outputs. Source: DR Section 5.2.
    """

    hidden: Float[Array, "width in"]
    last: Float[Array, "outputs width"]

    def __init__(self, in_size: int, width: int, num_outputs: int, *, key: Key[Array, ""]):
        first, second = jr.split(purpose_key(key, "init"))
        self.hidden = jr.normal(first, (width, in_size)) / math.sqrt(in_size)
        self.last = jr.normal(second, (num_outputs, width)) / math.sqrt(width)

    @property
    def in_size(self) -> int:
        return self.hidden.shape[1]

    def features(self, input: Float[Array, " in"]) -> Float[Array, " width"]:
        r"""$\mathrm{ReLU}(W_1 x)$."""
        return jax.nn.relu(jnp.matmul(self.hidden, input, precision=Precision.HIGHEST))


def fit_last_layer(
    model: AbstractLastLayerNetwork,
    inputs: Float[Any, "records in"],
    labels: Float[Any, "records outputs"],
) -> AbstractLastLayerNetwork:
    r"""The end of gradient descent on the last layer alone: the nearest weights that fit.

    The last layer moves by $(Y - f(X))^\top (\Phi^+)^\top$, which is in the span of the rows'
    features, as DR (2) has it for random features; the features stay as they are. With fewer
    features than records it is the least-squares fit. In float64 on the host.
    """
    inputs, labels = (jnp.asarray(rows, float) for rows in (inputs, labels))
    features = np.asarray(_features(model, inputs), np.float64)
    last = np.asarray(model.last, np.float64)
    residuals = np.asarray(labels, np.float64) - features @ last.T
    moved = last + np.linalg.lstsq(features, residuals)[0].T
    return eqx.tree_at(lambda model: model.last, model, jnp.asarray(moved, model.last.dtype))


def two_layer_target(
    trained: AbstractLastLayerNetwork, last_start: Float[Array, "outputs features"]
) -> RandomFeaturesTarget:
    r"""The attacker's view of a two-layer network: $W_1$, and the change of $W_2$ in training."""
    assert isinstance(trained, TwoLayerNetwork)
    return RandomFeaturesTarget(trained.hidden, jax.nn.relu, (trained.last - last_start).T)


def network_target(
    trained: AbstractLastLayerNetwork, last_start: Float[Array, "outputs features"]
) -> NetworkTarget:
    """The attacker's view of any such network: its features, and the change of its last layer."""
    return NetworkTarget(trained.features, (trained.last - last_start).T, trained.in_size)


@eqx.filter_jit
def _features(model, inputs):
    with full_products():
        return jax.vmap(model.features)(inputs)
