"""What the tests of checkpoints train, here and in processes that are killed."""

import sys
import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import jaxdp
from jaxdp.algorithms import TailAverage, train
from jaxdp.privacy import PoissonSampler

RECORDS, STEPS, EVERY = 24, 12, 3
INPUTS = np.random.default_rng(0).normal(size=(RECORDS, 4)).astype(np.float32)
TARGETS = np.sin(INPUTS[:, 0])
START = {"weight": np.zeros(4, np.float32), "bias": np.zeros((), np.float32)}


def loss(model, x, y):
    return (model["weight"] @ x + model["bias"] - y) ** 2


def optimiser(**changes):
    settings = {
        "clip_norm": 0.5,
        "noise_multiplier": 2.0,
        "num_steps": STEPS,
        "sampler": PoissonSampler(RECORDS, 0.4),
        "average": TailAverage(),
    }
    inner = changes.pop("inner", optax.adam(0.1))
    return jaxdp.PrivateOptimiser(inner, **{**settings, **changes})


def evaluate(model):
    return {"bias": model["bias"], "squares": jnp.stack([jnp.sum(model["weight"] ** 2)])}


def trained(folder=None, *, made=None, key=None, **options):
    """The run, from its checkpoint if there is one."""
    given = {"model": START, "inputs": INPUTS, "targets": TARGETS, "evaluate": evaluate}
    given |= {"every": EVERY, "loss": loss, "checkpoint": folder, **options}
    key = jr.key(5) if key is None else key
    return train(optimiser() if made is None else made, key=key, **given)


def slow(model):
    """What is evaluated, so slowly that a kill falls between two steps."""
    print("evaluated", flush=True)
    time.sleep(0.2)
    return evaluate(model)


if __name__ == "__main__":
    trained(sys.argv[1], evaluate=slow, every=1)
