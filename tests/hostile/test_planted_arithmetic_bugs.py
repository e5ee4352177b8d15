"""Bugs in the arithmetic of private releases, planted one by one: each is caught by a test."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from algorithms import test_secret_training
from estimators import test_estimators
from kernels.release import test_joint_release
from privacy.secret import test_rounded_normals

from jaxdp.algorithms.private_optimiser import noise, private_step
from jaxdp.clipping import TwoPartSum
from jaxdp.privacy import SecretNoise
from jaxdp.privacy.secret import rounded_normals


def _words_are_counted(patch):
    found, allowed = test_joint_release._right_guesses(
        test_joint_release.noisy_sums, 0.01, 30, 40, is_coarse=False
    )
    assert found <= allowed


def _noise_is_measured_against_the_rounding(patch):
    test_secret_training.test_the_noise_covers_the_rounding_of_the_sums_and_of_the_grid(
        300, 0.7, patch
    )


def _two_steps_are_compared(patch):
    """Of one sum: their noise must differ."""
    part = TwoPartSum(jnp.zeros(100), jnp.zeros(100))
    made = test_secret_training._optimiser()
    first, second = (made.noisy_sum(part, step, key=jr.key(0)) for step in (0, 1))
    assert not np.array_equal(first, second)
    other = made.noisy_sum(TwoPartSum(part.high + 1e-3, part.low), 0, key=jr.key(0))
    assert np.abs(other - first - 1e-3).min() > 1e-6


def _refined_grid(self, values, std, purpose):
    values = np.asarray(values, np.int64)
    return values + np.rint(self.normals(values.shape, purpose) * std).astype(np.int64)


_widened = noise.widened_for_grid

# bug: (what is put in place of what, the test that catches it)
PLANTED = {
    "grid refined again, residues": (
        (SecretNoise, "noisy_integers", _refined_grid),
        lambda patch: (
            test_joint_release.test_every_residue_of_the_release_is_as_likely_as_any_other(0.01)
        ),
    ),
    "grid refined again, words": (
        (SecretNoise, "noisy_integers", _refined_grid),
        _words_are_counted,
    ),
    "bound on blocks left out": (
        (private_step, "sensitivity_excess", lambda *sizes, **options: 0.0),
        _noise_is_measured_against_the_rounding,
    ),
    "rounding to the grid left out": (
        (noise, "widened_for_grid", lambda std, *sizes: std),
        _noise_is_measured_against_the_rounding,
    ),
    "half of the grid covered": (
        (noise, "widened_for_grid", lambda std, once, *sizes: _widened(std, once / 2, *sizes)),
        _noise_is_measured_against_the_rounding,
    ),
    "seeds not checked": (
        (SecretNoise, "is_guessable", property(lambda self: False)),
        lambda patch: test_estimators.test_a_noise_seed_that_can_be_guessed_costs_infinity(
            test_estimators._ridge
        ),
    ),
    "tail ignored": (
        (noise, "least_delta", lambda multiplier, sampler: 0.0),
        lambda patch: (
            test_secret_training.test_a_cost_says_what_the_tail_of_float32_betrays_and_secret_noise_has_none()
        ),
    ),
    "float64 trusted near a turn": (
        (rounded_normals, "_MARGIN", 0.0),
        lambda patch: (
            test_rounded_normals.test_draws_at_a_place_where_rounding_turns_are_decided_by_further_digits(
                2**31 + 0.5, 1
            )
        ),
    ),
    "one noise for all sums of a seed": (
        (SecretNoise, "hiding", lambda self, *numbers: self),
        _two_steps_are_compared,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    planted, caught_by = PLANTED[bug]
    monkeypatch.setattr(*planted)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        caught_by(monkeypatch)


# The other checks are tests of their own rooms, which pass there.
@pytest.mark.parametrize("check", [_words_are_counted, _two_steps_are_compared])
def test_without_the_bug_the_check_passes(check, monkeypatch):
    check(monkeypatch)
