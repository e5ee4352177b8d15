r"""The synthetic data of PK section 5: sums of ten Gaussian kernels with noise.

$Y = \sum_{j \le 10} c_j k(X, z_j) + \varepsilon$ with $c_j$ uniform on [0, 1], $z_j$ on $[0, 1]^d$,
and $\varepsilon$ of variance .01 before it is truncated at $\pm .1$, .0029 after. The law of X is
not in the paper; here, as for z, it is uniform on $[0, 1]^d$.
"""

from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from jaxdp.kernels import Gaussian

NUM_CENTRES = 10
NOISE_STD, NOISE_BOUND = 0.1, 0.1
# Of N(0, .01) truncated at one standard deviation.
NOISE_VARIANCE = 0.00291
# What |Y|, and |Y| less its table's mean, exceed for one record in a hundred, over all draws of the
# model: numbers of the model, which is published, and of no table.
# Derived: test_public_bounds_are_quantiles_of_the_model.
LABEL_BOUNDS = {10: 3.6, 20: 1.8, 30: 0.9}
RESIDUAL_BOUNDS = {10: 0.85, 20: 0.6, 30: 0.36}


class Split(NamedTuple):
    """A table to learn from and one to judge by."""

    train_inputs: Float[np.ndarray, "train dim"]
    train_labels: Float[np.ndarray, " train"]
    test_inputs: Float[np.ndarray, "test dim"]
    test_labels: Float[np.ndarray, " test"]

    @property
    def num_train(self) -> int:
        return len(self.train_labels)

    @property
    def inputs(self) -> Float[np.ndarray, "both dim"]:
        """The training inputs, then the others."""
        return np.concatenate([self.train_inputs, self.test_inputs])


def kernel() -> Gaussian:
    """The kernel of the target, and of the learners: exp(-|x - y|^2 / 2)."""
    return Gaussian(1.0)


def draw(num_train: int, num_test: int, dim: int, *, key: Key[Array, ""]) -> Split:
    """A target, and independent rows of it to train on and to test on."""
    centres, coefficients, inputs, noise = jr.split(key, 4)
    rows = jr.uniform(inputs, (num_train + num_test, dim))
    values = kernel()(rows, jr.uniform(centres, (NUM_CENTRES, dim)))
    target = values @ jr.uniform(coefficients, (NUM_CENTRES,))
    reach = NOISE_BOUND / NOISE_STD
    errors = NOISE_STD * jr.truncated_normal(noise, -reach, reach, target.shape)
    inputs, labels = np.asarray(rows, np.float64), np.asarray(target + errors, np.float64)
    return Split(inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:])
