"""The public features of a private learner: bounded in exact arithmetic, on inputs in a range."""

import functools
import math
import warnings

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import MadeWhenAsked, Unreadable

from jaxdp import kernels
from jaxdp.kernels import PrivateKernelClassifier, PrivateKernelRidge
from jaxdp.kernels.functions.bounded import RangeScaling

GAUSSIAN = kernels.Gaussian(1.0)
RANGE = np.zeros(2), np.ones(2)

BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": 2}
SIZES = {"num_projections": 4, "num_features": 4}
TABLE = np.random.default_rng(0).uniform(size=(20, 2))
LABELS = np.where(TABLE[:, 0] > 0.5, 1.0, -1.0)


@functools.cache
def _waves():
    return kernels.FourierFeatures.sample(GAUSSIAN, 4, 2, key=jr.key(0))


def _squares(row):
    """Features of one row, as a user writes them."""
    return jnp.concatenate([row, row**2])


# The kernel of a fit, or its map, with what is known of its inputs.
UNBOUNDED = MadeWhenAsked(
    {
        "kernel": lambda: {"kernel": GAUSSIAN},
        "map": lambda: {"kernel": None, "feature_map": _waves()},
    }
)
BOUNDED = MadeWhenAsked(
    {
        "ranged": lambda: {"kernel": GAUSSIAN, "input_range": RANGE},
        "ranged map": lambda: {"kernel": None, "feature_map": RangeScaling(_waves(), *RANGE)},
        "map in a range": lambda: {"kernel": None, "feature_map": _waves(), "input_range": RANGE},
        "norm": lambda: {
            "kernel": None,
            "feature_map": kernels.ClippedFeatures(kernels.NormScaling(_waves(), 1.0), 1.0),
        },
    }
)
LEARNERS = {
    "ridge": lambda **given: PrivateKernelRidge(**{"label_bound": 1.0, **SIZES, **given}),
    "classifier": lambda **given: PrivateKernelClassifier(**SIZES, **given),
}


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize("made", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize("case", UNBOUNDED)
def test_without_ranges_a_fit_warns_before_it_looks_at_the_data(made, case):
    given = UNBOUNDED[case]
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
@pytest.mark.parametrize("case", BOUNDED)
def test_where_a_range_is_said_nothing_is(made, case):
    given = BOUNDED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(**given).fit(TABLE, LABELS, **BUDGET)


LOW, HIGH = np.array([0.0, -5.0, 100.0]), np.array([1.0, 5.0, 101.0])
RAW = LOW + (HIGH - LOW) * np.random.default_rng(0).uniform(-0.2, 1.2, (7, 3))
SCALED = np.clip((RAW - LOW) / (HIGH - LOW) * 2 - 1, -1, 1)


@pytest.mark.parametrize("made", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize(
    ("kernel", "bound"), [(GAUSSIAN, 1.0), (kernels.InnerProduct(), math.sqrt(3))], ids=repr
)
def test_features_of_a_range_are_those_of_the_scaled_inputs_and_bounded(made, kernel, bound):
    learner = made(kernel=kernel, input_range=(LOW, HIGH))
    assert learner.feature_bound == pytest.approx(bound)
    plain = made(kernel=kernel, input_bound=2.0).features(3, 7).base
    expected = np.array(plain(SCALED.astype(np.float32)))
    expected *= np.minimum(1, bound / np.linalg.norm(expected, axis=1))[:, None]
    np.testing.assert_allclose(learner.features(3, 7)(RAW), expected, atol=1e-3)
    # Inputs beyond the ranges are clipped to their ends.
    far = np.linalg.norm(learner.features(3, 7)(np.asarray([[1e6, 1e6, -1e6]])))
    assert far <= bound * (1 + 1e-6)


@pytest.mark.parametrize("made", LEARNERS.values(), ids=LEARNERS)
def test_any_function_of_a_row_gives_features_of_norm_one_at_most(made):
    learner = made(kernel=None, feature_map=_squares)
    assert learner.feature_bound == 1.0
    rows = np.random.default_rng(1).uniform(-2, 2, (50, 2)).astype(np.float32)
    found = np.asarray(learner.features(2, 1)(rows), np.float64)
    raw = np.concatenate([rows, rows**2], axis=1)
    norms = np.linalg.norm(raw, axis=1)
    assert norms.min() < 1 < norms.max()
    np.testing.assert_allclose(found, raw / np.maximum(norms, 1)[:, None], rtol=1e-5)
    release = learner.fit(TABLE, LABELS, **BUDGET)
    assert release.coefficients.shape == (4,)
    with pytest.raises(TypeError, match="has no written form, so this cannot be saved"):
        release.save("never.npz")
