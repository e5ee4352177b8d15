"""Random keys, split by run, purpose and step: the one registry of the numbers that split them.

Two runs that differ only in their noise level see the same data, and run i is the same whether it
is simulated alone or in a batch. Keys are folded with the numbers of runs, steps, records and cells
(below 2^31) or of random streams (at least 2^32 - 2^16). Purposes are numbers from 0 on, and
`jax.random.split` makes a key's numbered keys, so within the package a key is split by purpose, by
number or by `split`, never by two of these. Then no two draws of one call share a key. Two calls
with the same key draw different numbers only if one of them has a random stream of its own.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, Key

_PURPOSES = ("data", "sampling", "noise", "init")
# The random streams by user; two of them may get one key.
_STREAMS = {
    "FunctionSpace": 0xFFFF_00F5,
    "HomogenizedSDE": 0xFFFF_05DE,
    "Reduced": 0xFFFF_0AD1,
    "RandomFeatures": 0xFFFF_5A3E,
    "reconstruct": 0xFFFF_2EC0,
    "digest": 0xFFFF_D16E,
    "clip count": 0xFFFF_C11C,
    "gradient SDE": 0xFFFF_F5E7,
    "unseen features": 0xFFFF_F5EE,
}


def purpose_key(key: Key[Array, ""], purpose: str) -> Key[Array, ""]:
    """The key of one purpose: "data", "sampling", "noise" or "init"."""
    return jr.fold_in(key, _PURPOSES.index(purpose))


def stream_key(key: Key[Array, ""], stream: str) -> Key[Array, ""]:
    """The key of one of the random streams, apart from those of all runs and purposes."""
    return jr.fold_in(key, _STREAMS[stream])


def numbered_key(key: Key[Array, ""], number: int | Int[Array, ""]) -> Key[Array, ""]:
    """The key of a step, an epoch, a record or a cell by its number, from 0 and below 2^31."""
    return jr.fold_in(key, number)


def run_keys(key: Key[Array, ""], num_runs: int) -> Key[Array, " runs"]:
    """One key for each run; the i-th does not depend on the number of runs."""
    return jax.vmap(lambda run: numbered_key(key, run))(jnp.arange(num_runs))
