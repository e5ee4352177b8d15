import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from attack_problems import random_victim, sphere_rows

from jaxdp.attacks import RandomFeaturesTarget
from jaxdp.attacks.optimisers.scaled_steps import Scaling, scaled_step, tangent

GENERATOR = np.random.default_rng(3)


def test_the_curvature_is_the_gauss_newton_form_of_many_features():
    dim, count = 30, 3
    victim = random_victim(0, dim, count, 20_000)
    target = RandomFeaturesTarget(
        victim.weights.astype(np.float32), jax.nn.relu, victim.parameters.astype(np.float32)
    )
    block = target.block(0)
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


def test_a_step_keeps_rows_on_the_sphere_and_known_and_unused_rows_fixed():
    victim = random_victim(1, 6, 4, 120)
    target = RandomFeaturesTarget(victim.weights, jax.nn.relu, victim.parameters)
    guess = jnp.asarray(sphere_rows(GENERATOR, 4, 6), jnp.float32)
    scaling = Scaling(*map(jnp.float32, (0.3, 0.5, 0.05, 0.3)))
    block, rest, used = target.block(0), jnp.zeros_like(guess), jnp.arange(4) != 2
    step = jax.jit(
        lambda rows: scaled_step(block, rows, rest, scaling, used, num_known=1, key=jr.key(0))
    )
    moved = step(guess)
    has_moved = np.abs(moved.inputs - guess).max(axis=1) > 1e-3
    np.testing.assert_array_equal(has_moved, [False, True, False, True])
    np.testing.assert_allclose(np.linalg.norm(moved.inputs, axis=1), np.sqrt(6), rtol=1e-5)
    spoilt = guess.at[2, 0].set(jnp.nan)
    spoilt = spoilt.at[1, 0].set(jnp.inf)
    np.testing.assert_array_equal(step(spoilt).inputs, spoilt)


def test_tangent_parts_are_orthogonal_to_rows_of_any_length():
    rows, directions = GENERATOR.standard_normal((2, 5, 3))
    np.testing.assert_allclose(np.sum(rows * tangent(rows, directions), axis=1), 0, atol=1e-6)
