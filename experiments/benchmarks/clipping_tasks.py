"""Tasks for per-sample clipping: four small networks, made-up data, the right answer.

A candidate turns a task into a `Prepared` call, or raises `LeftOut` with the reason.
"""

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from experiments.networks.classifiers import DigitNetwork, digit_layers

CLIP_NORM = 1.0
NUM_CLASSES = 10


class LeftOut(Exception):
    """Why a candidate is not measured on a task."""


class Prepared(NamedTuple):
    """A candidate, ready to be timed.

    Attributes:
        call: computes the sum once and waits for it; its arrays in the order of the weights.
        temporary_bytes: temporary memory of the compiled program; NaN if unknown.
        note: an option that was chosen by trial; "" for none.
    """

    call: Callable[[], Sequence[Any]]
    temporary_bytes: float = float("nan")
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Task:
    """A network and a batch; cross-entropy is the loss.

    Attributes:
        torch_layers: the same network from `torch.nn`, its parameters in the order of the weights
            here; None if opacus has no such layers.
    """

    name: str
    model: Callable[[Any], Float[Array, " classes"]]
    inputs: Array
    targets: Int[Array, " batch"]
    torch_layers: Callable[[Any], list] | None = None

    @property
    def weights(self) -> Any:
        """The model's differentiated arrays."""
        return eqx.filter(self.model, eqx.is_inexact_array)

    @property
    def gradient_bytes(self) -> int:
        """Memory of the gradients of all samples."""
        leaves = jax.tree.leaves(self.weights)
        return len(self.inputs) * sum(leaf.nbytes for leaf in leaves)

    def loss(self, weights, data, target) -> Float[Array, ""]:
        """Loss of one sample."""
        model = eqx.combine(weights, eqx.filter(self.model, eqx.is_inexact_array, inverse=True))
        return optax.softmax_cross_entropy_with_integer_labels(model(data), target)


class Sums(NamedTuple):
    """The right sums, unclipped and clipped, and the share of gradients that clipping shortens."""

    plain: list[np.ndarray]
    clipped: list[np.ndarray]
    clipped_fraction: float


def right_sums(task: Task) -> Sums:
    """Gradients one by one, clipped and added in float64 by NumPy."""
    weights, gradient = task.weights, jax.jit(jax.grad(task.loss))
    plain = [np.zeros(leaf.shape) for leaf in jax.tree.leaves(weights)]
    clipped, count = [np.zeros_like(leaf) for leaf in plain], 0
    for sample in zip(task.inputs, task.targets, strict=True):
        leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(gradient(weights, *sample))]
        norm = np.sqrt(sum(np.vdot(leaf, leaf) for leaf in leaves))
        count += norm > CLIP_NORM
        for i, leaf in enumerate(leaves):
            plain[i] += leaf
            clipped[i] += min(1.0, CLIP_NORM / norm) * leaf
    return Sums(plain, clipped, float(count) / len(task.inputs))


def optional(module: str) -> Any:
    """A module that jaxdp does not depend on."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise LeftOut("not installed") from error


def refuse_beyond(num_bytes: float, most_bytes: float) -> None:
    """Leave out a candidate that would need more memory than it may."""
    if num_bytes > most_bytes:
        raise LeftOut(f"needs {num_bytes / 1e9:.0f} GB")


def mlp(batch: int, width: int, *, key: PRNGKeyArray) -> Task:
    """784-width-10 with ReLU."""
    model_key, data_key, target_key = jr.split(key, 3)
    return Task(
        f"MLP 784-{width}-{NUM_CLASSES}, batch {batch}",
        eqx.nn.MLP(784, NUM_CLASSES, width, 1, key=model_key),
        jr.normal(data_key, (batch, 784)),
        jr.randint(target_key, (batch,), 0, NUM_CLASSES),
        lambda nn: [nn.Linear(784, width), nn.ReLU(), nn.Linear(width, NUM_CLASSES)],
    )


def cnn(batch: int, channels: int, *, key: PRNGKeyArray) -> Task:
    """The network usual for private learning on MNIST: two convolutions, two linear layers."""
    model_key, data_key, target_key = jr.split(key, 3)
    return Task(
        f"CNN, batch {batch}",
        DigitNetwork(jax.nn.relu, channels, key=model_key),
        jr.normal(data_key, (batch, 1, 28, 28)),
        jr.randint(target_key, (batch,), 0, NUM_CLASSES),
        lambda nn: digit_layers(nn, nn.ReLU, channels),
    )


def attention(
    batch: int, width: int, num_tokens: int, num_words: int, *, key: PRNGKeyArray
) -> Task:
    """Two blocks of attention over words, averaged and classified."""
    model_key, data_key, target_key = jr.split(key, 3)
    return Task(
        f"attention, batch {batch} x {num_tokens} tokens",
        _Attention(width, num_words, key=model_key),
        jr.randint(data_key, (batch, num_tokens), 0, num_words),
        jr.randint(target_key, (batch,), 0, NUM_CLASSES),
    )


def recurrent(batch: int, width: int, num_steps: int, *, key: PRNGKeyArray) -> Task:
    """A GRU over a sequence, its last state classified."""
    model_key, data_key, target_key = jr.split(key, 3)
    return Task(
        f"GRU, batch {batch} x {num_steps} steps",
        _Recurrent(width, key=model_key),
        jr.normal(data_key, (batch, num_steps, width // 2)),
        jr.randint(target_key, (batch,), 0, NUM_CLASSES),
    )


class Block(eqx.Module):
    """Attention and an MLP, each after a LayerNorm whose precision may be another."""

    attend: eqx.nn.MultiheadAttention
    mix: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]

    def __init__(self, width: int, *, key: PRNGKeyArray):
        attend_key, mix_key = jr.split(key)
        self.attend = eqx.nn.MultiheadAttention(4, width, key=attend_key)
        self.mix = eqx.nn.MLP(width, width, 4 * width, 1, jax.nn.gelu, key=mix_key)
        self.norms = (eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width))

    def __call__(self, tokens: Float[Array, "tokens width"]) -> Float[Array, "tokens width"]:
        precision = self.attend.query_proj.weight.dtype
        normed = jax.vmap(self.norms[0])(tokens).astype(precision)
        tokens = tokens + self.attend(normed, normed, normed)
        return tokens + jax.vmap(self.mix)(jax.vmap(self.norms[1])(tokens).astype(precision))


class _Attention(eqx.Module):
    embedding: eqx.nn.Embedding
    blocks: tuple[Block, Block]
    last: eqx.nn.Linear

    def __init__(self, width: int, num_words: int, *, key: PRNGKeyArray):
        keys = jr.split(key, 4)
        self.embedding = eqx.nn.Embedding(num_words, width, key=keys[0])
        self.blocks = (Block(width, key=keys[1]), Block(width, key=keys[2]))
        self.last = eqx.nn.Linear(width, NUM_CLASSES, key=keys[3])

    def __call__(self, words: Int[Array, " tokens"]) -> Float[Array, " classes"]:
        tokens = jax.vmap(self.embedding)(words)
        for block in self.blocks:
            tokens = block(tokens)
        return self.last(tokens.mean(0))


class _Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __init__(self, width: int, *, key: PRNGKeyArray):
        cell_key, last_key = jr.split(key)
        self.cell = eqx.nn.GRUCell(width // 2, width, key=cell_key)
        self.last = eqx.nn.Linear(width, NUM_CLASSES, key=last_key)

    def __call__(self, sequence: Float[Array, "steps inputs"]) -> Float[Array, " classes"]:
        start = jnp.zeros(self.cell.hidden_size)
        return self.last(jax.lax.scan(lambda h, x: (self.cell(x, h), None), start, sequence)[0])
