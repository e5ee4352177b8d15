"""When a run is recorded: record j is the state after floor(j n / records) of its n updates.

Records are numbered from 0, before the first update, to `records`, after the last: records + 1
states in all.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int


def record_steps(
    num_steps: int | Int[Array, ""], records: int
) -> np.ndarray | Int[Array, " recorded"]:
    """The numbers of updates done at the `records + 1` records, first 0 and last `num_steps`.

    NumPy integers for a Python int; a traced array for a traced one. With n = q records + r the
    value floor(j n / records) is j q + floor(j r / records), which does not overflow.
    """
    index = np.arange(records + 1)
    if isinstance(num_steps, int):
        return index * num_steps // records
    quotient, remainder = jnp.divmod(num_steps, records)
    return index * quotient + index * remainder // records


def longest_stretch(num_steps: int | Int[Array, ""], records: int) -> int | Int[Array, ""]:
    """The most updates between two records, a Python int for a Python int."""
    return -(-num_steps // records)
