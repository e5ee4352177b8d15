"""The chain of radii in law against the algorithm itself, and its contracts."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from one_pass_numpy import algorithm_1
from scipy import stats

import jaxdp
from jaxdp.core.numerics.counter_normals import chi_square
from jaxdp.simulation.streams import radial_chain

SQUARE_ROOT = jaxdp.Polynomial(3.0, power=0.5)
HYPERBOLIC = jaxdp.Hyperbolic(5.0, 0.3)
TWO_BLOCKS = np.repeat([1.6, 0.4], [6, 6])

VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])
SCALES, HUBER = jaxdp.InputScales(VALUES, WEIGHTS), jaxdp.losses.Huber(0.4)


def _problem(spectrum=TWO_BLOCKS, label_noise=0.3, **more):
    target = np.linspace(0.1, 0.5, len(spectrum))
    return jaxdp.LinearRegression(spectrum, target, label_noise, **more)


def _algorithm(schedule=SQUARE_ROOT, clip_scale=0.5, rho=1.0, num_steps=60, **more):
    return jaxdp.OnePassDPSGD(schedule, clip_scale, rho, num_steps, **more)


def _run(problem, algorithm, key=0, *, num_runs=3, records=6, **more):
    more = {"simulator": jaxdp.Reduced(), **more}
    return jaxdp.simulate(
        problem, algorithm, key=jr.key(key), num_runs=num_runs, records=records, **more
    )


# Spectrum, label noise, algorithm.
LAWS = {
    "three dimensions": (np.ones(3), 0.3, _algorithm()),
    "one dimension": (np.ones(1), 0.3, _algorithm(rho=5.0)),
    "no label noise": (TWO_BLOCKS, 0.0, _algorithm(HYPERBOLIC)),
    "eigenvalues of zero": (np.repeat([2.0, 0.0], 6), 0.3, _algorithm(HYPERBOLIC)),
}


def _law_gaps(first, second):
    """p-values of equal laws of the risk at a third, two thirds and the end, and the final one."""
    pairs = [(first.risk[:, j], second.risk[:, j]) for j in (2, 4, 6)]
    pairs.append((first.final_risk, second.final_risk))
    return [stats.ks_2samp(np.asarray(a), np.asarray(b))[1] for a, b in pairs]


@pytest.mark.slow
@pytest.mark.long_runs
@pytest.mark.parametrize("name", LAWS)
def test_has_the_law_of_the_iterates(name, monkeypatch):
    *described, algorithm = LAWS[name]
    problem = _problem(*described)
    number = list(LAWS).index(name)
    ours = _run(problem, algorithm, 2 * number, num_runs=20_000)
    theirs = _run(problem, algorithm, 2 * number + 1, num_runs=8000, simulator=jaxdp.Iterates())
    assert min(_law_gaps(ours, theirs)) > FALSE_ALARM
    for share in ("clipped_fraction", "capped_fraction"):
        values, others = (np.asarray(runs.observables[share][:, -1]) for runs in (ours, theirs))
        spread = np.sqrt(values.var() / len(values) + others.var() / len(others))
        assert abs(values.mean() - others.mean()) <= 5 * spread + 1e-6
    if name == "three dimensions":
        # The same test sees a chi-square of d degrees where d - 1 are right.
        def one_more(normals, degrees):
            return chi_square(normals, tuple(degree + 1 for degree in degrees))

        monkeypatch.setattr(radial_chain, "chi_square", one_more)
        # Another number of runs, so that it is traced anew.
        wrong = _run(problem, algorithm, num_runs=20_001)
        assert max(_law_gaps(wrong, theirs)[:3]) < 1e-9


STEEP = _algorithm(jaxdp.Hyperbolic(20.0, 0.3))
# A wrong problem or algorithm each; scales and widths share the compiled functions.
NARROW = jaxdp.InputScales([0.7, 1.0, 1.3], [0.4, 0.2, 0.4])
PRINTED = {
    "noise": (600, {}, {}, [({}, {"rho": 4 / 3})]),
    "scales and Huber": (
        500,
        {"input_scales": SCALES, "loss": HUBER},
        {"scales": tuple(zip(VALUES, WEIGHTS, strict=True)), "width": 0.4},
        [({"input_scales": NARROW}, {}), ({"loss": jaxdp.losses.Huber(1e6)}, {})],
    ),
}


# Source: AC Algorithm 1.
@pytest.mark.long_runs
@pytest.mark.parametrize("name", PRINTED)
def test_agrees_with_algorithm_1_as_printed(name):
    count, more, law, wrongs = PRINTED[name]
    fixed = dict(spectrum=TWO_BLOCKS, target=np.linspace(0.1, 0.5, 12), label_noise=0.3, n=60)
    options = dict(rate=lambda t: 20 / (1 + t / 0.3), clip_scale=0.5, rho=1.0, records=6)
    path, final, clipped, capped = algorithm_1(
        np.random.default_rng(3), count, **fixed, **options, **law
    )

    def assert_same_means(more, **change):
        ours = _run(_problem(**more), STEEP.replace(**change), num_runs=20_000)
        assert_mean_close(path[:, 1:], np.asarray(ours.risk[:, 1:].mean(0)))
        assert_mean_close(final, ours.final_risk.mean())
        assert_mean_close(clipped, ours.observables["clipped_fraction"][:, -1].mean())
        assert_mean_close(capped, ours.observables["capped_fraction"][:, -1].mean())
        assert stats.ks_2samp(path[:, 3], np.asarray(ours.risk[:, 3]))[1] > FALSE_ALARM

    assert 0.1 < capped.mean() < 0.5
    assert_same_means(more)
    for other, change in wrongs:
        with pytest.raises(AssertionError):
            assert_same_means(more | other, **change)


@pytest.mark.slow
def test_steps_far_below_the_rounding_of_a_radius_are_not_lost():
    # A step of 5e-8 changes no float32 of size 1.
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    algorithm = _algorithm(jaxdp.Constant(0.5), 0.01, num_steps=100_000)
    runs = _run(problem, algorithm, num_runs=40, records=1)
    predicted = jaxdp.predict(problem, algorithm, records=1)
    # The bias is of order 1/d of the change, which is .004.
    assert_mean_close(
        runs.final_risk, predicted.final_risk, bias=5e-06, rejects=[predicted.final_risk + 3e-5]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("derivative", "null_target"), [(jax.grad, 0.0), (jax.jacfwd, 0.4)])
def test_derivatives_are_finite_with_eigenvalues_of_zero(derivative, null_target):
    target = np.repeat([0.4, null_target], 5)
    problem = jaxdp.LinearRegression(np.repeat([2.0, 0.0], 5), target, 0.3)

    def mean(clip_scale):
        algorithm = _algorithm(jaxdp.Constant(3.0), clip_scale, jnp.inf, 20)
        return _run(problem, algorithm, num_runs=50).final_risk.mean()

    difference = (mean(0.503) - mean(0.497)) / 0.006
    np.testing.assert_allclose(derivative(mean)(0.5), difference, rtol=5e-2)


def test_it_is_the_default_where_it_saves_and_knows_no_parameters():
    problem, algorithm = _problem(), _algorithm()
    runs = _run(problem, algorithm, simulator=None)
    np.testing.assert_array_equal(runs.risk, _run(problem, algorithm).risk)
    kept = jax.eval_shape(
        lambda: _run(problem, algorithm, simulator=None, keep_parameters=True).parameters
    )
    assert kept.shape == (3, 12)


def test_a_traced_spectrum_is_left_to_the_iterates():
    def reason(spectrum):
        problem = jaxdp.LinearRegression(spectrum, jnp.ones(4), 0.1)
        assert "use Iterates()" in jaxdp.Reduced().why_not(problem, _algorithm())
        return spectrum

    jax.eval_shape(reason, jnp.ones(4))
