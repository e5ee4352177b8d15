"""Random-feature weights as a function of a key: any block of rows, never the whole matrix.

At the full size of DR Figure 1 the matrix V has 9.4 billion entries, 37.7 GB. Here each entry is a
function of the key, its row and its column alone, so V can be cut into blocks in any way and made
again in every pass. Counters instead of `jax.random.normal`: .6 of its time on a CPU, and a third
of its memory.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from jaxdp.core.checks import require_count, require_key
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.counter_normals import key_words, normal_pairs

# Together with its hash a block is then 1 % of the matrix; fewer rows would not fill a product.
_MOST_BLOCKS, _LEAST_ROWS = 200, 256
# Counters of rows are signed 32-bit integers.
_MOST_ROWS = 2**31 - 1


class RegeneratedWeights(AbstractDescription):
    r"""V with independent entries N(0, 1/d), made a block at a time from a key.

    The same matrix whatever the block size, device or transformation, up to the rounding of
    erf^-1. Entries are float32 numbers in float64 arithmetic too, so that a loss that is recomputed
    in float64 sees the same V.

    Args:
        key: a `jax.random.key`; the only array that is stored.
        num_features: p, rows of V, below 2^31.
        dim: d, columns of V.
        block_size: rows of a block; at most p / 200, and at least 256, when None.

    Raises:
        TypeError, ValueError: the key is not one, or a size is not a whole number >= 1.

    Example:
        >>> import jax
        >>> from jaxdp.attacks import RegeneratedWeights
        >>> weights = RegeneratedWeights(jax.random.key(0), num_features=10**6, dim=3072)
        >>> weights.shape, weights.num_blocks  # 12 GB, were it in memory
        ((1000000, 3072), 200)
    """

    key: Key[Array, ""]
    num_features: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    block_size: int = eqx.field(static=True)

    def __init__(self, key: Any, num_features: int, dim: int, *, block_size: int | None = None):
        require_key(key)
        self.key = key
        self.num_features = require_count("num_features", num_features)
        self.dim = require_count("dim", dim)
        if self.num_features > _MOST_ROWS:
            raise ValueError(f"expected num_features < 2^31, got {num_features}")
        if block_size is None:
            largest = max(_LEAST_ROWS, self.num_features // _MOST_BLOCKS)
            # Even blocks: the last one then lacks less than a row for each of the others.
            count = -(-self.num_features // min(largest, self.num_features))
            block_size = -(-self.num_features // count)
        self.block_size = min(require_count("block_size", block_size), self.num_features)

    @property
    def shape(self) -> tuple[int, int]:
        """(p, d), of the matrix that this stands for."""
        return self.num_features, self.dim

    @property
    def ndim(self) -> int:
        """2, as of the matrix."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """float32, of every block."""
        return np.dtype(np.float32)

    @property
    def num_blocks(self) -> int:
        """How many blocks make up the matrix."""
        return -(-self.num_features // self.block_size)

    def block(self, index: Int[Any, ""]) -> Float[Array, "rows dim"]:
        """Rows `index` x `block_size` onward; those of the last block beyond p are zeros.

        Args:
            index: in [0, num_blocks), traced or not; not checked.
        """
        start = jnp.asarray(index, jnp.int32) * self.block_size
        rows = (start + jnp.arange(self.block_size, dtype=jnp.int32))[:, None]
        half = -(-self.dim // 2)
        pairs = jnp.arange(half, dtype=jnp.int32)[None]
        left, right = normal_pairs(key_words(self.key), rows, pairs, jnp.float32)
        normals = jnp.concatenate([left, right[:, : self.dim - half]], axis=1)
        scale = jnp.where(rows < self.num_features, np.float32(self.dim**-0.5), 0)
        # Fused into what uses it, a block would be hashed anew for each of its uses.
        return lax.optimization_barrier(normals * scale)

    @eqx.filter_jit
    def materialise(self) -> Float[Array, "features dim"]:
        """V as one array, for tests and small problems."""
        blocks = lax.map(self.block, jnp.arange(self.num_blocks, dtype=jnp.int32))
        return blocks.reshape(-1, self.dim)[: self.num_features]
