r"""The residual network that DR trains and attacks, for images of any side.

Source: DR Appendix D.1, equations (165) and (166). No layer has a bias, so that f is homogeneous:
$f(cx) = c f(x)$ for c > 0. The authors' code has a ReLU after the stem, which (166) has not: both
are here.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from experiments.networks.last_layer import AbstractLastLayerNetwork
from jaxdp.core.keys import purpose_key

_BLOCK_KERNEL = 3
_PADDING = 1


class ResidualNetwork(AbstractLastLayerNetwork):
    r"""A residual convolutional network with a linear last layer.

    A convolution is its stem, then come residual blocks $B(u) = \phi(u + C[\phi(C[u])])$.

    $\phi$ is ReLU, C a convolution of 3 x 3; all have stride 1 and padding 1. The stem takes an
    image of side s to maps of side s + 3 - (its kernel): 32 to 7 with DR's 28 x 28. Its weights
    are independent $N(0, 1/d)$ at first, those after it $N(0, 1/\text{fan-in})$.
    Source: DR (165) and (166).

    Inputs are flat: d = side x side x channels numbers, rows first, the channel varying fastest
    (as in `Cifar10.images`). The features are flattened in the same way.

    Args:
        side: s, edge of the images in pixels.
        num_channels: h, of every map; the last layer sees h times the square of their side.
        num_outputs: k.
        image_channels: 3 for colours.
        stem_kernel: None is 7/8 of the side, rounded, DR's share: maps of side 7 for 32, 4 for 8.
        num_blocks: 4 in DR.
        stem_relu: True for a ReLU after the stem, as in DR's code; (166) has none.
        key: PRNG key of the weights.
    """

    stem: Float[Array, "kernel kernel image_channels channels"]
    blocks: Float[Array, "blocks two three three channels channels"]
    last: Float[Array, "outputs features"]
    side: int = eqx.field(static=True)
    stem_relu: bool = eqx.field(static=True)

    def __init__(
        self,
        side: int,
        num_channels: int,
        num_outputs: int,
        *,
        image_channels: int = 3,
        stem_kernel: int | None = None,
        num_blocks: int = 4,
        stem_relu: bool = False,
        key: Key[Array, ""],
    ):
        stem_kernel = max(1, round(7 * side / 8)) if stem_kernel is None else stem_kernel
        map_side = side + 2 * _PADDING + 1 - stem_kernel
        num_features = num_channels * map_side**2
        block = (_BLOCK_KERNEL, _BLOCK_KERNEL, num_channels, num_channels)
        first, middle, last = jr.split(purpose_key(key, "init"), 3)
        stem = (stem_kernel, stem_kernel, image_channels, num_channels)
        self.stem = _normal(first, stem, variance=1 / (side**2 * image_channels))
        fan_in = _BLOCK_KERNEL**2 * num_channels
        self.blocks = _normal(middle, (num_blocks, 2, *block), variance=1 / fan_in)
        self.last = _normal(last, (num_outputs, num_features), variance=1 / num_features)
        self.side = side
        self.stem_relu = stem_relu

    @property
    def in_size(self) -> int:
        return self.side**2 * self.stem.shape[2]

    def features(self, input: Float[Array, " in"]) -> Float[Array, " features"]:
        """The last block's maps, flat."""
        maps = _convolved(input.reshape(self.side, self.side, -1), self.stem)
        maps = jax.nn.relu(maps) if self.stem_relu else maps
        maps, _ = lax.scan(lambda maps, block: (_residual(maps, block), None), maps, self.blocks)
        return maps.reshape(-1)


def _normal(key: Key[Array, ""], shape: tuple[int, ...], *, variance: float) -> Array:
    # Flat at first: with many axes the generator takes seconds to compile.
    return math.sqrt(variance) * jr.normal(key, (math.prod(shape),)).reshape(shape)


def _residual(
    maps: Float[Array, "side side channels"],
    block: Float[Array, "two three three channels channels"],
) -> Float[Array, "side side channels"]:
    """B(u)."""
    inner = _convolved(jax.nn.relu(_convolved(maps, block[0])), block[1])
    return jax.nn.relu(maps + inner)


def _convolved(
    image: Float[Array, "side side in"], kernel: Float[Array, "rows columns in out"]
) -> Float[Array, "new_side new_side out"]:
    """Convolution as a product of matrices; within a loop XLA's own is much slower on a CPU."""
    rows, columns = kernel.shape[:2]
    padded = jnp.pad(image, ((_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0)))
    height, width = padded.shape[0] - rows + 1, padded.shape[1] - columns + 1
    tall = jnp.stack([padded[row : row + height] for row in range(rows)], axis=2)
    patches = jnp.stack([tall[:, column : column + width] for column in range(columns)], axis=3)
    axes = (2, 3, 4), (0, 1, 2)
    return jnp.tensordot(patches, kernel, axes=axes, precision=Precision.HIGHEST)
