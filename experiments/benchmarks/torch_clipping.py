"""Sums of clipped per-sample gradients in torch: opacus, by ghost norms and by hooks.

They run on the kind of device that JAX runs on, with as many threads as torch takes. What they
time ends with the clipped sum: no noise, no step. Products are float32 on every device.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from experiments.benchmarks.clipping_tasks import (
    CLIP_NORM,
    LeftOut,
    Prepared,
    Task,
    optional,
    refuse_beyond,
)

NON_PRIVATE = "torch, non-private"


def non_private(task: Task, most_bytes: float) -> Prepared:
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
    """Opacus as it is by default: hooks form the gradients of all samples."""
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


CANDIDATES: dict[str, Callable[[Task, float], Prepared]] = {
    NON_PRIVATE: non_private,
    "opacus, ghost": opacus_ghost,
    "opacus, hooks": opacus_hooks,
}
