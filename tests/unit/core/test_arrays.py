"""What users type becomes floats of a definite type, and no program is compiled for it."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from helpers import programs_compiled

from jaxdp.core.arrays import as_float
from jaxdp.core.numerics.precision import x64

GIVEN = {
    "float": 0.1,
    "list": [1.0, 2],
    "empty": [],
    "single": np.float32(0.1),
    "half": np.ones(3, np.float16),
    "swapped": np.linspace(0, 1, 3).astype(">f8"),
    "numbers of both kinds": [np.float32(0.1), 2.0],
    "arrays": [np.linspace(0, 1, 3), np.arange(3)],
    "arrays of few bits": (np.ones(2, np.float16), np.ones(2, np.float32)),
    "series": pandas.Series([0.5, 2.0]),
    "array": jnp.arange(3),
    "with an array of JAX": [jnp.ones(()), 2],
    "truths among numbers": [True, 2.0],
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", GIVEN)
def test_values_and_types_are_those_of_jax_but_never_weak(name, wide):
    value = GIVEN[name]
    native = {"swapped": np.linspace(0, 1, 3), "series": np.array([0.5, 2.0])}.get(name, value)
    with x64(wide):
        found, expected = as_float(value), jnp.asarray(native)
        if not jnp.issubdtype(expected.dtype, jnp.floating):
            expected = expected.astype(float)
        chex.assert_trees_all_equal(found, expected, strict=True)
    assert not found.weak_type
    assert not found.committed


def test_whole_numbers_too_large_for_32_bits_keep_their_size():
    # `jnp.asarray` makes -1294967296 of the array's, and says of Python's that it overflows.
    large = 3_000_000_000
    array = np.array([large])
    for value in (
        *(large, [large], array, [np.int64(large)], [array, [1.5]], [array[0], np.float32(1)]),
        *(range(large, large + 2), pandas.Series([large, 1]), pandas.DataFrame({"a": [large]})),
    ):
        assert float(np.ravel(as_float(value))[0]) == 3e9
    assert as_float([1, 2**70])[1] == 2.0**70
    assert as_float(1e300) == np.inf


def test_what_was_given_may_change_afterwards():
    # Where JAX computes on the processor, it takes over the memory of what lies at such an address.
    memory = np.zeros(64 * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    given = memory[start : start + 64 * 4].view(np.float32)
    taken, kept = jax.device_put(given), as_float(given)
    given[:] = 1
    assert not np.asarray(kept).any()
    assert np.asarray(taken).all() or jax.default_backend() != "cpu"


def test_no_program_is_compiled_for_a_new_shape():
    for value in (np.ones((3, 41, 1)), [1.0] * 4321):
        assert programs_compiled(as_float, value) == 0
    # The counter sees what JAX itself does with such a list.
    assert programs_compiled(jnp.asarray, [1.0] * 4321) == 1
