"""The public features of a private learner: bounded in exact arithmetic, on inputs in a range.

A fit to which nobody said where the inputs lie warns, once and before any data are seen.
"""

import math
import warnings
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import Unreadable

from jaxdp import kernels
from jaxdp.kernels import PrivateKernelClassifier, PrivateKernelRidge
from jaxdp.kernels.features.public_features import whole_features

GAUSSIAN = kernels.Gaussian(1.0)
RANGED = kernels.RangedKernel(GAUSSIAN, jnp.zeros(2), jnp.ones(2))
WAVES = kernels.FourierFeatures.sample(GAUSSIAN, 4, 2, key=jr.key(0))
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": 2}
SIZES = {"num_projections": 4, "num_features": 4}
TABLE = np.random.default_rng(0).uniform(size=(20, 2))
LABELS = np.where(TABLE[:, 0] > 0.5, 1.0, -1.0)
LEARNERS = {
    "ridge": lambda **given: PrivateKernelRidge(**{"label_bound": 1.0, **SIZES, **given}),
    "classifier": lambda **given: PrivateKernelClassifier(**SIZES, **given),
}


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize("made", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize(
    "given", [{"kernel": GAUSSIAN}, {"kernel": None, "feature_map": WAVES}], ids=["kernel", "map"]
)
def test_without_ranges_a_fit_warns_before_it_looks_at_the_data(made, given):
    with (
        pytest.warns(UserWarning, match="no public range of the inputs") as seen,
        pytest.raises(OSError, match="looked at"),
    ):
        made(**given).fit(Unreadable(), LABELS, **BUDGET)
    assert len(seen) == 1
    with pytest.warns(UserWarning, match="no public range") as seen:
        made(**given).fit(TABLE, LABELS, **BUDGET)
    assert len(seen) == 1
    # It points at the line of the call.
    assert seen[0].filename == __file__


@pytest.mark.parametrize("made", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize(
    "given",
    [
        {"kernel": GAUSSIAN, "input_bound": 2.0},
        {"kernel": GAUSSIAN, "input_bound": math.inf},
        {"kernel": RANGED},
        {"kernel": None, "feature_map": kernels.RangeScaling(WAVES, jnp.zeros(2), jnp.ones(2))},
        {"kernel": None, "feature_map": kernels.ClippedFeatures(
            kernels.NormScaling(WAVES, 1.0), 1.0
        )},
        {"kernel": None, "feature_map": kernels.NystromFeatures(GAUSSIAN, TABLE[:3])},
    ],
    ids=["bound", "scaled already", "ranged", "ranged map", "norm", "landmarks"],
)  # fmt: skip
def test_where_a_range_is_said_nothing_is(made, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(**given).fit(TABLE, LABELS, **BUDGET)


def test_an_infinite_bound_changes_no_number():
    fits = []
    for bound in (math.inf, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = LEARNERS["ridge"](kernel=GAUSSIAN, input_bound=bound)
            fits.append(learner.fit(TABLE, LABELS, **BUDGET))
    np.testing.assert_array_equal(fits[0].coefficients, fits[1].coefficients)


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
    found = whole_features(features, table, 0.7, 21) * np.float32(2.0**-21)
    for row in found:
        squares = sum(Fraction(float(value)) ** 2 for value in row)
        assert Fraction(1) - Fraction(1, 10**5) < squares <= 1
    assert np.array_equal(found * 2.0**21, np.rint(found * 2.0**21))
    np.testing.assert_allclose(found, table / 0.7, atol=1e-6)
