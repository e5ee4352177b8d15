"""Budgets by an attack's success: their noise is the least for which an independent bound holds."""

import math

import numpy as np
import optax
import pytest
from scipy.stats import norm

import jaxdp
from jaxdp.kernels import Gaussian, PrivateKernelClassifier, PrivateKernelRidge, load
from jaxdp.privacy import (
    ApproximateDP,
    GaussianDP,
    GaussianMechanism,
    MembershipAdvantage,
    PoissonSampler,
    ReconstructionBound,
    ShuffledEpochs,
    TruePositiveRate,
    calibrated_noise_multiplier,
)

RUN = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
BUDGETS = [
    MembershipAdvantage(0.1),
    TruePositiveRate(0.05, at=0.01),
    ReconstructionBound(0.1, baseline=0.01),
]


def _ask(budget, mu):
    """The quantity of a budget for mu-GDP, in SciPy's words."""
    if isinstance(budget, MembershipAdvantage):
        return norm.cdf(mu / 2) - norm.cdf(-mu / 2)
    at = budget.at if isinstance(budget, TruePositiveRate) else budget.baseline
    return norm.cdf(norm.ppf(at) + mu)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_budget_is_the_largest_mu_that_keeps_it(budget):
    assert 0 <= budget.limit - _ask(budget, budget.largest_mu) < 1e-10
    assert abs(_ask(budget, budget.largest_mu * math.sqrt(2)) - budget.limit) > 0.02
    assert budget.is_met_by(GaussianMechanism(budget.largest_mu))
    assert not budget.is_met_by(GaussianMechanism(budget.largest_mu * (1 + 1e-6)))
    # Every way to calibrate a Gaussian mechanism has this mu.
    assert jaxdp.DPGD.calibrated(budget, **RUN).mu == pytest.approx(budget.largest_mu, rel=1e-6)
    sampler = ShuffledEpochs(100, 20)
    multiplier = calibrated_noise_multiplier(budget, sampler=sampler, num_steps=12)
    assert multiplier == pytest.approx(2 * math.sqrt(3) / budget.largest_mu, rel=1e-9)
    pass_ = jaxdp.OnePassDPSGD.calibrated(budget, learning_rate=0.1, clip_scale=1.0, num_steps=9)
    assert budget.largest_mu * (1 - 1e-6) < float(pass_.rho) <= budget.largest_mu


def test_small_rates_keep_their_digits():
    for rate in (1e-20, 1e-12, 1e-6):
        budget = TruePositiveRate(3 * rate, at=rate)
        assert budget.is_met_by(GaussianMechanism(budget.largest_mu))
        assert not budget.is_met_by(GaussianMechanism(budget.largest_mu * (1 + 1e-9)))


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=repr)
def test_one_sampled_step_gets_the_noise_of_its_closed_curve(budget):
    pytest.importorskip("dp_accounting")
    rate = 0.25
    sampler = PoissonSampler(40, rate, capacity=41)
    noise = calibrated_noise_multiplier(budget, sampler=sampler, num_steps=1)

    def asked(noise):
        # The best test between N(0, s^2) and (1 - q) N(0, s^2) + q N(1, s^2) is a threshold.
        if isinstance(budget, MembershipAdvantage):
            return rate * (2 * norm.cdf(0.5 / noise) - 1)
        place = norm.isf(budget.at) * noise
        return (1 - rate) * budget.at + rate * norm.sf(place - 1, scale=noise)

    assert 0 <= budget.limit - asked(noise) < 1e-4
    assert asked(noise / math.sqrt(2)) > budget.limit + 0.005
    # The same run without sampling needs more.
    assert noise < 0.9 / budget.largest_mu


def test_gaussian_dp_of_batches_is_that_of_all_records():
    sampler = PoissonSampler(40, 0.25, capacity=41)
    found = calibrated_noise_multiplier(GaussianDP(0.5), sampler=sampler, num_steps=16)
    assert found == pytest.approx(4 / 0.5, rel=1e-3)


def test_a_budget_that_no_noise_meets_tells_the_tightest():
    pytest.importorskip("dp_accounting")
    sampler, budget = PoissonSampler(40, 0.25, capacity=18), TruePositiveRate(0.011, at=0.01)
    lost = 10 * sampler.overflow_probability
    with pytest.raises(ValueError, match=rf"the least rate is {0.01 + lost:.3g}; capacity=41 h"):
        calibrated_noise_multiplier(budget, sampler=sampler, num_steps=10)
    with pytest.raises(ValueError, match="the least mu is inf; capacity=41 holds all"):
        calibrated_noise_multiplier(GaussianDP(1.0), sampler=sampler, num_steps=10)
    learner = PrivateKernelClassifier(Gaussian(1.0), 5, input_bound=1.0)
    for unmet in (GaussianDP(1.0), MembershipAdvantage(1e-7)):
        with pytest.raises(ValueError, match="some noise is proved to meet, got "):
            learner.calibration(100, unmet)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MembershipAdvantage(1.5), "expected 0 < advantage < 1, got 1.5"),
        (lambda: TruePositiveRate(-0.1, at=0.01), "expected 0 < rate < 1, got -0.1"),
        (lambda: TruePositiveRate(0.01, at=0.05), "expected 0 < at < rate = 0.01, got 0.05"),
        (lambda: ReconstructionBound(0.1, 0.1), "0 < baseline < probability = 0.1, got 0.1"),
        (lambda: GaussianDP(math.inf), "expected 0 < mu < infinity, got inf"),
        (lambda: ApproximateDP(1.0, 1.0), "expected 0 < delta < 1"),
        (
            lambda: jaxdp.DPGD.calibrated(MembershipAdvantage(0.1), 1e-5, **RUN),
            r"expected no delta beside MembershipAdvantage\(advantage=0.1\), got 1e-05",
        ),
        (lambda: jaxdp.DPGD.calibrated(1.0, **RUN), "expected delta with epsilon, or a budget"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.slow
def test_a_plan_of_a_stream_with_a_membership_budget_is_that_of_its_mu():
    asked, same = MembershipAdvantage(0.2), GaussianDP(MembershipAdvantage(0.2).largest_mu)
    stream = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    plans = [jaxdp.plan(stream, num_samples=400, epsilon=one) for one in (asked, same)]
    assert plans[0].line == plans[1].line
    assert float(plans[0].algorithm.rho) == pytest.approx(same.largest_mu, rel=1e-6)
    assert "MembershipAdvantage(advantage=0.2)" in str(plans[0])


def _rows():
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    return jaxdp.FixedFeatures.from_arrays(x[:40], x[:40, 0], x[40:], x[40:, 0])


@pytest.mark.slow
def test_a_plan_with_a_membership_budget_is_that_of_its_mu():
    asked, same = MembershipAdvantage(0.2), GaussianDP(MembershipAdvantage(0.2).largest_mu)
    rows, cell = _rows(), {"num_steps": 4, "sampling_rate": 1.0, "optimiser": optax.sgd}
    plans = [jaxdp.plan(rows, epsilon=one, **cell) for one in (asked, same)]
    assert plans[0].chosen == plans[1].chosen
    assert plans[0].line.startswith(
        "jaxdp.PrivateOptimiser.calibrated(optax.sgd, jaxdp.privacy.MembershipAdvantage(adv"
    )
    assert asked.is_met_by(plans[0].algorithm)


@pytest.mark.slow
def test_a_forecast_with_a_membership_budget_is_that_of_its_mu():
    rows = _rows()
    asked, same = MembershipAdvantage(0.2), GaussianDP(MembershipAdvantage(0.2).largest_mu)
    cell = {"num_samples": 40, "num_steps": 4, "sampling_rate": 1.0}
    found = [jaxdp.forecast(rows, epsilon=one, **cell) for one in (asked, same)]
    assert found[0].to_dict() == found[1].to_dict()
    assert "AUC 0.64 at most" in " ".join(str(found[0]).split())


def test_a_file_records_the_budget_that_was_asked(tmp_path):
    x = np.linspace(-1, 1, 50)[:, None]
    learner = PrivateKernelRidge(Gaussian(1.0), 5, label_bound=1.0, input_bound=1.0)
    release = learner.fit(x, x[:, 0], epsilon=MembershipAdvantage(0.2), public_seed=1)
    release.save(tmp_path / "model.npz")
    card = " ".join(load(tmp_path / "model.npz").card.split())
    assert "the noise was calibrated to MembershipAdvantage(advantage=0.2)" in card
    assert "AUC 0.64 at most" in card
    assert release.cost.mu == pytest.approx(2 * norm.ppf(0.6), rel=1e-9)


def test_an_objective_gets_the_least_noise_of_its_family():
    learner = PrivateKernelClassifier(Gaussian(1.0), 5, input_bound=1.0)
    budget = TruePositiveRate(0.05, at=0.01)
    found = learner.calibration(500, budget)
    assert budget.is_met_by(found.mechanism)
    assert budget.measured(found.mechanism, "replace-one") > 0.05 - 1e-4


def test_every_estimator_takes_a_budget():
    pytest.importorskip("sklearn")
    from jaxdp import estimators

    x = np.linspace(0, 1, 300)[:, None]
    budget = GaussianDP(0.5)
    linear = estimators.DPLinearRegression(budget, input_range=(0, 1), label_range=(0, 1))
    kernel = estimators.DPKernelRidge(budget, label_bound=1.0, input_bound=1.0, num_projections=5)
    for one in (linear, kernel):
        assert one.fit(x, x[:, 0]).cost_.mu == pytest.approx(0.5, rel=1e-6)
        assert budget.is_met_by(one.release_)
    objective = linear.set_params(method=jaxdp.regression.ObjectivePerturbation())
    with pytest.raises(TypeError, match="epsilon and delta, for ObjectivePerturbation"):
        objective.fit(x, x[:, 0])


def test_a_budget_met_by_rare_batches_alone_is_warned_of():
    pytest.importorskip("dp_accounting")
    sampler = PoissonSampler(10_000, 0.001)
    with pytest.warns(UserWarning, match="hardly hidden"):
        calibrated_noise_multiplier(MembershipAdvantage(0.1), sampler=sampler, num_steps=50)
