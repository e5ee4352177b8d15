"""Levenberg-Marquardt on the residual with its coefficients projected out, for small problems."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import relative_loss
from jaxdp.attacks.optimisers.base import AbstractOptimiser, Attempt, Ending, onto_sphere
from jaxdp.attacks.optimisers.normal_equations import normal_equations
from jaxdp.core.arrays import as_float, plain_float
from jaxdp.core.checks import require_positive

# Of the normal matrix: 67 MB in float32.
_MOST_UNKNOWNS = 4096
# Numbers in the Jacobian of a block.
_BLOCK_NUMBERS = 2**22
_CHUNK = 5
_TRIALS = 12
_GROWTH, _DECAY = 4.0, 0.1
# A loss that keeps this much of itself has not fallen; after so many such steps it is given up.
_HARDLY_LESS, _PATIENCE = 0.999, 8


class LevenbergMarquardt(AbstractOptimiser):
    r"""Damped Gauss-Newton steps in all rows at once, from what another optimiser leaves.

    Each step solves `normal_equations` with $\lambda$ times a row's mean curvature added, so that
    no row of small coefficient is held back by the others; it is taken only when the loss falls,
    else $\lambda$ grows. Near a loss of zero it converges quadratically, and it goes on below the
    tolerance, which a row of small coefficient may fall short of unseen, until rounding stops it.

    In full-pass equivalents a normal matrix counts d n / 2 (2 p (d n)^2 flop), a trial step 1/2.

    Args:
        damping: lambda of the first step.
        first: an optimiser that goes before; None for none.
        first_passes: how many full-pass equivalents that one has.
    """

    damping: Float[Array, ""] = eqx.field(converter=as_float, default=0.1)
    first: AbstractOptimiser | None = None
    first_passes: float = eqx.field(static=True, converter=plain_float, default=400.0)

    def __check_init__(self):
        require_positive("damping", self.damping)
        require_positive("first_passes", self.first_passes)
        if not (self.first is None or isinstance(self.first, AbstractOptimiser)):
            raise TypeError(f"expected first to be an optimiser or None, got {self.first!r}")

    def minimise(
        self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None
    ) -> Attempt:
        """As of every optimiser.

        Raises:
            ValueError: d n is above 4096.
        """
        count, num_samples, dim = starts.shape
        if dim * num_samples > _MOST_UNKNOWNS:
            raise ValueError(
                f"expected at most {_MOST_UNKNOWNS} unknowns d n for the normal matrix of "
                f"LevenbergMarquardt, got {dim * num_samples}; CurvatureScaledMomentum has no such "
                "limit"
            )
        spent, most = 0.0, max_passes * count
        if self.first is not None:
            starts, _, spent, _ = self.first.minimise(
                target,
                starts,
                key=key,
                max_passes=min(self.first_passes, max_passes),
                tolerance=tolerance,
                num_known=num_known,
                progress=progress,
            )
        target = target.in_blocks(max(_BLOCK_NUMBERS // (dim * num_samples), 1))
        limits = jnp.asarray(tolerance, starts.dtype), jnp.arange(num_samples) >= num_known
        state = _first_states(target, starts, self.damping.astype(starts.dtype))
        passes, matrix_passes = spent, dim * num_samples / 2
        while passes < most and not _is_done(state, tolerance):
            steps = min(_CHUNK, max(int((most - passes) / (count * matrix_passes)), 1))
            state = _run(target, state, jnp.asarray(steps), *limits)
            passes = spent + float((state.matrices * matrix_passes + state.trials / 2).sum())
            if progress is not None:
                progress(passes, float(state.loss.min()))
        return Attempt(state.inputs, state.loss, passes, _endings(state, tolerance))


class _State(NamedTuple):
    """Of one start, or of several along a leading axis.

    Attributes:
        matrices, trials: how many normal matrices and trial steps there were.
        idle: how many steps in succession hardly lowered the loss.
        is_over: whether there is nothing more to be done.
    """

    inputs: Float[Array, "n dim"]
    loss: Float[Array, ""]
    damping: Float[Array, ""]
    matrices: Int[Array, ""]
    trials: Int[Array, ""]
    idle: Int[Array, ""]
    is_over: Bool[Array, ""]


def _is_done(state: _State, tolerance: float) -> bool:
    """Whether a start has found everything, or none can go on."""
    is_over = np.asarray(state.is_over)
    return bool(is_over.all() or (np.asarray(state.loss)[is_over] <= tolerance).any())


def _endings(state: _State, tolerance: float) -> np.ndarray:
    losses = np.asarray(state.loss)
    endings = np.where(state.is_over, int(Ending.STALLED), int(Ending.OUT_OF_PASSES))
    endings[~np.isfinite(losses)] = Ending.DIVERGED
    endings[losses <= tolerance] = Ending.CONVERGED
    return endings


@eqx.filter_jit
def _first_states(target, starts, damping) -> _State:
    zeros = jnp.zeros(len(starts), jnp.int32)
    losses = lax.map(lambda inputs: relative_loss(target, inputs), starts)
    dampings = jnp.full(len(starts), damping)
    return _State(starts, losses, dampings, zeros, zeros + 1, zeros, ~jnp.isfinite(losses))


@eqx.filter_jit
def _run(target: AbstractTarget, states: _State, num_steps, tolerance, is_free) -> _State:
    """Some steps of each start that is not over, one start after the other."""

    def one_start(state):
        def body(counted):
            number, state = counted
            return number + 1, _step(target, state, tolerance, is_free)

        def is_going(counted):
            number, state = counted
            return (number < num_steps) & ~state.is_over

        return lax.while_loop(is_going, body, (0, state))[1]

    # Under vmap every start would wait for the one with the most trials, with a matrix in memory.
    return lax.map(one_start, states)


def _step(target, state: _State, tolerance, is_free) -> _State:
    """One normal matrix, and trials with growing damping until the loss falls."""
    matrix, slope = normal_equations(target, state.inputs, is_free)
    count, dim = state.inputs.shape
    tiny = jnp.finfo(matrix.dtype).eps
    curvature = jnp.diagonal(matrix).reshape(count, dim).mean(1)
    curvature = jnp.where(is_free, jnp.maximum(curvature, tiny * curvature.max()), 1)

    def is_looking(trial):
        number, _, _, loss = trial
        return (number < _TRIALS) & ~(loss < state.loss)

    def attempt(trial):
        number, damping, _, _ = trial
        damping = jnp.where(number == 0, damping, _GROWTH * damping)
        shifted = matrix + jnp.diag(jnp.repeat(damping * curvature, dim))
        factor = jax.scipy.linalg.cho_factor(shifted, lower=True)
        step = jax.scipy.linalg.cho_solve(factor, slope).reshape(count, dim)
        moved = jnp.where(is_free[:, None], onto_sphere(state.inputs + step), state.inputs)
        return number + 1, damping, moved, relative_loss(target, moved)

    nothing = jnp.zeros((), jnp.int32), state.damping, state.inputs, state.loss
    number, damping, inputs, loss = lax.while_loop(is_looking, attempt, nothing)
    is_lower = loss < state.loss
    idle = jnp.where(loss < _HARDLY_LESS * state.loss, 0, state.idle + 1)
    is_done = (idle >= _PATIENCE) | ((loss <= tolerance) & (idle > 0))
    return _State(
        jnp.where(is_lower, inputs, state.inputs),
        jnp.where(is_lower, loss, state.loss),
        jnp.maximum(jnp.where(number == 1, _DECAY, 1) * damping, tiny),
        state.matrices + 1,
        state.trials + number,
        idle,
        ~is_lower | is_done,
    )
