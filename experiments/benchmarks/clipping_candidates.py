"""Sums of clipped per-sample gradients: jaxdp, by hand, optax, jax_privacy, and torch with opacus.

In JAX each is one compiled program of weights, inputs and targets; its temporary memory is the
compiler's figure. In torch they run on the kind of device that JAX runs on, with as many threads as
torch takes. The timed program ends with the clipped sum: no noise, no step. Products are float32 on
every device (a GPU would round to TensorFloat-32).
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
TORCH_NON_PRIVATE = "torch, non-private"


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
    """The clipping of `optax.contrib.dpsgd`."""
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


JAX_CANDIDATES: dict[str, Callable[[Task, float], Prepared]] = {
    NON_PRIVATE: functools.partial(compiled, non_private),
    JAXDP: functools.partial(compiled, jaxdp_sum),
    "scan over samples": functools.partial(compiled, scanned),
    VMAPPED: functools.partial(compiled, vmapped),
    "optax": functools.partial(compiled, optax_clip),
    "jax_privacy, micro-batches": jax_privacy_microbatched,
    "jax_privacy": jax_privacy,
}


def torch_non_private(task: Task, most_bytes: float) -> Prepared:
    """The gradient of the summed loss, without clipping."""
    torch = optional("torch")
    model, inputs, targets = _copied(torch, task)
    loss = torch.nn.CrossEntropyLoss(reduction="sum")

    def gradient() -> list:
        loss(model(inputs), targets).backward()
        found = [weight.grad for weight in model.parameters()]
        model.zero_grad()
        return found

    return _prepared(torch, gradient)


def opacus_ghost(task: Task, most_bytes: float) -> Prepared:
    """Opacus with ghost clipping: two backward passes; convolutions form their gradients."""
    torch, opacus = optional("torch"), optional("opacus.grad_sample")
    losses = optional("opacus.utils.fast_gradient_clipping_utils")
    model, inputs, targets = _copied(torch, task)
    model = opacus.GradSampleModuleFastGradientClipping(
        model, loss_reduction="sum", max_grad_norm=CLIP_NORM
    )
    optimizer = _optimizer("DPOptimizerFastGradientClipping", torch, model, task)
    loss = losses.DPLossFastGradientClipping(
        model, optimizer, torch.nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum"
    )

    def gradient() -> list:
        loss(model(inputs), targets).backward()
        found = [weight.grad for weight in model.parameters()]
        optimizer.zero_grad(set_to_none=True)
        return found

    return _prepared(torch, gradient)


def opacus_hooks(task: Task, most_bytes: float) -> Prepared:
    """Opacus with its defaults: hooks form the gradients of all samples."""
    torch, opacus = optional("torch"), optional("opacus.grad_sample")
    # A gradient and the buffer that it is copied to.
    refuse_beyond(2 * task.gradient_bytes, most_bytes)
    model, inputs, targets = _copied(torch, task)
    model = opacus.GradSampleModule(model, loss_reduction="sum")
    optimizer = _optimizer("DPOptimizer", torch, model, task)
    loss = torch.nn.CrossEntropyLoss(reduction="sum")

    def gradient() -> list:
        loss(model(inputs), targets).backward()
        optimizer.clip_and_accumulate()
        found: list[Any] = [weight.summed_grad for weight in model.parameters()]
        optimizer.zero_grad(set_to_none=True)
        return found

    return _prepared(torch, gradient)


def _copied(torch, task: Task) -> tuple:
    """The task's network, with its weights, and its batch."""
    if task.torch_layers is None:
        raise LeftOut("layers not supported")
    device = "cpu"
    if jax.devices()[0].platform != "cpu":
        if not torch.cuda.is_available():
            raise LeftOut("torch sees no GPU")
        device = "cuda"
    model = torch.nn.Sequential(*task.torch_layers(torch.nn))
    weights = jax.tree.leaves(task.weights)
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(np.asarray(weight)).reshape(parameter.shape))
    inputs = torch.tensor(np.asarray(task.inputs), device=device)
    targets = torch.tensor(np.asarray(task.targets), device=device, dtype=torch.long)
    return model.to(device), inputs, targets


def _optimizer(name: str, torch, model, task: Task) -> Any:
    return getattr(optional("opacus.optimizers"), name)(
        torch.optim.SGD(model.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=len(task.inputs),
        loss_reduction="sum",
    )


def _prepared(torch, gradient: Callable[[], list]) -> Prepared:
    def call() -> list:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            found = gradient()
        if found[0].is_cuda:
            torch.cuda.synchronize()
        return found

    return Prepared(call)


CANDIDATES = JAX_CANDIDATES | {
    TORCH_NON_PRIVATE: torch_non_private,
    "opacus, ghost": opacus_ghost,
    "opacus, hooks": opacus_hooks,
}
