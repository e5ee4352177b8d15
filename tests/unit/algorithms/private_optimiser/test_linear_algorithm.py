"""Private optimisers as matrices: the average is one more component; rates may be traced."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import linear_state_of
from jaxdp.core.numerics.precision import x64
from jaxdp.privacy import PoissonSampler

STEPS = 9
BALL: Any = functools.partial(optax.sgd, momentum=0.875)
AVERAGES = {
    "none": None,
    "polyak": jaxdp.PolyakAverage(),
    "tail": jaxdp.TailAverage(),
    "exponential": jaxdp.algorithms.ExponentialAverage(0.75),
}
RATES = {"number": 0.25, "schedule": jaxdp.Polynomial(0.5, 0.5)}


def _algorithm(factory=BALL, rate: Any = 0.25, average: Any = None, num_steps=STEPS):
    given = {"clip_norm": 1.0, "noise_multiplier": 1.0, "sampler": PoissonSampler(10, 0.5)}
    given |= {"learning_rate": rate, "num_steps": num_steps, "average": average}
    return jaxdp.PrivateOptimiser(factory, **given)


def _run_of_optax(algorithm, weights, gradients):
    """The average after each step, or the weights, by optax itself and the definition."""
    optimiser, average = algorithm.transformation, algorithm.average
    state, found = optimiser.init(weights), []
    released: Any = weights
    for step, gradient in enumerate(gradients, 1):
        updates, state = optimiser.update(gradient, state, weights)
        weights = optax.apply_updates(weights, updates)
        share: Any = 1 if average is None else average.weight(step, algorithm.num_steps)
        released = (1 - share) * released + share * jnp.asarray(weights)
        found.append(released)
    return np.asarray(found)


def _run_of_matrices(state, weights, gradients):
    numbers, found = np.multiply.outer(state.initial, weights), []
    for step, gradient in enumerate(gradients):
        at = min(step, len(state.transitions) - 1), min(step, len(state.injections) - 1)
        numbers = state.transitions[at[0]] @ numbers + np.outer(state.injections[at[1]], gradient)
        found.append(numbers[state.output])
    return np.asarray(found)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("average", AVERAGES)
def test_the_matrices_give_what_is_released(average, rate):
    algorithm = _algorithm(rate=RATES[rate], average=AVERAGES[average])
    state = linear_state_of(algorithm)
    weights, *gradients = np.random.default_rng(0).standard_normal((STEPS + 1, 3))
    with x64():
        expected = _run_of_optax(algorithm, jnp.asarray(weights), jnp.asarray(gradients))
    np.testing.assert_allclose(_run_of_matrices(state, weights, gradients), expected, atol=1e-12)
    assert state.transitions.dtype == state.injections.dtype == np.float64
    assert state.names[state.output] == ("weight" if average == "none" else "average")
    is_constant = rate == "number" and average in ("none", "exponential")
    assert state.is_constant == is_constant
    assert len(state.transitions) == len(state.injections) == (1 if is_constant else STEPS)


@pytest.mark.parametrize("kind", RATES)
def test_a_traced_rate_gives_the_same_matrices_batched_and_differentiable(kind):
    def moved(rate):
        rate = rate if kind == "number" else jaxdp.Polynomial(rate, 0.5)
        state = linear_state_of(_algorithm(rate=rate, average=jaxdp.TailAverage()))
        return state.injections

    found = jax.vmap(moved)(jnp.array([0.1, 0.2]))
    for one, rate in zip(found, (0.1, 0.2), strict=True):
        np.testing.assert_allclose(one, moved(rate), rtol=1e-5)
    # Without the momentum's column, all is proportional to the rate.
    slope = jax.jit(jax.jacrev(moved))(0.2)
    np.testing.assert_allclose(slope[:, [0, 2]], moved(0.2)[:, [0, 2]] / 0.2, rtol=1e-5)
    np.testing.assert_array_equal(slope[:, 1], 0)
