"""One backward pass over a batch that stops where weights meet samples."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.clipping.ghost.ghosts import Kept, choose_ghost, length
from jaxdp.clipping.ghost.program import Program, Step, evaluate
from jaxdp.clipping.ghost.weight_gradient import Capture, WeightGradient, weighted
from jaxdp.clipping.ghost.weight_uses import find_uses
from jaxdp.clipping.two_part_sum import BLOCK_LENGTH, TwoPartSum, in_type, sum_of_blocks

# Gradients that have to be formed fill at most this many numbers at a time.
_FORMED_NUMBERS = 2**25
# Memory below which no loop is worth it: on a GPU, where each turn is many launches, a gigabyte.
_FEW_BYTES = {"cpu": 2**16}
_FEW_BYTES_OF_OTHERS = 2**30


class Measured(NamedTuple):
    """A batch after its backward pass."""

    norms: Float[Array, " batch"]  # infinite or NaN if loss or gradient is not finite
    held: dict[int, Any]  # by weight, the parts of its clipped sum, with a leading batch axis


class GhostPass:
    """The per-sample gradients of a traced loss, measured and summed at values of its weights."""

    def __init__(self, program: Program, weights: Sequence[Array]):
        self.program, self.weights = program, weights
        self.found = find_uses(program)
        self.known = self._known_values()
        self.ghosts = {
            position: choose_ghost(WeightGradient(program, uses, self.known))
            for position, uses in self.found.by_weight().items()
        }

    def largest_microbatch(self, num_samples: int) -> int:
        """The number of samples to differentiate at a time, limited by memory.

        One if a convolution's kernel depends on the sample or on a weight not covered: some
        backends multiply by zero in grouped convolutions, and one sample's NaN would reach the
        others.
        """
        if any(self._is_grouped(step) for step in self.program.steps):
            return 1
        kept = {at for at, ghost in self.ghosts.items() if isinstance(ghost, Kept)}
        formed = sum(self.weights[position].size for position in kept | self.found.not_covered)
        most = min(num_samples, max(1, _FORMED_NUMBERS // max(1, formed)))
        each, seen = 0, {}
        for ghost in self.ghosts.values():
            stored, values = ghost.sizes()
            each, seen = each + stored, seen | values
        products = num_samples * sum(seen.values())
        weights = sum(weight.nbytes for weight in self.weights)
        few = _FEW_BYTES.get(jax.default_backend(), _FEW_BYTES_OF_OTHERS)
        if most * each <= max(products + 3 * weights, few):
            return most
        # One copy of the weights for the sum of a block, two for the sum of several blocks, and two
        # for a microbatch of several.
        copies = 1 if num_samples <= BLOCK_LENGTH else 0
        one_block = min(BLOCK_LENGTH, max(2, (products + copies * weights) // each))
        return min(most, max(one_block, (products - 2 * weights) // each))

    def measure(self, samples: Sequence[Array]) -> Measured:
        """Run the backward pass and take the norms."""
        losses, captures, held = self.backward(samples)
        held = {at: gradient.reshape(len(gradient), -1) for at, gradient in held.items()}
        for position, ghost in self.ghosts.items():
            held[position] = ghost.hold(captures[position])
        # From here on norms and sums read the same stored numbers.
        held = settled(held, jnp.isfinite(losses))
        norms = [
            self.ghosts[position].norms(values) if position in self.ghosts else length(values)
            for position, values in held.items()
        ]
        norm = length(jnp.stack(norms, -1)) if norms else jnp.zeros(losses.shape)
        return Measured(jnp.where(jnp.isfinite(losses), norm, jnp.nan), held)

    def weighted_sum(
        self, measured: Measured, scale: Float[Array, " batch"], num_blocks: int
    ) -> dict[int, TwoPartSum]:
        """By weight, the sum of scale times gradient over finite samples, in blocks."""
        is_finite = jnp.isfinite(measured.norms)
        scale = jnp.where(is_finite, scale, 0)
        # Zero times infinity is NaN: both factors of every product are cleaned.
        held = settled(measured.held, is_finite)
        weights, sums = sum(weight.size for weight in self.weights), {}
        for position, values in held.items():
            ghost = self.ghosts.get(position)
            sum_up = functools.partial(sum_of_blocks, weighted) if ghost is None else ghost.total
            # Blocks held at once fill at most one copy of the weights, or a quarter of the values.
            most = max(weights, sum(leaf.size for leaf in jax.tree.leaves(values)) // 4)
            sums[position] = sum_up(values, scale, num_blocks, most=most)
        return sums

    def in_the_weight(self, position: int, total: TwoPartSum) -> TwoPartSum:
        """A sum of `weighted_sum` in its weight's shape and type, which is float32 at least."""
        weight = self.weights[position]
        if position in self.ghosts:
            total = jax.tree.map(self.ghosts[position].in_the_weight, total)
        else:
            total = jax.tree.map(lambda part: part.reshape(weight.shape), total)
        return in_type(total, jnp.promote_types(weight.dtype, jnp.float32))

    def _is_grouped(self, step: Step) -> bool:
        """Whether a batch of samples makes a grouped convolution of the step."""
        if not step.contains("conv_general_dilated"):
            return False
        is_plain = step.name == "conv_general_dilated"
        kernels = step.operands[1:] if is_plain else step.kernels
        return not self.found.fixed.issuperset(kernels)

    def _known_values(self) -> dict[int, Any]:
        """The values that do not depend on the sample, each evaluated once."""
        values = dict(self.program.constants)
        for position, value in enumerate(self.program.weights):
            if position not in self.found.not_covered:
                values[value] = self.weights[position]
        for step in self.program.steps:
            if step.results and self.found.fixed.issuperset(step.results):
                results = step.evaluate([values[value] for value in step.inputs])
                values.update(zip(step.results, results, strict=True))
        return values

    def backward(self, samples):
        """Losses, captures by covered weight (from zeros at uses), other weights' gradients."""
        program, uses = self.program, self.found.uses
        formed = {position: self.weights[position] for position in sorted(self.found.not_covered)}
        zeros = {}
        for use in uses:
            output = program.shapes[use.output]
            zeros[use.output] = jnp.zeros(output.shape, output.dtype)
        captured = {value for use in uses for value in use.captured}
        steps = [step for step in program.steps if not step.stands_in]
        untapped = {}
        for step in program.steps:
            if step.stands_in and step.results[0] not in zeros:
                output = program.shapes[step.results[0]]
                untapped[step.results[0]] = jnp.zeros(output.shape, output.dtype)

        def loss(differentiated, sample):
            zeros, formed = differentiated
            values = {**self.known, **dict(zip(program.sample, sample, strict=True))}
            values.update((program.weights[position], value) for position, value in formed.items())
            values.update({**zeros, **untapped})
            for step in steps:
                if step.results and self.found.fixed.issuperset(step.results):
                    continue
                results = step.evaluate([values[value] for value in step.inputs])
                for value, result in zip(step.results, results, strict=True):
                    values[value] = result + zeros[value] if value in zeros else result
            return values[program.result], {value: values[value] for value in captured}

        def one(sample):
            return jax.value_and_grad(loss, has_aux=True)((zeros, formed), sample)

        samples, whole = list(samples), jax.vmap(one)
        if any(step.contains("conv_general_dilated") for step in program.steps):
            # A second trace also shows the convolutions of the derivative.
            closed, shapes = jax.make_jaxpr(whole, return_shape=True)(samples)
            found = evaluate(closed, jax.tree.leaves(samples))
            found = jax.tree.unflatten(jax.tree.structure(shapes), found)
        else:
            found = whole(samples)
        (losses, operands), (cotangents, formed) = found
        captures = {
            position: [
                Capture({value: operands[value] for value in use.captured}, cotangents[use.output])
                for use in uses
            ]
            for position, uses in self.found.by_weight().items()
        }
        return losses, captures, formed


def settled(values: PyTree[Array], keep: Bool[Array, " batch"]) -> PyTree[Array]:
    """The values with zero for samples not kept, each stored once for all readers.

    A compiler may compute a value anew for each reader and round it differently: the norm would
    measure one gradient and the sum add another. Results of a loop of unknown length, here of at
    most one turn, have to be stored; this costs a twentieth of the whole.
    """
    turns = jnp.any(~keep).astype(jnp.int32)
    kept = functools.partial(_only, keep)
    return lax.fori_loop(0, turns, lambda _, values: jax.tree.map(kept, values), values)


def _only(keep: Bool[Array, " batch"], values: Array) -> Array:
    keep = keep.reshape((-1,) + (1,) * (values.ndim - 1))
    return jnp.where(keep, values, jnp.zeros_like(values))
