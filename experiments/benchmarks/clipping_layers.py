"""Time and error of a clipped sum for each kind of layer, against the gradient without privacy.

The sum and the norms are compared with those of `vmap(grad)`, record by record. Times are those of
processors, which other programs disturb least; both programs take turns.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array

import jaxdp
from experiments import harness
from experiments.benchmarks.clipping_tasks import Block

GOAL = 1.25


class LayerKind(NamedTuple):
    """A loss of one record with one kind of layer.

    Attributes:
        name: kind of layer, with its sizes.
        loss: function of model, input and target.
        model: a pytree.
        inputs: one batch.
    """

    name: str
    loss: Callable[[Any, Any, Any], Array]
    model: Any
    inputs: Any


def kinds(batch: int = 64, *, width: int = 64) -> list[LayerKind]:
    """One of each kind, at a usual size."""
    key, data_key = jr.split(jr.key(0))
    sequences = jr.normal(data_key, (batch, 64, width // 2))
    tokens = jr.normal(data_key, (batch, 32, width))
    words = jr.randint(data_key, (batch, 32), 0, 1000)
    images = jr.normal(data_key, (batch, width // 2, 14, 14))
    vectors = jr.normal(data_key, (batch, width))
    linear, table = eqx.nn.Linear(width, width, key=key), jr.normal(key, (1000, width))
    factors = jr.normal(key, (width, 4)) / 8, jr.normal(key, (4, width)) / 8
    mlp = eqx.nn.MLP(width, 10, 4 * width, 2, key=key)
    layers, again = jax.vmap, functools.partial(_scanned, wrapped=jax.checkpoint)
    attention = eqx.nn.MultiheadAttention(4, width, key=key)
    blocks = eqx.filter_vmap(lambda key: Block(width, key=key))(jr.split(key, 4))
    narrow = _narrow(Block(width, key=key))

    def lora(factors, x):
        return linear(x) + factors[0] @ (factors[1] @ x)

    found = [
        ("MLP", lambda m, x: m(x), mlp, vectors),
        ("linear at 32 positions", lambda m, x: layers(m)(x), linear, tokens),
        ("embedding of 1000 words", lambda m, x: m[x], table, words),
        ("embedding, tied", lambda m, x: jnp.tanh(m[x]) @ m.T / 8, table, words),
        ("attention, 32 tokens", lambda m, x: m(x, x, x), attention, tokens),
        ("GroupNorm", lambda m, x: m(x), eqx.nn.GroupNorm(4, width // 2), images),
        ("LayerNorm", lambda m, x: layers(m)(x), eqx.nn.LayerNorm(width), tokens),
        ("RMSNorm", lambda m, x: layers(m)(x), eqx.nn.RMSNorm(width), tokens),
        *(
            (f"convolution, {name}", lambda m, x: m(x), layer, images)
            for name, layer in _convolutions(width // 2, key).items()
        ),
        ("checkpointed MLP", lambda m, x: eqx.filter_checkpoint(m)(x), mlp, vectors),
        ("dropout", _dropped, linear, {"x": vectors, "key": jr.split(data_key, batch)}),
        ("GRU, 64 steps", _gru, eqx.nn.GRUCell(width // 2, width, key=key), sequences),
        ("LSTM, 64 steps", _lstm, eqx.nn.LSTMCell(width // 2, width, key=key), sequences),
        ("4 scanned blocks, 32 tokens", _scanned, blocks, tokens),
        ("4 scanned blocks, checkpointed", again, blocks, tokens),
        ("bfloat16 block, float32 norms", lambda m, x: m(x), narrow, tokens),
        ("LoRA of rank 4, the layer frozen", lora, factors, vectors),
    ]
    return [
        LayerKind(name, lambda m, x, y, f=apply: _measure(f(m, x), y), model, inputs)
        for name, apply, model, inputs in found
    ]


def _measure(outputs: Array, target: Array) -> Array:
    return jnp.mean(jnp.sin(outputs.astype(jnp.float32)) ** 2) * (1 + target)


def _convolutions(channels: int, key: Array) -> dict[str, Any]:
    options = {
        "plain": {},
        "strided": {"stride": 2},
        "dilated": {"dilation": 2},
        "grouped": {"groups": 4},
        "depthwise": {"groups": channels},
    }
    return {
        name: eqx.nn.Conv2d(channels, channels, 3, padding=1, key=key, **option)
        for name, option in options.items()
    }


def _narrow(block):
    narrow = jax.tree.map(
        lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, block
    )
    return eqx.tree_at(lambda block: block.norms, narrow, block.norms)


def _dropped(layer, record):
    return eqx.nn.Dropout(0.5)(layer(record["x"]), key=record["key"])


def _gru(cell, sequence):
    state = jnp.zeros(cell.hidden_size)
    return jax.lax.scan(lambda state, x: (cell(x, state), None), state, sequence)[0]


def _lstm(cell, sequence):
    state = jnp.zeros(cell.hidden_size), jnp.zeros(cell.hidden_size)
    return jax.lax.scan(lambda state, x: (cell(x, state), None), state, sequence)[0][0]


def _scanned(blocks, tokens, wrapped=lambda apply: apply):
    arrays, static = eqx.partition(blocks, eqx.is_array)

    @wrapped
    def apply(tokens, arrays):
        return eqx.combine(arrays, static)(tokens)

    return jax.lax.scan(lambda x, arrays: (apply(x, arrays), None), tokens, arrays)[0]


def measured(batch: int, num_rounds: int) -> xarray.Dataset:
    """How many weights fall back, errors, and seconds without and with clipping, of each kind."""
    tracked = harness.track(kinds(batch), lambda kind: kind.name)
    found = [_measured(kind, num_rounds) for kind in tracked]
    names = ["layer_falls_back", "layer_norm_error", "layer_sum_error"]
    dataset = harness.dataset(
        {"layer": [kind.name for kind in kinds(batch)]},
        {"layer": {name: [row[i] for row in found] for i, name in enumerate(names)}},
    )
    axes = ("layer", "layer_round", "layer_program")
    return dataset.assign(layer_seconds=(axes, np.stack([row[3] for row in found])))


def ratios_of(dataset: xarray.Dataset) -> xarray.DataArray:
    """Median ratios of times to the gradient's without privacy in the same turn."""
    seconds = dataset.layer_seconds
    ratios = seconds.isel(layer_program=1) / seconds.isel(layer_program=0)
    return ratios.median("layer_round")


def table(dataset: xarray.Dataset) -> str:
    """Times, ratios and errors by kind of layer; those beyond the goal are marked."""
    rows = []
    for name, ratio in zip(dataset.layer.data, ratios_of(dataset).data, strict=True):
        here = dataset.sel(layer=name)
        times = 1e3 * here.layer_seconds.median("layer_round").data
        errors = [f"{float(here[f'layer_{of}_error']):.0e}" for of in ("norm", "sum")]
        shown = f"{ratio:.2f}" + (" (beyond)" if ratio > GOAL else "")
        cells = [*(f"{time:.1f}" for time in times), shown, str(int(here.layer_falls_back))]
        rows.append([str(name), *cells, *errors])
    head = ["layer", "non-private, ms", "clipped", "ratio", "weights that fall back"]
    return (
        "Processor time of the sum by kind of layer, alone before a loss; ratios beyond the goal "
        f"of {GOAL} are marked. A layer of little arithmetic (a scale, a table) costs little "
        "either way. Errors are relative to gradients one by one, which bfloat16 rounds.\n\n"
        + harness.table([*head, "error of norms", "of the sum"], rows)
    )


def _measured(kind: LayerKind, num_rounds: int) -> tuple[int, float, float, np.ndarray]:
    targets = jnp.linspace(0, 1, len(jax.tree.leaves(kind.inputs)[0]))
    weights, static = eqx.partition(kind.model, eqx.is_inexact_array)

    def loss(weights, x, y):
        return kind.loss(eqx.combine(weights, static), x, y)

    def plain(weights, x, y):
        return jax.grad(lambda w: jax.vmap(loss, (None, 0, 0))(w, x, y).sum())(weights)

    batch = weights, kind.inputs, targets

    def one_by_one(weights, x, y):
        # Batched, the gradients of grouped convolutions take minutes.
        return jax.lax.map(lambda record: jax.grad(loss)(weights, *record), (x, y))

    formed = jax.jit(one_by_one)(*batch)
    rows = [np.asarray(leaf, float).reshape(len(targets), -1) for leaf in jax.tree.leaves(formed)]
    norms = np.sqrt(sum((row**2).sum(1) for row in rows))
    # Half of the records are clipped.
    clip_norm = float(np.median(norms))
    right = np.concatenate([np.minimum(1, clip_norm / norms) @ row for row in rows])

    def clipped(weights, x, y):
        return jaxdp.clipped_gradient_sum(loss, weights, x, y, clip_norm=clip_norm)

    programs = [jax.jit(function).lower(*batch).compile() for function in (plain, clipped)]
    total, found = programs[1](*batch)
    total = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(total)])
    one = jax.tree.map(lambda leaf: leaf[0], (kind.inputs, targets))
    return (
        len(jaxdp.clipping.explain(loss, weights, *one).falls_back),
        float(np.max(np.abs(found / norms - 1))),
        float(np.linalg.norm(total - right) / np.linalg.norm(right)),
        np.array([[_seconds(call, batch) for call in programs] for _ in range(num_rounds)]),
    )


def _seconds(program, batch) -> float:
    jax.block_until_ready(program(*batch))
    started = time.process_time()
    jax.block_until_ready(program(*batch))
    return time.process_time() - started
