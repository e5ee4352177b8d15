r"""The synthetic data of PK section 5: sums of ten Gaussian kernels with noise.

$Y = \sum_{j \le 10} c_j k(X, z_j) + \varepsilon$ with $c_j$ uniform on [0, 1], $z_j$ on $[0, 1]^d$,
and $\varepsilon$ of variance 0.01 before truncation at $\pm 0.1$, 0.0029 after. The distribution
of X is not in the paper; here, as for z, it is uniform on $[0, 1]^d$.
"""

from typing import NamedTuple

import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array, Float, Key

from experiments import harness
from jaxdp.kernels import Gaussian

NUM_CENTRES = 10
NOISE_STD, NOISE_BOUND = 0.1, 0.1
# The variance of N(0, 0.01) truncated at one standard deviation.
NOISE_VARIANCE = 0.00291
# Quantiles of |Y|, and of |Y| less its table's mean, that one record in a hundred exceeds, over all
# draws of the model: numbers of the published model, and of no table.
# Derived: test_public_bounds_are_quantiles_of_the_model.
LABEL_BOUNDS = {10: 3.6, 20: 1.8, 30: 0.9}
RESIDUAL_BOUNDS = {10: 0.85, 20: 0.6, 30: 0.36}
_EPSILONS = [0.1, 10**-0.5, 1.0, 10**0.5, 10.0]
NUM_TRAIN = 1000


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


# d, learner, and by epsilon the mean and its standard error.
_STUDY = """
10 RP published 2.29 0.4  1.69 0.29  1.075 0.23  0.465 0.094  0.137 0.029
10 RFF published 1.49 0.25  0.91 0.169  0.419 0.026  0.181 0.025  0.0668 0.0063
10 RP certified 0.203 0.044  0.13 0.021  0.0804 0.0129  0.0353 0.0043  0.0171 0.0015
10 RFF certified 0.156 0.02  0.0917 0.0129  0.0616 0.0081  0.0328 0.0039  0.0172 0.0018
20 RP published 0.762 0.081  0.648 0.078  0.325 0.054  0.216 0.019  0.0805 0.0043
20 RFF published 0.706 0.064  0.449 0.073  0.251 0.032  0.128 0.011  0.0594 0.0031
20 RP certified 0.157 0.006  0.0703 0.0043  0.0338 0.0018  0.0242 0.0011  0.0166 0.0006
20 RFF certified 0.162 0.009  0.0729 0.0027  0.0337 0.0017  0.0248 0.0009  0.0172 0.0003
30 RP published 0.27 0.031  0.253 0.036  0.177 0.024  0.118 0.017  0.0518 0.0077
30 RFF published 0.252 0.033  0.197 0.029  0.128 0.017  0.0801 0.0102  0.0398 0.0047
30 RP certified 0.0948 0.0109  0.0476 0.0059  0.0261 0.0033  0.0151 0.0016  0.0125 0.0013
30 RFF certified 0.109 0.011  0.0474 0.0053  0.0289 0.0032  0.0147 0.0013  0.012 0.001
"""


def independent_study() -> xarray.Dataset:
    """Their `mean` and `standard_error` by dim, learner and epsilon."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for line in _STUDY.split("\n")[1:-1]:
        dim, features, noise, *numbers = line.split()
        pairs = np.reshape([float(number) for number in numbers], (-1, 2))
        found.setdefault(int(dim), {})[f"{features}, {noise}"] = pairs
    values = np.array([[*learners.values()] for learners in found.values()])
    axes = {"dim": found, "learner": found[min(found)], "epsilon": _EPSILONS}
    parts = {"mean": values[..., 0], "standard_error": values[..., 1]}
    return harness.dataset(axes, {tuple(axes): parts})
