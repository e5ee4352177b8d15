"""Bugs that break the privacy of kernel ridge regression, planted one by one."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from jaxdp import kernels
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.features import public_features
from jaxdp.kernels.release import joint_release
from jaxdp.kernels.release.joint_release import JointNoise, Sums
from jaxdp.kernels.ridge import learner as ridge_learner
from jaxdp.privacy import gaussian_delta, gaussian_mu

EPSILON, DELTA, SIZE, RECORDS = 1.0, 5e-4, 8, 40
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.uniform(size=(RECORDS, 3)).astype(np.float32)
LABELS = GENERATOR.uniform(-1, 1, size=RECORDS)
OUTLIER = INPUTS.copy()
OUTLIER[0] = 1e4
# Paired features of one wave: two records at this angle are the worst pair of all.
WAVE = kernels.FourierFeatures(jnp.ones((1, 1)), jnp.ones(()))
WORST = [[0.0], [0.3]], [1.0, 0.5], [[math.pi / 3], [0.3]], [-1.0, 0.5]


def _learner():
    return kernels.PrivateKernelRidge(
        kernels.Gaussian(1.0), SIZE, 16, label_bound=1.0, input_bound=math.inf
    )


def _fit(patch, learner, inputs, labels):
    """The exact sums of a fit and the noise that was put on them, for B = T = 1."""
    seen, honest = [], ridge_learner.noisy_sums

    def noisy_sums(sums, source, noise, bits):
        seen.append((sums.covariance / 4.0**bits, sums.correlation / 4.0**bits, noise))
        return honest(sums, source, noise, bits)

    with patch.context() as inner:
        inner.setattr(ridge_learner, "noisy_sums", noisy_sums)
        learner.fit(inputs, labels, epsilon=EPSILON, delta=DELTA, public_seed=1, noise_seed=2)
    return seen[0]


def _told_apart(patch, learner, inputs, labels, other_inputs, other_labels):
    """mu at which a fit's release tells two tables apart, exactly: the noise is Gaussian."""
    first, second = (
        _fit(patch, learner, *table) for table in ((inputs, labels), (other_inputs, other_labels))
    )
    noise = first[2]
    matrix, vector = first[0] - second[0], first[1] - second[1]
    return math.hypot(
        np.linalg.norm(matrix) / noise.covariance, np.linalg.norm(vector) / noise.correlation
    )


def test_the_worst_pair_is_told_apart_no_better_than_delta_allows(monkeypatch):
    learner = kernels.PrivateKernelRidge(
        None, label_bound=1.0, input_bound=math.inf, feature_map=WAVE
    )
    mu = _told_apart(monkeypatch, learner, *WORST)
    assert 0.99 * gaussian_mu(EPSILON, DELTA) < mu
    assert gaussian_delta(mu, EPSILON) <= DELTA


def test_a_replaced_record_changes_its_own_row_of_features_alone(monkeypatch):
    features = _learner().features(3, public_seed=1)
    before, after = (np.asarray(features(jnp.asarray(each))) for each in (INPUTS, OUTLIER))
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [0]


def test_an_outlier_moves_the_statistics_by_no_more_than_the_sensitivity(monkeypatch):
    mu = _told_apart(monkeypatch, _learner(), INPUTS, LABELS, OUTLIER, LABELS)
    assert mu <= gaussian_mu(EPSILON, DELTA)


def test_a_flipped_label_is_told_apart_no_better_than_delta_allows(monkeypatch):
    """Aligned records whose labels cancel: clipping their average would clip nothing."""
    inputs, labels = np.full((RECORDS, 3), 0.5, np.float32), np.resize([1.0, -1.0], RECORDS)
    other = labels.copy()
    other[0] = -1.0
    mu = _told_apart(monkeypatch, _learner(), inputs, labels, inputs, other)
    assert gaussian_delta(mu, EPSILON) <= DELTA


def _use_the_published_sensitivity(patch):
    # PK Algorithm 3's 2 and sqrt 2 (add or remove one record), each with half of the budget.
    def calibrated(mu, balance):
        half = gaussian_mu(EPSILON / 2, DELTA / 2)
        return JointNoise(2 / half, math.sqrt(2) / half)

    patch.setattr(ridge_learner.JointNoise, "calibrated", calibrated)


def _use_the_published_sensitivity_jointly(patch):
    patch.setattr(joint_release, "unit_sensitivity", lambda balance: math.sqrt(2))


class _JointPaths(AbstractFeatureMap):
    """Sample paths drawn at all the rows together, with a public key: PK Algorithm 1's."""

    kernel: kernels.Gaussian

    dim = property(lambda self: 3)  # pyright: ignore[reportAssignmentType]
    num_outputs = property(lambda self: SIZE)  # pyright: ignore[reportAssignmentType]
    norm_bound = property(lambda self: math.inf)  # pyright: ignore[reportAssignmentType]

    def __call__(self, inputs):
        rows = jnp.asarray(inputs)
        gram = self.kernel(rows, rows) + 1e-2 * jnp.eye(len(rows))
        normals = jr.normal(jr.key(1), (len(rows), SIZE))
        return jnp.linalg.cholesky(gram) @ normals / math.sqrt(SIZE)


def _draw_paths_jointly(patch):
    patch.setattr(
        public_features.SamplePaths, "sample", lambda kernel, *sizes, key: _JointPaths(kernel)
    )


def _standardise_on_the_table(patch):
    honest = ridge_learner.row_blocks

    def row_blocks(function, inputs, **arguments):
        scaled = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
        return honest(function, scaled, **arguments)

    patch.setattr(ridge_learner, "row_blocks", row_blocks)


def _clip_the_average(patch):
    # The variant after PK Lemma 14: u is clipped to T = .1, its noise is for 2 T / n.
    honest, calibrated, bound = ridge_learner.exact_sums, JointNoise.calibrated, 0.1

    def exact_sums(blocks, labels, *, bits, **arguments):
        sums = honest(blocks, labels, bits=bits, **arguments)
        norm = np.linalg.norm(sums.correlation / 4.0**bits) / len(labels)
        clipped = sums.correlation * min(1, bound / max(norm, 1e-9))
        return Sums(sums.covariance, np.trunc(clipped).astype(np.int64))

    def scaled(mu, balance):
        noise = calibrated(mu, balance)
        return JointNoise(noise.covariance, bound * noise.correlation)

    patch.setattr(ridge_learner, "exact_sums", exact_sums)
    patch.setattr(ridge_learner.JointNoise, "calibrated", scaled)


# bug: (how it is planted, the test that catches it)
PLANTED = {
    "published sensitivities, analytic noise, budget halved": (
        _use_the_published_sensitivity,
        test_the_worst_pair_is_told_apart_no_better_than_delta_allows,
    ),
    "sensitivity of C alone for both": (
        _use_the_published_sensitivity_jointly,
        test_the_worst_pair_is_told_apart_no_better_than_delta_allows,
    ),
    "paths drawn jointly with a public seed": (
        _draw_paths_jointly,
        test_a_replaced_record_changes_its_own_row_of_features_alone,
    ),
    "standardisation on the table": (
        _standardise_on_the_table,
        test_an_outlier_moves_the_statistics_by_no_more_than_the_sensitivity,
    ),
    "average clipped instead of summands": (
        _clip_the_average,
        test_a_flipped_label_is_told_apart_no_better_than_delta_allows,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    plant, caught_by = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        caught_by(monkeypatch)
