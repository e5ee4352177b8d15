"""Levenberg-Marquardt on the residual with its coefficients projected out, for small problems.

Source: Golub and Pereyra (1973), variable projection; Kaufman (1975).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Int

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import (
    accumulate_products,
    relative_loss,
    residual,
    solve_coefficients,
    sum_over_blocks,
)
from jaxdp.attacks.optimisers.base import AbstractOptimiser, Attempt, Ending, onto_sphere
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.core.numerics.batching import solve_positive
from jaxdp.core.numerics.precision import product

# Limit on the unknowns d n; the normal matrix then takes 67 MB in float32.
_MOST_UNKNOWNS = 4096
# Numbers in the Jacobian of a block.
_BLOCK_NUMBERS = 2**22
_CHUNK = 5
_TRIALS = 12
# Counters are 32-bit integers.
_MOST_HALF_PASSES = 2**30
_GROWTH, _DECAY = 4.0, 0.1
# A step that leaves this share of the loss counts as idle; the start ends after so many idle steps.
_HARDLY_LESS, _PATIENCE = 0.999, 8


class LevenbergMarquardt(AbstractOptimiser):
    r"""Damped Gauss-Newton steps in all rows at once.

    Each step solves `normal_equations` with $\lambda$ times a row's mean curvature added, so that
    rows of small coefficient are not slowed down; it is taken only if the loss falls, else
    $\lambda$ grows. Near a loss of zero it converges quadratically. It continues below the
    tolerance until rounding stops it, because a row of small coefficient may still be missing
    there. In full-pass equivalents a normal matrix counts d n / 2 (2 p (d n)^2 flop), a trial step
    1/2; a matrix is made only if it and a trial fit into the rest of `max_passes`.

    Args:
        damping: lambda of the first step.

    Example:
        >>> from jaxdp.attacks import LevenbergMarquardt
        >>> LevenbergMarquardt(damping=0.5).damping.item()  # for `reconstruct(optimiser=...)`
        0.5
    """

    damping: Float[Array, ""] = eqx.field(converter=as_float, default=0.1)

    def __check_init__(self):
        require_positive("damping", self.damping)

    def minimise(
        self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None
    ) -> Attempt:
        """Improve the starts, as every optimiser does; a ValueError if d n is above 4096."""
        _, num_samples, dim = starts.shape
        if dim * num_samples > _MOST_UNKNOWNS:
            raise ValueError(
                f"expected at most {_MOST_UNKNOWNS} unknowns d n for the normal matrix of "
                f"LevenbergMarquardt, got {dim * num_samples}; CurvatureScaledMomentum has no such "
                "limit"
            )
        target = target.in_blocks(max(_BLOCK_NUMBERS // (dim * num_samples), 1))
        half_passes = min(2 * max_passes, _MOST_HALF_PASSES)
        limits = _Limits(
            jnp.asarray(int(half_passes), jnp.int32),
            jnp.asarray(tolerance, starts.dtype),
            jnp.arange(num_samples) >= num_known,
        )
        state = _first_states(target, starts, self.damping.astype(starts.dtype))
        is_found = False
        while np.asarray(_can_go_on(state, limits)).any() and not is_found:
            state = _run(target, state, limits)
            if progress is not None:
                progress(float(_half_passes(state).sum() / 2), float(state.loss.min()))
            ended = np.asarray(state.loss)[np.asarray(state.is_over)]
            is_found = bool((ended <= tolerance).any())
        losses = np.asarray(state.loss)
        endings = np.where(state.is_over, int(Ending.STALLED), int(Ending.OUT_OF_PASSES))
        endings[np.asarray(_can_go_on(state, limits))] = Ending.OVERTAKEN
        endings[~np.isfinite(losses)] = Ending.DIVERGED
        endings[losses <= tolerance] = Ending.CONVERGED
        passes = float(_half_passes(state).sum()) / 2
        return Attempt(state.inputs, state.loss, passes, endings)


class _Limits(NamedTuple):
    """Limits of each start: half passes in all, the tolerance, the rows that may move."""

    half_passes: Int[Array, ""]
    tolerance: Float[Array, ""]
    is_free: Bool[Array, " n"]


class _State(NamedTuple):
    """The state of one start; `idle` is the number of last steps that hardly lowered the loss."""

    inputs: Float[Array, "n dim"]
    loss: Float[Array, ""]
    damping: Float[Array, ""]
    matrices: Int[Array, ""]
    trials: Int[Array, ""]
    idle: Int[Array, ""]
    is_over: Bool[Array, ""]


def _half_passes(state: _State) -> Int[Array, "*starts"]:
    rows, dim = state.inputs.shape[-2:]
    return state.matrices * (rows * dim) + state.trials


def _can_go_on(state: _State, limits: _Limits) -> Bool[Array, "*starts"]:
    """Whether a start is not over and has passes for another matrix and a trial."""
    rows, dim = state.inputs.shape[-2:]
    left = limits.half_passes - _half_passes(state)
    return ~state.is_over & (left > rows * dim)


@eqx.filter_jit
def _first_states(target, starts, damping) -> _State:
    zeros = jnp.zeros(len(starts), jnp.int32)
    losses = lax.map(lambda inputs: relative_loss(target, inputs), starts)
    dampings = jnp.full(len(starts), damping)
    return _State(starts, losses, dampings, zeros, zeros + 1, zeros, ~jnp.isfinite(losses))


@eqx.filter_jit
def _run(target: AbstractTarget, states: _State, limits: _Limits) -> _State:
    def one_start(state):
        def body(counted):
            number, state = counted
            return number + 1, _step(target, state, limits)

        def is_going(counted):
            number, state = counted
            return (number < _CHUNK) & _can_go_on(state, limits)

        return lax.while_loop(is_going, body, (0, state))[1]

    # Under vmap every start would wait for the one with the most trials, with a matrix in memory.
    return lax.map(one_start, states)


def _step(target, state: _State, limits: _Limits) -> _State:
    is_free, (count, dim) = limits.is_free, state.inputs.shape
    matrix, slope = normal_equations(target, state.inputs, is_free)
    # Limited by the passes that are left.
    most = jnp.minimum(_TRIALS, limits.half_passes - _half_passes(state) - count * dim)
    tiny = jnp.finfo(matrix.dtype).eps
    curvature = jnp.diagonal(matrix).reshape(count, dim).mean(1)
    curvature = jnp.where(is_free, jnp.maximum(curvature, tiny * curvature.max()), 1)

    def is_looking(trial):
        number, _, _, loss = trial
        return (number < most) & ~(loss < state.loss)

    def attempt(trial):
        number, damping, _, _ = trial
        damping = jnp.where(number == 0, damping, _GROWTH * damping)
        shifted = matrix + jnp.diag(jnp.repeat(damping * curvature, dim))
        step = solve_positive(shifted, slope).reshape(count, dim)
        moved = jnp.where(is_free[:, None], onto_sphere(state.inputs + step), state.inputs)
        return number + 1, damping, moved, relative_loss(target, moved)

    nothing = jnp.zeros((), jnp.int32), state.damping, state.inputs, state.loss
    number, damping, inputs, loss = lax.while_loop(is_looking, attempt, nothing)
    is_lower = loss < state.loss
    idle = jnp.where(loss < _HARDLY_LESS * state.loss, 0, state.idle + 1)
    is_done = (idle >= _PATIENCE) | ((loss <= limits.tolerance) & (idle > 0))
    return _State(
        jnp.where(is_lower, inputs, state.inputs),
        jnp.where(is_lower, loss, state.loss),
        jnp.maximum(jnp.where(number == 1, _DECAY, 1) * damping, tiny),
        state.matrices + 1,
        state.trials + number,
        idle,
        (~is_lower & (number == _TRIALS)) | is_done,
    )


def normal_equations(
    target: AbstractTarget, inputs: Float[Array, "n dim"], is_free: Bool[Array, " n"]
) -> tuple[Float[Array, "unknowns unknowns"], Float[Array, " unknowns"]]:
    r"""M and b of $M\delta = b$, tangent to the sphere; zero for fixed rows.

    If row i moves by $\delta_i$ the residual $P^\perp\theta$ changes by $-P^\perp\sum_i
    J_i\delta_i\alpha_i^\top$ to first order, plus a term that vanishes with the residual and is
    left out. $M_{ij} = (\alpha_i\cdot\alpha_j)\,T_i J_i^\top P^\perp J_j T_j$ and $b_i = T_i
    J_i^\top R\,\alpha_i$ with R the residual and $T_i = I - x_i x_i^\top/|x_i|^2$. Derived: for
    several outputs, test_levenberg_marquardt.
    """
    count, dim = inputs.shape
    products = accumulate_products(target, inputs)
    alpha = solve_coefficients(products)

    def parts(block):
        linearised = block.linearised(inputs)
        jacobian = _jacobian(linearised.push_forward, inputs)
        left = residual(linearised.features, block.parameters, alpha)
        return (
            product(jacobian, jacobian.T),
            product(linearised.features, jacobian.T),
            linearised.pull_back(product(alpha, left.T)),
        )

    squares, mixed, pulled = sum_over_blocks(target, parts)
    projected = squares - product(mixed.T, solve_coefficients(products._replace(moments=mixed)))
    weights = jnp.where(is_free[:, None] & is_free[None], product(alpha, alpha.T), 0)
    blocks = projected.reshape(count, dim, count, dim) * weights[:, None, :, None]
    units = inputs / jnp.linalg.norm(inputs, axis=1, keepdims=True)
    blocks = _tangent(units, _tangent(units, blocks).transpose(2, 3, 0, 1))
    slope = jnp.where(is_free[:, None], pulled, 0)
    slope = slope - units * jnp.sum(units * slope, axis=1, keepdims=True)
    return blocks.reshape(count * dim, -1), slope.ravel()


def _jacobian(push_forward, inputs) -> Float[Array, "unknowns rows"]:
    """Derivatives of a block's features; a row's features depend on that row alone."""
    count, dim = inputs.shape
    basis = jnp.eye(dim, dtype=inputs.dtype)
    pushed = jax.vmap(lambda unit: push_forward(jnp.broadcast_to(unit, inputs.shape)))(basis)
    return jnp.swapaxes(pushed, 0, 1).reshape(count * dim, -1)


def _tangent(units, blocks):
    """Row blocks (n, d, n, d) without their part along each row."""
    along = jnp.einsum("ia,iajb->ijb", units, blocks, precision=Precision.HIGHEST)
    return blocks - units[:, :, None, None] * along[:, None]
