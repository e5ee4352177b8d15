"""Long sums in two parts: the rounded sum, and the rounding error.

In float32 a large record makes a sum forget small ones, so removing it moves the sum by far more
than its norm. Here at most `BLOCK_LENGTH` records, a *block*, are added in float32, and blocks with
exact rounding errors. One record changes one block if the other records keep their places: if it is
masked out or replaced, and in distribution with `PoissonSampler.sample_secretly`.

Source: Knuth (1997), "The art of computer programming" 2, Section 4.2.2, Theorem B.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

Held = TypeVar("Held")
# The most records that are added in float32. A block's error grows with the square of its length,
# and shorter blocks cost time: at 128 a wide layer takes a quarter more.
BLOCK_LENGTH = 256
GROUP = 8  # the most blocks that are held at once
_LARGE = 2.0**24  # added to it, float32 forgets 1 and rounds 3/2


class TwoPartSum(eqx.Module):
    """A sum held as two numbers of its precision.

    Attributes:
        high: the sum, rounded.
        low: the rounding error, at most half a unit in the last place of `high`.

    Example:
        >>> import numpy as np
        >>> from jaxdp.clipping import TwoPartSum
        >>> float(TwoPartSum(np.float32(1), np.float32(2**-30)).in_float64() - 1) == 2**-30
        True
    """

    high: PyTree[Array]
    low: PyTree[Array]

    def in_float64(self) -> PyTree[np.ndarray]:
        """High plus low on the host, rounded once, to float64."""
        return jax.tree.map(
            lambda high, low: np.asarray(high, np.float64) + np.asarray(low, np.float64),
            self.high,
            self.low,
        )


def two_sum(
    left: Float[Array, "*shape"], right: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """The rounded sum and its exact rounding error."""
    total = left + right
    of_right = total - left
    of_left = total - of_right
    return total, (left - of_left) + (right - of_right)


def add(left: TwoPartSum, right: TwoPartSum) -> TwoPartSum:
    """The sum of two sums, to about 45 bits."""

    def of_leaf(high, low, other_high, other_low):
        total, error = two_sum(high, other_high)
        return two_sum(total, (low + other_low) + error)

    pairs = jax.tree.map(of_leaf, left.high, left.low, right.high, right.low)
    structure = jax.tree.structure(left.high)
    return TwoPartSum(*jax.tree.transpose(structure, jax.tree.structure((0, 0)), pairs))


def in_type(total: TwoPartSum, dtype: Any) -> TwoPartSum:
    """The sum of one float64 array in two numbers of a narrower type, cut to their digits."""
    digits = jnp.finfo(dtype)
    if digits.bits >= jnp.finfo(total.high.dtype).bits:
        return jax.tree.map(lambda part: part.astype(dtype), total)
    # Compilers may remove a cast to and fro, but not this.
    high = lax.reduce_precision(total.high, digits.nexp, digits.nmant)
    low = (total.high - high) + total.low
    return TwoPartSum(high.astype(dtype), low.astype(dtype))


def sum_over_devices(part: TwoPartSum, axis_name: str) -> TwoPartSum:
    """The sum of every device's part, on each device: use it in `jax.shard_map` instead of `psum`.

    A `psum` would round, in an order of its own.

    Args:
        part: the sum on this device.
        axis_name: the mesh axis over which the batch is split.

    Returns:
        The sum of all parts, the same on every device.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.clipping import TwoPartSum, sum_over_devices
        >>> mesh = jax.make_mesh((1,), ("batch",), (jax.sharding.AxisType.Auto,))
        >>> specs = dict.fromkeys(("in_specs", "out_specs"), jax.sharding.PartitionSpec())
        >>> add_up = lambda part: sum_over_devices(part, "batch")
        >>> everywhere = jax.shard_map(add_up, mesh=mesh, check_vma=False, **specs)
        >>> everywhere(TwoPartSum(np.ones(2), np.zeros(2))).in_float64().tolist()
        [1.0, 1.0]
    """
    parts = jax.tree.map(lambda leaf: lax.all_gather(leaf, axis_name), part)
    first, rest = jax.tree.map(lambda leaf: leaf[0], parts), jax.tree.map(lambda x: x[1:], parts)
    return lax.scan(lambda total, part: (add(total, part), None), first, rest)[0]


def why_sums_are_unproved(arrays: PyTree[Any] = ()) -> str | None:
    """None if additions on these arrays' devices are those of the proof, else the reason why not.

    Once in a process and kind of device, sums with known values run through `sum_of_blocks`.
    """
    leaves = [leaf for leaf in jax.tree.leaves(arrays) if isinstance(leaf, jax.Array)]
    with jax.ensure_compile_time_eval():
        leaves = leaves or [jnp.zeros(())]
        devices = {device for leaf in leaves for device in leaf.sharding.addressable_devices}
        kinds = {device.device_kind: device for device in sorted(devices, key=lambda one: -one.id)}
        return next(filter(None, map(_why_unproved_on, kinds.values())), None)


@functools.cache
def _why_unproved_on(device: Any) -> str | None:
    if device.platform == "tpu":
        return (
            "the bound on rounding (jaxdp.clipping.sensitivity) is not proved for the products of "
            "a TPU; use a CPU or a GPU"
        )
    rows = _known_rows()
    # As arguments: a compiler evaluates sums of constants by itself, in another arithmetic.
    given = jax.device_put((rows.astype(np.float32), np.ones(len(rows), np.float32)), device)
    if np.array_equal(_known_sums(*given).in_float64(), rows.sum(axis=0)):
        return None
    return (
        f"additions on this {device.platform} are not those of IEEE arithmetic: the compiler "
        "drops their rounding errors, and one record can move a sum by many clip norms; leave "
        "options such as XLA's --xla_cpu_enable_fast_math out of XLA_FLAGS"
    )


def _known_rows() -> Float[np.ndarray, "blocks sums"]:
    """Blocks of one record, two groups of them: their sums lose all small numbers in float32."""
    place = np.arange(2 * GROUP)
    is_odd = place % 2 == 1
    return np.stack(
        [
            np.where(place == 0, _LARGE, 1),
            np.where(place == place[-1], _LARGE, 1),
            np.where(is_odd, 1.5, _LARGE + 2 * place),
            np.where(is_odd, -1, _LARGE * (1 - place % 4)),
        ],
        axis=1,
    )


@jax.jit
def _known_sums(rows: Float[Array, "blocks sums"], scale: Float[Array, " blocks"]) -> TwoPartSum:
    def of_block(rows, scale):
        return jnp.sum(scale[:, None] * rows, axis=0)

    return sum_of_blocks(of_block, rows, scale, len(rows), most=rows.size)


def sum_of_blocks(
    of_block: Callable[[Held, Float[Array, " block"]], Float[Array, "..."]],
    held: Held,
    scale: Float[Array, " batch"],
    num_blocks: int,
    *,
    most: int,
) -> TwoPartSum:
    """The sum over a batch, from `of_block`, which sums scale times the held values of one block.

    `num_blocks` divides the batch, and is a multiple of 8 if more than 8; `most` limits the numbers
    that several blocks held at once may fill.
    """
    if num_blocks == 1:
        total = of_block(held, scale)
        return TwoPartSum(total, jnp.zeros_like(total))
    length = len(scale) // num_blocks
    size = jax.eval_shape(of_block, *jax.tree.map(lambda x: x[:length], (held, scale))).size
    group = min(num_blocks, GROUP)
    while group > 1 and (group * size > most or num_blocks % group):
        group -= 1

    def pieces(leaf):
        # The blocks of a turn lie far apart, so that devices that share a batch share each turn.
        return leaf.reshape(group, num_blocks // group, length, *leaf.shape[1:]).swapaxes(0, 1)

    pieced = jax.tree.map(pieces, (held, scale))

    def of_group(piece):
        return _of_few(jax.vmap(of_block)(*piece))

    first = of_group(jax.tree.map(lambda leaf: leaf[0], pieced))
    if group == num_blocks:
        return first
    rest = jax.tree.map(lambda leaf: leaf[1:], pieced)
    return lax.scan(lambda total, piece: (add(total, of_group(piece)), None), first, rest)[0]


def blocks_of(size: int) -> tuple[int, int]:
    """The number and length of blocks that hold `size` records with the fewest places left over."""
    number = -(-size // BLOCK_LENGTH)
    if number > GROUP:
        number = -(-number // GROUP) * GROUP
    return number, -(-size // number)


def _of_few(blocks: Float[Array, "blocks ..."]) -> TwoPartSum:
    """The sum of at most eight blocks; their errors are added up and joined at the end."""
    high, low = blocks[0], jnp.zeros_like(blocks[0])
    for block in blocks[1:]:
        high, error = two_sum(high, block)
        low = low + error
    return TwoPartSum(*two_sum(high, low))
