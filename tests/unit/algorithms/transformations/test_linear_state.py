"""Linear optimisers as matrices: against optax, against closed forms; and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

from jaxdp.algorithms import linear_state
from jaxdp.algorithms.transformations.transformation import Transformation
from jaxdp.core.checks import NotCoveredError
from jaxdp.core.numerics.precision import x64


def _each_its_own(updates, _):
    return updates * jnp.broadcast_to(1 + jnp.arange(updates.shape[-1]), updates.shape)


_DECAY_OF_MATRICES = optax.add_decayed_weights(0.1, lambda one: one.ndim > 1)


_MOMENTUM = optax.trace(0.9).update


STEPS = 12
RATE = optax.cosine_decay_schedule(0.3, 10)
LINEAR = {
    "constant rate": optax.sgd(0.1),
    "schedule": optax.sgd(RATE),
    "heavy ball": optax.sgd(0.1, momentum=0.9),
    "Nesterov, schedule": optax.sgd(RATE, momentum=0.9, nesterov=True),
    "biased average": optax.chain(optax.ema(0.9, debias=False), optax.sgd(0.1)),
    "weight decay": optax.chain(optax.add_decayed_weights(0.02), optax.sgd(RATE, 0.8)),
    "several batches a step": optax.MultiSteps(optax.sgd(0.1), 3).gradient_transformation(),
    "state that begins at the weights": optax.contrib.schedule_free_sgd(0.1),
    "no step at all": optax.set_to_zero(),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_matrices_give_the_run_of_optax(name):
    """On weights of several scales, for as many steps as the schedule has and more."""
    found = linear_state(LINEAR[name], STEPS)
    scales = np.geomspace(1e-6, 1e6, 5)[:, None]
    weights, *gradients = np.random.default_rng(1).standard_normal((STEPS + 1, 5, 3)) * scales
    with x64():
        expected = _run_of_optax(LINEAR[name], jnp.asarray(weights), jnp.asarray(gradients))
    # MultiSteps adds up in float32, whatever the weights are.
    atol = 1e-6 if name == "several batches a step" else 1e-12
    np.testing.assert_allclose(
        _run_of_matrices(found, weights, gradients) / scales, expected / scales, atol=atol, rtol=0
    )


def test_a_constant_optimiser_has_one_matrix_and_a_schedule_many():
    for name in ("constant rate", "heavy ball", "biased average", "no step at all"):
        found = linear_state(LINEAR[name], STEPS)
        assert found.is_constant
        assert found.num_steps == STEPS
    found = linear_state(LINEAR["schedule"], STEPS)
    assert not found.is_constant
    assert found.transitions.shape == (STEPS, 1, 1)
    np.testing.assert_allclose(
        found.injections[:, 0], -0.15 * (1 + np.cos(np.pi * np.minimum(np.arange(STEPS), 10) / 10))
    )
    assert found.transitions.dtype == np.float64


NOT_LINEAR, MIXED, UNEVEN = "not linear", "mixes coordinates", "treats coordinates differently"
CONSTANT, SHARED = "moves weights or state if", "no coordinate has for itself"
NEEDS_MORE, SHAPED = "needs more than gradient and weights", "a vector of weights unlike a matrix"
START = "does not start as a multiple"
REFUSED = {
    "Adam": (optax.adam(0.1), NOT_LINEAR),
    "clipping far off": (optax.chain(optax.clip_by_global_norm(1e9), optax.sgd(0.1)), NOT_LINEAR),
    "rounded momentum": (optax.sgd(0.1, 0.9, accumulator_dtype=jnp.bfloat16), NOT_LINEAR),
    "tiny signs": (optax.chain(optax.scale_by_sign(), optax.scale(1e-9)), NOT_LINEAR),
    "centred gradients": (optax.chain(optax.centralize(), optax.sgd(0.1)), MIXED),
    "a rate of its own": (optax.stateless(_each_its_own), UNEVEN),
    "noise": (optax.chain(optax.add_noise(1.0, 0.0, jax.random.key(0)), optax.sgd(0.1)), CONSTANT),
    "an offset": (optax.stateless(lambda updates, _: updates + 1e-12), CONSTANT),
    "a rate that learns": (optax.contrib.dog(), SHARED),
    "decay of matrices": (optax.chain(_DECAY_OF_MATRICES, optax.sgd(0.1)), SHAPED),
    "the loss's value": (optax.polyak_sgd(), NEEDS_MORE),
    "a start elsewhere": (
        optax.GradientTransformation(lambda weights: optax.TraceState(weights + 1), _MOMENTUM),
        START,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_linear_by_coordinates_is_refused_and_says_why(name):
    optimiser, reason = REFUSED[name]
    with pytest.raises(NotCoveredError, match=f"expected an optimiser that is linear .*{reason}"):
        linear_state(optimiser, 4)


def test_what_is_linear_at_first_only_is_refused_at_that_step():
    signs = optax.conditionally_transform(optax.scale_by_sign(), lambda step: step >= 7)
    late = optax.chain(signs, optax.sgd(0.1))
    assert linear_state(late, 7).is_constant
    with pytest.raises(NotCoveredError, match=r"not linear.*first at step 7"):
        linear_state(late, 8)


def test_a_traced_rate_is_read_once_another_one_has_been_checked():
    gradients = np.random.default_rng(4).standard_normal((STEPS, 2))

    @jax.value_and_grad
    def ends(rate):
        factory = lambda rate: optax.sgd(lambda step: rate / (1 + step), momentum=0.9)  # noqa: E731
        found = linear_state(Transformation(factory, rate), STEPS)
        return jnp.sum(_run_of_matrices(found, jnp.ones(2), gradients))

    value, slope = jax.jit(ends)(0.1)
    exact = linear_state(optax.sgd(lambda step: 0.1 / (1 + step), momentum=0.9), STEPS)
    np.testing.assert_allclose(
        value, np.sum(_run_of_matrices(exact, np.ones(2), gradients)), rtol=1e-5
    )
    # The weights are linear in the rate.
    np.testing.assert_allclose(slope, (value - 2) / 0.1, rtol=1e-5)


def test_a_traced_optimiser_is_refused_and_a_traced_rate_of_what_is_not_linear():
    with pytest.raises(TypeError, match="expected an optimiser of concrete numbers"):
        jax.jit(lambda rate: linear_state(optax.sgd(rate), STEPS).injections)(0.1)

    def read(rate):
        return linear_state(Transformation(optax.sign_sgd, rate), STEPS).injections

    with pytest.raises(NotCoveredError, match="not linear"):
        jax.jit(read)(jnp.asarray(0.1))


def _run_of_optax(optimiser, weights, gradients):
    """The weights at the end of a run of optax itself."""

    def move(carry, gradient):
        weights, state = carry
        updates, state = optimiser.update(gradient, state, weights)
        return (optax.apply_updates(weights, updates), state), None

    start = weights, optimiser.init(weights)
    gradients = jnp.asarray(gradients, weights.dtype)
    return np.asarray(jax.lax.scan(move, start, gradients)[0][0])


def _run_of_matrices(found, weights, gradients):
    """The weights at the end of the run that the matrices describe, from any shape of weights."""
    shape = np.shape(weights)
    numbers = jnp.multiply.outer if isinstance(weights, jax.Array) else np.multiply.outer
    numbers = numbers(found.initial, weights).reshape(found.size, -1)
    for step, gradient in enumerate(gradients):
        at = min(step, len(found.transitions) - 1)
        moved = found.injections[at][:, None] * gradient.reshape(1, -1)
        numbers = found.transitions[at] @ numbers + moved
    return numbers[0].reshape(shape)
