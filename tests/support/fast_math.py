"""What secret noise does where the compiler reorders additions (XLA_FLAGS), as JSON."""

import json

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import jaxdp
from jaxdp.algorithms import train
from jaxdp.clipping import TwoPartSum, sensitivity_excess
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.privacy import SecretNoise, ShuffledEpochs

RECORDS = 2**14
KEY, WEIGHT, ROWS, LABELS = jr.key(0), jnp.zeros(1), jnp.ones((4, 1)), jnp.zeros(4)


def loss(weight, x, y):
    return weight @ x


def moved_beyond_the_bound():
    """How often farther than the proved bound one record moves a sum."""
    half = RECORDS // 2
    # With the first record the sum is so large that each of the last ones is rounded away.
    small = -np.full(half - 1, half * 2.0**-24)
    rows = jnp.asarray(np.concatenate([np.ones(half + 1), small])[:, None], jnp.float32)
    sums = [
        clipped_gradient_sum_in_parts(
            loss, WEIGHT, rows, jnp.zeros(RECORDS), clip_norm=1.0, mask=mask, microbatch_size=1
        )[0].in_float64()
        for mask in (jnp.ones(RECORDS, bool), jnp.arange(RECORDS) > 0)
    ]
    bound = 1 + sensitivity_excess(RECORDS, 1, microbatch_size=1)
    return float(abs(sums[0] - sums[1])[0]) / bound


def refused(call):
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


def run():
    optimiser = jaxdp.PrivateOptimiser(
        optax.sgd(0.1),
        clip_norm=1.0,
        noise_multiplier=5.0,
        num_steps=1,
        sampler=ShuffledEpochs(4, 4),
        noise=SecretNoise(),
    )
    state, total = optimiser.init(WEIGHT), TwoPartSum(jnp.ones(1), jnp.zeros(1))
    calls = {
        "train": lambda: train(optimiser, loss, WEIGHT, ROWS, LABELS, key=KEY),
        "step": lambda: optimiser.step(loss, WEIGHT, state, ROWS, LABELS, key=KEY),
        "update": lambda: optimiser.update(total, WEIGHT, state, key=KEY),
        "noisy_sum": lambda: optimiser.noisy_sum(total, 0, key=KEY),
    }
    cost = jaxdp.account(optimiser, delta=1e-5)
    return {
        "moved": moved_beyond_the_bound(),
        "refused": {name: refused(call) for name, call in calls.items()},
        "certified": cost.is_certified,
        "epsilon": cost.epsilon,
        "printed": str(cost),
        "simulated": jaxdp.account(optimiser.replace(noise=None), delta=1e-3).epsilon,
    }


if __name__ == "__main__":
    print(json.dumps(run()))
