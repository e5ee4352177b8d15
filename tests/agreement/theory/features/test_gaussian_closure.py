"""The Gaussian closure against literal runs of Algorithm 1, and its limits."""

import ctypes

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import algorithm_1, relu, rows, scaled
from helpers import assert_mean_close, quick_and_slow

import jaxdp
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.closed_moments import Closure
from jaxdp.theory.features.gaussian_closure import GaussianClosure

SLOW = pytest.mark.slow
# Rows, and settings in the units of PF Figure 3: some clipping, 95 %, none, unequal norms, p < n.
TANH = dict(num_train=120, num_test=60, dim=8, num_features=300)
RELU = dict(num_train=120, num_test=60, dim=8, num_features=80, activation=relu, spread=0.5)
CASES = {
    "paper": (TANH, dict(epsilon=4, clip=0.5, tau=4.3, num_steps=20)),
    "nearly all": (TANH, dict(epsilon=10, clip=0.1, tau=20, num_steps=20)),
    "few": (TANH, dict(epsilon=6, clip=3, tau=4.3, num_steps=20)),
    "noisy": (TANH, dict(epsilon=1, clip=0.5, tau=4.3, num_steps=20)),
    "few steps": (TANH, dict(epsilon=4, clip=0.5, tau=4.3, num_steps=5)),
    "unequal": (RELU, dict(epsilon=4, clip=0.5, tau=4.3, num_steps=60)),
    "unequal, nearly all": (RELU, dict(epsilon=10, clip=0.1, tau=20, num_steps=60)),
}
# privacy-for-free.json: seed, sizes, learning rate, clip norm, and the noiseless clipped test loss
# after some of its steps.
NOISELESS = [
    (
        (101, 60, 12, 200, "tanh", 0.0075, 7.0710678118654755, (10, 20, 30, 40)),
        (0.8122004552447063, 0.7063420323169629, 0.6276797661592725, 0.5761226760877264),
    ),
    (
        (102, 60, 12, 30, "tanh", 0.02666666666666667, 2.1908902300206647, (6, 12, 18, 25)),
        (0.8167781378931316, 0.693439136045163, 0.6300624245127151, 0.608898758107548),
    ),
    (
        (103, 50, 15, 120, "relu", 0.0020833333333333333, 3.2863353450309964, (7, 15, 22, 30)),
        (0.9835265538178515, 0.9652107169299942, 0.9496314485583934, 0.9323375291683049),
    ),
]
# mallopt's number, in glibc, for filling the memory that is handed out.
_PERTURB = -6
ACTIVATIONS = {"tanh": (np.tanh, jnp.tanh), "relu": (relu, jax.nn.relu)}


def mean_of(rank=256):
    """The closure, without the spread over runs."""
    return GaussianClosure(rank, spread_rank=None)


def _problem(data, activation):
    return RandomFeatures.from_arrays(*data[:5], activation=activation)


def _small(dtype=np.float32):
    data = rows(5, num_train=30, num_test=20, dim=6, num_features=90)
    arrays = [part.astype(dtype) for part in data[:5]]
    settings = scaled(data, epsilon=4, clip=0.5, tau=4.3, num_steps=12)
    return RandomFeatures.from_arrays(*arrays), settings


# Source: PF Algorithm 1.
@pytest.mark.parametrize("name", quick_and_slow(CASES, "noisy"))
def test_agrees_with_algorithm_1(name):
    sizes, described = CASES[name]
    data = rows(3, **sizes)
    problem = _problem(data, jax.nn.relu if "activation" in sizes else jnp.tanh)
    settings = scaled(data, **described)
    parts = data.train_features, data.train_labels, data.test_features, data.test_labels
    risk, clipped = algorithm_1(*parts, num_runs=2000, seed=0, **settings)

    def predicted(theory, **changes):
        algorithm = DPGD(**settings | changes)
        return jaxdp.predict(problem, algorithm, theory=theory, records=4).check()

    # The same check rejects noise off by a third where there is enough of it, and no clipping.
    rejects = []
    if name not in ("nearly all", "unequal, nearly all"):
        louder = settings["noise_scale"] * 4 / 3
        rejects.append(predicted(mean_of(), noise_scale=louder).final_risk)
    if name != "few":
        rejects.append(predicted(jaxdp.UnclippedRecursion()).final_risk)
    for rank in (256, 16):
        found = predicted(mean_of(rank))
        assert_mean_close(risk, found.final_risk, bias=0.01 * risk.mean(), rejects=rejects)
        assert_mean_close(clipped, found.observables["clipped_fraction"][-1], bias=0.01)


@pytest.mark.slow
def test_agrees_at_infinite_width():
    data = rows(3, **TANH)
    problem = RandomFeatures.from_arrays(*data[:4], None).reduced()
    unseen = np.zeros((120, problem.unseen_factor.shape[1]))
    features = np.concatenate([problem.train_factor, unseen], axis=1)
    test = np.concatenate([problem.test_factor, problem.unseen_factor], axis=1)
    per_width = data._replace(weights=np.zeros((1, 8)))
    settings = scaled(per_width, epsilon=4, clip=0.5, tau=4.3, num_steps=20)
    risk, _ = algorithm_1(
        features, data.train_labels, test, data.test_labels, num_runs=2000, seed=0, **settings
    )
    predicted = jaxdp.predict(problem, DPGD(**settings), theory=mean_of(), records=4)
    assert_mean_close(risk, predicted.final_risk, bias=0.01 * risk.mean())


@pytest.mark.parametrize("rank", [256, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("described", "expected"), NOISELESS)
def test_without_noise_it_is_clipped_descent(described, expected, rank):
    seed, num_train, dim, width, name, rate, clip, steps = described
    host, traced = ACTIVATIONS[name]
    with jax.enable_x64():
        data = rows(
            seed, num_train=num_train, num_test=40, dim=dim, num_features=width, activation=host
        )
        algorithm = DPGD(rate, clip, steps[-1], 0.0)
        problem = _problem(data, traced)
        predicted = jaxdp.predict(problem, algorithm, theory=mean_of(rank), records=steps[-1])
    np.testing.assert_allclose(predicted.risk[np.asarray(steps)], expected, rtol=1e-12)
    np.testing.assert_array_equal(predicted.observables["variance"], 0)


@pytest.mark.slow
def test_without_clipping_it_is_the_recursion():
    with jax.enable_x64():
        problem, settings = _small(np.float64)
        settings["clip_norm"] *= 1e4
        settings["noise_scale"] /= 1e4
        algorithm = DPGD(**settings)
        recursion = jaxdp.predict(problem, algorithm, theory=jaxdp.UnclippedRecursion(), records=12)
        assert recursion.observables["variance"][-1] > 0.1
        for rank in (0, 7, 100):
            predicted = jaxdp.predict(problem, algorithm, theory=mean_of(rank), records=12)
            np.testing.assert_allclose(predicted.risk, recursion.risk, rtol=1e-10)
            np.testing.assert_array_equal(predicted.observables["clipped_fraction"], 0)


@pytest.mark.slow
def test_records_do_not_change_the_result():
    problem, settings = _small()
    fine = jaxdp.predict(problem, DPGD(**settings), theory=mean_of(), records=12)
    for records in (1, 5, 40):
        predicted = jaxdp.predict(problem, DPGD(**settings), theory=mean_of(), records=records)
        steps = np.arange(records + 1) * 12 // records
        np.testing.assert_allclose(predicted.risk, fine.risk[steps], rtol=1e-5)
        share = predicted.observables["clipped_fraction"]
        np.testing.assert_allclose(share, fine.observables["clipped_fraction"][steps], rtol=1e-5)


def test_does_not_depend_on_the_rotation():
    problem, settings = _small()
    reduced = problem.reduced()
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]
    turned = ReducedFeatures(
        reduced.train_factor @ rotation,
        reduced.test_factor @ rotation,
        reduced.unseen_factor,
        reduced.train_labels,
        reduced.test_labels,
    )
    first, second = (
        jaxdp.predict(each, DPGD(**settings), theory=mean_of(8), records=3)
        for each in (problem, turned)
    )
    np.testing.assert_allclose(first.risk, second.risk, rtol=1e-4)


@pytest.mark.slow
def test_traced_lengths_are_differentiated_forward():
    problem, settings = _small()

    def final(rate, steps):
        algorithm = DPGD(rate, settings["clip_norm"], steps, settings["noise_scale"])
        return jaxdp.predict(problem, algorithm, theory=mean_of(8), records=3).final_risk

    rate = settings["learning_rate"]
    traced = jax.jit(jax.jacfwd(final))(rate, jnp.asarray(12))
    known = jax.jit(jax.grad(lambda rate: final(rate, 12)))(rate)
    np.testing.assert_allclose(traced, known, rtol=1e-4)


# Of the closure of full-batch descent that leaves out how the slopes bend: the risk after 10 and
# after 20 steps, by rank.
WITHOUT_BEND = {
    256: (0.5431366514208136, 0.5044646615464305),
    4: (0.5430464758989358, 0.5040471655934836),
}


@SLOW
@pytest.mark.parametrize("rank", [4, 256])
def test_without_the_bend_of_the_slopes_it_is_the_closure_of_the_diffusion(rank, monkeypatch):
    sizes, scaling = CASES["paper"]
    data = rows(0, **sizes)
    with jax.enable_x64():
        problem = RandomFeatures.from_arrays(*(part.astype(np.float64) for part in data[:5]))
        algorithm = DPGD(**scaled(data, **scaling))
        found = jaxdp.predict(problem, algorithm, theory=mean_of(rank), records=2)
        np.testing.assert_allclose(found.risk[1:], WITHOUT_BEND[rank], rtol=1e-3)
        forces = Closure.forces

        def without_bend(*arguments):
            found = forces(*arguments)
            return eqx.tree_at(lambda force: force.bend, found, jnp.zeros_like(found.bend))

        monkeypatch.setattr(Closure, "forces", without_bend)
        # A number of records that no other test asks for, so that it is traced anew, and what is
        # compiled here is found by nobody else.
        found = jaxdp.predict(problem, algorithm, theory=mean_of(rank), records=20)
        np.testing.assert_allclose(found.risk[10::10], WITHOUT_BEND[rank], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["risk", "train_risk", "variance"])
def test_the_first_record_does_not_depend_on_what_lies_in_memory(name):
    """Which jaxlib 0.10.2 reads in products with a matrix of zeros; here memory is not zero."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        pytest.skip("the C library cannot fill the memory that it hands out")
    keys = jax.random.split(jax.random.key(0))
    train, test = (jax.random.normal(key, (80, 70)) for key in keys)
    loss = jaxdp.losses.HalfSquared()
    problem = jaxdp.FixedFeatures.from_arrays(train, train[:, 0], test, test[:, 0], loss=loss)
    algorithm = DPGD(learning_rate=0.02, clip_norm=2.0, num_steps=4, noise_scale=0.5)

    def read(problem):
        # What else is predicted is not compiled then, and only so are product and sum one loop.
        predicted = jaxdp.predict(problem, algorithm, theory=mean_of(), records=1)
        return predicted.risk if name == "risk" else predicted.observables[name]

    expected = read(problem)
    libc.mallopt(_PERTURB, 1)
    try:
        found = jax.jit(read)(problem)
    finally:
        libc.mallopt(_PERTURB, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
