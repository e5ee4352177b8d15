"""One draw for a whole grid of private ridge regressions: its cells are fits."""

import math

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_variance, give_noise

from experiments.private_kernel_learning import synthetic, year_prediction
from experiments.private_kernel_learning.published import Algorithm1, Algorithm3
from experiments.private_kernel_learning.ridge_grid import FORMS, Grid, UnitNoise, errors
from experiments.private_kernel_learning.ridge_methods import (
    CLIPPED_PATHS,
    COSINES,
    METHODS,
    PAIRS,
    Bounds,
    Budget,
    FeatureDraw,
    Method,
    intercept_share,
)
from experiments.private_kernel_learning.synthetic import Split
from experiments.private_kernel_learning.year_prediction import Songs
from jaxdp.kernels import CosineFeatures, FourierFeatures, Gaussian, PrivateKernelRidge
from jaxdp.kernels.release.joint_release import JointNoise, noise_of, num_normals
from jaxdp.privacy import SecretNoise

_EPSILON, _BOUND, _SIZE, _RIDGE = 2.0, 1.5, 8, 3
_BOUNDS = Bounds(_BOUND, 0.7)
_GRID = Grid((0.5, _EPSILON), (4, _SIZE))
_SHARE = intercept_share(_BOUNDS, Budget(_EPSILON, 40))


@pytest.fixture(scope="module")
def split():
    random = np.random.default_rng(0)
    inputs, labels = random.random((60, 3)), random.normal(size=60)
    return Split(inputs[:40], labels[:40], inputs[40:], labels[40:])


def _cell(method, features, split, noise):
    """The last M and epsilon, at lambda = n^-.3."""
    fixed = FeatureDraw(lambda *_, **__: None, lambda columns, size: columns[:, :size])
    columns = np.asarray(features(split.inputs), np.float64)
    method = Method(fixed, method.learner, method.has_intercept)
    found = errors(method, columns, Gaussian(1.0), split, _BOUNDS, _GRID, noise)
    return found[:, -1, -1, _RIDGE]


def _fitted(learner, split):
    budget = Budget(_EPSILON, split.num_train)
    labels = np.clip(split.train_labels, -_BOUND, _BOUND)
    release = learner.fit(
        split.train_inputs, labels, epsilon=_EPSILON, delta=budget.delta, public_seed=4
    )
    return np.mean((np.asarray(release(split.test_inputs), np.float64) - split.test_labels) ** 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RP, certified", {}),
        (
            "RP, certified with intercept",
            {"intercept_share": _SHARE, "residual_bound": _BOUNDS.residual},
        ),
    ],
)
def test_a_certified_cell_is_the_certified_fit_with_the_same_noise(
    split, monkeypatch, name, options
):
    normals = np.random.default_rng(1).standard_normal(num_normals(_SIZE))
    pairs = _SIZE * (_SIZE + 1) // 2
    places = {"intercept": normals[:1], "C": normals[:pairs], "u": normals[pairs:]}
    give_noise(monkeypatch, lambda purpose, count: places[purpose])
    ridge = _GRID.ridges(split.num_train)[_RIDGE]
    learner = PrivateKernelRidge(
        Gaussian(1.0), _SIZE, 32, label_bound=_BOUND, ridge=ridge, input_bound=math.inf, **options
    )
    noise = UnitNoise(*noise_of(normals, _SIZE, JointNoise(1.0, 1.0)), normals[0])
    features = learner.features(3, 4)
    cell = _cell(METHODS[name], features, split, noise)
    fitted = _fitted(learner, split)
    np.testing.assert_allclose(cell[FORMS.index("repaired")], fitted, rtol=1e-5)
    # The published noise is another scale.
    other = _cell(METHODS["RP, published"], features, split, noise)
    assert abs(other[FORMS.index("repaired")] / fitted - 1) > 0.01


@pytest.mark.parametrize("name", ["RP, published", "RFF, published"])
def test_a_published_cell_is_the_published_fit_with_the_same_noise(split, monkeypatch, name):
    random = np.random.default_rng(2)
    square, vector = random.standard_normal((_SIZE, _SIZE)), random.standard_normal(_SIZE)
    drawn = {"C": square, "u": vector}
    monkeypatch.setattr(SecretNoise, "normals", lambda self, shape, purpose, *_: drawn[purpose])
    learner_class = {"RP, published": Algorithm1, "RFF, published": Algorithm3}[name]
    ridge = _GRID.ridges(split.num_train)[_RIDGE]
    learner = learner_class(Gaussian(1.0), _SIZE, ridge, _BOUND)
    noise = UnitNoise((square + square.T) / 2, vector, 0.0)
    cell = _cell(METHODS[name], learner.features(3, 4), split, noise)
    fitted = _fitted(learner, split)
    np.testing.assert_allclose(cell[FORMS.index("as printed")], fitted, rtol=1e-5)
    assert abs(cell[FORMS.index("repaired")] / fitted - 1) > 0.01


def test_unit_noise_has_variance_one_on_the_diagonal_and_a_half_off_it():
    noise = UnitNoise.draw(400, np.random.default_rng(3))
    np.testing.assert_array_equal(noise.matrix, noise.matrix.T)
    upper = noise.matrix[np.triu_indices(400, 1)]
    for drawn, variance in ((np.diag(noise.matrix), 1.0), (upper, 0.5), (noise.vector, 1.0)):
        assert_variance(drawn, variance)
        for wrong in (0.5, 2.0):
            with pytest.raises(AssertionError):
                assert_variance(drawn, wrong * variance)


@pytest.mark.slow
def test_the_first_columns_are_a_draw_of_that_many():
    inputs, kernel, key = np.random.default_rng(5).random((7, 3)), Gaussian(1.0), jr.key(0)
    for draw in (CLIPPED_PATHS, COSINES, PAIRS):
        most, few = draw.draw(kernel, inputs, 12, key=key), draw.draw(kernel, inputs, 4, key=key)
        np.testing.assert_allclose(draw.leading(most, 4), draw.leading(few, 4), rtol=1e-5)
        assert abs(draw.leading(most, 4) - most[:, :4]).max() > 0.1
    waves = FourierFeatures.sample(kernel, 2, 3, key=key)(inputs)
    pairs = PAIRS.draw(kernel, inputs, 12, key=key)
    np.testing.assert_allclose(PAIRS.leading(pairs, 4), waves, rtol=1e-6)
    waves = CosineFeatures.sample(kernel, 4, 3, key=key)(inputs)
    cosines = COSINES.draw(kernel, inputs, 12, key=key)
    np.testing.assert_allclose(COSINES.leading(cosines, 4), waves, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dim", list(synthetic.LABEL_BOUNDS))
def test_public_bounds_are_quantiles_of_the_model(dim):
    tables = [
        synthetic.draw(200, 0, dim, key=jr.fold_in(jr.key(9), number)).train_labels
        for number in range(800)
    ]
    rests = [table - table.mean() for table in tables]
    for values, bound in (
        (tables, synthetic.LABEL_BOUNDS[dim]),
        (rests, synthetic.RESIDUAL_BOUNDS[dim]),
    ):
        shares = np.mean(np.abs(values) > bound, axis=1)
        # Two digits of a bound leave the share open by a quarter.
        assert_mean_close(shares, 0.01, sigmas=4, bias=0.0025, rejects=[0.02])


@pytest.fixture(scope="module")
def songs():
    random = np.random.default_rng(7)
    return Songs(random.normal(50, 20, (200, 90)), random.integers(1950, 2011, 200).astype(float))


def test_public_songs_are_neither_trained_nor_tested_on(songs):
    split = year_prediction.draw(songs, 1000, key=jr.key(4))
    assert len(split.train_labels) == len(split.test_labels) == 12
    left = {row.tobytes() for row in songs.inputs[year_prediction.NUM_PUBLIC :]}
    drawn = [row.tobytes() for row in split.inputs]
    assert len(set(drawn)) == 24
    assert set(drawn) <= left
    assert abs(split.train_labels).max() <= year_prediction.BOUNDS.label
    few = Songs(songs.inputs[:179], songs.years[:179])
    with pytest.raises(ValueError, match="at least 180 songs"):
        year_prediction.draw(few, 1000, key=jr.key(4))
    with pytest.raises(ValueError, match="at least 202 songs"):
        year_prediction.draw(songs, 1000, together=13, key=jr.key(4))


def test_another_song_moves_a_songs_features_in_the_papers_units_only(songs):
    split = year_prediction.draw(songs, 20, key=jr.key(5))
    rows = split.train_inputs.copy()
    rows[0] = 1e6
    other = split._replace(train_inputs=rows)
    public, leaky = year_prediction.publicly_scaled, year_prediction.scaled_by_training_rows
    np.testing.assert_array_equal(public(split).train_inputs[1:], public(other).train_inputs[1:])
    np.testing.assert_array_equal(public(split).test_inputs, public(other).test_inputs)
    assert abs(leaky(split).train_inputs[1:] - leaky(other).train_inputs[1:]).max() > 0.1
