"""Amplification by Poisson sampling: accountants against exact Gaussians and the definition."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from jaxdp.privacy import Composition, PoissonSampler, gaussian_epsilon
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.conversions.subsampling import (
    SampledGaussian,
    composed_epsilon,
    grid_epsilon,
    renyi_epsilon,
)

_BOTH = ["add-or-remove-one", "zero-out-one"]
_ADDED = "add-or-remove-one"


def _run_epsilon(sampling_rate, noise_multiplier, num_steps, delta, adjacency=_ADDED):
    run = SampledGaussian(sampling_rate, noise_multiplier, num_steps)
    return composed_epsilon((run,), delta, adjacency)


both_adjacencies = pytest.mark.parametrize("adjacency", _BOTH)


def _bounds(runs, delta, reach, num_points=2**20):
    """epsilon of one record more, from losses rounded down and up on a grid: below and above it."""
    width = 2 * reach / num_points
    losses = (np.arange(num_points) - num_points // 2) * width
    edges = np.append(losses, losses[-1] + width)
    transformed, beyond = 1.0, 0.0
    for rate, noise, num_steps in runs:
        # x with log(1 - q + q e^l) at an edge, where l = (2 x - 1) / (2 s^2).
        with np.errstate(divide="ignore", over="ignore"):
            room = np.maximum(-np.expm1(np.log1p(-rate) - edges), 0)
            where = noise**2 * (edges + np.log(room) - np.log(rate)) + 0.5
        below = (1 - rate) * norm.cdf(where / noise) + rate * norm.cdf((where - 1) / noise)
        transformed = transformed * np.fft.rfft(np.fft.ifftshift(np.diff(below))) ** num_steps
        beyond += num_steps * (1 - below[-1])
    composed = np.fft.fftshift(np.fft.irfft(transformed, num_points))
    most = sum(num_steps for _, _, num_steps in runs) * width

    def epsilon(above, delta):
        def excess(epsilon):
            over = losses + above > epsilon
            return composed[over] @ -np.expm1(epsilon - losses[over] - above) - delta

        return brentq(excess, 0, reach * 0.999)

    # Each loss is rounded by one width at most.
    return epsilon(0.0, delta), epsilon(most, delta - beyond)


_slow = pytest.mark.slow
# Runs (rate, noise, steps), the reach of the losses and the bits of the grid, how near its two ends
# are to each other, and the account to the upper one.
COMPOSED = [
    ([(0.1, 2.0, 100)], 16.0, 20, 1.01, 1.003),
    pytest.param([(0.004, 0.8, 1000)], 16.0, 20, 1.03, 1.003, marks=_slow),
    # Large epsilons: debugging, attacks and audits.
    ([(0.125, 0.8, 1000)], 160.0, 21, 1.01, 1.001),
    ([(0.05, 0.1096, 200)], 2000.0, 21, 1.01, 1.001),
    ([(2e-4, 0.03, 30)], 4000.0, 21, 1.01, 1.001),
    pytest.param(
        [(0.01, 1.0, 500), (0.02, 1.2, 300), (0.005, 0.7, 800)], 24.0, 20, 1.03, 1.003, marks=_slow
    ),
    ([(0.01, 1.0, 500), (1.0, 0.5, 1)], 40.0, 20, 1.03, 1.003),
    pytest.param([(0.3, 0.08, 20), (0.01, 1.0, 1000)], 3000.0, 20, 1.03, 1.003, marks=_slow),
]


@pytest.mark.parametrize(("runs", "reach", "bits", "width", "slack"), COMPOSED)
def test_runs_cost_what_an_independent_composition_of_their_steps_says(
    runs, reach, bits, width, slack
):
    least, most = _bounds(runs, 1e-5, reach, 2**bits)
    parts = [SampledGaussian(*run) for run in runs]
    found = composed_epsilon(parts, 1e-5, _ADDED)
    assert least <= found <= slack * most
    assert most < width * least
    # Noise off by a fiftieth, or a run more or less, is seen.
    if len(parts) == 1:
        less = parts[0]._replace(noise_multiplier=0.98 * parts[0].noise_multiplier)
        assert composed_epsilon([less], 1e-5, _ADDED) > slack * most
        return
    assert composed_epsilon(parts[::-1], 1e-5, "zero-out-one") == pytest.approx(found, rel=1e-9)
    assert composed_epsilon([*parts, parts[0]], 1e-5, _ADDED) > most
    assert composed_epsilon(parts[1:], 1e-5, _ADDED) < least


@both_adjacencies
@pytest.mark.parametrize(("noise", "num_steps"), [(1.0, 1), (10.0, 100), (0.5, 3)])
def test_both_routes_mean_the_same_noise_multiplier_as_the_exact_gaussian(
    adjacency, noise, num_steps
):
    # Without sampling all three must be the Gaussian of mu = sqrt(T) / noise.
    exact = gaussian_epsilon(math.sqrt(num_steps) / noise, 1e-5)
    runs = (SampledGaussian(1.0, noise, num_steps),)
    on_grid = grid_epsilon(runs, 1e-5, adjacency)
    by_renyi = renyi_epsilon(runs, 1e-5, adjacency)
    assert exact <= on_grid <= exact * 1.002
    assert exact < by_renyi < exact * 1.25
    assert _run_epsilon(1.0, noise, num_steps, 1e-5, adjacency) == exact


def test_known_values():
    # Of dp_accounting, on a grid of 1e-5.
    assert _run_epsilon(0.01, 1.0, 1000, 1e-5) == pytest.approx(1.8282, rel=1e-3)
    assert _run_epsilon(0.01, 1.0, 1000, 1e-6) == pytest.approx(2.1245, rel=1e-3)
    # The Renyi route of the widespread moments accountants.
    by_renyi = renyi_epsilon((SampledGaussian(0.01, 1.0, 1000),), 1e-5, _ADDED)
    assert by_renyi == pytest.approx(2.108, abs=0.01)


@pytest.mark.parametrize("num_steps", [10**4, 10**5])
@pytest.mark.parametrize("delta", [1e-6, 1e-8, 1e-10])
def test_the_grid_is_never_below_the_truth_near_its_resolution(num_steps, delta):
    noise = math.sqrt(num_steps)
    exact = gaussian_epsilon(1.0, delta)
    assert exact <= grid_epsilon((SampledGaussian(1.0, noise, num_steps),), delta, _ADDED)


def test_below_its_resolution_the_grid_is_not_asked():
    runs = (SampledGaussian(0.01, 1.0, 1000),)
    assert grid_epsilon(runs, 1e-14, _ADDED) == math.inf
    found = _run_epsilon(0.01, 1.0, 1000, 1e-14)
    assert found == renyi_epsilon(runs, 1e-14, _ADDED)
    assert _run_epsilon(0.01, 1.0, 1000, 1e-12) <= found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "num_steps"),
    [
        (0.5, 1e-8, 10),
        (0.5, 0.01, 10),
        (0.01, 0.05, 10**5),
        (1e-9, 0.3, 10**6),
        (1 - 2**-32, 1e5, 10**6),
        (1e-4, 1e8, 10**9),
    ],
)
def test_extreme_parameters_are_answered_by_a_bound_of_little_work(rate, noise, num_steps):
    found = _run_epsilon(rate, noise, num_steps, 1e-5)
    assert 0 <= found <= gaussian_epsilon(math.sqrt(num_steps) / noise, 1e-5)


def test_limits():
    assert _run_epsilon(0.1, 0.0, 10, 1e-5) == math.inf
    assert _run_epsilon(0.1, math.inf, 10, 1e-5) == 0
    # A record that is hardly ever drawn needs no noise.
    assert _run_epsilon(1e-8, 0.0, 10, 1e-5) == 0


@pytest.mark.parametrize("noise", [0.1, 0.02, 0.003])
def test_one_step_of_little_noise_is_exact(noise):
    """q times the Gaussian delta at log(1 + (e^epsilon - 1) / q), in logarithms."""
    rate, delta, mu = 1e-3, 1e-5, 1 / noise

    def excess(epsilon):
        inner = epsilon - math.log(rate)
        near, far = norm.logsf(inner / mu - mu / 2), inner + norm.logsf(inner / mu + mu / 2)
        return rate * (math.exp(near) - math.exp(far)) - delta

    exact = brentq(excess, 10, mu**2)
    found = _run_epsilon(rate, noise, 1, delta)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-3)


def test_more_noise_never_costs_more_where_losses_are_tiny():
    noises = (50.0, 500.0, 5e3, 5e4)
    found = [_run_epsilon(2e-4, one, 30, 1e-8) for one in noises]
    assert found == sorted(found, reverse=True)
    assert found[0] < 1e-4


@pytest.mark.parametrize("num_records", [2000, 200_000])
def test_a_large_epsilon_does_not_depend_on_the_number_of_records(num_records):
    mechanism = PoissonSubsampledGaussian(PoissonSampler(num_records, 0.05), 0.1096, 200)
    rate = mechanism.sampler.sampling_rate
    found = mechanism.epsilon(1e-5, "zero-out-one")
    assert found == pytest.approx(_run_epsilon(rate, 0.1096, 200, 1e-5), rel=1e-5)


def _run(num_steps, noise=1.0, **changes):
    return PoissonSubsampledGaussian(PoissonSampler(10_000, 0.01, **changes), noise, num_steps)


def test_a_run_in_parts_costs_what_the_whole_does():
    whole = _run(1000).epsilon(1e-5, _ADDED)
    for parts in ([500] * 2, [20] * 50, [1, 999]):
        together = Composition(tuple(_run(part) for part in parts))
        assert together.epsilon(1e-5, _ADDED) == pytest.approx(whole, rel=1e-12)
    nested = Composition((Composition((_run(300), _run(200))), _run(500)))
    assert nested.epsilon(1e-5, _ADDED) == pytest.approx(whole, rel=1e-12)


def test_overflow_is_paid_for_in_every_run():
    crowded = _run(100, capacity=155)
    spent = 2 * 100 * crowded.sampler.overflow_probability
    delta = 3 * spent
    together = Composition((crowded, crowded)).epsilon(delta, _ADDED)
    assert together == pytest.approx(_run(200).epsilon(delta - spent, _ADDED), rel=1e-6)
    assert Composition((crowded,) * 6).epsilon(delta, _ADDED) == math.inf


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([(0.5, 0.003, 10)], marks=pytest.mark.slow),
        pytest.param([(1.0, 1e9, 1)], marks=pytest.mark.slow),
        pytest.param([(0.02, 1e200, 1), (1.0, math.inf, 1)], marks=pytest.mark.slow),
        [(1e-9, 0.0, 1)],
        pytest.param([(0.01, 1.5, 10**7)], marks=pytest.mark.slow),
    ],
)
def test_runs_that_no_grid_holds_together_cost_no_more_than_apart(others):
    runs = [SampledGaussian(*one) for one in [(0.01, 1.0, 1000), *others]]
    found = composed_epsilon(runs, 1e-5, _ADDED)
    most = sum(composed_epsilon([run], 1e-5 / len(runs), _ADDED) for run in runs)
    # Another grid may bound the same losses a little better.
    assert composed_epsilon(runs[:1], 1e-5, _ADDED) * (1 - 1e-3) <= found <= most * (1 + 1e-12)


def test_what_several_runs_betray_adds_up_where_no_grid_holds_them():
    """Without noise delta is the probability that any of the steps draws the record."""
    runs = [SampledGaussian(9e-6, 0.0, 1), SampledGaussian(4e-6, 0.0, 2)]
    assert all(composed_epsilon([run], 1e-5, _ADDED) == 0 for run in runs)
    assert composed_epsilon(runs, 1e-5, _ADDED) == math.inf
    assert composed_epsilon(runs, 1.69e-5, _ADDED) == math.inf
    assert composed_epsilon(runs, 1.7e-5, _ADDED) == 0
