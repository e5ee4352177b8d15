import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from attack_problems import random_victim, sphere_rows

from jaxdp.attacks import RandomFeaturesTarget
from jaxdp.attacks.moves import kept_rows, most_significant, reseeded, with_spares

DIM, COUNT, FEATURES = 12, 4, 480
VICTIM = random_victim(0, DIM, COUNT, FEATURES)
TRUTH = VICTIM.inputs.astype(np.float32)
STRAY = sphere_rows(np.random.default_rng(1), 2, DIM).astype(np.float32)


def _target():
    return RandomFeaturesTarget(
        VICTIM.weights.astype(np.float32), jax.nn.relu, VICTIM.parameters.astype(np.float32)
    )


def test_a_missing_row_is_put_where_it_is():
    for missing in range(COUNT):
        guess = jnp.asarray(np.where(np.arange(COUNT)[:, None] == missing, STRAY[:1], TRUTH))
        (moved,) = reseeded(_target(), guess[None], num_known=0)
        kept = np.arange(COUNT) != missing
        np.testing.assert_array_equal(moved[kept], TRUTH[kept])
        cosine = moved[missing] @ TRUTH[missing] / DIM
        # The residual is seen through p = 10dn features and the other rows' span.
        assert cosine > 0.8


def test_a_known_row_is_never_moved():
    guess = np.concatenate([STRAY[:1], TRUTH[1:]])
    (moved,) = reseeded(_target(), jnp.asarray(guess)[None], num_known=1)
    np.testing.assert_array_equal(moved[0], STRAY[0])


def test_spare_rows_are_the_ones_left_out():
    rows = np.concatenate([STRAY[:1], TRUTH, STRAY[1:]])
    (kept,) = most_significant(_target(), jnp.asarray(rows)[None], COUNT, num_known=0)
    np.testing.assert_array_equal(kept, TRUTH)


def test_of_two_rows_alike_one_is_left_out_and_known_rows_never():
    features = np.maximum(np.concatenate([TRUTH, TRUTH[1:2]]) @ VICTIM.weights.T, 0)
    gram, moments = features @ features.T, (features @ VICTIM.parameters)[:, None]
    kept = kept_rows(gram, moments, COUNT, 0)
    assert set(kept) in ({0, 1, 2, 3}, {0, 4, 2, 3})
    assert set(kept_rows(gram, moments, 2, 1)) > {0}
    assert len(kept_rows(gram, moments, 2, 1)) == 2


def test_spares_are_negatives_and_random_rows():
    wide = with_spares(jnp.asarray(TRUTH)[None], jnp.array([False]), 4, num_known=1, key=jr.key(0))[
        0
    ]
    np.testing.assert_array_equal(wide[:COUNT], TRUTH)
    negatives = {tuple(row) for row in np.asarray(-wide[COUNT : COUNT + 2])}
    assert negatives <= {tuple(row) for row in TRUTH[1:]}
    np.testing.assert_allclose(np.linalg.norm(wide, axis=1), np.sqrt(DIM), rtol=1e-5)
    fresh = with_spares(jnp.asarray(TRUTH)[None], jnp.array([True]), 4, num_known=1, key=jr.key(0))[
        0
    ]
    np.testing.assert_array_equal(fresh[0], TRUTH[0])
    assert np.abs(fresh[1:COUNT] - TRUTH[1:]).max(axis=1).min() > 0.1
