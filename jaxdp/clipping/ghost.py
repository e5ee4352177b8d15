r"""Ghost norms: per-sample gradients of one weight, measured and summed without being formed.

A weight that meets a sample in one matrix product has the gradient $\delta x^\top$, of norm
$\|\delta\|\|x\|$; a row of a table that is looked up has the sum of the cotangents of its
look-ups. Elsewhere (several positions, several uses) the gradient is formed: once and kept where
it is at most twice as large as what the backward pass keeps for its uses anyway, else twice, in
blocks no larger than that. The Gram form over positions is left out: it cancels in float32 and
then can under-estimate.

Source: Goodfellow (2015), "Efficient per-example gradient computations"; Bu, Mao and Xu (2022),
"Scalable and efficient training of large convolutional neural networks with differential
privacy", for the choice between forms.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.clipping.program import Program
from jaxdp.clipping.weight_gradient import Capture, WeightGradient, weighted, widened
from jaxdp.clipping.weight_uses import Use

# A gradient is kept up to this many times the size of what the backward pass keeps for it.
_KEPT = 2
_ROW_MODES = (
    lax.GatherScatterMode.CLIP,
    lax.GatherScatterMode.FILL_OR_DROP,
    lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


class AbstractGhost(abc.ABC):
    """The per-sample gradients of one covered weight."""

    def __init__(self, gradient: WeightGradient):
        self.gradient = gradient

    @abc.abstractmethod
    def measure(self, captures: list[Capture]) -> tuple[Float[Array, " batch"], Any]:
        """The norms, and what `weighted_sum` needs of each sample."""

    def weighted_sum(self, held: Any, scale: Float[Array, " batch"]) -> Float[Array, "..."]:
        """The sum over samples of scale times gradient, in the weight's shape."""
        return self.gradient.of_batch(held, scale)


class OuterProduct(AbstractGhost):
    """One matrix product at one position: the norm of the gradient is a product of norms."""

    def measure(self, captures):
        (capture,) = captures
        (use,) = self.gradient.uses
        (inputs,) = capture.operands.values()
        _, batched = use.step.equation.params["dimension_numbers"]
        side = use.step.operands.index(use.value)
        num_blocks, axes = len(batched[0]), batched[1 - side]
        # Batch axes of the product (an ensemble of weights) have a gradient each.
        inputs = jnp.moveaxis(inputs, [1 + axis for axis in axes], range(1, 1 + num_blocks))
        blocks = inputs.shape[: 1 + num_blocks]
        norms = [length(values.reshape(*blocks, -1)) for values in (inputs, capture.cotangent)]
        return length((norms[0] * norms[1]).reshape(blocks[0], -1)), captures


class Rows(AbstractGhost):
    """Rows of a table looked up by index: the cotangents of each row are summed, then measured."""

    def measure(self, captures):
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
        last = self.gradient.program.shapes[use.value].shape[0] - 1
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

        def norm(rows, cotangent):
            first = jnp.argmax(rows[:, None] == rows[None, :], axis=1)
            summed = jax.ops.segment_sum(widened(cotangent), first, len(rows))
            return length(summed.ravel())

        return jax.vmap(norm)(rows, cotangent), captures


class Kept(AbstractGhost):
    """Gradients formed once and kept: they are hardly larger than what their uses keep."""

    def measure(self, captures):
        gradients = jax.vmap(self.gradient.of_sample)(captures)
        return length(gradients.reshape(len(gradients), -1)), gradients

    def weighted_sum(self, held, scale):
        return weighted(scale, held)


class InBlocks(AbstractGhost):
    """Gradients formed for a few samples at a time, measured and dropped."""

    def measure(self, captures):
        batch = captures[0].cotangent.shape[0]
        block = max(1, batch * _captured_size(self.gradient) // self._weight_size())
        norms = lax.map(
            lambda capture: length(self.gradient.of_sample(capture).ravel()),
            captures,
            batch_size=block,
        )
        return norms, captures

    def _weight_size(self):
        view = self.gradient.uses[0].view
        return self.gradient.program.shapes[self.gradient.program.weights[view.weight]].size


def choose_ghost(gradient: WeightGradient) -> AbstractGhost:
    """The cheapest form for one weight."""
    program, uses = gradient.program, gradient.uses
    if len(uses) == 1 and uses[0].view.is_rearrangement:
        (use,) = uses
        if _is_one_product(program, use):
            return OuterProduct(gradient)
        if _takes_rows(program, use):
            return Rows(gradient)
    weight = program.shapes[program.weights[uses[0].view.weight]]
    is_small = weight.size <= _KEPT * _captured_size(gradient)
    return (Kept if is_small else InBlocks)(gradient)


def _captured_size(gradient: WeightGradient) -> int:
    """How many numbers the backward pass keeps of one sample for the uses of a weight."""
    return sum(
        gradient.program.shapes[value].size
        for use in gradient.uses
        for value in (*use.captured, use.output)
    )


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
    """Euclidean norm over the last axis, in float32 at least, without overflow or underflow."""
    sizes = jnp.abs(widened(values))
    largest = jnp.max(sizes, axis=-1, initial=0)
    # A compiler may divide by multiplying with 1 / unit, which must not underflow either.
    bounds = 2.0**-100, 2.0**100
    unit = jnp.where(jnp.isfinite(largest), jnp.clip(largest, *bounds), 1)
    return unit * jnp.sqrt(jnp.sum(jnp.square(sizes / unit[..., None]), axis=-1))
