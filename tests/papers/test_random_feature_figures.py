"""Random features under DP-GD: the figures' short cuts, and known values."""

import dataclasses
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from experiments import harness, registry
from experiments.privacy_for_free.batches import (
    at_widths,
    final_risks,
    interpolator_risk,
    noise_per_root_time,
)
from experiments.privacy_for_free.fig03_checks import known_values


@pytest.fixture(scope="module")
def limit():
    return jaxdp.RandomFeatures.sample(40, 20, 6, None, key=jr.key(0))


@pytest.mark.slow
def test_nested_widths_are_the_problems_of_the_first_weights(limit):
    widths = [15, 40, 70, 100, 230]
    found = list(at_widths(limit, [*widths, math.inf], key=jr.key(1)))
    assert [at.width for at in found] == [*widths, math.inf]
    weights = jr.normal(jr.key(1), (230, 6)) / np.sqrt(6)
    for at, width in zip(found, [*widths, None], strict=True):
        problem = dataclasses.replace(limit, weights=None if width is None else weights[:width])
        ours, direct = at.problem, problem.reduced()
        kernels = [np.asarray(of.test_features() @ of.train_features().T) for of in (ours, direct)]
        np.testing.assert_allclose(*kernels, rtol=1e-4, atol=1e-5 * np.abs(kernels[1]).max())
        # The peak at p = n magnifies the features' rounding.
        tolerance = 0.05 if width == 40 else 1e-3
        assert at.interpolator_risk == pytest.approx(problem.interpolator_risk(), rel=tolerance)


def test_the_cheap_interpolator_is_the_one_by_svd(limit):
    for width in (15, 40, 100):
        reduced = dataclasses.replace(limit, weights=jr.normal(jr.key(2), (width, 6))).reduced()
        assert interpolator_risk(reduced) == pytest.approx(reduced.interpolator_risk(), rel=1e-6)


@pytest.mark.slow
def test_settings_run_together_are_those_of_a_calibrated_algorithm(limit):
    problem, tau = limit.reduced(), 20.0
    noises = [noise_per_root_time(4.0, 0.01, name) for name in ("published", "exact")]
    assert noises[0] == pytest.approx(np.sqrt(8 * np.log(100)) / 4)
    clips = jnp.full(2, 0.5)
    times = jnp.full(2, tau)
    together, clipped = final_risks(
        problem, times, clips, jnp.asarray(noises), num_steps=5, key=jr.key(3)
    )
    calibrations = (jaxdp.algorithms.PublishedCalibration(), jaxdp.algorithms.ExactCalibration())
    for risk, share, calibration in zip(together, clipped, calibrations, strict=True):
        algorithm = jaxdp.DPGD.calibrated(
            4.0, 0.01, learning_rate=tau / 5, clip_norm=0.5, num_steps=5, calibration=calibration
        )
        alone = jaxdp.simulate(problem, algorithm, key=jr.key(3), records=1)
        np.testing.assert_allclose(risk, alone.final_risk, rtol=1e-5)
        fraction = alone.observables["clipped_fraction"]
        np.testing.assert_allclose(share, fraction[:, -1], rtol=1e-5)


def test_known_values_are_asked_for_at_the_papers_setting_and_can_be_missed():
    saved = harness.read(harness.RESULTS / registry.entry("fig03_random_features").file)
    assert [check.holds for check in known_values(saved)] == [True, True]
    assert not known_values(saved.assign(num_train=200))
    wrong = saved.assign(risk=saved.risk * 1.1, interpolator=saved.interpolator * 1.2)
    assert [check.holds for check in known_values(wrong)] == [False, False]
