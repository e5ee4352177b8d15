"""The time loop shared by theories that advance step by step.

The loop advances the moments and evaluates risk and observables at each recorded step. The
loop is checkpointed, so that gradients store one stretch at a time.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, PyTree

from jaxdp.core.arrays import in_types_of


def recorded(
    step: Callable[[Any, Int[Array, ""]], Any],
    start: PyTree[Array],
    read: Callable[[Any], PyTree],
    at_record: Int[Array, " records"],
    longest: int | Int[Array, ""],
) -> PyTree:
    """What is read at the start and after the steps of every record, stacked.

    Reverse differentiation keeps the states at the records, and those of one stretch at a time. A
    reverse pass needs the `longest` stretch between two records as a Python int.
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
        # With fewer steps than records many are of one state, and reading may cost as a step does.
        found = lax.cond(first < last, read, lambda _: found, state)
        return (state, found), found

    found = read(start)
    _, rest = lax.scan(record, (start, found), (at_record[:-1], at_record[1:]))
    return jax.tree.map(lambda first, others: jnp.concatenate([first[None], others]), found, rest)
