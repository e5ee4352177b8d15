r"""Ghost norms: per-sample gradients of one weight, measured and summed without being formed.

A weight in one matrix product has the gradient $\delta x^\top$, of norm $\|\delta\|\|x\|$ (Source:
Goodfellow (2015), "Efficient per-example gradient computations"); a row of a looked-up table has
the sum of its cotangents. Other gradients are formed. The Gram form over positions would cancel in
float32, and a sum over positions of all samples would lose the low bits of others.
"""

import abc
import functools
import math
import string
from typing import Any, ClassVar, NamedTuple

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
from jaxdp.clipping.ghost.weight_uses import Use, is_unfoldable, num_products, num_unfolded
from jaxdp.clipping.two_part_sum import GROUP, TwoPartSum, sum_of_blocks

# The most numbers whose squares are added in one sum.
CHUNK = 1024
_ROW_MODES = (
    lax.GatherScatterMode.CLIP,
    lax.GatherScatterMode.FILL_OR_DROP,
    lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


class AbstractGhost(abc.ABC):
    """The per-sample gradients of one weight: `hold` is stored, and norm and sum read it."""

    form: ClassVar[str]

    def __init__(self, gradient: WeightGradient):
        self.gradient = gradient

    def sizes(self) -> tuple[int, dict[int, int]]:
        """An estimate of the bytes for a sample, and those of each operand and output."""
        return 0, {}

    @abc.abstractmethod
    def multiplications(self) -> tuple[int, int]:
        """Products for one sample: in its batch gradient, and in its norm and scaling."""

    @abc.abstractmethod
    def hold(self, captures: list[Capture]) -> Any:
        """The arrays from which each sample's gradient is read, with a leading batch axis."""

    @abc.abstractmethod
    def norms(self, held: Any) -> Float[Array, " batch"]:
        """The norms of the gradients that are held."""

    @abc.abstractmethod
    def weighted_sum(self, held: Any, scale: Float[Array, " batch"]) -> Float[Array, " size"]:
        """The sum over samples of scale times gradient, as a vector."""

    def in_the_weight(self, vector: Float[Array, " size"]) -> Float[Array, "..."]:
        return vector.reshape(self.gradient.shape)

    def total(
        self, held: Any, scale: Float[Array, " batch"], num_blocks: int, *, most: int
    ) -> TwoPartSum:
        """The weighted sum in blocks: see `sum_of_blocks`."""
        return sum_of_blocks(self.weighted_sum, held, scale, num_blocks, most=most)


class _Axes(NamedTuple):
    """The axes (letters) of a weight's view, operand and cotangent, without length one."""

    weight: str
    inputs: str
    cotangent: str
    batch: str  # an ensemble of weights, in all three


class OuterProduct(AbstractGhost):
    """One matrix product at one position: the norm of the gradient is a product of norms."""

    form = "product of norms"

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        return self.gradient.program.shapes[self.gradient.uses[0].value].shape

    @functools.cached_property
    def axes(self) -> _Axes:
        (use,) = self.gradient.uses
        side = use.step.operands.index(use.value)
        contracted, batched = use.step.equation.params["dimension_numbers"]
        letters = string.ascii_lowercase[: len(self.shape)]
        joined = [(*c, *b) for c, b in zip(contracted, batched, strict=True)]
        inputs = dict(zip(joined[1 - side], joined[side], strict=True))
        batch = "".join(letters[axis] for axis in batched[side])
        free = (axis for axis in range(len(self.shape)) if axis not in joined[side])
        return _Axes(
            weight=letters,
            inputs="".join(letters[inputs[axis]] for axis in sorted(inputs)),
            cotangent=batch + "".join(letters[axis] for axis in free),
            batch=batch,
        )

    def sizes(self):
        (use,) = self.gradient.uses
        values = *use.captured, use.output
        inputs, output = (self.gradient.bytes_of(value) for value in values)
        return inputs + 3 * output, dict(zip(values, (inputs, output), strict=True))

    def multiplications(self):
        (use,) = self.gradient.uses
        shapes = self.gradient.program.shapes
        return math.prod(self.shape), shapes[use.captured[0]].size + 2 * shapes[use.output].size

    def hold(self, captures):
        (capture,) = captures
        (inputs,) = capture.operands.values()
        lengths = dict(zip(self.axes.weight, self.shape, strict=True))

        def without_ones(values, axes):
            return values.reshape(len(values), *(lengths[axis] for axis in axes))

        # Cotangents are not stored flushed, because a bias holds the same array unflushed.
        cotangent = without_ones(capture.cotangent, self.axes.cotangent)
        return without_ones(flushed(inputs), self.axes.inputs), cotangent

    def norms(self, held):
        inputs, cotangent = held[0], flushed(held[1])
        places = [1 + self.axes.inputs.index(axis) for axis in self.axes.batch]
        inputs = jnp.moveaxis(inputs, places, range(1, 1 + len(places)))
        blocks = inputs.shape[: 1 + len(places)]
        norms = [length(values.reshape(*blocks, -1)) for values in (inputs, cotangent)]
        return length((norms[0] * norms[1]).reshape(blocks[0], -1))

    def weighted_sum(self, held, scale):
        axes, (inputs, cotangent) = self.axes, (held[0], flushed(held[1]))
        # The factor that is cut into slices is scaled, so that no scaled copy of all is made.
        if axes.weight[:1] in axes.cotangent:
            cotangent = flushed(scaled(scale, cotangent))
        else:
            inputs = flushed(scaled(scale, inputs))
        formula = f"Z{axes.inputs},Z{axes.cotangent}->{axes.weight}"
        factors = widened(inputs), widened(cotangent)
        return jnp.einsum(formula, *factors, precision=lax.Precision.HIGHEST).ravel()

    def total(self, held, scale, num_blocks, *, most):
        # Two copies of a wide weight in blocks are added faster than one.
        most = 2 * most
        wanted = -(-min(num_blocks, GROUP) * math.prod(self.shape) // most)
        first = self.shape[0] if self.shape else 1
        number = next((n for n in range(wanted, 4 * wanted) if first % n == 0), 1)
        sum_up = functools.partial(sum_of_blocks, self.weighted_sum)
        if number == 1:
            return sum_up(held, scale, num_blocks, most=most)

        # All blocks of one slice of the weight after another: they stay in a processor's cache.
        def of_slice(at):
            return sum_up(self._slice(held, at, number), scale, num_blocks, most=most)

        return jax.tree.map(jnp.ravel, lax.map(of_slice, jnp.arange(number)))

    def in_the_weight(self, vector):
        return self.gradient.through_view(vector.reshape(self.shape))

    def _slice(self, held, at, number):
        """The held arrays of slice `at` of `number` slices of the weight along its first axis."""
        size, axes = self.shape[0] // number, (self.axes.inputs, self.axes.cotangent)
        places = (1 + letters.find(self.axes.weight[0]) for letters in axes)
        return tuple(
            lax.dynamic_slice_in_dim(values, at * size, size, place) if place else values
            for values, place in zip(held, places, strict=True)
        )


class Rows(AbstractGhost):
    """Rows of a table looked up by index: the cotangents of each row are summed and held."""

    form = "summed by row"

    def sizes(self):
        (use,) = self.gradient.uses
        table, output = self._table(), self.gradient.program.shapes[use.output]
        num_rows = output.size * table.shape[0] // table.size
        size = self.gradient.bytes_of(use.output)
        # Cotangents, and memory for sorting integers.
        return 4 * size + 32 * num_rows, {use.output: size}

    def multiplications(self):
        return 0, 2 * self.gradient.program.shapes[self.gradient.uses[0].output].size

    def hold(self, captures):
        (capture,) = captures
        (use,) = self.gradient.uses
        params = use.step.equation.params
        numbers = params["dimension_numbers"]
        (indices,) = capture.operands.values()
        batch = len(indices)
        if indices.dtype.itemsize < 4:
            # Narrow integers could not be compared with the number of rows.
            indices = indices.astype(jnp.int32)
        place = numbers.start_index_map.index(0)
        last = self._table().shape[0] - 1
        rows = indices[..., place]
        counts = jnp.ones(rows.shape, bool)
        if params["mode"] != lax.GatherScatterMode.CLIP:
            # Rows outside have no derivative.
            others = jnp.delete(indices, place, axis=-1)
            counts = (rows >= 0) & (rows <= last) & jnp.all(others == 0, axis=-1)
        rows, counts = jnp.clip(rows, 0, last).reshape(batch, -1), counts.reshape(batch, -1)
        axes = [1 + axis for axis in numbers.offset_dims]
        cotangent = jnp.moveaxis(capture.cotangent, axes, range(-len(axes), 0))
        cotangent = jnp.where(counts[..., None], cotangent.reshape(*rows.shape, -1), 0)

        def by_row(rows, cotangent):
            # The first place of each row, by sorting.
            order = jnp.argsort(rows)
            ordered, places = rows[order], jnp.arange(len(rows))
            is_new = jnp.append(True, ordered[1:] != ordered[:-1])
            starts = lax.cummax(jnp.where(is_new, places, 0))
            first = jnp.zeros_like(order).at[order].set(order[starts])
            return jax.ops.segment_sum(widened(cotangent), first, len(rows))

        return rows, jax.vmap(by_row)(rows, cotangent)

    def norms(self, held):
        _, summed = held
        return length(summed.reshape(len(summed), -1))

    def weighted_sum(self, held, scale):
        rows, summed = held
        shape = self._table().shape
        added = scaled(scale, summed).reshape(-1, summed.shape[-1])
        table = jnp.zeros((shape[0], summed.shape[-1]), added.dtype)
        return table.at[rows.ravel()].add(added).ravel()

    def _table(self):
        return self.gradient.program.shapes[self.gradient.uses[0].value]


class Kept(AbstractGhost):
    """Gradients formed, once, and held."""

    form = "formed"

    def sizes(self):
        uses = [use for use in self.gradient.uses if use.captured]
        if not uses:
            return 0, {}
        values = [value for use in uses for value in (*use.captured, use.output)]
        seen = {value: self.gradient.bytes_of(value) for value in values}
        for use in uses:
            if is_unfoldable(use.step, use.value):
                shapes = self.gradient.program.shapes
                kernel, inputs = shapes[use.value], use.captured[0]
                patches = num_unfolded(use.step.equation, kernel, shapes[use.output])
                seen[inputs] = patches * shapes[inputs].dtype.itemsize
        # The gradient, its factors, and half as much again, as measured on each kind of layer.
        return 4 * math.prod(self.gradient.shape) + 3 * sum(seen.values()) // 2, seen

    def multiplications(self):
        shapes = self.gradient.program.shapes
        products = sum(num_products(use, shapes) for use in self.gradient.uses)
        return products, 2 * math.prod(self.gradient.shape)

    def hold(self, captures):
        # As vectors, because loops over the short last axes of kernels are many times slower.
        return jax.vmap(lambda capture: self.gradient.of_sample(capture).ravel())(captures)

    def norms(self, held):
        return length(held)

    def weighted_sum(self, held, scale):
        return weighted(held, scale)


def choose_ghost(gradient: WeightGradient) -> AbstractGhost:
    """The cheapest form for one weight whose sum adds exactly what was measured."""
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
        # In a product with complex numbers only the real part is a gradient.
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
    size = values.shape[-1]
    if size > CHUNK:
        fewest = -(-size // CHUNK)
        # Equal pieces if there are any of fair length; filling up with zeros copies everything.
        number = next((k for k in range(fewest, 2 * fewest) if size % k == 0), fewest)
        missing = [(0, 0)] * (values.ndim - 1) + [(0, -size % number)]
        pieces = jnp.pad(values, missing) if size % number else values
        return length(length(pieces.reshape(*values.shape[:-1], number, -1)))
    values = widened(values)
    # An array of absolute values would be one more copy of a gradient for each sample.
    largest = jnp.maximum(jnp.max(values, -1, initial=0), -jnp.min(values, -1, initial=0))
    # A compiler may divide by multiplying with 1 / unit, which must not underflow either.
    bounds = 2.0**-100, 2.0**100
    unit = jnp.where(jnp.isfinite(largest), jnp.clip(largest, *bounds), 1)
    return unit * jnp.sqrt(jnp.sum(jnp.square(values / unit[..., None]), axis=-1))
