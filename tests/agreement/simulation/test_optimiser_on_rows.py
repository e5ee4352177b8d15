"""Private optimisers simulated on features: against `train` and `DPGD`."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import train
from jaxdp.clipping import sensitivity_excess
from jaxdp.core.keys import run_keys
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, SecretNoise, ShuffledEpochs
from jaxdp.problems import ReducedFeatures
from jaxdp.simulation.rows import fixed_rows
from jaxdp.simulation.rows.fixed_rows import independent_normals, simulate_on_rows

NUM_TRAIN, NUM_TEST, DIM, WIDTH = 30, 20, 6, 12


@functools.cache
def _problem():
    return jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, DIM, WIDTH, key=jr.key(5))


RATE, CLIP, NOISE = 0.2, 1.0, 1.5
SGD = optax.sgd(RATE)


def simulate_iterates(*arguments, **options):
    return jaxdp.simulate(_problem(), *arguments, simulator=jaxdp.Iterates(), **options)


def _optimiser(optimiser=SGD, sampler=None, noise_multiplier=NOISE, num_steps=12, **more):
    return jaxdp.PrivateOptimiser(
        optimiser,
        clip_norm=CLIP,
        noise_multiplier=noise_multiplier,
        num_steps=num_steps,
        sampler=PoissonSampler(NUM_TRAIN, 0.3) if sampler is None else sampler,
        **more,
    )


def _explicit():
    train_features, test_features = _problem().train_features(), _problem().test_features()
    unseen = jnp.zeros((NUM_TEST, 0))
    labels = _problem().train_labels, _problem().test_labels
    return ReducedFeatures(train_features, test_features, unseen, *labels)


def _as_training_draws(key, step, count, dtype):
    """The noise that `train` adds to its only leaf in this step, which it numbers from 0."""
    return jr.normal(jr.split(jr.fold_in(key, step - 1), 1)[0], (count,), dtype)


def _loss(model, features, label):
    return (model(features) - label) ** 2


@pytest.mark.parametrize(
    ("optimiser", "sampler"),
    [
        (optax.adam(0.05), ShuffledEpochs(NUM_TRAIN, 7)),
        pytest.param(
            optax.sgd(RATE, momentum=0.9), PoissonSampler(NUM_TRAIN, 0.3), marks=pytest.mark.slow
        ),
        pytest.param(
            optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(RATE)),
            FixedSizeBatches(NUM_TRAIN, 7),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_path_is_that_of_training_for_the_same_key(optimiser, sampler):
    num_runs, key = 2, jr.key(4)
    simulated = simulate_on_rows(
        _explicit(),
        _optimiser(optimiser, sampler),
        key=key,
        num_runs=num_runs,
        records=4,
        keep_parameters=True,
        progress=None,
        draw=_as_training_draws,
    )
    # Training adds a little more noise, for the rounding of its sums.
    widening = 1 + sensitivity_excess(sampler.capacity, WIDTH)
    trained = _optimiser(optimiser, sampler, noise_multiplier=NOISE / widening)
    model = eqx.nn.Linear(WIDTH, "scalar", use_bias=False, key=jr.key(0))
    model = eqx.tree_at(lambda tree: tree.weight, model, jnp.zeros((1, WIDTH)))
    rows = _problem().train_features(), _problem().train_labels

    @eqx.filter_vmap
    def weights(key):
        return train(trained, _loss, model, *rows, key=key).model.weight[0]

    expected = weights(run_keys(jr.clone(key), num_runs))
    np.testing.assert_allclose(simulated.parameters, expected, atol=2e-5)
    assert np.abs(simulated.parameters[0] - simulated.parameters[1]).max() > 0.01
    risk = np.mean(
        (expected @ _problem().test_features().T - _problem().test_labels[None]) ** 2, axis=1
    )
    np.testing.assert_allclose(simulated.final_risk, risk, rtol=1e-4)


def test_full_batches_with_plain_descent_are_dp_gd():
    rate, sigma = 0.05, 0.4
    gd = jaxdp.DPGD(rate, CLIP, 12, sigma)
    full = PoissonSampler(NUM_TRAIN, 1.0)
    optimiser = _optimiser(optax.sgd(rate), full, noise_multiplier=float(gd.noise_multiplier))
    # A descent direction has its noise added, an iterate the opposite.
    flipped = lambda *drawn: -independent_normals(*drawn)  # noqa: E731
    settings = dict(key=jr.key(2), num_runs=3, records=5, keep_parameters=True, progress=None)
    first = simulate_on_rows(_explicit(), gd, **settings)
    second = simulate_on_rows(_explicit(), optimiser, draw=flipped, **settings)
    np.testing.assert_allclose(first.parameters, second.parameters, atol=1e-6)
    np.testing.assert_allclose(first.risk, second.risk, rtol=1e-5)
    for name, values in first.observables.items():
        np.testing.assert_allclose(second.observables[name], values, rtol=1e-5)
    # The clocks differ: eta t of the diffusion, and epochs.
    np.testing.assert_allclose(second.time, np.asarray(first.time) / rate, rtol=1e-6)


def test_records_epochs_and_the_released_iterate():
    shares = []
    optimiser = _optimiser(sampler=ShuffledEpochs(NUM_TRAIN, 10))
    settings = dict(key=jr.key(0), num_runs=3, records=5)
    runs = simulate_iterates(optimiser, keep_parameters=True, **settings)
    # Three steps an epoch.
    np.testing.assert_allclose(runs.time, np.asarray([0, 2, 4, 7, 9, 12]) / 3, rtol=1e-6)
    np.testing.assert_array_equal(runs.risk[:, -1], runs.final_risk)
    predictions = np.asarray(runs.parameters) @ np.asarray(_problem().test_features()).T
    risk = np.mean((predictions - np.asarray(_problem().test_labels)) ** 2, axis=1)
    np.testing.assert_allclose(risk, runs.final_risk, rtol=1e-5)
    assert runs.status.tolist() == [jaxdp.Status.OK] * 3
    assert runs.parameters.shape == (3, WIDTH)
    # The default simulator is the same, and tells of progress.
    heard = simulate_iterates(optimiser, progress=shares.append, **settings)
    np.testing.assert_allclose(heard.risk, runs.risk, rtol=1e-5)
    assert heard.parameters is None
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_compiles_once_for_new_hyper_parameters_and_lengths():
    def run(noise_multiplier, num_steps):
        optimiser = _optimiser(noise_multiplier=noise_multiplier, num_steps=num_steps)
        return simulate_iterates(optimiser, key=jr.key(0), num_runs=2, records=6)

    run(1.0, 12)
    before = fixed_rows._advance._cached._cache_size()
    run(2.0, 12)
    run(0.0, 18)
    assert fixed_rows._advance._cached._cache_size() == before


def test_noise_multipliers_can_be_swept_and_bad_ones_are_void():
    def risk(multiplier):
        runs = simulate_iterates(
            _optimiser(noise_multiplier=multiplier), key=jr.key(0), num_runs=2, records=6
        )
        return runs.final_risk, runs.status

    found, status = jax.vmap(risk)(jnp.asarray([0.0, NOISE, -1.0]))
    np.testing.assert_allclose(found[1], risk(NOISE)[0], rtol=1e-5)
    assert not np.allclose(found[0], found[1], rtol=1e-3)
    assert status[:, 0].tolist() == [jaxdp.Status.OK, jaxdp.Status.OK, jaxdp.Status.INVALID]


def test_what_cannot_be_simulated_is_named():
    with pytest.raises(jaxdp.NotCoveredError, match=r"draws its noise from a key.* use noise=None"):
        simulate_iterates(_optimiser(noise=SecretNoise()), key=jr.key(0))

    infinite = jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, DIM, None, key=jr.key(5))
    linear = jaxdp.LinearRegression.isotropic(4, label_noise=0.1)
    for problem, reason in [(infinite, "give it weights"), (linear, "uses each once")]:
        with pytest.raises(jaxdp.NotCoveredError, match=reason):
            jaxdp.simulate(problem, _optimiser(optax.adam(0.1)), key=jr.key(0))
