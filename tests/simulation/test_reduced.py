"""The chain of radii in law against the algorithm itself, and its contracts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from one_pass_numpy import algorithm_1
from scipy import stats

import jaxdp
from jaxdp.core.numerics.chi_square import chi_square
from jaxdp.simulation import reduced
from jaxdp.simulation.streams import chunks, radial_chain

SQUARE_ROOT = jaxdp.Polynomial(3.0, power=0.5)
HYPERBOLIC = jaxdp.Hyperbolic(5.0, 0.3)
TWO_BLOCKS = np.repeat([1.6, 0.4], [6, 6])


def _problem(spectrum=TWO_BLOCKS, label_noise=0.3):
    return jaxdp.LinearRegression(spectrum, np.linspace(0.1, 0.5, len(spectrum)), label_noise)


def _algorithm(schedule=SQUARE_ROOT, clip_scale=0.5, rho=1.0, num_steps=60, **more):
    return jaxdp.OnePassDPSGD(schedule, clip_scale, rho, num_steps, **more)


def _run(problem, algorithm, key=0, *, num_runs=3, records=6, **more):
    more = {"simulator": jaxdp.Reduced(), **more}
    return jaxdp.simulate(
        problem, algorithm, key=jr.key(key), num_runs=num_runs, records=records, **more
    )


# spectrum, label noise, algorithm, shares of samples clipped and capped at least
LAWS = {
    "three dimensions": (np.ones(3), 0.3, _algorithm(), 0.1, 0.0),
    "two blocks": (TWO_BLOCKS, 0.3, _algorithm(clip_scale=0.2), 0.5, 0.0),
    "without noise": (TWO_BLOCKS, 0.3, _algorithm(rho=jnp.inf), 0.2, 0.0),
    "one block": (np.ones(10), 0.3, _algorithm(clip_scale=0.45), 0.5, 0.0),
    "capped": (np.ones(10), 0.3, _algorithm(jaxdp.Constant(20.0), 0.3, 2.0), 0.5, 0.5),
    "some capped": (TWO_BLOCKS, 0.3, _algorithm(jaxdp.Hyperbolic(20.0, 0.3)), 0.2, 0.1),
    "one large eigenvalue": (
        np.array([5.0] + [15 / 19] * 19),
        0.3,
        _algorithm(jaxdp.Hyperbolic(8.0, 0.3), 1.0),
        0.4,
        0.01,
    ),
    "one dimension": (np.ones(1), 0.3, _algorithm(rho=5.0), 0.05, 0.0),
    "two dimensions": (np.ones(2), 0.3, _algorithm(rho=3.0), 0.05, 0.0),
    "no label noise": (TWO_BLOCKS, 0.0, _algorithm(HYPERBOLIC), 0.05, 0.0),
    "eigenvalues of zero": (np.repeat([2.0, 0.0], 6), 0.3, _algorithm(HYPERBOLIC), 0.05, 0.0),
}
# They share their compiled functions, with the test of the algorithm as printed too.
QUICK = ("some capped", "no label noise", "eigenvalues of zero")


def _law_gaps(first, second):
    """p-values of equal laws of the risk at a third, two thirds and the end, and the final one."""
    pairs = [(first.risk[:, j], second.risk[:, j]) for j in (2, 4, 6)]
    pairs.append((first.final_risk, second.final_risk))
    return [stats.ks_2samp(np.asarray(a), np.asarray(b))[1] for a, b in pairs]


def _each_law():
    """What shares its compiled functions runs longer than it compiles."""
    quick, slow = pytest.mark.long_runs, pytest.mark.slow
    return [pytest.param(name, marks=quick if name in QUICK else slow) for name in LAWS]


@pytest.mark.parametrize("name", _each_law())
def test_has_the_law_of_the_iterates(name, monkeypatch):
    spectrum, label_noise, algorithm, clipped, capped = LAWS[name]
    problem, number = _problem(spectrum, label_noise), list(LAWS).index(name)
    ours = _run(problem, algorithm, 2 * number, num_runs=20_000)
    theirs = _run(problem, algorithm, 2 * number + 1, num_runs=8000, simulator=jaxdp.Iterates())
    assert min(_law_gaps(ours, theirs)) > FALSE_ALARM
    for share, least in (("clipped_fraction", clipped), ("capped_fraction", capped)):
        values, others = (np.asarray(runs.observables[share][:, -1]) for runs in (ours, theirs))
        assert values.mean() >= least
        spread = np.sqrt(values.var() / len(values) + others.var() / len(others))
        assert abs(values.mean() - others.mean()) <= 5 * spread + 1e-6
    if name in (*QUICK, "one block"):
        # The same test sees noise off by a third.
        quieter = eqx.tree_at(lambda tree: tree.rho, algorithm, 4 / 3 * algorithm.rho)
        wrong = _run(problem, quieter, 2 * number, num_runs=20_000)
        assert max(_law_gaps(wrong, theirs)) < FALSE_ALARM
    if name == "three dimensions":
        # The same test sees a chi-square of d degrees where d - 1 are right.
        def one_more(normals, degrees):
            return chi_square(normals, tuple(degree + 1 for degree in degrees))

        monkeypatch.setattr(radial_chain, "chi_square", one_more)
        # Another number of runs, so that it is traced anew.
        wrong = _run(problem, algorithm, num_runs=20_001)
        assert max(_law_gaps(wrong, theirs)[:3]) < 1e-9


# Source: AC Algorithm 1.
@pytest.mark.long_runs
def test_agrees_with_algorithm_1_as_printed():
    rng = np.random.default_rng(3)
    fixed = dict(spectrum=TWO_BLOCKS, target=np.linspace(0.1, 0.5, 12), label_noise=0.3, n=60)
    options = dict(rate=lambda t: 20 / (1 + t / 0.3), clip_scale=0.5, rho=1.0, records=6)
    path, final, clipped, capped = algorithm_1(rng, 600, **fixed, **options)

    def assert_same_means(rho):
        ours = _run(_problem(), _algorithm(jaxdp.Hyperbolic(20.0, 0.3), rho=rho), num_runs=20_000)
        assert_mean_close(path[:, 1:], np.asarray(ours.risk[:, 1:].mean(0)))
        assert_mean_close(final, ours.final_risk.mean())
        assert_mean_close(clipped, ours.observables["clipped_fraction"][:, -1].mean())
        assert_mean_close(capped, ours.observables["capped_fraction"][:, -1].mean())
        assert stats.ks_2samp(path[:, 3], np.asarray(ours.risk[:, 3]))[1] > FALSE_ALARM

    assert capped.mean() > 0.1
    assert_same_means(1.0)
    # The same check sees noise off by a third.
    with pytest.raises(AssertionError):
        assert_same_means(4 / 3)


@pytest.mark.slow
def test_a_run_is_the_same_alone_as_in_a_batch():
    many = _run(_problem(), _algorithm())
    alone = _run(_problem(), _algorithm(), num_runs=1)
    np.testing.assert_allclose(alone.risk[0], many.risk[0], rtol=2e-5)
    np.testing.assert_allclose(alone.final_risk[0], many.final_risk[0], rtol=2e-5)
    assert not np.allclose(many.risk[0, 1:], many.risk[1, 1:], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("records", [12, 45, 66])
def test_a_path_is_the_same_however_it_is_recorded(records):
    # Ranges of 10 steps against ranges of 5, of 1 or 2, and of 1 or none.
    few = _run(_problem(), _algorithm())
    many = _run(_problem(), _algorithm(), records=records)
    ours, theirs = (np.arange(4) * count // 3 for count in (6, records))
    np.testing.assert_allclose(many.risk[:, theirs], few.risk[:, ours], rtol=2e-5)
    np.testing.assert_allclose(many.final_risk, few.final_risk, rtol=2e-5)
    for name, values in few.observables.items():
        shared = many.observables[name][:, theirs]
        np.testing.assert_allclose(shared, values[:, ours], rtol=1e-6)


@pytest.mark.slow
def test_values_do_not_depend_on_the_chunk(monkeypatch):
    expected = _run(_problem(), _algorithm()).risk
    monkeypatch.setattr(chunks, "_CHUNK_STEPS", 3)
    # A key of its own among the compiled functions.
    found = jax.jit(lambda: _run(_problem(), _algorithm()).risk)()
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.slow
def test_progress_reports_and_changes_nothing():
    shares = []
    quiet = _run(_problem(), _algorithm(), records=50)
    loud = _run(_problem(), _algorithm(), records=50, progress=shares.append)
    np.testing.assert_allclose(loud.risk, quiet.risk, rtol=2e-5)
    for name, values in quiet.observables.items():
        np.testing.assert_allclose(loud.observables[name], values, rtol=1e-6)
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.slow
def test_noise_levels_see_the_same_data_and_no_noise_is_their_limit():
    loud, quiet, silent = (_run(_problem(), _algorithm(rho=rho)) for rho in (1.0, 1e6, jnp.inf))
    np.testing.assert_allclose(quiet.risk, silent.risk, rtol=1e-3)
    assert np.all(np.isfinite(loud.risk))
    first = [runs.observables["clipped_fraction"][:, 1] for runs in (loud, silent)]
    np.testing.assert_allclose(first[0], first[1], atol=0.21)


# Source: AC Proposition 5.
@pytest.mark.long_runs
def test_the_last_noise_comes_after_the_last_record():
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    noisy, silent = (
        _run(problem, _algorithm(jaxdp.Constant(3.0), 1.0, rho, 230), num_runs=4000)
        for rho in (1.0, jnp.inf)
    )
    np.testing.assert_array_equal(noisy.risk, silent.risk)
    np.testing.assert_array_equal(silent.final_risk, silent.risk[:, -1])
    # AC Proposition 5 with gamma = 20/230: the jump's mean is 2 (c eta gamma / rho)^2.
    jump = noisy.final_risk - noisy.risk[:, -1]
    assert_mean_close(jump, 2 * (3 * 20 / 230) ** 2)
    with pytest.raises(AssertionError):
        assert_mean_close(jump, 2 * (3 * 20 / 230) ** 2 * 1.1)


def _final(peak, clip_scale, rho, label_noise, key):
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=label_noise)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, rho, 60)
    return jaxdp.simulate(problem, algorithm, key=key, num_runs=2, records=3).final_risk


BATCH = (
    jnp.asarray([2.0, 30.0]),
    jnp.asarray([0.5, 1.0]),
    jnp.asarray([1.0, 2.0]),
    jnp.asarray([0.1, 0.3]),
    jr.split(jr.key(0), 2),
)


@pytest.mark.slow
def test_a_batch_of_cells_gives_what_each_cell_gives():
    together = jax.jit(jax.vmap(_final))(*BATCH)
    for cell in range(2):
        alone = _final(*(values[cell] for values in BATCH))
        np.testing.assert_allclose(together[cell], alone, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("swept", range(5))
def test_works_under_vmap_over_every_hyper_parameter(swept):
    fixed = [values[0] for values in BATCH]
    axes = [0 if place == swept else None for place in range(5)]
    arguments = [BATCH[p] if p == swept else fixed[p] for p in range(5)]
    together = jax.vmap(_final, in_axes=axes)(*arguments)
    fixed[swept] = BATCH[swept][1]
    np.testing.assert_allclose(together[1], _final(*fixed), rtol=2e-5)
    assert not np.allclose(together[0], together[1], rtol=1e-3)


@pytest.mark.slow
def test_works_under_jit_with_the_problem_as_an_argument():
    problem, algorithm = _problem(), _algorithm()
    found = jax.jit(lambda *pair: _run(*pair).risk)(problem, algorithm)
    np.testing.assert_allclose(found, _run(problem, algorithm).risk, rtol=2e-5)


@pytest.mark.slow
def test_the_mean_risk_has_the_derivative_of_its_differences():
    def mean(clip_scale):
        return _run(_problem(), _algorithm(clip_scale=clip_scale), num_runs=300).final_risk.mean()

    def forwards(clip_scale):
        return jax.jvp(mean, (clip_scale,), (jnp.ones_like(clip_scale),))

    # Forwards a derivative comes with its value: one program has both.
    means, slopes = jax.jit(jax.vmap(forwards))(jnp.asarray([0.497, 0.5, 0.503]))
    difference = (means[2] - means[0]) / 0.006
    np.testing.assert_allclose(slopes[1], difference, rtol=2e-2)
    np.testing.assert_allclose(jax.jit(jax.grad(mean))(0.5), difference, rtol=2e-2)


def test_compiles_once_for_new_hyper_parameters():
    _run(_problem(), _algorithm())
    before = reduced._advance._cached._cache_size()
    _run(_problem(label_noise=0.1), _algorithm(rho=2.0), 1)
    _run(_problem(), _algorithm(jaxdp.Polynomial(2.0, power=1.0)), 2)
    assert reduced._advance._cached._cache_size() == before


@pytest.mark.slow
def test_float64_is_kept():
    with jax.enable_x64():
        wide = _run(_problem(), _algorithm(rho=5.0), num_runs=4000)
        assert wide.risk.dtype == jnp.float64
        wide = np.asarray(wide.final_risk)
    narrow = _run(_problem(), _algorithm(rho=5.0), 1, num_runs=4000).final_risk
    assert stats.ks_2samp(wide, np.asarray(narrow))[1] > FALSE_ALARM


@pytest.mark.slow
def test_the_front_page_agrees_with_its_prediction():
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    algorithm = _algorithm(clip_scale=1.0, num_steps=10_000)
    runs = _run(problem, algorithm, num_runs=200, records=20)
    predicted = jaxdp.predict(problem, algorithm, records=20)
    # The bias is of order 1/d.
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=5e-4)
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=5e-4)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.final_risk, 1.06 * predicted.final_risk, bias=5e-4)


@pytest.mark.slow
def test_steps_far_below_the_rounding_of_a_radius_are_not_lost():
    # A step of 5e-8 changes no float32 of size 1.
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    algorithm = _algorithm(jaxdp.Constant(0.5), 0.01, num_steps=100_000)
    runs = _run(problem, algorithm, num_runs=40, records=1)
    predicted = jaxdp.predict(problem, algorithm, records=1)
    # The bias is of order 1/d of the change, which is .004.
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=5e-6)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.final_risk, predicted.final_risk + 3e-5, bias=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd])
@pytest.mark.parametrize("null_target", [0.0, 0.4])
def test_derivatives_are_finite_with_eigenvalues_of_zero(derivative, null_target):
    target = np.repeat([0.4, null_target], 5)
    problem = jaxdp.LinearRegression(np.repeat([2.0, 0.0], 5), target, 0.3)

    def mean(clip_scale):
        algorithm = _algorithm(jaxdp.Constant(3.0), clip_scale, jnp.inf, 20)
        return _run(problem, algorithm, num_runs=50).final_risk.mean()

    difference = (mean(0.503) - mean(0.497)) / 0.006
    np.testing.assert_allclose(derivative(mean)(0.5), difference, rtol=5e-2)


@pytest.mark.slow
def test_a_run_does_not_depend_on_its_batch_whatever_the_generator():
    keys = jr.split(jr.key(0, impl="rbg"), 3)

    def risk(key):
        options = dict(num_runs=2, records=2, simulator=jaxdp.Reduced())
        return jaxdp.simulate(_problem(), _algorithm(), key=key, **options).final_risk

    np.testing.assert_allclose(jax.vmap(risk)(keys)[2], risk(keys[2]), rtol=2e-5)


@pytest.mark.slow
def test_simulators_can_share_a_key():
    finals = [
        np.asarray(_run(_problem(), _algorithm(), num_runs=2000, simulator=simulator).final_risk)
        for simulator in (jaxdp.Reduced(), jaxdp.Iterates())
    ]
    # The standard error of a correlation of 2000 independent pairs.
    assert abs(np.corrcoef(*finals)[0, 1]) < 5 / np.sqrt(2000)


@pytest.mark.slow
def test_traced_parameters_out_of_range_are_void():
    def status(clip_scale, label_noise, slope):
        problem = jaxdp.LinearRegression.isotropic(4, label_noise=label_noise)
        schedule = jaxdp.PiecewiseLinear([0.0, 1.0], jnp.stack([1.0, 1.0 + slope]))
        runs = _run(problem, jaxdp.OnePassDPSGD(schedule, clip_scale, 1.0, 20), num_runs=1)
        return runs.status[0], runs.final_risk[0]

    cells = jnp.asarray([[1.0, 0.1, -0.5], [-1.0, 0.1, -0.5], [1.0, -0.1, -0.5], [1.0, 0.1, 0.5]])
    statuses, risks = jax.jit(jax.vmap(status))(*cells.T)
    assert statuses.tolist() == [jaxdp.Status.OK, *[jaxdp.Status.INVALID] * 3]
    assert np.isfinite(risks).tolist() == [True, False, False, False]


def test_it_is_the_default_where_it_saves_and_knows_no_parameters():
    problem, algorithm = _problem(), _algorithm()
    runs = _run(problem, algorithm, simulator=None)
    np.testing.assert_array_equal(runs.risk, _run(problem, algorithm).risk)
    kept = jax.eval_shape(
        lambda: _run(problem, algorithm, simulator=None, keep_parameters=True).parameters
    )
    assert kept.shape == (3, 12)
    with pytest.raises(ValueError, match=r"Reduced knows radii .* use Iterates\(\)"):
        _run(problem, algorithm, keep_parameters=True)


def _table():
    inputs = np.random.default_rng(0).normal(size=(20, 2))
    return jaxdp.TabularRegression(inputs, inputs[:, 0])


@pytest.mark.parametrize(
    ("problem", "algorithm", "reason"),
    [
        (_problem(np.array([1.5, 1.0, 0.5])), _algorithm(), "distinct eigenvalues, .* got 3 of 3"),
        (_problem(), _algorithm(batch_size=2), r"use Iterates\(\) for batch_size = 2"),
        (_problem(), jaxdp.DPGD(1.0, 1.0, 5, 1.0), "the law of OnePassDPSGD, got DPGD"),
        (_table(), _algorithm(), r"LinearRegression\), got TabularRegression; use Iterates\(\)"),
    ],
)
def test_what_is_not_covered_is_named(problem, algorithm, reason):
    with pytest.raises(jaxdp.NotCoveredError, match=reason):
        _run(problem, algorithm)


def test_a_traced_spectrum_is_left_to_the_iterates():
    def reason(spectrum):
        problem = jaxdp.LinearRegression(spectrum, jnp.ones(4), 0.1)
        assert "use Iterates()" in jaxdp.Reduced().covers(problem, _algorithm())
        return spectrum

    jax.eval_shape(reason, jnp.ones(4))
