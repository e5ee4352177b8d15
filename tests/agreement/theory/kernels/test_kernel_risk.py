"""The predicted risk against NumPy simulations that share nothing with it, and its limits."""

import math

import numpy as np
import pytest
from helpers import assert_mean_close, quick_and_slow

from jaxdp.kernels import PrivateKernelRidge, TorusKernel
from jaxdp.theory import (
    KernelSpectrum,
    ReleaseNoise,
    effective_dimension,
    predicted_excess_risk,
    tuned_excess_risk,
)
from jaxdp.theory.kernels.risk import RidgeEquivalent

_POINTS = 256


def _circle(capacity, source):
    """Grid values of the Fourier basis, eigenvalues of trace 1, coefficients of a target."""
    frequency = np.arange(1, _POINTS // 2)
    angles = 2 * np.pi * np.outer(np.arange(_POINTS), frequency) / _POINTS
    basis = np.ones((_POINTS, _POINTS - 1))
    basis[:, 1::2], basis[:, 2::2] = 2**0.5 * np.cos(angles), 2**0.5 * np.sin(angles)
    eigenvalues = np.concatenate([[1], np.repeat((2.0 * frequency) ** (-1 / capacity), 2)])
    eigenvalues /= eigenvalues.sum()
    coefficients = eigenvalues**source / np.sqrt(np.arange(1, _POINTS))
    values = basis @ coefficients
    scale = 0.5 / abs(values).max()
    return basis, eigenvalues, coefficients * scale, values * scale


def _simulated(
    *, source, num_samples, features, ridge, matrix, vector, runs, seed, coefficients=0.0, noise=0.5
):
    """Risks of the private ridge, literally: rows drawn, averages taken, noise added, solved."""
    basis, eigenvalues, _, values = _circle(0.5, source)
    random, risks = np.random.default_rng(seed), []
    for _ in range(runs):
        maps = np.sqrt(eigenvalues)[:, None] * random.normal(size=(_POINTS - 1, features))
        paths = basis @ maps / features**0.5
        rows = random.integers(_POINTS, size=num_samples)
        labels = values[rows] + noise * random.choice([-1.0, 1.0], num_samples)
        counts = np.bincount(rows, minlength=_POINTS)
        sums = np.bincount(rows, labels, minlength=_POINTS)
        second = (paths * counts[:, None]).T @ paths / num_samples
        square = matrix * random.normal(size=(features, features))
        second = second + (square + square.T) / 2 + ridge * np.eye(features)
        first = paths.T @ sums / num_samples + vector * random.normal(size=features)
        found = np.linalg.solve(second, first) + coefficients * random.normal(size=features)
        risks.append(np.mean((paths @ found - values) ** 2))
    return np.array(risks)


def _predicted(source, **arguments):
    _, eigenvalues, coefficients, _ = _circle(0.5, source)
    return predicted_excess_risk(KernelSpectrum(eigenvalues, coefficients**2), **arguments)


CASES = {
    "samples": {"num_samples": 3000, "ridge": 0.02, "matrix": 0.0, "vector": 0.0},
    "both": {"num_samples": 5000, "ridge": 0.02, "matrix": 6e-4, "vector": 1.2e-3},
    "output": {"num_samples": 5000, "ridge": 0.03, "matrix": 0.0, "vector": 0.0},
}
CASES["output"]["coefficients"] = 0.03


@pytest.mark.parametrize("case", quick_and_slow(CASES, "both"))
def test_predicted_risk_is_the_simulated_one(case):
    settings = CASES[case]
    risks = _simulated(source=0.7, features=100, runs=150, seed=3, **settings)
    noise = ReleaseNoise(settings["matrix"], settings["vector"], settings.get("coefficients", 0.0))
    known = {name: settings[name] for name in ("ridge", "num_samples")} | {"num_projections": 100}
    predicted = _predicted(0.7, **known, label_noise=0.5, noise=noise).total
    # Half as much again is past the noise that this ridge bears: the risk would be infinite.
    louder = ReleaseNoise(*(4 / 3 * np.array(noise)))
    wrong = _predicted(0.7, **known, label_noise=0.5 if any(noise) else 3 / 4, noise=louder)
    # The equivalent's own error is of the order of 1/N, N about 8.
    assert_mean_close(risks, predicted, bias=0.02 * predicted, rejects=[wrong.total])


def test_without_noise_samples_or_projection_only_the_bias_is_left():
    spectrum = KernelSpectrum.power_law(0.5, 0.7)
    risk = predicted_excess_risk(spectrum, ridge=1e-3)
    bias = 1e-3**2 * spectrum.squared_target / (spectrum.eigenvalues + 1e-3) ** 2
    assert risk.bias == pytest.approx(spectrum.multiplicities @ bias)
    assert risk[1:] == (0, 0, 0)


def test_first_order_terms_are_those_of_the_docstring():
    spectrum = KernelSpectrum.power_law(0.5, 0.75)
    ridge, features, rows, label_noise, size = 1e-3, 1e7, 1e9, 0.4, 1e-9
    risk = predicted_excess_risk(
        spectrum,
        ridge=ridge,
        num_projections=features,
        num_samples=rows,
        label_noise=label_noise,
        noise=ReleaseNoise(size, 2 * size),
    )
    mu, times = spectrum.eigenvalues, spectrum.multiplicities
    dim, square = (spectrum.effective_dimension(ridge, order=i) for i in (1, 2))
    norm = times @ (spectrum.squared_target * mu / (mu + ridge) ** 2)
    assert risk.projection == pytest.approx(ridge * (dim - square) * norm / features, rel=1e-3)
    error = label_noise**2 + risk.bias
    assert risk.sampling == pytest.approx(error * square / rows, rel=1e-3)
    per_entry = (2 * size) ** 2 + size**2 / 2 * norm
    assert risk.privacy == pytest.approx(per_entry * (dim - square) / ridge, rel=1e-3)


def test_within_the_noise_s_own_spectrum_nothing_is_predicted():
    """The edge is 2 sqrt(v M) where the features' own eigenvalues are far below the noise."""
    spectrum = KernelSpectrum.power_law(0.2, 0.7)
    noise, features = ReleaseNoise(1e-3, 1e-3), 400
    edge = 1e-3 * math.sqrt(2 * features)

    def total(ridge):
        given = {"num_projections": features, "noise": noise}
        return predicted_excess_risk(spectrum, ridge=ridge, **given).total

    assert total(0.97 * edge) == math.inf
    assert total(1.03 * edge) < math.inf


def test_ridge_and_effective_ridge_are_inverse():
    spectrum = KernelSpectrum.power_law(0.5, 0.7)
    noise = ReleaseNoise(1e-4, 1e-4)
    learner = RidgeEquivalent(spectrum, 300, 300, 5000, 0.3, noise)
    for ridge in (0.005, 0.05, 3.0):
        effective = learner.effective_ridge(ridge)
        assert learner.ridge(effective) == pytest.approx(ridge, rel=1e-9)


def test_the_tuned_risk_is_a_minimum():
    spectrum = KernelSpectrum.power_law(0.5, 0.7, num_exact=60, ranges_per_decade=15)
    noise = ReleaseNoise(1e-4, 1e-4)
    tuned = tuned_excess_risk(spectrum, noise=noise, num_samples=1e6, label_noise=0.5)
    known = {"noise": noise, "num_samples": 1e6, "label_noise": 0.5}
    here = predicted_excess_risk(
        spectrum, ridge=tuned.ridge, num_projections=tuned.num_projections, **known
    )
    assert here.total == pytest.approx(tuned.risk.total, rel=1e-6)
    for ridge, features in ((1.3, 1), (1, 1.3), (1, 0.7), (1.5, 1.5)):
        other = predicted_excess_risk(
            spectrum,
            ridge=ridge * tuned.ridge,
            num_projections=features * tuned.num_projections,
            **known,
        )
        assert other.total > here.total


def test_features_that_are_repeated_or_lost_are_a_spectrum_with_zeros():
    """Fourier features: what no frequency was drawn for is bias, whatever the ridge."""
    spectrum = KernelSpectrum([0.6, 0.4, 0.0], [0.2, 0.1, 0.05])
    risk = predicted_excess_risk(
        spectrum, ridge=1e-6, num_outputs=2, noise=ReleaseNoise(1e-6, 1e-6)
    )
    assert risk.total == pytest.approx(0.05, rel=1e-4)


@pytest.mark.slow
def test_the_certified_learner_on_the_torus_has_the_predicted_risk():
    """Rows, sample paths, clipping and secret noise as a user has them."""
    _, eigenvalues, coefficients, values = _circle(0.5, 0.7)
    kernel = TorusKernel(eigenvalues)
    rows, features, ridge, epsilon, delta = 20_000, 100, 0.0236, 0.3, 1e-5
    learner = PrivateKernelRidge(kernel, features, _POINTS, label_bound=1.0, ridge=ridge)
    stds = learner.noise_std(rows, epsilon, delta)
    random, grid, risks = np.random.default_rng(8), np.arange(_POINTS)[:, None] / _POINTS, []
    for seed in range(24):
        places = random.integers(_POINTS, size=rows)
        labels = values[places] + 0.5 * random.choice([-1.0, 1.0], rows)
        budget = {"epsilon": epsilon, "delta": delta}
        seeds = {"public_seed": seed, "noise_seed": 10_000 + seed}
        release = learner.fit(grid[places], labels, **budget, **seeds)
        risks.append(np.mean((np.asarray(release(grid)) - values) ** 2))

    def total(factor):
        return predicted_excess_risk(
            KernelSpectrum(eigenvalues, coefficients**2),
            ridge=ridge,
            num_projections=features,
            num_samples=rows,
            label_noise=0.5,
            noise=ReleaseNoise(factor * stds["C"], factor * stds["u"]),
        ).total

    # Clipping shortens half of the rows by a few percent, and the cone takes some of the noise.
    assert_mean_close(risks, total(1), sigmas=4, bias=0.05 * total(1), rejects=[total(4 / 3)])


# Source: PK Assumption 3.
def test_a_power_law_has_the_effective_dimension_of_its_integral():
    for capacity in (0.3, 0.5, 0.8):
        spectrum = KernelSpectrum.power_law(capacity, 0.6)
        for ridge in (1e-3, 1e-6):
            leading = math.pi * capacity / math.sin(math.pi * capacity) * ridge**-capacity
            found = spectrum.effective_dimension(ridge)
            assert found == pytest.approx(leading - 0.5, rel=2e-4)


def test_summing_ranges_is_summing_indices():
    index = np.arange(1, 10**6 + 1.0)
    spectrum = KernelSpectrum.power_law(0.3, 0.6, num_exact=50)
    expected = effective_dimension(index ** (-1 / 0.3), 1e-9)
    assert spectrum.effective_dimension(1e-9) == pytest.approx(expected, rel=1e-4)
    tail = spectrum.multiplicities @ (
        spectrum.squared_target * (spectrum.eigenvalues < 100 ** (-1 / 0.3))
    )
    assert tail == pytest.approx(np.sum((index**-5.0)[index > 100]), rel=0.05)
