"""Gradient descent with momentum, the optimiser of the paper."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import loss_and_gradient
from jaxdp.attacks.optimisers.base import AbstractOptimiser, Attempt, Ending, onto_sphere
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import concrete, require_positive, require_scalar

# Steps between two checks on the host.
_CHUNK = 100


class MomentumDescent(AbstractOptimiser):
    r"""Heavy ball on the relative loss, the optimiser of DR; each step is a full pass.

    $v \leftarrow mv + \nabla L/|\theta|^2$, $\hat x \leftarrow \hat x - \eta v$, rows scaled back
    to $\sqrt d$. It is slow: a row's curvature is the square of its coefficient, and one step size
    serves all rows. Source: DR Appendix D, with step sizes of 20 for rows drawn on the sphere and
    2000 for CIFAR-10; its loss, $\theta^\top\theta - v^\top\alpha$, stops on rounding.

    Args:
        step_size, momentum: eta > 0, and m in [0, 1).

    Example:
        >>> from jaxdp.attacks import MomentumDescent
        >>> MomentumDescent(step_size=2000.0).step_size.item()
        2000.0
    """

    step_size: Float[Array, ""] = eqx.field(converter=as_float, default=20.0)
    momentum: Float[Array, ""] = eqx.field(converter=as_float, default=0.9)

    def __check_init__(self):
        require_positive("step_size", self.step_size)
        require_scalar("momentum", self.momentum)
        momentum = concrete(self.momentum)
        if momentum is not None and not 0 <= momentum < 1:
            raise ValueError(f"expected 0 <= momentum < 1, got {momentum}")

    def minimise(
        self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None
    ) -> Attempt:
        unknown = jnp.full(len(starts), jnp.inf, starts.dtype)
        zero, still = jnp.asarray(0, jnp.int32), jnp.zeros_like(starts)
        state = _State(zero, starts, still, unknown, starts, unknown)
        is_free = jnp.asarray(np.arange(starts.shape[1]) >= num_known)[:, None]
        passes, most = 0, max(int(max_passes), 1)
        while passes < most:
            steps = jnp.asarray(min(_CHUNK, most - passes), jnp.int32)
            limit = jnp.asarray(tolerance, starts.dtype)
            state = _run(self, target, state._replace(step=zero), steps, limit, is_free)
            passes += int(state.step)
            if progress is not None:
                progress(passes * len(starts), float(state.best_loss.min()))
            if state.best_loss.min() <= tolerance or not jnp.isfinite(state.loss).any():
                break
        best_loss = np.asarray(state.best_loss)
        has_passes = passes < most
        status = np.full(len(starts), Ending.OVERTAKEN if has_passes else Ending.OUT_OF_PASSES)
        status[~np.isfinite(state.loss)] = Ending.DIVERGED
        status[best_loss <= tolerance] = Ending.CONVERGED
        return Attempt(state.best, state.best_loss, float(passes * len(starts)), status)


class _State(NamedTuple):
    """All starts: their next positions, the last losses, and the best so far."""

    step: Int[Array, ""]
    inputs: Float[Array, "starts n dim"]
    velocity: Float[Array, "starts n dim"]
    loss: Float[Array, " starts"]
    best: Float[Array, "starts n dim"]
    best_loss: Float[Array, " starts"]


@eqx.filter_jit
def _run(optimiser: MomentumDescent, target: AbstractTarget, state, num_steps, tolerance, is_free):
    dtype = state.inputs.dtype
    rate, momentum = optimiser.step_size.astype(dtype), optimiser.momentum.astype(dtype)

    def is_going(state):
        return (state.step < num_steps) & (state.best_loss > tolerance).all()

    def advance(state):
        found = jax.vmap(lambda inputs: loss_and_gradient(target, inputs))(state.inputs)
        is_better = found.loss < state.best_loss
        velocity = momentum * state.velocity + jnp.where(is_free, found.gradient, 0)
        moved = onto_sphere(state.inputs - rate * velocity)
        return _State(
            state.step + 1,
            jnp.where(is_free, moved, state.inputs),
            velocity,
            found.loss,
            jnp.where(is_better[:, None, None], state.inputs, state.best),
            jnp.where(is_better, found.loss, state.best_loss),
        )

    return lax.while_loop(is_going, advance, state)
