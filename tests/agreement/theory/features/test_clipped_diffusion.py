"""The closure in the limit of small steps."""

import jax
import numpy as np
import pytest
from dp_gd_numpy import rows, scaled

import jaxdp
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.gaussian_closure import ClippedDiffusion, GaussianClosure
from jaxdp.theory.features.unclipped import OrnsteinUhlenbeck

RANK = 8


def _small(dtype=np.float32, clip=0.5):
    data = rows(5, num_train=30, num_test=20, dim=6, num_features=90)
    arrays = [part.astype(dtype) for part in data[:5]]
    settings = scaled(data, epsilon=4, clip=clip, tau=4.3, num_steps=12)
    return RandomFeatures.from_arrays(*arrays), settings


def _limit(problem, settings):
    theory = ClippedDiffusion(RANK)
    return jaxdp.predict(problem, DPGD(**settings), theory=theory, records=3)


# Source: PF (3.5).
@pytest.mark.slow
def test_small_steps_tend_to_it():
    problem, settings = _small()
    limit = _limit(problem, settings).check()
    gaps = []
    for num_steps in (40, 160):
        rate = settings["learning_rate"] * 12 / num_steps
        small = settings | {"num_steps": num_steps, "learning_rate": rate}
        flow = jaxdp.predict(
            problem, DPGD(**small), theory=GaussianClosure(RANK, spread_rank=None), records=4
        )
        gaps.append(abs(float(flow.final_risk - limit.final_risk)))
        share = flow.observables["clipped_fraction"][-1]
        clipped = limit.observables["clipped_fraction"][-1]
        np.testing.assert_allclose(share, clipped, atol=0.6 / num_steps)
    assert gaps[0] < 0.02 * limit.final_risk
    # Order 1: a quarter.
    np.testing.assert_allclose(gaps[0] / gaps[1], 4, rtol=0.15)


@pytest.mark.slow
def test_without_clipping_it_is_ou():
    with jax.enable_x64():
        problem, settings = _small(np.float64, clip=5e3)
        settings["noise_scale"] /= 1e4
        ou = jaxdp.predict(problem, DPGD(**settings), theory=OrnsteinUhlenbeck(), records=3)
        assert ou.observables["variance"][-1] > 0.05
        predicted = _limit(problem, settings)
    np.testing.assert_allclose(predicted.risk, ou.risk, rtol=1e-7)
