"""Random numbers in tests: known where jaxdp asks the operating system, and others by option."""

import jax.random as jr
import numpy as np
import pytest
from entropy import KnownEntropy, name_in_file

from jaxdp.privacy import SecretNoise


def _known(request, name):
    known = KnownEntropy(request.config.getoption("seed_offset"))
    with known.stream(name_in_file(name)):
        return known.draw(16)


@pytest.fixture(scope="module")
def made():
    return SecretNoise().words(2, "noise").tobytes()


@pytest.mark.parametrize("case", [0, 1])
def test_noise_without_a_seed_is_known_in_tests_and_in_fixtures(case, made, request):
    assert SecretNoise().words(2, "noise").tobytes() == _known(request, request.node.nodeid)
    module = request.node.parent.nodeid
    assert made == _known(request, f"{module}::, fixture made")


@pytest.mark.entropy("128 bits are those of the test's name with probability 2.9e-39")
def test_a_marked_test_draws_from_the_operating_system(request):
    assert SecretNoise().words(2, "noise").tobytes() != _known(request, request.node.nodeid)


def test_keys_and_generators_with_a_seed_are_those_of_the_offset(request):
    shift = 7919 * request.config.getoption("seed_offset")
    words = np.asarray(jr.key_data(jr.key(5)))
    np.testing.assert_array_equal(words, [0, 5 + shift])
    assert np.random.default_rng(5).bit_generator.seed_seq.entropy == 5 + shift
