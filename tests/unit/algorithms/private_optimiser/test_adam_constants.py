"""Adam is found with its constants, and what is nearly Adam is not taken for it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import AdamConstants, adam_constants
from jaxdp.privacy import PoissonSampler

STEPS = 12
COSINE = optax.cosine_decay_schedule(0.1, 20)


def _private(rate, factory=optax.adam):
    given = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": STEPS}
    sampler = PoissonSampler(10, 0.5)
    return jaxdp.PrivateOptimiser(factory, learning_rate=rate, sampler=sampler, **given)


@pytest.mark.parametrize(
    ("rate", "constants"),
    [
        (0.3, {"b1": 0.0, "b2": 0.9, "eps": 1e-3}),
        (0.3, {"b1": 0.95, "eps": 0.0}),
        (COSINE, {"b2": 0.99}),
    ],
    ids=["no momentum", "no epsilon", "schedule"],
)
def test_the_constants_of_adam_are_found(rate, constants):
    found = adam_constants(optax.adam(rate, **constants), STEPS)
    assert isinstance(found, AdamConstants)
    known = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, **constants}
    for name, value in known.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-12, atol=1e-300)
    expected: Any = rate(np.arange(STEPS)) if callable(rate) else [rate]
    np.testing.assert_allclose(found.learning_rate, expected, rtol=1e-6)


def test_rates_that_are_data_are_found():
    found = adam_constants(_private(0.25))
    np.testing.assert_allclose(found.learning_rate, [0.25], rtol=1e-12)
    found = adam_constants(_private(jaxdp.Polynomial(0.25, 0.5)))
    expected = 0.25 * np.sqrt(1 - np.arange(STEPS) / STEPS)
    np.testing.assert_allclose(found.learning_rate, expected, rtol=1e-12)


def test_a_traced_rate_is_kept():
    factory = functools.partial(optax.adam, b1=0.5)

    def rates(rate):
        found = adam_constants(_private(rate, factory))
        assert found.b1 == 0.5
        return found.learning_rate

    np.testing.assert_array_equal(
        jax.vmap(rates)(jnp.array([0.1, 0.2])), np.array([[0.1], [0.2]], np.float32)
    )
    slope = jax.jacfwd(lambda peak: rates(jaxdp.Polynomial(peak, 0.5)))(0.3)
    np.testing.assert_allclose(slope, np.sqrt(1 - np.arange(STEPS) / STEPS), rtol=1e-6)


def _is_last(step, **_):
    return step >= STEPS - 1


RANDOM, ROOT = "as Adam does on random gradients", "inside the root"
REFUSED = {
    "root": (optax.adam(0.1, eps_root=1e-8), ROOT),
    "AMSGrad": (optax.amsgrad(0.1), "holds no means"),
    "rounded means": (optax.adam(0.1, mu_dtype=jnp.bfloat16), "got one"),
    "signs at last": (
        optax.chain(
            optax.conditionally_transform(optax.scale_by_sign(), _is_last), optax.adam(0.1)
        ),
        RANDOM,
    ),
    "the loss's value": (optax.polyak_sgd(), "more than gradients"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_adam_is_named(name):
    optimiser, reason = REFUSED[name]
    with pytest.raises(jaxdp.NotCoveredError, match=reason):
        adam_constants(optimiser, STEPS)


def test_traced_constants_and_rates_that_are_changed_are_named():
    def read(rate, factory):
        return adam_constants(_private(rate, factory)).learning_rate

    with pytest.raises(jaxdp.NotCoveredError, match="changes the traced rate"):
        jax.jit(lambda rate: read(rate, lambda rate: optax.adam(2 * rate)))(0.1)
    with pytest.raises(jaxdp.NotCoveredError):
        jax.jit(lambda eps: read(0.1 + 0 * eps, lambda rate: optax.adam(rate, eps=eps)))(0.1)
