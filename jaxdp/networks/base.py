"""What the attack on a last layer asks of a network: features, and a linear layer upon them."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float


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
        r"""$\varphi(x)$, what the penultimate layer makes of one input."""

    def __call__(self, input: Float[Array, " in"]) -> Float[Array, " outputs"]:
        """f(x)."""
        return jnp.matmul(self.last, self.features(input), precision=Precision.HIGHEST)
