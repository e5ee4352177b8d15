"""Keys from the operating system, and what is known of keys made from integers."""

import jax
import jax.random as jr
import numpy as np
import pytest

from jaxdp.privacy import key_entropy_bits, secret_key


@pytest.mark.entropy("of 200 keys of 64 bits two agree with probability 1.1e-15")
def test_integers_beyond_32_bits_make_no_other_keys_and_secret_keys_do():
    """Why there is `secret_key` at all."""
    with jax.enable_x64(False):
        assert jr.key(2**32 + 5) == jr.key(5)
    keys = np.stack([np.asarray(jr.key_data(secret_key())) for _ in range(200)])
    assert len(np.unique(keys, axis=0)) == 200
    assert jr.normal(secret_key(), (3,)).shape == (3,)


@pytest.mark.parametrize(("impl", "bits"), [(None, 64), ("threefry2x32", 64), ("rbg", 128)])
def test_the_bits_of_a_key_are_told_from_those_of_an_integer(impl, bits):
    assert key_entropy_bits(secret_key(impl=impl)) == bits
    assert secret_key(impl=impl).shape == ()
    for integer in (0, 5, 2**31 - 1):
        assert key_entropy_bits(jr.key(integer, impl=impl)) == 32
    # What is split off or folded in hides the integer, and adds nothing to it: not seen.
    assert key_entropy_bits(jr.fold_in(jr.key(0, impl=impl), 1)) == bits


def test_a_traced_key_is_not_looked_at():
    seen = []
    jax.jit(lambda key: seen.append(key_entropy_bits(key)) or key)(jr.key(0))
    assert seen == [None]
    with pytest.raises(TypeError, match=r"jax\.random\.key"):
        key_entropy_bits(5)
