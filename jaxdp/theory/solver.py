"""Loops shared by all theories: a differential equation's solver, and a loop over steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.core.arrays import in_types_of
from jaxdp.core.checks import require_kind
from jaxdp.core.numerics.precision import compensated_add
from jaxdp.core.trajectory import longest_stretch, record_steps


class Instant(NamedTuple):
    """The time at which a velocity is evaluated."""

    time: Float[Array, ""]  # t in [0, 1]
    # For each kink whether t >= the kink, compared in s: t itself is rounded.
    passed: Bool[Array, " kinks"]


class Clock(NamedTuple):
    """A variable s in [0, 1] that the solver steps in, in place of t."""

    time: Callable[[Array], Array]  # t(s)
    speed: Callable[[Array], Array] | None  # dt/ds; None if t = s
    position: Callable[[Array], Array]  # s(t); beyond t = 1 it stays beyond 1


def _position_toward_the_end(time: Array) -> Array:
    before = jnp.minimum(time, 1)
    # 1 - sqrt(1 - t), in a form that keeps the digits of a small t.
    return jnp.where(time < 1, before / (1 + jnp.sqrt(1 - before)), time)


# Noise to come makes the state large, so that a step guessed from the state's size and velocity
# would skip the fast start of the risk. Each step may be ten times the last.
_FIRST_STEP = 1e-4

EVEN = Clock(lambda position: position, None, lambda time: time)
# Slows down toward t = 1: t = 1 - (1 - s)^2.
SLOW_AT_THE_END = Clock(
    lambda position: position * (2 - position),
    lambda position: 2 * (1 - position),
    _position_toward_the_end,
)


class Tolerances(NamedTuple):
    """The solver's relative and absolute tolerances, in float64 and in float32."""

    double: tuple[float, float]
    single: tuple[float, float]
    norm: Callable[[PyTree], Array]  # norm of a step's error, a pytree like the state
    max_steps: int  # after how many steps the solver gives up


def require_adjoint(adjoint: Any) -> None:
    require_kind("adjoint", adjoint, diffrax.AbstractAdjoint, "one of diffrax's adjoints")


def adjoint_for(adjoint: diffrax.AbstractAdjoint, *given: PyTree) -> diffrax.AbstractAdjoint:
    """The adjoint; without checkpoints if nothing is traced. Results agree bit for bit."""
    is_traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given))
    has_checkpoints = isinstance(adjoint, diffrax.RecursiveCheckpointAdjoint)
    return diffrax.ForwardMode() if has_checkpoints and not is_traced else adjoint


def solve(
    velocity: Callable[[Instant, PyTree], PyTree],
    start: PyTree[Float[Array, "..."]],
    time: Float[Array, " records"],
    *,
    tolerances: Tolerances,
    adjoint: diffrax.AbstractAdjoint,
    clock: Clock = EVEN,
    kinks: Float[Array, " kinks"] | None = None,
    read: Callable[[PyTree], PyTree] | None = None,
) -> tuple[PyTree[Float[Array, "records ..."]], Bool[Array, ""]]:
    """States at the records, from 0 to 1, and whether it failed; no step crosses a kink."""
    dtype = time.dtype
    marks = jnp.zeros(0, dtype) if kinks is None else clock.position(kinks.astype(dtype))

    def field(position, state, _):
        found = velocity(Instant(clock.time(position), position >= marks), state)
        if clock.speed is None:
            return found
        speed = clock.speed(position)
        return jax.tree.map(lambda part: part * speed, found)

    relative, absolute = tolerances.double if dtype == jnp.float64 else tolerances.single
    steps: Any = diffrax.PIDController(rtol=relative, atol=absolute, norm=tolerances.norm)
    if kinks is not None:
        steps = diffrax.ClipStepSizeController(steps, jump_ts=marks)
    kept: Any = (lambda _, state, __: state) if read is None else lambda _, state, __: read(state)
    # The ends alone need no interpolation.
    ends = diffrax.SaveAt(t0=True, t1=True, fn=kept)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        # NumPy arrays are known while the program is traced, and need no check when it runs.
        np.zeros((), dtype),
        np.ones((), dtype),
        np.asarray(_FIRST_STEP, dtype),
        start,
        saveat=ends if len(time) == 2 else diffrax.SaveAt(ts=clock.position(time), fn=kept),
        stepsize_controller=steps,
        adjoint=adjoint,
        max_steps=tolerances.max_steps,
        throw=False,
    )
    return solution.ys, solution.result != diffrax.RESULTS.successful


def recorded(
    step: Callable[[Any, Int[Array, ""]], Any],
    start: PyTree[Array],
    read: Callable[[Any], PyTree],
    at_record: Int[Array, " records"],
    longest: int | Int[Array, ""],
) -> PyTree:
    """The outputs of `read` at the start and at every record, stacked.

    Checkpointed between records. Reverse differentiation needs `longest` as a Python int.
    """

    @jax.checkpoint
    def kept(state, index):
        return in_types_of(step(state, index), state)

    @jax.checkpoint
    def record(reached, bounds):
        state, found = reached
        first, last = bounds

        def within(count, state):
            index = first + count
            return lax.cond(index < last, kept, lambda state, _: state, state, index)

        state = lax.fori_loop(0, longest, within, state)
        # With fewer steps than records states repeat, and `read` may cost as much as a step.
        found = lax.cond(first < last, read, lambda _: found, state)
        return (state, found), found

    found = read(start)
    _, rest = lax.scan(record, (start, found), (at_record[:-1], at_record[1:]))
    return jax.tree.map(lambda first, others: jnp.concatenate([first[None], others]), found, rest)


def recorded_sums(
    changes: Callable[[Any, Int[Array, ""]], Any],
    start: PyTree[Array],
    read: Callable[[Any], PyTree],
    num_steps: int | Int[Array, ""],
    records: int,
) -> tuple[Int[Array, " records"], PyTree]:
    """`recorded` for a state to which steps add `changes`, without loss by rounding."""

    def step(state, index):
        leaves, tree = jax.tree.flatten(state[0])
        parts = leaves, jax.tree.leaves(state[1]), jax.tree.leaves(changes(state[0], index))
        sums = [
            compensated_add(total, error, part.astype(total.dtype))
            for total, error, part in zip(*parts, strict=True)
        ]
        return tuple(tree.unflatten(each) for each in zip(*sums, strict=True))

    at_record = jnp.asarray(record_steps(num_steps, records))
    longest = longest_stretch(num_steps, records)
    state = start, jax.tree.map(jnp.zeros_like, start)
    return at_record, recorded(step, state, lambda state: read(state[0]), at_record, longest)
