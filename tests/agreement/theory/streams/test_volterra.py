"""The Volterra system of correlated noise, beside a double sum and a simulation."""

import jax.random as jr
import numpy as np
import pytest
from helpers import BEST_OF_SIXTEEN, assert_mean_close, reference_moments

import jaxdp
from jaxdp.privacy import independent_strategy, square_root_strategy

DIM, COUNT, BATCH = 40, 4, 100
RATES = np.array([1.5, 1.0, 0.8, 0.6])
CLIP, RHO = 0.4, 0.5
STRATEGY = square_root_strategy(COUNT, 0.2)
VALUES, SIZES, TARGET = np.array([0.4, 1.6]), np.array([20, 20]), np.array([0.1, 0.2])


def _problem():
    spectrum, target = np.repeat(VALUES, SIZES), np.repeat(TARGET, SIZES)
    return jaxdp.LinearRegression(spectrum, target, 0.3)


def _algorithm(**changes):
    given = {"rates": RATES, "clip_scale": CLIP, "rho": RHO, "batch_size": BATCH}
    return jaxdp.CorrelatedDPSGD(**given | {"strategy": STRATEGY} | changes)


def _double_sum(*, rates, strategy, values, sizes, target, dim, batch, clip, rho, shared=0.0):
    """The system with its noise as a double sum over all pairs of steps, in NumPy.

    `shared` times the squared mean gradient that the samples of a batch share is taken off.
    """
    inverse = np.linalg.inv(strategy)
    covariance = inverse @ inverse.T
    unit = 2 * clip**2 * dim**2 / (batch * rho) ** 2
    weights = values * sizes / dim
    own = dim * target**2 / 2
    total, risks, kept = own, [weights @ own], []
    for k in range(len(rates)):
        power = 2 * risks[-1] + 0.09
        mu, nu = reference_moments(clip / np.sqrt(power))
        kept.append(1 - rates[k] * mu * values)
        own = kept[k] ** 2 * own + values * rates[k] ** 2 * (dim / batch) * nu * power / 2
        own = own - shared * (rates[k] * mu * values) ** 2 * total / batch
        # G_kj = eta_j prod_{j < l <= k} (1 - eta_l mu_l lambda).
        responses = [rates[j] * np.prod(kept[j + 1 : k + 1], axis=0) for j in range(k + 1)]
        left = sum(
            responses[i] * responses[j] * covariance[i, j]
            for i in range(k + 1)
            for j in range(k + 1)
        )
        total = own + unit * left
        risks.append(weights @ total)
    return np.array(risks)


SETTING = {"rates": RATES, "strategy": STRATEGY, "values": VALUES, "sizes": SIZES}
SETTING |= {"target": TARGET, "dim": DIM, "batch": BATCH, "clip": CLIP, "rho": RHO}


@pytest.fixture(scope="module")
def predicted():
    return jaxdp.predict(_problem(), _algorithm(), records=COUNT)


def test_is_the_double_sum_over_pairs_of_steps(predicted):
    assert predicted.label == "Volterra"
    np.testing.assert_allclose(predicted.risk, _double_sum(**SETTING), rtol=2e-6)
    np.testing.assert_array_equal(predicted.risk[-1], predicted.final_risk)
    np.testing.assert_allclose(predicted.time, np.arange(5) / 4)


def test_agrees_with_simulation_and_rejects_wrong_noise_and_a_transposed_strategy(predicted):
    runs = jaxdp.simulate(_problem(), _algorithm(), key=jr.key(0), num_runs=500, records=COUNT)
    share = 0.5 / DIM
    risks = np.asarray(predicted.risk, np.float64)[1:]
    clipped = predicted.observables["clipped_fraction"]
    assert_mean_close(runs.observables["clipped_fraction"][:, 1:], clipped[1:], bias=share)
    wrong = {"rho": RHO / 0.9}, {"rho": RHO / 1.1}, {"strategy": STRATEGY.T}
    rejects = [_double_sum(**SETTING | change)[1:] / risks for change in wrong]
    assert_mean_close(runs.risk[:, 1:] / risks, 1.0, bias=share, rejects=rejects)


@pytest.mark.long_runs
@pytest.mark.slow
def test_sixteen_steps_of_optimal_noise_agree_with_simulation():
    problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
    strategy = jaxdp.planning.optimal_strategy(problem, **BEST_OF_SIXTEEN)
    algorithm = jaxdp.CorrelatedDPSGD(**BEST_OF_SIXTEEN, strategy=strategy)
    predicted = jaxdp.predict(problem, algorithm, records=16)
    risks = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=200, records=16).risk
    expected = np.asarray(predicted.risk, np.float64)[1:]
    # Noise 10 % off in the algorithm that is predicted, and independent noise.
    wrong = {"rho": 1 / 0.9}, {"rho": 1 / 1.1}, {"strategy": independent_strategy(16)}
    others = [jaxdp.predict(problem, algorithm.replace(**one), records=16) for one in wrong]
    rejects = [np.asarray(other.risk, np.float64)[1:] / expected for other in others]
    # A relative bias of 1/d.
    assert_mean_close(risks[:, 1:] / expected, 1.0, bias=0.01, rejects=rejects)


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_shared_gradients_square_does_not_improve_the_recursion():
    # At d = 20, where terms of relative order 1/d are seen: the final risk.
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    given = BEST_OF_SIXTEEN | {"batch_size": 125}
    algorithm = jaxdp.CorrelatedDPSGD(
        **given, strategy=jaxdp.planning.optimal_strategy(problem, **given)
    )
    # In parts, so that all samples of a step are not in memory for all runs.
    parts = [
        jaxdp.simulate(problem, algorithm, key=jr.key(part), num_runs=500, records=16).final_risk
        for part in range(16)
    ]
    risks = np.concatenate(parts).astype(np.float64)
    setting = {"values": np.ones(1), "sizes": np.array([20]), "target": np.array([20**-0.5])}
    setting |= {"rates": np.asarray(given["rates"]), "clip": given["clip_scale"], "rho": 1.0}
    setting |= {"strategy": np.asarray(algorithm.strategy, np.float64), "dim": 20, "batch": 125}
    without, with_it = (_double_sum(**setting, shared=share)[-1] for share in (0.0, 1.0))
    gap, gap_with_it = abs(risks.mean() - without), abs(risks.mean() - with_it)
    error = risks.std(ddof=1) / np.sqrt(len(risks))
    assert gap < gap_with_it - error
    assert gap < 0.02 * without + 5 * error
