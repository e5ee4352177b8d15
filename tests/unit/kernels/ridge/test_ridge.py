"""Private kernel ridge regression: what it computes, what it costs, what it refuses."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_variance, give_noise

import jaxdp
from jaxdp.kernels import (
    FourierFeatures,
    Gaussian,
    InnerProduct,
    Matern,
    PrivateKernelRidge,
    SamplePaths,
    SelectedRidge,
    Theorem11Rule,
)
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.release.joint_release import JointNoise, grid_bits
from jaxdp.kernels.ridge import learner as ridge_learner
from jaxdp.kernels.ridge.learner import RidgeNoise
from jaxdp.privacy import SecretNoise, gaussian_mu

DIM, RECORDS, SIZES = 3, 60, (12, 16)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SEEDS: dict[str, Any] = {"public_seed": 1, "noise_seed": 2**200 + 2}
_GENERATOR = np.random.default_rng(0)
INPUTS = _GENERATOR.uniform(size=(RECORDS, DIM)).astype(np.float32)
LABELS = np.sin(3 * INPUTS[:, 0]) + 0.3 * INPUTS[:, 1]
NEW = _GENERATOR.uniform(size=(7, DIM)).astype(np.float32)


def _learner(**arguments: Any) -> PrivateKernelRidge:
    given: dict[str, Any] = {"label_bound": 1.5, "input_bound": math.inf} | arguments
    return PrivateKernelRidge(Gaussian(1.0), *SIZES, **given)


def _fit(
    learner: PrivateKernelRidge, inputs: Any = INPUTS, labels: Any = LABELS, **arguments: Any
) -> Any:
    return learner.fit(inputs, labels, **(BUDGET | SEEDS | arguments))


def _transcribed(features, new_features, labels, normals, *, mu, bound, share=0.0, residual=None):
    """The recommended design in NumPy, from features and standard normals alone: predictions."""
    count, size = features.shape
    features = features / np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    intercept, residual = 0.0, residual or bound
    if share:
        intercept = labels.mean() + 2 * bound / count / (mu * math.sqrt(share)) * normals[0][0]
        intercept = min(max(intercept, -bound), bound)
    targets = np.clip(labels - intercept, -residual, residual)
    std = 1.5 * math.sqrt(2) / (mu * math.sqrt(1 - share)) / count
    noise = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    for row, column, normal in zip(rows, columns, normals[-2], strict=True):
        noise[row, column] = noise[column, row] = (
            std * normal if row == column else std * normal / math.sqrt(2)
        )
    matrix = features.T @ features / count + noise
    vector = features.T @ targets / count + std * residual * normals[-1]
    values, vectors = np.linalg.eigh(matrix)
    positive = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    strength = std * math.sqrt(2 * size) * (1 if share else 0.5)
    coefficients = np.linalg.solve(positive + strength * np.eye(size), vector)
    return np.clip(intercept + new_features @ coefficients, -bound, bound)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_predictions_are_those_of_a_literal_transcription(share, monkeypatch):
    drawn, generator = [], np.random.default_rng(8)

    def normals(purpose, count):
        drawn.append(generator.standard_normal(count))
        if count == 1:
            # The noise on the mean is there to be seen.
            drawn[-1][:] = 1.0
        return drawn[-1]

    give_noise(monkeypatch, normals)
    learner = _learner(intercept_share=share, residual_bound=0.3 if share else None)
    release = _fit(learner, epsilon=20.0)
    if share:
        assert drawn[0] == 1.0
        # So is the clip of the residuals.
        assert np.count_nonzero(np.abs(LABELS - release.intercept) > 0.3) > RECORDS / 10
    old, new = (np.asarray(release.features.base(part), np.float64) for part in (INPUTS, NEW))
    new = new / np.maximum(1, np.linalg.norm(new, axis=1, keepdims=True))
    mu = gaussian_mu(20.0, 1e-5)
    settings = {"bound": 1.5, "share": share, "residual": 0.3 if share else None}
    expected = _transcribed(old, new, LABELS, drawn, mu=mu, **settings)
    np.testing.assert_allclose(release(NEW), expected, atol=2e-5)
    wrong = _transcribed(old, new, LABELS, drawn, mu=1.3 * mu, **settings)
    assert np.abs(release(NEW) - wrong).max() > 1e-3


def test_noise_is_that_of_an_independent_computation():
    learner = PrivateKernelRidge(Gaussian(1.0), label_bound=1.0)
    for epsilon, delta, expected in ((0.5, 1e-5, 14.91675698), (2.0, 1e-6, 4.731554690)):
        std = learner.noise_std(1, epsilon, delta)
        assert std == pytest.approx({"C": expected, "u": expected}, rel=1e-8)
    # C in the units of B^2, u in those of B T, both averaged.
    wide = PrivateKernelRidge(InnerProduct(), label_bound=3.0, input_bound=2.0)
    std = wide.noise_std(10, 2.0, 1e-6)
    assert std == pytest.approx({"C": 4 * expected / 10, "u": 6 * expected / 10}, rel=1e-8)


def test_the_cost_is_exactly_the_budget():
    for learner in (_learner(), _learner(intercept_share=0.3, balance=2.0)):
        cost = _fit(learner).cost
        assert cost.mu == gaussian_mu(1.0, 1e-5)
        assert cost.epsilon == pytest.approx(1.0, rel=1e-9)
        assert cost.epsilon <= 1.0
        assert cost.zcdp == cost.mu**2 / 2
        assert "replace-one" in cost.assumptions[0]
        # What the noise itself amounts to.
        std = learner.noise_std(1, **BUDGET)
        sensitivity = 1.5 * math.sqrt(2) if learner.balance == 1 else 2 * math.sqrt(2)
        mus = [sensitivity / std["C"], 2 * 1.5 / std.get("intercept", math.inf)]
        assert math.hypot(*mus) == pytest.approx(cost.mu, rel=1e-9)
        assert math.hypot(*mus) <= cost.mu
    assert jaxdp.account(_fit(_learner()), delta=1e-3).epsilon < 1


def _captured(monkeypatch):
    """What fits release and what they release it of, as sums for B = T = 1."""
    seen, honest = [], ridge_learner.noisy_sums

    def noisy_sums(sums, source, noise, bits):
        released = honest(sums, source, noise, bits)
        seen.append((sums.covariance / 4.0**bits, sums.correlation / 4.0**bits, *released))
        return released

    monkeypatch.setattr(ridge_learner, "noisy_sums", noisy_sums)
    return seen


def test_the_noise_that_a_fit_draws_has_the_stated_standard_deviation(monkeypatch):
    seen = _captured(monkeypatch)
    learner = PrivateKernelRidge(Gaussian(1.0), 150, 16, label_bound=1.5, input_bound=math.inf)
    learner.fit(INPUTS, LABELS, **BUDGET, public_seed=1)
    ((covariance, correlation, noisy, vector),) = seen
    std = learner.noise_std(1, **BUDGET)
    noise = noisy - covariance
    assert np.array_equal(noise, noise.T)
    upper = noise[np.triu_indices(150, 1)] * math.sqrt(2) / std["C"]
    assert_variance(upper, 1)
    with pytest.raises(AssertionError):
        assert_variance(1.1 * upper, 1)
    assert_variance(np.diag(noise) / std["C"], 1)
    assert_variance((vector - correlation) * 1.5 / std["u"], 1)


@pytest.mark.slow
def test_fits_on_the_worst_neighbours_are_told_apart_as_well_as_claimed(monkeypatch):
    """An audit from outside: fits on two tables, their released statistics, the best score."""
    # Of other balances than 1 `test_joint_release` audits the release alone.
    waves, trials = FourierFeatures(jnp.ones((1, 1)), jnp.ones(())), 1000
    learner = PrivateKernelRidge(None, label_bound=1.0, input_bound=math.inf, feature_map=waves)
    seen = _captured(monkeypatch)
    others = [0.3], [0.9]
    tables = ([[0.0], *others], [1.0, 0.5, -0.5]), ([[math.pi / 3], *others], [-1.0, 0.5, -0.5])
    for inputs, labels in tables:
        for _ in range(trials):
            learner.fit(inputs, labels, epsilon=4.0, delta=1e-5, public_seed=1)
    first, second = seen[0][:2], seen[trials][:2]
    change = [left - right for left, right in zip(first, second, strict=True)]
    scores = np.asarray(
        [(noisy * change[0]).sum() + vector @ change[1] for *_, noisy, vector in seen]
    ).reshape(2, trials)
    spread = scores.std(axis=1, ddof=1).mean()
    found = (scores[0].mean() - scores[1].mean()) / spread
    claim, error = gaussian_mu(4.0, 1e-5), math.sqrt(2 / trials)
    assert abs(found - claim) < 5 * error * math.sqrt(1 + claim**2 / 8)
    assert abs(found * 2 - claim) > 5 * error * math.sqrt(1 + claim**2 / 8)


def test_predictions_are_within_the_label_bound():
    release = _fit(_learner(ridge=1e-6), epsilon=0.01)
    values = np.asarray(release(100 * _GENERATOR.normal(size=(200, DIM))))
    assert np.abs(values).max() <= 1.5
    assert (np.abs(values) == 1.5).any()


def test_eleven_guesses_of_a_small_seed_single_out_a_label_and_its_cost_is_infinite():
    """Who knows all records but the first label fits again with every seed and both labels."""
    candidates = [np.append(label, LABELS[1:]) for label in (-1.0, 1.0)]
    release = _fit(_learner(), labels=candidates[1], epsilon=0.1, noise_seed=7)
    guesses = [
        label
        for seed in range(11)
        for label, labels in enumerate(candidates)
        if seed != SEEDS["public_seed"]
        and np.array_equal(
            _fit(_learner(), labels=labels, epsilon=0.1, noise_seed=seed).coefficients,
            release.coefficients,
        )
    ]
    assert guesses == [1]
    assert (release.cost.epsilon, release.cost.is_certified) == (math.inf, False)
    assert "found by trying" in str(release.cost)
    secret = _fit(_learner(), labels=candidates[1], epsilon=0.1)
    assert secret.cost.epsilon <= 0.1
    assert secret.cost.is_certified


class _Waves(AbstractFeatureMap):
    """Two features by a user's function."""

    function: Callable
    dim, num_outputs, norm_bound = DIM, 2, 1.0

    def __call__(self, inputs):
        return self.function(inputs[:, :2]) / 2


def _pairs_of_one_seed():
    """Fits of one table with one seed that release other statistics."""
    shared: dict[str, Any] = {"label_bound": 1.5, "input_bound": math.inf}
    maps = [PrivateKernelRidge(None, feature_map=_Waves(f), **shared) for f in (jnp.sin, jnp.cos)]
    kinds = [
        PrivateKernelRidge(Matern(1.0, smoothness), *SIZES, **shared) for smoothness in (0.5, 1.5)
    ]
    balances = [_learner(), _learner(balance=2.0)]
    return {"functions of one name": maps, "smoothness": kinds, "balances": balances}


@pytest.mark.parametrize("pair", _pairs_of_one_seed())
def test_one_noise_seed_gives_every_learner_noise_of_its_own(pair, monkeypatch):
    """The released statistics of two could be subtracted otherwise, and the noise with them."""
    seen = _captured(monkeypatch)
    for learner in _pairs_of_one_seed()[pair]:
        _fit(learner)
    assert not np.array_equal(seen[0][1], seen[1][1]) or pair == "balances"
    first, second = (noisy - exact for exact, _, noisy, _ in seen)
    assert not np.isin(np.round(first, 6), np.round(second, 6)).any()


def test_one_noise_seed_gives_features_of_another_rounding_noise_of_their_own(monkeypatch):
    """Sums that x64 or another device changes by 1e-7 would be told apart without noise."""
    seen = _captured(monkeypatch)
    _fit(_learner())
    with jax.enable_x64(True):
        _fit(_learner(), INPUTS.astype(np.float64))
    (exact, _, noisy, _), (other, _, noisier, _) = seen
    assert 0 < np.abs(exact - other).max() < 1e-3
    assert not np.isin(np.round(noisy - exact, 6), np.round(noisier - other, 6)).any()


def test_the_ridge_rule_is_post_processing_of_one_release(monkeypatch):
    seen = _captured(monkeypatch)
    for ridge in (None, 0.1, Theorem11Rule(0.5, 0.5), SelectedRidge()):
        _fit(_learner(ridge=ridge))
    assert all(np.array_equal(seen[0][2], noisy) for _, _, noisy, _ in seen)


def test_the_mean_and_the_statistics_have_streams_of_their_own(monkeypatch):
    drawn, honest = {}, SecretNoise.words

    def watched(self, count, purpose):
        drawn[purpose] = honest(self, count, purpose)
        return drawn[purpose]

    monkeypatch.setattr(SecretNoise, "words", watched)
    _fit(_learner(intercept_share=0.2))
    assert {purpose: len(words) for purpose, words in drawn.items()} == {
        "intercept": 1,
        "C": 12 * 13 // 2,
        "u": 12,
    }
    together = np.concatenate(list(drawn.values()))
    assert len(np.unique(together)) == len(together)
    noise = RidgeNoise(1e9, JointNoise(1.0, 1.0))
    assert noise.grid_bits(10) == grid_bits(10, 1e9) < grid_bits(10, 1.0)


def test_a_release_is_a_function_under_every_transformation():
    release = _fit(_learner(intercept_share=0.1))
    values = release(NEW)
    assert values.shape == (7,)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(jax.jit(release)(NEW), values, atol=1e-6)
    each = jax.vmap(lambda row: release(row[None])[0])(jnp.asarray(NEW))
    np.testing.assert_allclose(each, values, atol=1e-6)
    assert release(np.zeros((0, DIM))).shape == (0,)


def test_a_feature_map_has_its_own_bound_or_that_of_the_kernel():
    # A map of unbounded norm takes its bound from the kernel.
    paths = SamplePaths.sample(Gaussian(1.0), 5, 8, DIM, key=jr.key(0))
    assert _learner(feature_map=paths).feature_bound == 1.0
    waves = FourierFeatures.sample(Gaussian(1.0), 5, DIM, key=jr.key(0))
    assert _learner(feature_map=waves).feature_bound == waves.norm_bound == 1.0


def test_inputs_are_scaled_down_to_their_bound():
    learner = PrivateKernelRidge(InnerProduct(), 12, label_bound=1.5, input_bound=0.5)
    release = learner.fit(INPUTS, LABELS, **BUDGET, **SEEDS)
    norms = np.linalg.norm(NEW, axis=1, keepdims=True)
    np.testing.assert_allclose(release(1000 * NEW / norms), release(0.5 * NEW / norms), atol=1e-6)
    assert learner.feature_bound == pytest.approx(0.5)


def test_float64_is_kept_under_x64(monkeypatch):
    # Without noise: the two precisions have other sums, and so other noise.
    give_noise(monkeypatch, lambda purpose, count: np.zeros(count))
    with jax.enable_x64(True):
        release = _fit(_learner(), INPUTS.astype(np.float64))
        assert release.coefficients.dtype == jnp.float64
        assert release(NEW.astype(np.float64)).dtype == jnp.float64
        single = _fit(_learner())
        assert single(NEW).dtype == jnp.float32
        np.testing.assert_allclose(single(NEW), release(NEW), atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"epsilon": 1e300}, ValueError, "noise is calibrated"),
        ({"inputs": [[1e39] * 3] * 60}, ValueError, "expected inputs of magnitude at most 3.4"),
        ({"labels": LABELS[:-1]}, ValueError, "expected one label for each of 60 rows, got 59"),
        ({"inputs": INPUTS[:1], "labels": LABELS[:1]}, ValueError, "at least 2 records"),
        ({"labels": LABELS + 1j}, TypeError, "expected labels of real numbers"),
    ],
)
def test_wrong_arguments_of_fit_are_refused(wrong, kind, message):
    with pytest.raises(kind, match=message):
        _learner().fit(**({"inputs": INPUTS, "labels": LABELS} | BUDGET | SEEDS | wrong))


def test_an_input_whose_features_overflow_has_none_as_when_learning():
    release = _fit(_learner(intercept_share=0.1))
    far = np.full((2, DIM), 3e38, np.float32)
    assert not np.isfinite(release.features.base(far)).any()
    np.testing.assert_array_equal(release(far), np.full(2, release.intercept))
    # What is not a number stays none where nothing can be raised.
    assert np.isnan(jax.jit(release)(far * np.float32(np.nan))).all()


def test_a_release_refuses_inputs_that_it_cannot_read():
    release = _fit(_learner())
    with pytest.raises(ValueError, match="expected inputs of shape"):
        release(np.ones((2, 4)))
    with pytest.raises(ValueError, match="expected finite inputs"):
        release(np.full((2, 3), np.nan))
    other = FourierFeatures.sample(Gaussian(1.0), 4, 2, key=jr.key(0))
    with pytest.raises(ValueError, match="expected inputs of 2 numbers, got 3"):
        _fit(_learner(feature_map=other))
