"""Limits of stability: the largest eigenvalue of a clipped step, and simulations around a limit."""

import warnings

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import assert_mean_close
from jax import lax

import jaxdp
from jaxdp.privacy import PoissonSampler
from jaxdp.theory.features.closed_moments import Closure
from jaxdp.theory.features.linear_recursion import linear_recursion
from jaxdp.theory.features.modes import kernel_modes

NUM, FEATURES = 60, 8


def _problem():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2 * NUM, FEATURES)) / FEATURES**0.5
    labels = 2 * features @ rng.standard_normal(FEATURES) + 0.1 * rng.standard_normal(2 * NUM)
    return jaxdp.FixedFeatures.from_arrays(
        features[:NUM], labels[:NUM], features[NUM:], labels[NUM:]
    )


def _algorithm(rate, clip_norm):
    """A learning rate over the limit without clipping, and a clip norm."""
    return jaxdp.PrivateOptimiser(
        optax.sgd,
        learning_rate=rate * _problem().reduced().stability_limit(),
        clip_norm=clip_norm,
        noise_multiplier=0.5,
        num_steps=30,
        sampler=PoissonSampler(NUM, 0.5),
    )


def _eigenvalues(closure, algorithm):
    """The largest eigenvalue of the clipped gradient's derivative at each step, and as followed."""
    recursion = linear_recursion(algorithm, NUM)

    def step(moments, index):
        weights = moments.leading[0, 0], moments.others[0, 0]
        form = closure.forces(moments.mean[0], *weights).leading
        return closure.step(moments, recursion, recursion.at(index)), form

    start = closure.start(jnp.float32)
    moments, forms = lax.scan(step, start, jnp.arange(algorithm.num_steps))
    return np.linalg.eigvalsh(np.asarray(forms))[:, -1], float(moments.steepest.value)


def test_the_largest_eigenvalue_is_followed_from_step_to_step():
    modes = kernel_modes(_problem())
    for algorithm in (_algorithm(0.5, 0.3), _algorithm(4.0, 0.1)):
        closure = Closure(modes, modes.slope_limits(algorithm), FEATURES)
        exact, found = _eigenvalues(closure, algorithm)
        assert 0.95 * exact.max() < found <= exact.max() * (1 + 1e-5)
        # Clipping matters: without it the eigenvalue is a constant, that of the limit.
        without = 2 * float(modes.eigenvalues[0]) / NUM
        assert exact.max() < 0.9 * without


@pytest.mark.slow
def test_rates_beyond_the_limit_without_clipping_are_predicted_if_clipping_makes_them_stable():
    problem = _problem()
    for rate in (2.0, 5.0):
        algorithm = _algorithm(rate, 0.05)
        predicted = jaxdp.predict(problem, algorithm, records=1)
        assert predicted.status == jaxdp.Status.OK
        runs = jaxdp.simulate(problem, algorithm, num_runs=400, key=jr.key(0), records=1)
        simulated = np.asarray(runs.final_risk, float)
        bias = 0.02 * simulated.mean()
        wrong = [1.5 * float(predicted.final_risk)]
        assert_mean_close(simulated, predicted.final_risk, sigmas=3, bias=bias, rejects=wrong)
    with pytest.warns(UserWarning, match="multiplies deviations along the top mode"):
        assert jaxdp.predict(problem, _algorithm(2.0, 5.0)).status == jaxdp.Status.UNSTABLE


@pytest.mark.parametrize(
    ("rate", "status"), [pytest.param(0.9, "OK", marks=pytest.mark.slow), (1.5, "UNSTABLE")]
)
def test_two_classes_have_one_limit_as_logistic_and_as_softmax_loss(rate, status):
    rng = np.random.default_rng(1)
    features, weights = rng.standard_normal((120, 4)), rng.standard_normal(4)
    signs = np.where(features @ weights > 0, 1, -1)
    found = []
    for loss, labels, scale in (
        (jaxdp.losses.Logistic(), signs, 1.0),
        # The difference of two logits moves twice as far.
        (jaxdp.losses.Softmax(2), (signs + 1) // 2, 0.5),
    ):
        rows = features[:60], labels[:60], features[60:], labels[60:]
        problem = jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)
        if not found:
            limit = problem.reduced().stability_limit()
        algorithm = jaxdp.PrivateOptimiser(
            optax.sgd,
            learning_rate=rate * scale * limit,
            clip_norm=1e4,
            noise_multiplier=1e-6,
            num_steps=20,
            sampler=jaxdp.privacy.FixedSizeBatches(60, 60),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(jaxdp.predict(problem, algorithm, records=1))
    assert [jaxdp.Status(int(one.status)).name for one in found] == [status, status]
    np.testing.assert_allclose(found[1].final_risk, found[0].final_risk, rtol=0.02)
