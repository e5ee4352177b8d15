"""Memory of a clipped sum for each kind of weight, against what its products read and give.

One weight, or the four of an attention layer, is given a batch; the compiler says how many bytes
its program needs besides arguments and results. *Patches* are the numbers that the products with
the weights read, convolutions unfolded, and *outputs* those that they give.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import xarray
from jax import ShapeDtypeStruct as Shape

import jaxdp
from experiments import harness
from experiments.benchmarks.clipping_tasks import CLIP_NORM

COPIES = 4


class Kind(NamedTuple):
    """A loss of one sample with weights of one kind.

    Attributes:
        name: kind of weight, with its sizes.
        loss: function of weights, input and target.
        weights: shapes and types.
        input: shape and type of one sample.
        patches: how many numbers the products read for one sample.
        outputs: how many numbers they give.
    """

    name: str
    loss: Callable
    weights: object
    input: Shape
    patches: int
    outputs: int


def kinds() -> list[Kind]:
    """One of each kind that is covered, at a usual size."""
    return [
        _products(1, 784, 1000),
        _products(32, 64, 64),
        _products(8, 512, 512),
        _embedding(32, 10_000, 64),
        _convolution(16, 32, 14, 3),
        _convolution(64, 512, 6, 3),
        _attention(16, 128),
    ]


def measured(batches: Sequence[int]) -> xarray.Dataset:
    """Bytes of each kind at each batch."""
    found = kinds()
    cells = [[_bytes(kind, batch) for batch in batches] for kind in found]
    names = ["memory", "memory_patches", "memory_outputs", "memory_weights"]
    columns = {name: [[cell[i] for cell in row] for row in cells] for i, name in enumerate(names)}
    sizes = {"kind": [kind.name for kind in found], "memory_batch": list(batches)}
    return harness.dataset(sizes, {("kind", "memory_batch"): columns})


def table(dataset: xarray.Dataset) -> str:
    """Megabytes, and their ratio to patches, outputs and copies of the weights together."""
    rows = []
    for name in dataset.kind.data:
        for batch in dataset.memory_batch.data:
            here = dataset.sel(kind=name, memory_batch=batch)
            patches, outputs = float(here.memory_patches), float(here.memory_outputs)
            weights, found = float(here.memory_weights), float(here.memory)
            share = found / (patches + outputs + COPIES * weights)
            sizes = [f"{size / 1e6:.1f}" for size in (found, patches, outputs, weights)]
            rows.append([name, str(batch), *sizes, f"{share:.2f}"])
    head = ["kind of weight", "batch", "temporary, MB", "patches", "outputs", "weights"]
    return (
        "Temporary memory of the sum, in MB, for each kind of weight. The products with the "
        "weights read the patches (convolutions unfolded) and give the outputs; the last column is "
        f"relative to patches, outputs and {COPIES} copies of the weights together.\n\n"
        + harness.table([*head, "of these"], rows)
    )


def _bytes(kind: Kind, batch: int) -> tuple[float, float, float, float]:
    def clipped(weights, inputs, targets):
        batch = weights, inputs, targets
        return jaxdp.clipped_gradient_sum(kind.loss, *batch, clip_norm=CLIP_NORM)[0]

    inputs = Shape((batch, *kind.input.shape), kind.input.dtype)
    program = jax.jit(clipped).lower(kind.weights, inputs, Shape((batch,), float)).compile()
    memory = program.memory_analysis()
    size = sum(leaf.size for leaf in jax.tree.leaves(kind.weights))
    found = float("nan") if memory is None else memory.temp_size_in_bytes
    return found, 4 * batch * kind.patches, 4 * batch * kind.outputs, 4 * size


def _products(positions: int, inputs: int, outputs: int) -> Kind:
    where = f" at {positions} positions" if positions > 1 else ""
    return Kind(
        f"matrix {inputs} x {outputs}{where}",
        lambda weight, x, y: jnp.sum(jnp.tanh(x @ weight)),
        Shape((inputs, outputs), jnp.float32),
        Shape((positions, inputs), jnp.float32),
        positions * inputs,
        positions * outputs,
    )


def _embedding(positions: int, words: int, width: int) -> Kind:
    return Kind(
        f"embedding {words} x {width}, {positions} words",
        lambda table, x, y: jnp.sum(jnp.tanh(table[x])),
        Shape((words, width), jnp.float32),
        Shape((positions,), jnp.int32),
        0,
        positions * width,
    )


def _convolution(inputs: int, outputs: int, size: int, window: int) -> Kind:
    def loss(kernel, image, y):
        return jnp.sum(jnp.tanh(jax.lax.conv(image[None], kernel, (1, 1), "VALID")))

    positions = (size - window + 1) ** 2
    return Kind(
        f"convolution {inputs} to {outputs}, {window} x {window} on {size} x {size}",
        loss,
        Shape((outputs, inputs, window, window), jnp.float32),
        Shape((inputs, size, size), jnp.float32),
        positions * inputs * window**2,
        positions * outputs,
    )


def _attention(positions: int, width: int) -> Kind:
    layer = eqx.nn.MultiheadAttention(4, width, key=jr.key(0))
    weights, static = eqx.partition(layer, eqx.is_inexact_array)

    def loss(weights, x, y):
        return jnp.sum(jnp.tanh(eqx.combine(weights, static)(x, x, x)))

    size = positions * width
    # Queries, keys and values read the same.
    return Kind(
        f"attention of width {width}, {positions} positions",
        loss,
        weights,
        Shape((positions, width), jnp.float32),
        2 * size,
        4 * size,
    )
