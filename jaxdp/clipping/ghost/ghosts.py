r"""Ghost norms: per-sample gradients of one weight, measured and summed without being formed.

A weight that meets a sample in one matrix product has the gradient $\delta x^\top$, of norm
$\|\delta\|\|x\|$; a row of a table that is looked up has the sum of the cotangents of its
look-ups. Elsewhere (several positions, several uses, a function of the weight) the gradient is
formed and held.

Two faster forms are left out because what they sum is not what they measure. The Gram form over
positions cancels in float32 and then can under-estimate. A sum over all positions of all samples
at once adds cotangents that cancel within a sample, but that destroy the other samples' low bits
before they do.

Source: Goodfellow (2015), "Efficient per-example gradient computations", for the norm of an outer
product.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.clipping.ghost.program import Program
from jaxdp.clipping.ghost.weight_gradient import (
    Capture,
    WeightGradient,
    flushed,
    scaled,
    weighted,
    widened,
)
from jaxdp.clipping.ghost.weight_uses import Use

# The most numbers whose squares are added in one sum.
CHUNK = 1024
_ROW_MODES = (
    lax.GatherScatterMode.CLIP,
    lax.GatherScatterMode.FILL_OR_DROP,
    lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


class AbstractGhost(abc.ABC):
    """The per-sample gradients of one covered weight.

    What `hold` returns is stored and then read twice, by `norms` and by `weighted_sum`. Both mean
    the same gradient by it, to the last bit.
    """

    def __init__(self, gradient: WeightGradient):
        self.gradient = gradient

    @abc.abstractmethod
    def hold(self, captures: list[Capture]) -> Any:
        """What each sample's gradient is read from, with a leading batch axis."""

    @abc.abstractmethod
    def norms(self, held: Any) -> Float[Array, " batch"]:
        """The norms of the gradients that are held."""

    @abc.abstractmethod
    def weighted_sum(self, held: Any, scale: Float[Array, " batch"]) -> Float[Array, "..."]:
        """The sum over samples of scale times gradient, in the weight's shape."""


class OuterProduct(AbstractGhost):
    """One matrix product at one position: the norm of the gradient is a product of norms."""

    def hold(self, captures):
        (capture,) = captures
        return [Capture(jax.tree.map(flushed, capture.operands), capture.cotangent)]

    def norms(self, held):
        (capture,) = held
        (use,) = self.gradient.uses
        (inputs,) = capture.operands.values()
        _, batched = use.step.equation.params["dimension_numbers"]
        side = use.step.operands.index(use.value)
        num_blocks, axes = len(batched[0]), batched[1 - side]
        # Batch axes of the product (an ensemble of weights) have a gradient each.
        inputs = jnp.moveaxis(inputs, [1 + axis for axis in axes], range(1, 1 + num_blocks))
        blocks = inputs.shape[: 1 + num_blocks]
        # Like `of_batch`; storing it so would double what a bias has in common with its weight.
        cotangent = flushed(capture.cotangent)
        norms = [length(values.reshape(*blocks, -1)) for values in (inputs, cotangent)]
        return length((norms[0] * norms[1]).reshape(blocks[0], -1))

    def weighted_sum(self, held, scale):
        return self.gradient.of_batch(held, scale)


class Rows(AbstractGhost):
    """Rows of a table looked up by index: the cotangents of each row are summed and held."""

    def hold(self, captures):
        (capture,) = captures
        (use,) = self.gradient.uses
        params = use.step.equation.params
        numbers = params["dimension_numbers"]
        (indices,) = capture.operands.values()
        batch = len(indices)
        if indices.dtype.itemsize < 4:
            # Narrow whole numbers could not be compared with the number of rows.
            indices = indices.astype(jnp.int32)
        place = numbers.start_index_map.index(0)
        last = self._table().shape[0] - 1
        rows = indices[..., place]
        counts = jnp.ones(rows.shape, bool)
        if params["mode"] != lax.GatherScatterMode.CLIP:
            # What lies outside has no derivative.
            others = jnp.delete(indices, place, axis=-1)
            counts = (rows >= 0) & (rows <= last) & jnp.all(others == 0, axis=-1)
        rows, counts = jnp.clip(rows, 0, last).reshape(batch, -1), counts.reshape(batch, -1)
        axes = [1 + axis for axis in numbers.offset_dims]
        cotangent = jnp.moveaxis(capture.cotangent, axes, range(-len(axes), 0))
        cotangent = jnp.where(counts[..., None], cotangent.reshape(*rows.shape, -1), 0)

        def by_row(rows, cotangent):
            first = jnp.argmax(rows[:, None] == rows[None, :], axis=1)
            return jax.ops.segment_sum(widened(cotangent), first, len(rows))

        return rows, jax.vmap(by_row)(rows, cotangent)

    def norms(self, held):
        _, summed = held
        return length(summed.reshape(len(summed), -1))

    def weighted_sum(self, held, scale):
        rows, summed = held
        shape = self._table().shape
        table = jnp.zeros((shape[0], summed.shape[-1]), summed.dtype)
        added = scaled(scale, summed).reshape(-1, summed.shape[-1])
        return table.at[rows.ravel()].add(added).reshape(shape)

    def _table(self):
        return self.gradient.program.shapes[self.gradient.uses[0].value]


class Kept(AbstractGhost):
    """Gradients formed, once, and held."""

    def hold(self, captures):
        return jax.vmap(self.gradient.of_sample)(captures)

    def norms(self, held):
        return length(held.reshape(len(held), -1))

    def weighted_sum(self, held, scale):
        return weighted(scale, held)


def choose_ghost(gradient: WeightGradient) -> AbstractGhost:
    """The cheapest form for one weight whose sum adds nothing but what was measured."""
    program, uses = gradient.program, gradient.uses
    if len(uses) == 1 and uses[0].view.is_rearrangement:
        (use,) = uses
        if _is_one_product(program, use):
            return OuterProduct(gradient)
        if _takes_rows(program, use):
            return Rows(gradient)
    return Kept(gradient)


def _is_one_product(program: Program, use: Use) -> bool:
    """Whether the sample enters a matrix product at one position only."""
    if use.step.name != "dot_general" or len(use.captured) != 1:
        return False
    side = use.step.operands.index(use.value)
    contracted, batched = use.step.equation.params["dimension_numbers"]
    inputs = program.shapes[use.captured[0]]
    if not jnp.issubdtype(inputs.dtype, jnp.floating):
        # Of a product with complex numbers only the real part is a gradient.
        return False
    joined = {*contracted[1 - side], *batched[1 - side]}
    return all(size == 1 for axis, size in enumerate(inputs.shape) if axis not in joined)


def _takes_rows(program: Program, use: Use) -> bool:
    """Whether whole rows of the weight, and nothing else, are looked up."""
    params = use.step.equation.params
    if use.step.name != "gather" or use.step.operands[0] != use.value or use.view.steps:
        return False
    numbers = params["dimension_numbers"]
    shape = program.shapes[use.value].shape
    return (
        params["slice_sizes"] == (1, *shape[1:])
        and params["mode"] in _ROW_MODES
        and 0 in numbers.start_index_map
        and not numbers.operand_batching_dims
    )


def length(values: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
    """Euclidean norm over the last axis, in float32 at least, without overflow or underflow.

    Long vectors are measured in pieces of `CHUNK`, and then the vector of their norms is, so that
    the relative error grows with the logarithm of the size and not with the size.
    """
    size = values.shape[-1]
    if size > CHUNK:
        fewest = -(-size // CHUNK)
        # Equal pieces if there are any of fair length; filling up with zeros copies everything.
        number = next((k for k in range(fewest, 2 * fewest) if size % k == 0), fewest)
        missing = [(0, 0)] * (values.ndim - 1) + [(0, -size % number)]
        pieces = jnp.pad(values, missing) if size % number else values
        return length(length(pieces.reshape(*values.shape[:-1], number, -1)))
    sizes = jnp.abs(widened(values))
    largest = jnp.max(sizes, axis=-1, initial=0)
    # A compiler may divide by multiplying with 1 / unit, which must not underflow either.
    bounds = 2.0**-100, 2.0**100
    unit = jnp.where(jnp.isfinite(largest), jnp.clip(largest, *bounds), 1)
    return unit * jnp.sqrt(jnp.sum(jnp.square(sizes / unit[..., None]), axis=-1))
