"""Exponents of private kernel learning: as printed, where they meet, and as the risk has them."""

import math

import numpy as np
import pytest

from experiments.statements.private_kernel_learning.error_bounds import compatibility
from experiments.statements.private_kernel_learning.lower_bounds import canonical_excess_risk
from experiments.statements.private_kernel_learning.rates import (
    filtered_noise_rate,
    functional_perturbation_rate,
    linear_risk_order,
    lipschitz_rate,
    minimax_rate,
    random_feature_rate,
    random_projection_rate,
    undersmoothed_rate,
)
from jaxdp.theory import (
    KernelSpectrum,
    ReleaseNoise,
    effective_dimension,
    predicted_excess_risk,
    tuned_excess_risk,
)

CASES = [(0.5, 0.5), (0.75, 0.3), (1.0, 0.8), (0.6, 1.0)]


def _slope(values, at):
    return -np.diff(np.log(values)) / np.diff(np.log(at))


# Source: PK Assumption 9.
def test_fourier_features_on_the_torus_are_compatible_at_exponent_one_only():
    """Each feature lies in one eigenspace; the mean over their law is the effective dimension."""
    frequencies = np.arange(1, 20001)
    eigenvalues = frequencies**-2.0
    weights = eigenvalues / eigenvalues.sum()
    squares = np.full(len(frequencies), eigenvalues.sum())  # kappa^2, all on its own eigenspace
    values = []
    for ridge in (1e-3, 1e-4):
        each = squares / (eigenvalues + ridge)
        assert weights @ each == pytest.approx(effective_dimension(eigenvalues, ridge))
        few = [0, 99, 19999]
        rows = np.zeros((3, len(frequencies)))
        rows[range(3), few] = squares[few]
        values.append(compatibility(eigenvalues, rows, ridge))
        assert values[-1] == pytest.approx(each.max())
    assert _slope(values, [1e-3, 1e-4])[0] == pytest.approx(1, abs=0.01)
    mercer = compatibility(eigenvalues, eigenvalues[None], 1e-3)
    assert mercer == pytest.approx(effective_dimension(eigenvalues, 1e-3))


@pytest.mark.parametrize(("source", "capacity"), CASES)
def test_theorems_meet_where_the_paper_says(source, capacity):
    projection = random_projection_rate(source, capacity)
    assert projection == random_feature_rate(source, capacity, capacity)
    assert projection.decay.privacy == pytest.approx(4 * source / (4 * source + capacity))
    assert projection.decay.samples == pytest.approx(2 * source / (2 * source + capacity))
    lower = minimax_rate(source, capacity)
    assert (projection.decay.privacy == pytest.approx(lower.decay.privacy)) == (source == 0.5)
    assert lower.decay.samples == projection.decay.samples
    features = random_feature_rate(source, capacity, 1.0)
    assert features.decay.privacy <= projection.decay.privacy
    assert minimax_rate(source, capacity, capacity).decay.privacy >= lower.decay.privacy


def test_known_exponents():
    """Source: PK after Theorem 10, Theorems 18 and 22, and section 6 at gamma = 1."""
    assert random_projection_rate(0.5, 0.4).decay.privacy == pytest.approx(2 / 2.4)
    assert random_feature_rate(0.75, 0.5, 1.0).decay.privacy == pytest.approx(3 / 3.75)
    assert lipschitz_rate(1.0).decay == (0.5, pytest.approx(2 / 3))
    assert functional_perturbation_rate(0.5, 0.3).decay.privacy == pytest.approx(2 / 3)
    assert functional_perturbation_rate(0.5, 0.3).projections is None


# Source: PK Theorem 11.
@pytest.mark.parametrize(("source", "capacity"), CASES)
def test_the_rule_balances_the_bounds_of_lemmas_13_and_14(source, capacity):
    """At lambda and M of Theorem 11 every term is at most the rate, in both regimes."""
    rate = random_projection_rate(source, capacity)
    for samples, epsilon in ((1e8, 1e-6), (1e8, 10.0)):
        ridge, features = rate.choice(samples, epsilon)
        product = samples * epsilon
        dim = ridge**-capacity
        order = rate.excess_risk(samples, epsilon)
        for term in (
            ridge ** (2 * source),
            dim / samples,
            ridge * dim / features,
            features / (ridge * product**2),
        ):
            # The ceiling of M alone exceeds a balance.
            assert term <= order * (1 + 1 / (features - 1) if features > 1 else 2)


def test_minimising_the_printed_bound_gives_the_printed_exponent():
    for source, capacity in CASES:
        log_ridge = np.linspace(-40, 0, 4001)
        values = []
        for product in (1e10, 1e12):
            ridge = np.exp(log_ridge)
            # M at its best, sqrt(ridge^2 N product^2), but no less than the lemmas ask for.
            features = np.maximum(ridge ** (1 - capacity / 2) * product, ridge**-capacity)
            terms = ridge ** (1 - capacity) / features + features / (ridge * product**2)
            values.append(np.min(ridge ** (2 * source) + terms))
        found = _slope(values, [1e10, 1e12])[0]
        # Without M >= N lambda^(1 - 2r) the lemmas alone give more than the theorem states.
        printed = random_projection_rate(source, capacity).decay.privacy
        sharper = filtered_noise_rate(source, capacity).decay.privacy
        assert printed - 0.01 < found < sharper + 0.01


@pytest.mark.parametrize(("source", "capacity"), [(0.6, 0.5), (0.75, 0.5), (0.75, 0.8)])
def test_the_tuned_equivalent_falls_at_the_filtered_rate_and_not_at_the_printed_one(
    source, capacity
):
    spectrum = KernelSpectrum.power_law(capacity, source, num_exact=60, ranges_per_decade=15)
    levels = [1e9, 1e11]
    tuned = [tuned_excess_risk(spectrum, noise=ReleaseNoise(1 / x, 1 / x)) for x in levels]
    found = _slope([at.risk.total for at in tuned], levels)[0]
    rate = filtered_noise_rate(source, capacity)
    assert found == pytest.approx(rate.decay.privacy, abs=0.004)
    assert found - random_projection_rate(source, capacity).decay.privacy > 0.04
    assert rate.decay.privacy == pytest.approx(minimax_rate(source, capacity).decay.privacy)
    ridges, features = (
        [getattr(at, name) for at in tuned] for name in ("ridge", "num_projections")
    )
    assert _slope(ridges, levels)[0] == pytest.approx(rate.ridge.privacy, abs=0.005)
    assert -_slope(features, levels)[0] == pytest.approx(rate.projections.privacy, abs=0.01)


# Source: PK Theorem 22.
@pytest.mark.parametrize(
    ("noise_at", "rate"),
    [
        # Noise on u alone, all features kept: the minimax rate at beta = 1 again.
        (lambda level, ridge: ReleaseNoise(vector=1 / level), filtered_noise_rate(0.75, 0.5)),
        (
            lambda level, ridge: ReleaseNoise(coefficients=1 / (level * ridge)),
            functional_perturbation_rate(0.75, 0.5),
        ),
    ],
    ids=["objective", "functional"],
)
def test_perturbations_that_need_no_projection_fall_at_their_rates(noise_at, rate):
    spectrum = KernelSpectrum.power_law(0.5, 0.75, num_exact=60, ranges_per_decade=15)
    levels, values = [1e8, 1e10], []
    for level in levels:
        ridges = np.geomspace(1e-2, 1e2, 60) * level**-rate.ridge.privacy
        given = [{"ridge": ridge, "noise": noise_at(level, ridge)} for ridge in ridges]
        values.append(min(predicted_excess_risk(spectrum, **each).total for each in given))
    assert _slope(values, levels)[0] == pytest.approx(rate.decay.privacy, abs=0.01)


def test_a_rougher_kernel_approaches_the_minimax_rate_for_small_beta():
    source, capacity = 0.55, 0.3
    rates = [undersmoothed_rate(source, capacity, b).decay.privacy for b in (1.0, 0.8, 0.6)]
    assert rates[0] == filtered_noise_rate(source, capacity).decay.privacy
    assert rates == sorted(rates)
    least = minimax_rate(source, capacity, embedding=0.6).decay.privacy
    assert rates[-1] == pytest.approx(least)
    # Beyond r = b the ridge saturates and no more is gained.
    assert undersmoothed_rate(source, capacity, 0.35).decay.privacy < rates[-1]


def test_the_tuned_equivalent_of_a_rougher_kernel_falls_at_its_rate():
    smooth = KernelSpectrum.power_law(0.3, 0.55, num_exact=60, ranges_per_decade=15)
    rough = KernelSpectrum(smooth.eigenvalues**0.6, smooth.squared_target, smooth.multiplicities)
    levels = [1e8, 1e10]
    values = [tuned_excess_risk(rough, noise=ReleaseNoise(1 / x, 1 / x)).risk.total for x in levels]
    expected = undersmoothed_rate(0.55, 0.3, 0.6).decay.privacy
    assert _slope(values, levels)[0] == pytest.approx(expected, abs=0.01)
    assert expected > filtered_noise_rate(0.55, 0.3).decay.privacy + 0.1


def _local_exponents(risk, num_samples, epsilon, ratio):
    """Minus the slopes of a risk in ln n and in ln epsilon, by central differences.

    A theorem's $n^{-a} + (n epsilon)^{-b}$ has two exponents: a fixed epsilon shows the smaller one
    in the end, a, and a fixed n shows b where privacy decides, and 0 where it does not.
    """

    def fall(samples, budget):
        above = math.log(risk(num_samples * samples, epsilon * budget))
        below = math.log(risk(num_samples / samples, epsilon / budget))
        return (below - above) / (2 * math.log(ratio))

    return fall(ratio, 1.0), fall(1.0, ratio)


# Source: PK Theorem 11.
@pytest.mark.slow
def test_the_tuned_ridge_shows_theorem_11_in_n_and_the_filtered_rate_in_n_epsilon():
    source, capacity = 0.75, 0.5
    spectrum = KernelSpectrum.power_law(capacity, source, num_exact=60, ranges_per_decade=15)

    def risk(num_samples, epsilon):
        noise = ReleaseNoise(1 / (num_samples * epsilon), 1 / (num_samples * epsilon))
        given = {"num_samples": num_samples, "label_noise": 0.5, "noise": noise}
        return tuned_excess_risk(spectrum, **given).risk.total

    expected = filtered_noise_rate(source, capacity).decay
    public = _local_exponents(risk, 1e12, 1e6, 10.0)
    assert public == pytest.approx((expected.samples, 0.0), abs=0.01)
    _, private = _local_exponents(risk, 1e18, 1e-8, 10.0)
    assert private == pytest.approx(expected.privacy, abs=0.01)
    printed = random_projection_rate(source, capacity).decay
    assert expected.samples == printed.samples
    assert private > printed.privacy + 0.03


# Source: PK Theorem 10.
def test_the_canonical_estimator_shows_both_exponents_of_theorem_10_with_the_right_sensitivity():
    source, capacity = 0.55, 0.3
    index = np.arange(1, 10**5 + 1.0)
    spectrum = KernelSpectrum(index ** (-1 / capacity), index ** (-2 * source / capacity - 1))

    def risk(num_samples, epsilon):
        return min(
            canonical_excess_risk(
                spectrum,
                num_terms=d,
                num_samples=num_samples,
                label_noise=0.5,
                noise=2 * math.sqrt(d) / (num_samples * epsilon),
            ).total
            for d in np.unique(np.geomspace(1, 20_000, 300).astype(int)).tolist()
        )

    expected = minimax_rate(source, capacity, embedding=capacity).decay
    public, _ = _local_exponents(risk, 1e10, 1e4, 30.0)
    assert public == pytest.approx(expected.samples, abs=0.01)
    private = _local_exponents(risk, 1e15, 1e-8, 30.0)
    assert private == pytest.approx((expected.privacy, expected.privacy), abs=0.02)


# Source: PK Theorems 63 and 65.
def test_the_linear_order_solves_its_balances_and_ignores_the_dimension():
    samples, epsilon, trace = 1e6, 0.5, 0.25
    whole = linear_risk_order(samples, epsilon, trace=trace)
    product = samples * epsilon
    for ridge, fraction in (
        (math.sqrt(trace / samples), lambda ridge: trace / ridge / samples),
        ((trace / product**2) ** (1 / 3), lambda ridge: math.sqrt(trace / ridge) / product),
    ):
        assert fraction(ridge) == pytest.approx(ridge)
        whole -= ridge
    assert whole == pytest.approx(0, abs=1e-15)
    low = linear_risk_order(samples, epsilon, trace=trace, rank=3)
    assert low == pytest.approx(3 / samples + math.sqrt(3) / product)


# Source: PK Lemma 66.
def test_the_trace_and_not_the_norm_bounds_the_effective_dimension():
    """PK Lemma 66 prints the norm: false for 50 equal eigenvalues."""
    eigenvalues, ridge = np.full(50, 0.02), 0.02
    found = effective_dimension(eigenvalues, ridge)
    assert found <= eigenvalues.sum() / ridge
    assert found > eigenvalues.max() / ridge
