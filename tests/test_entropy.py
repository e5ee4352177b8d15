"""Random numbers in tests: known where jaxdp asks the operating system, and others by option."""

import pathlib
import subprocess
import sys

import jax.random as jr
import numpy as np
import pytest
from entropy import KnownEntropy, known_environment

import jaxdp
from jaxdp.privacy import SecretNoise

# Draws as a file of jaxdp's and as another: prints both.
_DRAWS = """
import os, sys
for file in (sys.argv[1], "elsewhere.py"):
    exec(compile("print(os.urandom(16).hex())", file, "exec"))
"""


def _known(request, name):
    known = KnownEntropy(request.config.getoption("seed_offset"))
    with known.stream(name):
        return known.draw(16)


def _draws(known, name):
    with known.stream(name):
        return [known.draw(8) for _ in range(3)]


def test_streams_are_their_names_and_seeds_and_never_repeat_themselves():
    streams = [_draws(KnownEntropy(seed), name) for seed in (0, 1) for name in ("a", "b")]
    assert len({word for stream in streams for word in stream}) == 12
    assert _draws(KnownEntropy(0), "a") == streams[0]


@pytest.fixture(scope="module")
def made():
    return SecretNoise().words(2, "noise").tobytes()


@pytest.mark.parametrize("case", [0, 1])
def test_noise_without_a_seed_is_known_in_tests_and_in_fixtures(case, made, request):
    assert SecretNoise().words(2, "noise").tobytes() == _known(request, request.node.nodeid)
    module = request.node.parent.nodeid
    assert made == _known(request, f"{module}, fixture made")


def test_a_generator_of_numpy_without_a_seed_is_known_too(request):
    numbers = [np.random.default_rng().integers(2**62) for _ in range(2)]
    known = KnownEntropy(request.config.getoption("seed_offset"))
    with known.stream(request.node.nodeid):
        entropy = [int.from_bytes(known.draw(16), "big") for _ in range(2)]
    assert numbers == [
        np.random.Generator(np.random.PCG64(each)).integers(2**62) for each in entropy
    ]


@pytest.mark.entropy("128 bits are those of a stream with probability 2.9e-39")
def test_a_process_can_be_given_known_bits_for_jaxdp_alone():
    known = KnownEntropy(3)
    with known.stream("a name"):
        expected = known.draw(16).hex()
    own, others = [], []
    for environment in (known_environment(3, "a name"), known_environment(4, "a name"), None):
        command = [sys.executable, "-c", _DRAWS, str(pathlib.Path(jaxdp.__file__))]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for found, draws in zip((own, others), ran.stdout.split(), strict=True):
            found.append(draws)
    assert own[0] == expected
    assert len({*own, *others}) == 6


@pytest.mark.entropy("128 bits are those of the test's name with probability 2.9e-39")
def test_a_marked_test_draws_from_the_operating_system(request):
    assert SecretNoise().words(2, "noise").tobytes() != _known(request, request.node.nodeid)


def test_a_reason_stands_beside_every_mark(request):
    for item in request.session.items:
        for mark in item.iter_markers("entropy"):
            assert "probability" in " ".join(mark.args), item.nodeid


def test_keys_and_generators_with_a_seed_are_those_of_the_offset(request):
    shift = 7919 * request.config.getoption("seed_offset")
    words = np.asarray(jr.key_data(jr.key(5)))
    np.testing.assert_array_equal(words, [0, 5 + shift])
    assert np.random.default_rng(5).bit_generator.seed_seq.entropy == 5 + shift
