r"""The distribution of Algorithm 1 for labels along one direction of isotropic inputs: two numbers.

Let the target be $S e$, $p = \langle\theta, e\rangle$ the overlap and $w = \|\theta_\perp\|^2$ the
remainder, $r = \sqrt w$. An input is $x = g_1 e + g_2\theta_\perp/r + v$ with $g_1, g_2$ standard
normal and $\|v\|^2 = q$ chi-square of $d - 2$ degrees, all independent. The label follows from $S
g_1$ and randomness of its own, the slope from the label and $p g_1 + r g_2$, and $\|x\|^2 = g_1^2 +
g_2^2 + q$. With s, the clipped slope times the capped step, $p' = p - s g_1$ and $w' = (r - s
g_2)^2 + s^2 q$; noise of deviation $\tau$ adds $\tau b_1$ to p and makes $(r + \tau b_2)^2 + \tau^2
q'$ of w. The distribution of (p', w') given $\theta$ depends on (p, w) alone: a Markov chain that
is exact for every dimension, number of steps, clip norm and schedule. Derived: test_overlap_chain
checks it in distribution against `Iterates` and a transcription in NumPy.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxdp.core.arrays import float_dtype
from jaxdp.core.numerics.counter_normals import Words, chi_square, normal_pairs
from jaxdp.core.numerics.precision import compensated_add
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.simulation.driver import Reading, even_chunks


class _State(eqx.Module):
    """Overlap and remainder of each run, their rounding errors, and counts."""

    overlap: Float[Array, " runs"]
    remainder: Float[Array, " runs"]
    excess: tuple[Float[Array, " runs"], Float[Array, " runs"]]
    clipped: Int[Array, " runs"]
    capped: Int[Array, " runs"]


@eqx.filter_jit
def begin(problem, algorithm, num_runs: int):
    dtype = jnp.promote_types(float_dtype(problem, algorithm), jnp.float32)
    zero, count = jnp.zeros(num_runs, dtype), jnp.zeros(num_runs, jnp.int32)
    state = _State(zero, zero, (zero, zero), count, count)
    recorded = jax.tree.map(lambda part: part[None], _recorded(problem, state))
    return state, _reading(recorded)


@eqx.filter_jit
def advance(problem, algorithm, streams, state, bounds, *, longest: int, is_noisy: bool):
    """Run step ranges (start, end] one after the other; the last state and the ends' reading."""
    num_chunks, size = even_chunks(longest, numbers_per_step=7 * len(state.overlap))

    def one_range(state, bounds):
        def one_chunk(index, state):
            steps = bounds[0] + 1 + index * size + jnp.arange(size)
            return _chunk(problem, algorithm, streams, state, steps, bounds[1], is_noisy)

        state = lax.fori_loop(0, num_chunks, one_chunk, state)
        return state, _recorded(problem, state)

    starts, ends = (jnp.asarray(part) for part in bounds)
    state, recorded = lax.scan(one_range, state, (starts, ends))
    return state, _reading(recorded)


def _recorded(problem: AbstractSignalProblem, state: _State):
    overlap, remainder = state.overlap, state.remainder
    risk = problem.risk_at(overlap, remainder).astype(overlap.dtype)
    counts = {"clipped": state.clipped, "capped": state.capped}
    return risk, counts, {"overlap": overlap, "norm_squared": overlap**2 + remainder}


def _reading(recorded) -> Reading:
    """From records first to runs first."""
    return Reading(*jax.tree.map(lambda part: part.T, recorded))


def _chunk(problem, algorithm, streams, state, steps, last, is_noisy) -> _State:
    """The steps of a chunk, those beyond the last without effect."""
    dtype, dim = state.overlap.dtype, problem.dim
    sampling, noise = streams.sampling, streams.noise
    active = steps <= last
    rates = jnp.where(active, algorithm.step_size(steps), 0).astype(dtype)
    # The last update's noise comes after the last record.
    noisy = active & (steps < algorithm.num_steps)
    stds = jnp.where(noisy, algorithm.noise_std(steps, dim), 0).astype(dtype)
    signal = problem.signal.astype(dtype)
    along, beside = _normals(sampling, steps, 0, dtype)
    rest, label = _normals(sampling, steps, 1, dtype)
    rest = _chi_square(rest, dim)
    labels = problem.label(signal * along, label)
    drawn = _noise(noise, steps, dim, dtype) if is_noisy else None

    def step(state: _State, now):
        (along, beside, rest, label), rate, active, drawn, std = now
        length = jnp.sqrt(state.remainder)
        slope = problem.loss.slope(state.overlap * along + length * beside, label)
        square = along**2 + beside**2 + rest
        factor = algorithm.clip.factor(jnp.abs(slope) * jnp.sqrt(square), dim)
        limit = 2 / (problem.loss.curvature_bound * square)
        pull = jnp.minimum(rate, limit) * factor * slope
        clipped = state.clipped + ((factor < 1) & active)
        capped = state.capped + (limit < rate)
        state = _moved(state, -pull * along, -pull * beside, pull**2 * rest)
        if drawn is not None:
            ahead, aside, across = drawn
            state = _moved(state, std * ahead, std * aside, std**2 * across)
        moved = (state.overlap, state.remainder, state.excess)
        return _State(*moved, clipped, capped), None

    samples = (along, beside, rest, labels)
    return lax.scan(step, state, (samples, rates, active, drawn, stds))[0]


def _moved(state: _State, ahead, aside, square_across) -> _State:
    """The state after adding a vector: along the target, along the rest, and across both."""
    length = jnp.sqrt(state.remainder)
    change = aside * (aside + 2 * length) + square_across
    overlap, first = compensated_add(state.overlap, state.excess[0], ahead)
    remainder, second = compensated_add(state.remainder, state.excess[1], change)
    # A square; only rounding makes it negative.
    remainder = jnp.maximum(remainder, 0)
    return _State(overlap, remainder, (first, second), state.clipped, state.capped)


def _normals(words: Words, steps, place: int, dtype):
    return normal_pairs(words, steps[:, None], jnp.asarray(place), dtype)


def _chi_square(normals, dim: int):
    return chi_square(normals[:, None], (dim - 2,))[:, 0]


def _noise(words: Words, steps, dim: int, dtype):
    """Noise of deviation 1: along the target, along the rest, and squared across both."""
    ahead, aside = _normals(words, steps, 0, dtype)
    across, _ = _normals(words, steps, 1, dtype)
    return ahead, aside, _chi_square(across, dim)


@eqx.filter_jit
def final_risk(problem, algorithm, streams, state: _State):
    last, dtype = jnp.asarray([algorithm.num_steps]), state.overlap.dtype
    ahead, aside, across = (part[0] for part in _noise(streams.noise, last, problem.dim, dtype))
    std = algorithm.noise_std(last, problem.dim)[0].astype(dtype)
    moved = _moved(state, std * ahead, std * aside, std**2 * across)
    return problem.risk_at(moved.overlap, moved.remainder).astype(dtype)
