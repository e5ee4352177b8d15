"""What the second paper is about: width costs nothing, and its curves collapse."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp

DIM, NUM_TRAIN, NUM_TEST, NUM_STEPS = 10, 200, 150, 12


@functools.cache
def _durations():
    return jnp.asarray([1.0, 3.0, 8.0])


def _reduced(width):
    return jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, DIM, width, key=jr.key(7)).reduced()


def _algorithm(width, duration, clip=0.5):
    return jaxdp.DPGD.calibrated(
        4.0,
        1e-3,
        learning_rate=duration * DIM / width / NUM_STEPS,
        clip_norm=clip * width**0.5,
        num_steps=NUM_STEPS,
    )


@jax.jit
def _curve(problem, width, durations):
    """Predicted test errors when training stops at each time, a run of its own."""

    def final(duration):
        algorithm = _algorithm(width, duration)
        return jaxdp.predict(
            problem, algorithm, theory=jaxdp.GaussianClosure(rank=0, spread_rank=None), records=1
        ).final_risk

    return jax.vmap(final)(durations)


@pytest.fixture(scope="module")
def curves():
    """Against eta T p / d, by width; 1 stands for infinite width in its own units."""
    widths = {800: 800.0, 6400: 6400.0, None: 1.0}
    return {name: _curve(_reduced(name), unit, _durations()) for name, unit in widths.items()}


@pytest.mark.slow
def test_curves_against_eta_t_p_over_d_collapse(curves):
    limit = np.asarray(curves[None])
    np.testing.assert_allclose(curves[6400], limit, rtol=0.05)
    # Corrections fall with the width.
    far, near = (np.abs(np.asarray(curves[width]) - limit).max() for width in (800, 6400))
    assert near < far < 0.3
    # Against eta T itself they do not: eight times the width, an eighth of the time.
    slower = np.asarray(_curve(_reduced(6400), 6400.0, _durations() / 8))
    assert np.abs(slower - limit).max() > 0.2


@pytest.mark.slow
def test_private_descent_has_no_peak_where_interpolation_has_one():
    widths = (60, NUM_TRAIN, 1600)
    interpolated, private = [], []
    for width in widths:
        problem = _reduced(width)
        interpolated.append(problem.interpolator_risk())
        runs = jaxdp.simulate(
            problem, _algorithm(width, 3.0), key=jr.key(0), num_runs=20, records=1
        )
        private.append(float(runs.final_risk.mean()))
    assert interpolated[1] > 5 * max(interpolated[0], interpolated[2])
    assert private[0] > private[1] > private[2]
