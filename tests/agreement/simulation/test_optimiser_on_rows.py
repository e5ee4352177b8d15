"""Private optimisers simulated on features: against `train` and `DPGD`."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from canonical import NUM_TEST, NUM_TRAIN, WIDTH, features

import jaxdp
from jaxdp.algorithms import train
from jaxdp.clipping import sensitivity_excess
from jaxdp.core.keys import run_keys
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, SecretNoise, ShuffledEpochs
from jaxdp.problems import ReducedFeatures
from jaxdp.simulation.rows.fixed_rows import independent_normals, simulate_on_rows

RATE, CLIP, NOISE = 0.2, 1.0, 1.5


def _optimiser(optimiser, sampler, noise_multiplier=NOISE):
    return jaxdp.PrivateOptimiser(
        optimiser,
        clip_norm=CLIP,
        noise_multiplier=noise_multiplier,
        num_steps=12,
        sampler=sampler,
    )


def _explicit():
    parts = features().train_features(), features().test_features(), jnp.zeros((NUM_TEST, 0))
    return ReducedFeatures(*parts, features().train_labels, features().test_labels)


def _as_training_draws(key, step, count, dtype):
    """The noise that `train` adds to its only leaf in this step, which it numbers from 0."""
    return jr.normal(jr.split(jr.fold_in(key, step - 1), 1)[0], (count,), dtype)


def _loss(model, inputs, label):
    return (model(inputs) - label) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimiser", "sampler"),
    [
        (optax.adam(0.05), ShuffledEpochs(NUM_TRAIN, 7)),
        (optax.sgd(RATE, momentum=0.9), PoissonSampler(NUM_TRAIN, 0.3)),
        (
            optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(RATE)),
            FixedSizeBatches(NUM_TRAIN, 7),
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
    rows = features().train_features(), features().train_labels

    @eqx.filter_vmap
    def weights(key):
        return train(trained, _loss, model, *rows, key=key).model.weight[0]

    expected = weights(run_keys(jr.clone(key), num_runs))
    np.testing.assert_allclose(simulated.parameters, expected, atol=2e-5)
    assert np.abs(simulated.parameters[0] - simulated.parameters[1]).max() > 0.01
    risk = np.mean(
        (expected @ features().test_features().T - features().test_labels[None]) ** 2, axis=1
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
    optimiser = _optimiser(optax.sgd(RATE), ShuffledEpochs(NUM_TRAIN, 10))
    settings = dict(key=jr.key(0), num_runs=3, records=5, simulator=jaxdp.Iterates())
    runs = jaxdp.simulate(features(), optimiser, keep_parameters=True, **settings)
    # Three steps an epoch.
    np.testing.assert_allclose(runs.time, np.asarray([0, 2, 4, 7, 9, 12]) / 3, rtol=1e-6)
    np.testing.assert_array_equal(runs.risk[:, -1], runs.final_risk)
    predictions = np.asarray(runs.parameters) @ np.asarray(features().test_features()).T
    risk = np.mean((predictions - np.asarray(features().test_labels)) ** 2, axis=1)
    np.testing.assert_allclose(risk, runs.final_risk, rtol=1e-5)
    assert runs.status.tolist() == [jaxdp.Status.OK] * 3
    assert runs.parameters.shape == (3, WIDTH)
    # One that tells of progress is the same.
    heard = jaxdp.simulate(features(), optimiser, progress=shares.append, **settings)
    np.testing.assert_allclose(heard.risk, runs.risk, rtol=1e-5)
    assert heard.parameters is None
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_noise_that_is_not_from_a_key_is_refused():
    secret = _optimiser(optax.sgd(RATE), PoissonSampler(NUM_TRAIN, 0.3)).replace(
        noise=SecretNoise()
    )
    with pytest.raises(jaxdp.NotCoveredError, match="draws its noise from a key"):
        jaxdp.simulate(features(), secret, key=jr.key(0))
