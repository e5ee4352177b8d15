"""The public features of a private learner: their bound holds in exact arithmetic."""

from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdp.kernels.public_features import unit_features


class _TooLong:
    """What rounding does to clipped features, a thousand times over."""

    num_outputs, bound = 3, jnp.asarray(0.7)

    def __call__(self, inputs):
        return inputs * 1.001


def test_no_unit_row_is_longer_than_one_though_the_clipped_features_are():
    generator = np.random.default_rng(0)
    table = generator.normal(size=(50, 3))
    table *= 0.7 / np.linalg.norm(table, axis=1, keepdims=True)
    features: Any = _TooLong()
    found = unit_features(features, table)
    for row in found:
        squares = sum(Fraction(float(value)) ** 2 for value in row)
        assert Fraction(1) - Fraction(1, 10**5) < squares <= 1
    assert np.array_equal(found * 2.0**21, np.rint(found * 2.0**21))
    np.testing.assert_allclose(found, table / 0.7, atol=1e-6)
