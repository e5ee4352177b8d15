"""A device without enough memory: which shards to try, said before anything is lost."""

import jax.numpy as jnp
import pytest
from sweeps import workload

# Elements of a cell's array: a quadrillion bytes, which no machine has.
ENORMOUS = 2**48


def enormous(key, gain, power, shift):
    return {"value": jnp.full(ENORMOUS, gain) + shift}


@pytest.mark.parametrize(
    ("shard_size", "advice"),
    [
        (8, "with shard_size=8; try shard_size=4"),
        (1, "with shard_size=1; one cell a device is too much already"),
        (None, "one cell a device is too much already"),
    ],
)
def test_out_of_memory_says_which_shards_to_try(tmp_path, shard_size, advice):
    with pytest.raises(MemoryError, match=f"out of memory on .*{advice}"):
        workload.run(enormous, tmp_path, axes=workload.ONE_PROGRAM, shard_size=shard_size)
    assert workload.files(tmp_path) == {}
