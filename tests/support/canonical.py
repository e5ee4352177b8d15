"""Problems, algorithms, predictions and runs that tests share; each is made once in a process.

A test that does not care about sizes takes these, because a new shape is a new program to compile.
"""

import functools

import jax.random as jr

import jaxdp

NUM_TRAIN, NUM_TEST, DIM, WIDTH = 30, 20, 6, 12


@functools.cache
def features(num_features=WIDTH):
    """Random features on 30 rows; infinitely many if `num_features` is None."""
    return jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, DIM, num_features, key=jr.key(5))
