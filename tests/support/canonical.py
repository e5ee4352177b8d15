"""Five problems with an algorithm each, for tests that do not care about sizes."""

import functools

import jax.random as jr
import numpy as np
import optax
from helpers import MadeWhenAsked

import jaxdp
from jaxdp.privacy import PoissonSampler

NUM_TRAIN, NUM_TEST, DIM, WIDTH = 30, 20, 6, 12
STREAM_DIM, RECORDS, NUM_RUNS = 20, 4, 3


@functools.cache
def stream(initial_risk=0.5):
    return jaxdp.LinearRegression.isotropic(STREAM_DIM, label_noise=0.3, initial_risk=initial_risk)


@functools.cache
def features(num_features=WIDTH):
    """Random features on 30 rows; infinitely many if `num_features` is None."""
    return jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, DIM, num_features, key=jr.key(5))


def labels():
    return jaxdp.LogisticRegression(STREAM_DIM, signal=2.0)


@functools.cache
def table():
    """A table of 90 rows; half of them are held out."""
    return jaxdp.TabularRegression(np.random.default_rng(0).normal(size=(90, 3)), np.arange(90.0))


def one_pass(num_steps=45, **changes):
    settings = {"clip_scale": 1.0, "rho": 10.0, "num_steps": num_steps}
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), **settings | changes)


def descent():
    return jaxdp.DPGD(0.01, 5.0, 7, 0.05)


def optimiser(transformation=optax.sgd):
    """Three steps on Poisson samples of the rows of `features`."""
    return jaxdp.PrivateOptimiser(
        transformation,
        learning_rate=0.1,
        clip_norm=1.0,
        noise_multiplier=1.0,
        num_steps=3,
        sampler=PoissonSampler(NUM_TRAIN, 0.5),
    )


PAIRS = MadeWhenAsked(
    {
        "stream": lambda: (stream(), one_pass()),
        "labels": lambda: (labels(), one_pass()),
        "table": lambda: (table(), one_pass()),
        "descent": lambda: (features(), descent()),
        "optimiser": lambda: (features(), optimiser()),
    }
)


@functools.cache
def predicted(name):
    """The default theory's prediction; for the table that of its surrogate."""
    problem, algorithm = PAIRS[name]
    problem = problem.surrogate if name == "table" else problem
    return jaxdp.predict(problem, algorithm, records=RECORDS)


@functools.cache
def runs(name):
    """Three runs with their final parameters."""
    options = {"num_runs": NUM_RUNS, "records": RECORDS, "keep_parameters": True}
    return jaxdp.simulate(*PAIRS[name], key=jr.key(0), **options)
