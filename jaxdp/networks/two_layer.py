"""The two-layer network that DR trains and attacks.

Source: DR Section 5.2. All k outputs share the h features: the last layer has p(L) = k h numbers,
but what it gives away is a span of k directions among h features.
"""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import require_count, require_key
from jaxdp.core.keys import purpose_key
from jaxdp.networks.base import AbstractLastLayerNetwork


class TwoLayerNetwork(AbstractLastLayerNetwork):
    r"""A two-layer ReLU network without biases, $f(x) = W_2\,\mathrm{ReLU}(W_1 x)$.

    The first weights are independent, $N(0, 1/d)$ in $W_1$ and $N(0, 1/h)$ in $W_2$.
    Source: DR Section 5.2.

    Args:
        in_size: d.
        width: h.
        num_outputs: k.
        key: of the weights.

    Raises:
        ValueError, TypeError: a size is not a whole number >= 1.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.networks import TwoLayerNetwork
        >>> network = TwoLayerNetwork(3, 40, 2, key=jax.random.key(0))
        >>> network.features(np.ones(3)).shape, network(np.ones(3)).shape
        ((40,), (2,))
    """

    hidden: Float[Array, "width in"]
    last: Float[Array, "outputs width"]

    def __init__(self, in_size: int, width: int, num_outputs: int, *, key: Key[Array, ""]):
        sizes = {"in_size": in_size, "width": width, "num_outputs": num_outputs}
        for name, value in sizes.items():
            require_count(name, value)
        require_key(key)
        first, second = jr.split(purpose_key(key, "init"))
        self.hidden = jr.normal(first, (width, in_size)) / math.sqrt(in_size)
        self.last = jr.normal(second, (num_outputs, width)) / math.sqrt(width)

    @property
    def in_size(self) -> int:
        return self.hidden.shape[1]

    def features(self, input: Float[Array, " in"]) -> Float[Array, " width"]:
        r"""$\mathrm{ReLU}(W_1 x)$."""
        return jax.nn.relu(jnp.matmul(self.hidden, input, precision=Precision.HIGHEST))
