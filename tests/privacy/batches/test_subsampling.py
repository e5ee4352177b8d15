"""Amplification by Poisson sampling: accountants against exact Gaussians and the definition."""

import math
import sys

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from jaxdp.privacy import (
    PoissonSampler,
    PoissonSubsampledGaussian,
    Release,
    account,
    gaussian_epsilon,
)
from jaxdp.privacy.batches.subsampling import (
    grid_epsilon,
    renyi_epsilon,
    subsampled_gaussian_epsilon,
)

_BOTH = ["add-or-remove-one", "zero-out-one"]
_ADDED = "add-or-remove-one"
both_adjacencies = pytest.mark.parametrize("adjacency", _BOTH)


def _composed_epsilon(rate, noise, num_steps, delta, reach=16.0, num_points=2**21):
    """epsilon of one record more, from losses rounded down on a grid: a bound from below.

    P = (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), composed by Fourier transform.
    """
    width = 2 * reach / num_points
    losses = (np.arange(num_points) - num_points // 2) * width
    edges = np.append(losses, losses[-1] + width)
    inside = (np.expm1(np.maximum(edges, np.log1p(-rate) + 1e-12)) + rate) / rate
    where = noise**2 * np.log(inside) + 0.5
    below = (1 - rate) * norm.cdf(where / noise) + rate * norm.cdf((where - 1) / noise)
    below[edges <= np.log1p(-rate)] = 0
    transformed = np.fft.rfft(np.fft.ifftshift(np.diff(below)))
    composed = np.fft.fftshift(np.fft.irfft(transformed**num_steps, num_points))

    def excess(epsilon):
        above = losses > epsilon
        return composed[above] @ -np.expm1(epsilon - losses[above]) - delta

    return brentq(excess, 0, reach / 2)


@pytest.mark.parametrize(
    ("rate", "noise", "num_steps"),
    [
        pytest.param(0.01, 1.0, 300, marks=pytest.mark.slow),
        (0.1, 2.0, 100),
        pytest.param(0.004, 0.8, 1000, marks=pytest.mark.slow),
    ],
)
def test_many_steps_cost_what_an_independent_composition_says(rate, noise, num_steps):
    least = _composed_epsilon(rate, noise, num_steps, 1e-5)
    found = subsampled_gaussian_epsilon(rate, noise, num_steps, 1e-5, _ADDED)
    assert least <= found <= 1.02 * least
    # Noise off by a tenth is seen.
    assert not least <= subsampled_gaussian_epsilon(rate, 1.1 * noise, num_steps, 1e-5, _ADDED)


@both_adjacencies
@pytest.mark.parametrize(("noise", "num_steps"), [(1.0, 1), (10.0, 100), (0.5, 3)])
def test_both_routes_mean_the_same_noise_multiplier_as_the_exact_gaussian(
    adjacency, noise, num_steps
):
    # Without sampling all three must be the Gaussian of mu = sqrt(T) / noise.
    exact = gaussian_epsilon(math.sqrt(num_steps) / noise, 1e-5)
    on_grid = grid_epsilon(1.0, noise, num_steps, 1e-5, adjacency)
    by_renyi = renyi_epsilon(1.0, noise, num_steps, 1e-5, adjacency)
    assert exact <= on_grid <= exact * 1.002
    assert exact < by_renyi < exact * 1.25
    assert subsampled_gaussian_epsilon(1.0, noise, num_steps, 1e-5, adjacency) == exact


def test_the_library_has_two_meanings_where_it_is_not_used():
    # Under replace-one its Renyi accountant divides by the sensitivity and the other by the clip
    # norm: for one plain Gaussian of multiplier 1 neither route is taken.
    import dp_accounting
    from dp_accounting import pld, rdp

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountants = rdp.RdpAccountant(None, relation), pld.PLDAccountant(relation)
    found = []
    for accountant in accountants:
        accountant.compose(dp_accounting.GaussianDpEvent(1.0))
        found.append(accountant.get_epsilon(1e-5))
    assert found == pytest.approx([4.73, 10.0], abs=0.01)
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377, abs=0.001)
    assert gaussian_epsilon(2.0, 1e-5) == pytest.approx(found[1], rel=1e-3)


def _one_step_delta(rate, noise, epsilon):
    """The larger divergence of N(0, s^2) and its mixture with N(1, s^2), by summing densities."""
    points = np.linspace(-12 * noise, 1 + 12 * noise, 200_001)
    plain = norm.pdf(points, 0, noise)
    mixture = (1 - rate) * plain + rate * norm.pdf(points, 1, noise)
    return max(
        np.maximum(first - math.exp(epsilon) * second, 0).sum() * (points[1] - points[0])
        for first, second in [(mixture, plain), (plain, mixture)]
    )


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.3, 2.0)])
def test_one_step_is_what_the_definition_gives(rate, noise):
    delta = 1e-4
    exact = brentq(lambda e: _one_step_delta(rate, noise, e) - delta, 1e-3, 5, xtol=1e-7)
    found = subsampled_gaussian_epsilon(rate, noise, 1, delta, _ADDED)
    assert exact * (1 - 1e-5) <= found <= exact * (1 + 1e-3)


def test_known_values():
    # Of dp_accounting, on a grid of 1e-5.
    assert subsampled_gaussian_epsilon(0.01, 1.0, 1000, 1e-5, _ADDED) == pytest.approx(
        1.8282, rel=1e-3
    )
    assert subsampled_gaussian_epsilon(0.01, 1.0, 1000, 1e-6, _ADDED) == pytest.approx(
        2.1245, rel=1e-3
    )
    # The Renyi route of the widespread moments accountants.
    assert renyi_epsilon(0.01, 1.0, 1000, 1e-5, _ADDED) == pytest.approx(2.108, abs=0.01)


@pytest.mark.parametrize("num_steps", [10**4, 10**5])
@pytest.mark.parametrize("delta", [1e-6, 1e-8, 1e-10])
def test_the_grid_is_never_below_the_truth_near_its_resolution(num_steps, delta):
    noise = math.sqrt(num_steps)
    exact = gaussian_epsilon(1.0, delta)
    assert exact <= grid_epsilon(1.0, noise, num_steps, delta, _ADDED)


def test_below_its_resolution_the_grid_is_not_asked():
    assert grid_epsilon(0.01, 1.0, 1000, 1e-14, _ADDED) == math.inf
    found = subsampled_gaussian_epsilon(0.01, 1.0, 1000, 1e-14, _ADDED)
    assert found == renyi_epsilon(0.01, 1.0, 1000, 1e-14, _ADDED)
    assert subsampled_gaussian_epsilon(0.01, 1.0, 1000, 1e-12, _ADDED) <= found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "num_steps"),
    [
        (0.5, 1e-8, 10),
        (0.5, 0.01, 10),
        (0.01, 0.05, 10**5),
        pytest.param(1e-9, 0.3, 10**6, marks=pytest.mark.slow),
        pytest.param(1 - 2**-32, 1e5, 10**6, marks=pytest.mark.slow),
        (1e-4, 1e8, 10**9),
    ],
)
def test_extreme_parameters_are_answered_by_a_bound_of_little_work(rate, noise, num_steps):
    found = subsampled_gaussian_epsilon(rate, noise, num_steps, 1e-5, _ADDED)
    assert 0 <= found <= gaussian_epsilon(math.sqrt(num_steps) / noise, 1e-5)


def test_limits():
    assert subsampled_gaussian_epsilon(0.1, 0.0, 10, 1e-5, _ADDED) == math.inf
    assert subsampled_gaussian_epsilon(0.1, math.inf, 10, 1e-5, _ADDED) == 0
    # A record that is hardly ever drawn needs no noise.
    assert subsampled_gaussian_epsilon(1e-8, 0.0, 10, 1e-5, _ADDED) == 0


def test_epsilon_moves_one_way_in_every_argument():
    base = {"sampling_rate": 0.02, "noise_multiplier": 1.0, "num_steps": 200, "delta": 1e-5}
    moved = {"sampling_rate": 0.03, "noise_multiplier": 0.9, "num_steps": 300, "delta": 1e-6}
    least = subsampled_gaussian_epsilon(**base, adjacency=_ADDED)
    for name, value in moved.items():
        assert subsampled_gaussian_epsilon(**{**base, name: value}, adjacency=_ADDED) > least


def test_truncated_batches_are_paid_for_in_delta():
    whole = PoissonSubsampledGaussian(PoissonSampler(1000, 0.01), 1.0, 100)
    sampler = PoissonSampler(1000, 0.01, capacity=31)
    truncated = PoissonSubsampledGaussian(sampler, 1.0, 100)
    delta = 1e-4
    epsilon = truncated.epsilon(delta, _ADDED)
    paid = 100 * sampler.overflow_probability * (1 + math.exp(epsilon))
    assert 1e-7 < paid < delta / 2
    assert epsilon > whole.epsilon(delta, _ADDED)
    assert epsilon >= whole.epsilon(delta - paid, _ADDED) * (1 - 1e-4)
    tight = PoissonSubsampledGaussian(PoissonSampler(1000, 0.01, capacity=15), 1.0, 100)
    assert tight.epsilon(delta, _ADDED) == math.inf


def test_the_cost_states_its_adjacency_and_its_sampler():
    mechanism = PoissonSubsampledGaussian(PoissonSampler(1000, 0.01), 1.0, 100)
    cost = account(Release("DP-SGD", "zero-out-one", mechanism), delta=1e-5)
    text = str(cost)
    for words in ("zero-out-one", "Poisson sampler", "rate 0.01", "records at most"):
        assert words in text
    with pytest.raises(ValueError, match="expected an adjacency for which"):
        Release("DP-SGD", "replace-one", mechanism)


def test_amplification_needs_the_sampler():
    with pytest.raises(ValueError, match=r"got shuffled: amplification .* use ShuffledEpochs"):
        PoissonSubsampledGaussian("shuffled", 1.0, 100)
    with pytest.raises(TypeError, match="expected sampler to be a PoissonSampler, got float"):
        PoissonSubsampledGaussian(0.01, 1.0, 100)
    sampler = PoissonSampler(10, 0.5)
    with pytest.raises(ValueError, match="noise_multiplier >= 0"):
        PoissonSubsampledGaussian(sampler, -1.0, 100)
    with pytest.raises(ValueError, match="num_steps >= 1"):
        PoissonSubsampledGaussian(sampler, 1.0, 0)


def test_traced_noise_is_sent_to_the_host():
    def epsilon(noise):
        mechanism = PoissonSubsampledGaussian(PoissonSampler(10, 0.5), noise, 10)
        return mechanism.epsilon(1e-5, _ADDED)

    with pytest.raises(TypeError, match="expected concrete arguments"):
        jax.jit(epsilon)(1.0)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    # Numbers that no other test asks for: what was asked for before is remembered.
    with pytest.raises(ImportError, match=r"jaxdp-lab\[privacy\]"):
        subsampled_gaussian_epsilon(0.1234, 1.0, 10, 1e-5, _ADDED)
    # What needs no accountant does not ask for it.
    assert subsampled_gaussian_epsilon(1.0, 1.0, 10, 1e-5, _ADDED) > 0
