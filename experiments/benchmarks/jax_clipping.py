"""Sums of clipped per-sample gradients in JAX: jaxdp, by hand, optax, jax_privacy.

Each is one compiled program of weights, inputs and targets; its temporary memory is the
compiler's figure. Products are float32 on every device (a GPU would round to TensorFloat-32).
"""

import functools
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import optax
from jax import lax

import jaxdp
from experiments.benchmarks.clipping_tasks import (
    CLIP_NORM,
    LeftOut,
    Prepared,
    Task,
    optional,
    refuse_beyond,
)

NON_PRIVATE, JAXDP, VMAPPED = "non-private", "jaxdp", "vmap(grad)"
# Tried by `jax_privacy_microbatched`, which keeps the fastest.
_MICROBATCH_SIZES = (1, 8, 32)


def compiled(function: Callable, task: Task, most_bytes: float) -> Prepared:
    """A candidate from a function of loss, weights, inputs and targets."""
    arguments = (task.weights, task.inputs, task.targets)
    with jax.default_matmul_precision("float32"):
        program = jax.jit(functools.partial(function, task.loss)).lower(*arguments).compile()
    memory = program.memory_analysis()
    temporary_bytes = float("nan") if memory is None else memory.temp_size_in_bytes
    refuse_beyond(temporary_bytes, most_bytes)

    def call() -> Sequence[jax.Array]:
        return jax.tree.leaves(jax.block_until_ready(program(*arguments)))

    return Prepared(call, temporary_bytes)


def non_private(loss, weights, inputs, targets):
    """The gradient of the batch's summed loss, without clipping: the yardstick."""

    def total(weights):
        return jax.vmap(functools.partial(loss, weights))(inputs, targets).sum()

    return jax.grad(total)(weights)


def jaxdp_sum(loss, weights, inputs, targets):
    """Ghost clipping as jaxdp has it."""
    return jaxdp.clipped_gradient_sum(loss, weights, inputs, targets, clip_norm=CLIP_NORM)[0]


def vmapped(loss, weights, inputs, targets):
    """All gradients at once, by hand."""
    gradients = _all_gradients(loss, weights, inputs, targets)
    norms = jax.vmap(optax.tree.norm)(gradients)
    factors = jnp.minimum(1, CLIP_NORM / norms)
    return jax.tree.map(lambda leaf: jnp.tensordot(factors, leaf, 1), gradients)


def scanned(loss, weights, inputs, targets):
    """One gradient after another, by hand."""

    def add(total, sample):
        gradient = jax.grad(loss)(weights, *sample)
        factor = jnp.minimum(1, CLIP_NORM / optax.tree.norm(gradient))
        return jax.tree.map(lambda old, new: old + factor * new, total, gradient), None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, weights), (inputs, targets))[0]


def optax_clip(loss, weights, inputs, targets):
    """What `optax.contrib.dpsgd` clips with."""
    gradients = _all_gradients(loss, weights, inputs, targets)
    return optax.per_example_global_norm_clip(gradients, CLIP_NORM)[0]


def jax_privacy(task: Task, most_bytes: float) -> Prepared:
    """`jax_privacy.clipping.clipped_grad` with its default, the whole batch at once."""
    return compiled(functools.partial(_jax_privacy, None), task, most_bytes)


def jax_privacy_microbatched(task: Task, most_bytes: float) -> Prepared:
    """The same with the fastest of a few sizes of micro-batches."""
    timed = []
    for size in _MICROBATCH_SIZES:
        if len(task.inputs) % size == 0:
            candidate = compiled(functools.partial(_jax_privacy, size), task, most_bytes)
            candidate.call()
            started = time.perf_counter()
            candidate.call()
            timed.append((time.perf_counter() - started, size, candidate))
    if not timed:
        raise LeftOut("no size divides the batch")
    _, size, fastest = min(timed, key=lambda entry: entry[0])
    return fastest._replace(note=f"of {size}")


def _jax_privacy(size, loss, weights, inputs, targets):
    clipped_grad = optional("jax_privacy.clipping").clipped_grad(
        loss,
        l2_clip_norm=CLIP_NORM,
        batch_argnums=(1, 2),
        keep_batch_dim=False,
        microbatch_size=size,
    )
    return clipped_grad(weights, inputs, targets)


def _all_gradients(loss, weights, inputs, targets):
    return jax.vmap(jax.grad(loss), (None, 0, 0))(weights, inputs, targets)


CANDIDATES: dict[str, Callable[[Task, float], Prepared]] = {
    NON_PRIVATE: functools.partial(compiled, non_private),
    JAXDP: functools.partial(compiled, jaxdp_sum),
    "scan over samples": functools.partial(compiled, scanned),
    VMAPPED: functools.partial(compiled, vmapped),
    "optax": functools.partial(compiled, optax_clip),
    "jax_privacy, micro-batches": jax_privacy_microbatched,
    "jax_privacy": jax_privacy,
}
