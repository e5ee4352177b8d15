import itertools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import sphere_rows
from helpers import assert_mean_close

from jaxdp import attacks

CASE = json.loads((pathlib.Path(__file__).parent / "reference_case.json").read_text())
TRUE, FOUND = np.array(CASE["inputs"]), np.array(CASE["found"])


def _brute_force(true, found, has_flips):
    """DR (12) over all assignments, and all signs where they are free."""
    count, dim = true.shape
    choices = [(1.0, -1.0)] * count if has_flips else [(1.0,)] * count
    return min(
        sum(np.linalg.norm(true[i] - signs[i] * found[order[i]]) for i in range(count))
        for order in itertools.permutations(range(count))
        for signs in itertools.product(*choices)
    ) / (count * np.sqrt(dim))


# Source: DR (12).
def test_errors_are_those_of_the_reference_case():
    error = CASE["reconstruction_error"]
    flipped = CASE["reconstruction_error_with_sign_flips"]
    np.testing.assert_allclose(attacks.reconstruction_error(TRUE, FOUND), error, rtol=1e-13)
    found = attacks.reconstruction_error(TRUE, FOUND, allow_sign_flips=True)
    np.testing.assert_allclose(found, flipped, rtol=1e-13)
    _, signs = attacks.matching(TRUE, FOUND, allow_sign_flips=True)
    assert (signs < 0).sum() == CASE["rows_flipped"]


# Source: DR (12).
@pytest.mark.parametrize("has_flips", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_no_assignment_and_no_signs_are_closer(count, has_flips):
    generator = np.random.default_rng(count)
    true, found = sphere_rows(generator, 2, count, 3)
    expected = _brute_force(true, found, has_flips)
    error = attacks.reconstruction_error(true, found, allow_sign_flips=has_flips)
    np.testing.assert_allclose(error, expected, rtol=1e-12)


def test_the_matching_lays_found_rows_beside_the_true_ones():
    generator = np.random.default_rng(3)
    true = sphere_rows(generator, 6, 9)
    shuffled = generator.permutation(6)
    sent = generator.choice([-1.0, 1.0], 6)
    order, signs = attacks.matching(true, (sent[:, None] * true)[shuffled], allow_sign_flips=True)
    beside = signs[:, None] * (sent[:, None] * true)[shuffled][order]
    np.testing.assert_array_equal(beside, true)
    _, unflipped = attacks.matching(true, -true)
    np.testing.assert_array_equal(unflipped, np.ones(6))


def test_independent_rows_are_at_the_chance_level():
    # 1.384 and 1.381 at d = 3072, n = 100, a study apart from this project.
    generator = np.random.default_rng(6)
    pairs = sphere_rows(generator, 4, 2, 100, 3072)
    raw = np.ravel([attacks.row_errors(*pair) for pair in pairs])
    flipped = np.ravel([attacks.row_errors(*pair, allow_sign_flips=True) for pair in pairs])
    assert_mean_close(raw, 1.384, bias=5e-4, rejects=[1.38])
    assert_mean_close(flipped, 1.381, bias=5e-4)


@pytest.fixture(scope="module")
def target():
    return attacks.RandomFeaturesTarget(
        jnp.asarray(CASE["weights"]), jax.nn.relu, jnp.asarray(CASE["parameters"]), block_size=40
    )


# Source: DR (167).
def test_span_residual_is_that_of_the_reference_case(target):
    found = attacks.span_residual(TRUE, FOUND, target)
    # The weights are rounded to float32.
    np.testing.assert_allclose(found, CASE["span_residual"], rtol=1e-6)
    assert abs(found - 0.99 * CASE["span_residual"]) > 1e-4


def test_found_rows_that_coincide_span_no_more_than_one(target):
    doubled = FOUND.copy()
    doubled[1] = doubled[0]
    weights = np.float32(CASE["weights"]).astype(float)
    features, true = np.maximum(doubled @ weights.T, 0), np.maximum(TRUE @ weights.T, 0)
    projector = np.linalg.pinv(features) @ features
    left = np.linalg.norm(true - true @ projector, axis=1).mean() / np.sqrt(90)
    np.testing.assert_allclose(attacks.span_residual(TRUE, doubled, target), left, rtol=1e-10)


def test_the_span_holds_its_own_rows_and_all_where_features_are_few(target):
    assert attacks.span_residual(TRUE, TRUE[[2, 0, 3, 1]], target) < 1e-14
    few = attacks.RandomFeaturesTarget(jnp.asarray(CASE["weights"])[:4], jnp.tanh, jnp.ones(4))
    assert attacks.span_residual(TRUE, FOUND, few) < 1e-12
