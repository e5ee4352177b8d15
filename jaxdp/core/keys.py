"""Random keys, split by run and by purpose.

Two runs that differ only in their noise level see the same data, and run number i is the same
whether it is simulated alone or in a batch.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Key

_PURPOSES = ("data", "sampling", "noise", "init")


def purpose_key(key: Key[Array, ""], purpose: str) -> Key[Array, ""]:
    """The key of one purpose: "data", "sampling", "noise" or "init"."""
    return jr.fold_in(key, _PURPOSES.index(purpose))


def run_keys(key: Key[Array, ""], num_runs: int) -> Key[Array, " runs"]:
    """One key a run; the i-th does not depend on how many there are."""
    return jax.vmap(lambda run: jr.fold_in(key, run))(jnp.arange(num_runs))
