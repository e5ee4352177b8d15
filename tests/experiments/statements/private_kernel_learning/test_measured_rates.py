"""Exponents in n at a fixed epsilon beside those in n epsilon, of orders and of predicted risks.

Orders only show that what reads exponents off a risk finds those that are written in it; risks of
learners that are run are in `test_simulated_rates`.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest

from experiments.statements.private_kernel_learning.lower_bounds import canonical_excess_risk
from experiments.statements.private_kernel_learning.rates import (
    filtered_noise_rate,
    lipschitz_rate,
    minimax_rate,
    random_feature_rate,
    random_projection_rate,
)
from jaxdp.theory import KernelSpectrum, ReleaseNoise, tuned_excess_risk


class LocalExponents(NamedTuple):
    """Minus the slopes of a risk in ln n and ln epsilon; their ratio is the share of privacy."""

    fixed_epsilon: float
    fixed_samples: float


def local_exponents(risk, num_samples, epsilon, *, ratio=2.0):
    """Both exponents of a risk at a point, by central differences of its logarithm.

    A theorem's $n^{-a} + (n epsilon)^{-b}$ has two exponents: a fixed epsilon shows the smaller one
    in the end, a, and a fixed n shows b where privacy decides, and 0 where it does not.
    """

    def fall(samples, budget):
        above = math.log(risk(num_samples * samples, epsilon * budget))
        below = math.log(risk(num_samples / samples, epsilon / budget))
        return (below - above) / (2 * math.log(ratio))

    return LocalExponents(fall(ratio, 1.0), fall(1.0, ratio))


@pytest.mark.parametrize(
    "rate",
    [
        minimax_rate(0.75, 0.5, 0.5),
        random_projection_rate(0.75, 0.5),
        random_feature_rate(0.75, 0.5, 1.0),
        lipschitz_rate(0.5),
    ],
    ids=["Theorem 10", "Theorems 11 and 19", "Theorem 17", "Theorem 18"],
)
def test_of_an_order_both_exponents_are_read_off_as_they_are_written(rate):
    public = local_exponents(rate.excess_risk, 1e60, epsilon=1.0)
    assert public.fixed_epsilon == pytest.approx(rate.decay.samples, rel=1e-3)
    assert public.fixed_samples == pytest.approx(0.0, abs=1e-3)
    private = local_exponents(rate.excess_risk, 1e60, epsilon=1e-50)
    assert private == pytest.approx((rate.decay.privacy, rate.decay.privacy), rel=1e-3)
    assert rate.decay.privacy > rate.decay.samples + 0.01


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
    public = local_exponents(risk, 1e12, epsilon=1e6, ratio=10.0)
    assert public.fixed_epsilon == pytest.approx(expected.samples, abs=0.01)
    assert public.fixed_samples == pytest.approx(0.0, abs=0.01)
    private = local_exponents(risk, 1e18, epsilon=1e-8, ratio=10.0)
    assert private.fixed_samples == pytest.approx(expected.privacy, abs=0.01)
    printed = random_projection_rate(source, capacity).decay
    assert expected.samples == printed.samples
    assert private.fixed_samples > printed.privacy + 0.03


# Source: PK Theorem 10.
def test_the_canonical_estimator_shows_both_exponents_of_theorem_10():
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
    public = local_exponents(risk, 1e10, epsilon=1e4, ratio=30.0)
    assert public.fixed_epsilon == pytest.approx(expected.samples, abs=0.01)
    private = local_exponents(risk, 1e15, epsilon=1e-8, ratio=30.0)
    assert private.fixed_epsilon == pytest.approx(expected.privacy, abs=0.02)
    assert private.fixed_samples == pytest.approx(expected.privacy, abs=0.02)
