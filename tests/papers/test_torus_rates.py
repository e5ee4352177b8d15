"""The torus on which rates are measured is the one they are about."""

import numpy as np
import pytest
from helpers import assert_mean_close

from experiments.private_kernel_learning import rates_runs
from experiments.private_kernel_learning.torus import (
    Torus,
    drawn_classes,
    drawn_table,
    logistic_excess,
    objective_risks,
    ridge_risks,
    synthesised,
)
from jaxdp.kernels import TorusKernel
from jaxdp.theory import KernelSpectrum, ReleaseNoise, predicted_excess_risk


@pytest.fixture(scope="module")
def torus():
    return Torus.power_law(0.5, 0.75, 64)


def test_the_grid_s_functions_are_the_kernel_s_eigenfunctions(torus):
    inputs = np.arange(64)[:, None] / 64
    kernel = TorusKernel(torus.spectrum().eigenvalues)
    basis = np.asarray(kernel.eigenfunctions(inputs))
    np.testing.assert_allclose(synthesised(np.eye(63)), basis, atol=2e-5)
    np.testing.assert_allclose(basis.T @ basis / 64, np.eye(63), atol=2e-5)
    np.testing.assert_allclose(synthesised(torus.coefficients[:, None])[:, 0], torus.values)
    np.testing.assert_allclose(np.asarray(kernel.diagonal(inputs)), 1, atol=1e-5)
    largest = TorusKernel.power_law(63, capacity=0.5).eigenvalues
    np.testing.assert_allclose(torus.spectrum().eigenvalues, largest / largest.sum(), rtol=1e-5)


def test_paths_and_fourier_features_have_the_kernel_as_mean(torus):
    rng = np.random.default_rng(0)
    inputs = np.arange(64)[:, None] / 64
    kernel = np.asarray(TorusKernel(torus.spectrum().eigenvalues)(inputs[:8], inputs))
    paths = [rows[:8] @ rows.T for rows in (torus.paths(20, rng) for _ in range(400))]
    waves = [
        rows[:8] @ rows.T
        for rows in (torus.fourier_features(torus.fourier_counts(20, rng)) for _ in range(400))
    ]
    for found in (paths, waves):
        assert_mean_close(found, kernel, bias=1e-05, rejects=[kernel * 4 / 3])
    rows = torus.fourier_features(torus.fourier_counts(20, rng))
    np.testing.assert_allclose(np.sum(rows**2, axis=1), 1)


def test_without_noise_and_with_every_feature_the_target_is_found(torus):
    everything = synthesised(np.diag(torus.spectrum().eigenvalues ** 0.5))
    rng = np.random.default_rng(2)
    table = drawn_table(torus, 10**12, 0.5, rng)
    risks = ridge_risks(torus, table, everything, [1e-3, 1e-7], bound=1, level=np.inf, rng=rng)
    assert risks[1] < 1e-7 < risks[0]
    classes = drawn_classes(torus, 10**12, rng)
    level = {"level": 1e10, "rng": rng}
    found = objective_risks(torus, classes, everything, [1e-3, 1e-7], **level)
    assert 0 <= found[1] < 1e-8 < found[0]
    assert logistic_excess(torus, torus.values) == 0


@pytest.mark.slow
def test_fourier_features_have_the_risk_of_their_own_spectrum(torus):
    """Frequencies drawn m times among M have the eigenvalue m/2M; the others are lost."""
    rng, ridge, level = np.random.default_rng(4), 0.04, 1000.0
    counts = torus.fourier_counts(40, rng)
    rows = torus.fourier_features(counts)
    eigenvalues = np.repeat(counts / np.where(np.arange(32), 80, 40), 2)[1:]
    kernel = rows @ rows.T
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvalsh(kernel))[-63:] / 64, np.sort(eigenvalues), atol=1e-12
    )
    noise = rates_runs.joint_noise(level)
    spectrum = KernelSpectrum(eigenvalues, torus.coefficients**2)

    def total(factor):
        louder = ReleaseNoise(factor * noise.matrix, factor * noise.vector)
        known = {"num_outputs": 80, "num_samples": 10**5, "label_noise": 0.5}
        return predicted_excess_risk(spectrum, ridge=ridge, noise=louder, **known).total

    risks = [
        ridge_risks(
            torus, drawn_table(torus, 10**5, 0.5, rng), rows, [ridge], bound=1, level=level, rng=rng
        )[0]
        for _ in range(200)
    ]
    assert_mean_close(risks, total(1), bias=0.03 * total(1), rejects=[total(4 / 3)])
