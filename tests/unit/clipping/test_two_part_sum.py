"""Sums in two parts are looked at in the process that makes them: known sums, and fast math."""

import json
import math
import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from processes import SUPPORT, environment

from jaxdp.clipping import two_part_sum
from jaxdp.clipping.two_part_sum import why_sums_are_unproved


def _in_a_process_with(flags):
    """What tests/support/fast_math.py finds there, in programs that are compiled as users' are."""
    given = environment(XLA_FLAGS=flags, JAX_DISABLE_MOST_OPTIMIZATIONS="0")
    command = [sys.executable, "-W", "error", str(SUPPORT / "fast_math.py")]
    ran = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.optimised
def test_with_fast_math_nothing_is_certified_and_no_secret_noise_is_added():
    found = _in_a_process_with("--xla_cpu_enable_fast_math=true")
    # It does happen there: one record moves the sum beyond what the noise is for.
    assert found["moved"] > 4.9
    assert not found["certified"]
    assert found["epsilon"] == math.inf
    assert "not proved: additions on this cpu are not those of IEEE arithmetic" in found["printed"]
    assert "proved in the arithmetic of the machine" not in found["printed"]
    for name, message in found["refused"].items():
        assert message is not None, name
        assert message.startswith("expected sums with a proved bound for noise=SecretNoise()")
        assert "--xla_cpu_enable_fast_math" in message
    # What is said of simulated noise is said of real numbers.
    assert found["simulated"] < math.inf


@pytest.mark.slow
def test_without_it_the_same_process_certifies_and_trains():
    found = _in_a_process_with("")
    assert found["moved"] <= 1
    assert found["certified"]
    assert found["epsilon"] < math.inf
    assert "known sums test" in found["printed"]
    assert set(found["refused"].values()) == {None}


def test_sums_are_proved_here_under_every_transformation_and_looked_at_once(monkeypatch):
    assert why_sums_are_unproved() is None
    monkeypatch.setattr(two_part_sum, "_known_sums", None)
    assert why_sums_are_unproved((jnp.ones(3), 1.0, "text")) is None
    assert jax.jit(lambda x: x * (why_sums_are_unproved() is None))(1.0) == 1


# bug: what takes the place of a function that known sums are made of
PLANTED = {
    "errors dropped": ("two_sum", lambda left, right: (left + right, jnp.zeros_like(left))),
    "added in float32": ("add", lambda left, right: jax.tree.map(jnp.add, left, right)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_known_sums_see_additions_that_round(bug, monkeypatch):
    name, wrong = PLANTED[bug]
    monkeypatch.setattr(two_part_sum, name, wrong)
    # What was compiled before would hide the bug, and what is now would hide what is right.
    forget()
    try:
        assert "drops their rounding errors" in why_sums_are_unproved()
    finally:
        forget()


def forget():
    two_part_sum._known_sums.clear_cache()
    two_part_sum._why_unproved_on.cache_clear()


class Device(NamedTuple):
    platform: str


def test_a_tpu_has_no_proof():
    device = Device("tpu")
    assert "not proved for the products of a TPU" in two_part_sum._why_unproved_on(device)
