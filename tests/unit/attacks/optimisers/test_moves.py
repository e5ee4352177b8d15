import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from attack_problems import projector_loss, random_victim, single_target, sphere_rows

from jaxdp.attacks.optimisers.moves import chosen_rows, reseeded, thinned

DIM, COUNT, FEATURES = 12, 4, 480
VICTIM = random_victim(0, DIM, COUNT, FEATURES)


@functools.cache
def _target():
    return single_target(VICTIM)


TRUTH = VICTIM.inputs.astype(np.float32)
STRAY = sphere_rows(np.random.default_rng(1), 2, DIM).astype(np.float32)


def test_a_missing_row_is_put_where_it_is():
    for missing in (0, 3):
        guess = jnp.asarray(np.where(np.arange(COUNT)[:, None] == missing, STRAY[:1], TRUTH))
        (moved,) = reseeded(_target(), guess[None], num_known=0)
        # The least significant row is taken for the missing one.
        (place,) = np.flatnonzero(np.any(moved != guess, axis=1))
        np.testing.assert_array_equal(place, missing)
        cosine = moved[missing] @ TRUTH[missing] / DIM
        # The residual is seen through p = 10dn features and the other rows' span.
        assert cosine > 0.8


def _thinned(rows, **more):
    rows = jnp.asarray(rows)[None]
    settings = {"num_known": 0, "room": 1e-7, **more}
    used = np.ones(rows.shape[:2], bool)
    inputs, used = thinned(_target(), rows, used, np.zeros(1), COUNT, **settings)
    return chosen_rows(inputs, used)[0]


def test_rows_of_the_wrong_signs_are_negated():
    # Two rows negated, and the pair that mends the linear part: the same function.
    features = np.maximum(TRUTH @ VICTIM.weights.T, 0)
    alpha = np.linalg.solve(features @ features.T, features @ VICTIM.parameters)
    direction = alpha[:2] @ TRUTH[:2]
    pair = np.sqrt(DIM) * direction / np.linalg.norm(direction)
    wrong = np.concatenate([-TRUTH[:2], TRUTH[2:], [pair], [-pair]]).astype(np.float32)
    features = np.maximum(wrong @ VICTIM.weights.T, 0)
    assert projector_loss(features, VICTIM.parameters) < 1e-10
    assert projector_loss(features[:COUNT], VICTIM.parameters) > 1e-3
    rows = np.asarray(_thinned(wrong))
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], TRUTH[np.lexsort(TRUTH.T)])


GENERATOR = np.random.default_rng(3)


def test_the_curvature_is_the_gauss_newton_form_of_many_features():
    dim, count = 30, 3
    victim = random_victim(0, dim, count, 20_000)
    block = single_target(victim).block(0)
    inputs = jnp.asarray(victim.inputs, jnp.float32)
    features = np.asarray(block.features(inputs), np.float64)
    alpha = np.linalg.solve(features @ features.T, features @ victim.parameters)
    coupling = np.asarray(block.row_coupling(inputs, key=jr.key(0))) * np.outer(alpha, alpha)
    # One direction for all rows, orthogonal to them: rows see each other through slopes alone.
    rows = np.linalg.qr(victim.inputs.T)[0]
    direction = GENERATOR.standard_normal(dim)
    directions = np.sign(alpha)[:, None] * (direction - rows @ (rows.T @ direction))
    slopes = (victim.inputs @ victim.weights.T > 0) * (directions @ victim.weights.T)
    change = alpha @ slopes
    form = np.sum(coupling * (directions @ directions.T))
    # 20,000 products of standard deviation near their mean.
    np.testing.assert_allclose(change @ change, form, rtol=5 * np.sqrt(2 / 20_000) * 2)
    uncoupled = np.sum(np.diag(coupling) * np.sum(directions**2, axis=1))
    assert abs(change @ change - uncoupled) > 0.05 * uncoupled
