"""The variance of weights over the orders of batches that come in every epoch."""

import numpy as np
import optax

import jaxdp
from jaxdp.privacy import FixedOrder
from jaxdp.theory.features.weight_law import read_weights, weight_law

ROWS, BATCHES, RATE = 120, 6, 0.01


def _rows():
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((ROWS, 6)) * [2, 1, 0.7, 0.5, 0.3, 0.2]
    labels = inputs @ [2, 1, 1, 1, 1, 1] + 0.1 * generator.standard_normal(ROWS)
    return inputs.astype(np.float32), labels.astype(np.float32)


def _variances(inputs, labels, steps, runs=2000):
    """Of plain gradient descent, in the eigenbasis, over random orders."""
    generator, found = np.random.default_rng(1), []
    vectors = np.linalg.eigh(inputs.T.astype(float) @ inputs)[1][:, ::-1]
    for _ in range(runs):
        order, weights = generator.permutation(ROWS), np.zeros(6)
        for step in range(steps):
            rows = order[step % BATCHES :: BATCHES]
            residuals = inputs[rows] @ weights - labels[rows]
            weights = weights - RATE * 2 * inputs[rows].T @ residuals / len(rows)
        found.append(vectors.T @ weights)
    return np.var(found, axis=0)


def test_draws_of_kept_batches_have_their_whole_variance_and_cancel_over_an_epoch():
    inputs, labels = _rows()
    problem = jaxdp.FixedFeatures.from_arrays(inputs, labels, inputs, labels)

    def predicted(steps):
        given = {"clip_norm": 1e6, "noise_multiplier": 1e-12, "num_steps": steps}
        sampler = FixedOrder(ROWS, BATCHES)
        algorithm = jaxdp.PrivateOptimiser(optax.sgd(RATE), sampler=sampler, **given)
        return weight_law(read_weights(problem, algorithm)).covariances[1][:, 0, 0]

    half, whole = predicted(BATCHES // 2), predicted(BATCHES)
    # Standard errors of 3.2 %. Without the covariance of two rows the first is 33 % too low.
    np.testing.assert_allclose(half, _variances(inputs, labels, BATCHES // 2), rtol=0.12)
    # Without it, the variance after an epoch is negative, and as large as in the middle.
    assert (whole > 0).all()
    assert (whole < 0.06 * half).all()
