"""Correlated noise against dense matrices: its law and its price."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import FALSE_ALARM
from scipy.linalg import toeplitz
from scipy.stats import ks_2samp, norm

import jaxdp
from jaxdp.algorithms import train
from jaxdp.clipping import TwoPartSum
from jaxdp.privacy import BufferedToeplitzNoise, PoissonSampler, SecretNoise, ShuffledEpochs

SCALES, DECAYS, STEPS = [-0.1, -0.3], [0.75, 0.25], 10
NUM, WIDTH, CLIP, NOISE, RATE = 40, 12, 0.3, 3.0, 0.5
EPOCH = ShuffledEpochs(NUM, NUM // STEPS)


def inverse_matrix(num_steps=STEPS, scales=SCALES, decays=DECAYS):
    """C^{-1}, whose first column is 1 and then the sum of h_k lambda_k^(j - 1)."""
    # As float32 has them.
    scales, decays = (np.float32(part).astype(float) for part in (scales, decays))
    powers = decays[None] ** np.arange(num_steps - 1)[:, None]
    column = np.concatenate([[1.0], powers @ scales])
    return np.tril(toeplitz(column))


def correlated(**change):
    settings = dict(
        learning_rate=RATE,
        clip_norm=CLIP,
        noise_multiplier=NOISE,
        num_steps=STEPS,
        sampler=EPOCH,
        noise=BufferedToeplitzNoise(SCALES, DECAYS),
    )
    return jaxdp.PrivateOptimiser(optax.sgd, **settings | change)


def _rows():
    i, j = np.arange(NUM + 20)[:, None], np.arange(WIDTH)[None]
    features = np.sqrt(2 / WIDTH) * np.cos(0.37 * (i + 1) * (j + 1) + 0.2 * (j + 1) ** 2)
    return features.astype(np.float32).astype(float), np.sin(0.53 * (np.arange(NUM + 20) + 1))


def cosine_rows():
    features, labels = _rows()
    return jaxdp.FixedFeatures.from_arrays(
        features[:NUM], labels[:NUM], features[NUM:], labels[NUM:]
    )


@pytest.mark.parametrize("num_steps", [1, STEPS, 400])
def test_sensitivity_is_the_longest_column_of_the_matrix(num_steps):
    matrix = np.linalg.inv(inverse_matrix(num_steps))
    found = BufferedToeplitzNoise(SCALES, DECAYS).sensitivity(num_steps)
    np.testing.assert_allclose(found, np.linalg.norm(matrix, axis=0).max(), rtol=1e-11)
    traced = jax.jit(lambda scales: BufferedToeplitzNoise(scales, DECAYS).sensitivity(num_steps))
    np.testing.assert_allclose(traced(jnp.asarray(SCALES)), found, rtol=1e-5)


def test_training_adds_the_product_of_the_inverse_and_independent_noise():
    def loss(weights, row, label):
        # Without a gradient the iterates are sums of the noise alone.
        return 0.0 * jnp.sum(weights)

    def increments(**change):
        algorithm = correlated(learning_rate=1.0, **change)
        rows = jnp.zeros((NUM, 1)), jnp.zeros(NUM)
        found = train(
            algorithm,
            loss,
            jnp.zeros(5),
            *rows,
            key=jax.random.key(3),
            evaluate=lambda weights: {"weights": weights},
            every=1,
        )
        return -np.diff(np.asarray(found.records["weights"], float), axis=0)

    fresh = increments(noise=None)
    sensitivity = BufferedToeplitzNoise(SCALES, DECAYS).sensitivity(STEPS)
    np.testing.assert_allclose(increments(), sensitivity * inverse_matrix() @ fresh, atol=2e-6)


def test_one_pass_costs_what_one_step_of_independent_noise_does():
    algorithm = correlated()
    cost = jaxdp.account(algorithm, delta=1e-5)
    assert cost.mu == 2 / NOISE
    assert cost.adjacency == "replace-one"
    assert jaxdp.account(correlated(noise=None), delta=1e-5).mu == cost.mu
    calibrated = jaxdp.PrivateOptimiser.calibrated(
        optax.sgd,
        1.0,
        1e-5,
        learning_rate=RATE,
        clip_norm=CLIP,
        num_steps=STEPS,
        sampler=EPOCH,
        noise=BufferedToeplitzNoise(SCALES, DECAYS),
    )
    assert 0.999 < jaxdp.account(calibrated, delta=1e-5).epsilon <= 1.0


@pytest.mark.parametrize("scale", [1.0, pytest.param(1.5, id="a third less noise")])
def test_the_best_test_between_neighbours_reaches_the_price_and_not_more(scale):
    # One record's gradient turns from -C to C in step i: what is released is C^{-1} (C G + s z).
    rng, num_trials = np.random.default_rng(0), 20_000
    matrix, spread = np.linalg.inv(inverse_matrix()), NOISE * CLIP / scale
    sensitivity = BufferedToeplitzNoise(SCALES, DECAYS).sensitivity(STEPS)
    # The column of a later step is shorter: the first one is the worst.
    for step, is_worst in ((0, True), (STEPS - 1, False)):
        signal = 2 * CLIP * np.eye(STEPS)[step]
        noise = spread * sensitivity * rng.standard_normal((num_trials, STEPS)) @ inverse_matrix().T
        column = matrix[:, step]
        scores = [(released @ matrix.T) @ column for released in (noise, noise + signal)]
        shift = (scores[1].mean() - scores[0].mean()) / scores[0].std(ddof=1)
        error = np.sqrt((2 + shift**2 / 2) / num_trials) * norm.isf(FALSE_ALARM / 2)
        # Of no step is it more.
        assert scale > 1 or shift < 2 / NOISE + error
        is_close = abs(shift - 2 / NOISE) < error
        assert is_close == (is_worst and scale == 1.0)


@pytest.mark.parametrize(
    "change", [dict(num_steps=STEPS + 1), dict(sampler=PoissonSampler(NUM, 0.1))]
)
def test_nothing_is_claimed_where_a_record_may_be_in_several_batches(change):
    algorithm = correlated(**change)
    with pytest.raises(jaxdp.NotCoveredError, match="in one batch at most"):
        jaxdp.account(algorithm, delta=1e-5)


def test_states_and_sums_belong_to_one_kind_of_noise():
    total = jnp.zeros(3)
    buffered, independent = correlated(), correlated(noise=None)
    other = correlated(noise=BufferedToeplitzNoise([0.1], [0.5]))
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="expected the buffers of this noise"):
        buffered.noisy_sum(total, 0, key=key)
    with pytest.raises(ValueError, match="expected the buffers of this noise"):
        buffered.update(total, total, other.init(total), key=key)
    with pytest.raises(ValueError, match="expected no buffers"):
        independent.update(total, total, buffered.init(total), key=key)
    secret = correlated(noise=SecretNoise())
    with pytest.raises(ValueError, match="expected no buffers"):
        secret.noisy_sum(total, 0, key=key, buffers=buffered.init(total).buffers)
    with pytest.raises(TypeError, match="SecretNoise"):
        correlated(noise=0.1)
    assert isinstance(correlated(noise=SecretNoise()).noise, SecretNoise)


def numpy_risks(num_runs, inverse, seed=5):
    """Test errors of one pass of clipped descent with dense noise, each run in its own order."""
    features, labels = _rows()
    rng = np.random.default_rng(seed)
    sensitivity = np.linalg.norm(np.linalg.inv(inverse), axis=0).max()
    orders = rng.permuted(np.tile(np.arange(NUM), (num_runs, 1)), axis=1)
    noise = NOISE * CLIP * sensitivity * inverse @ rng.standard_normal((num_runs, STEPS, WIDTH))
    theta = np.zeros((num_runs, WIDTH))
    for step, batch in enumerate(np.split(orders, STEPS, axis=1)):
        rows = features[batch]
        slopes = 2 * (np.einsum("rbw,rw->rb", rows, theta) - labels[batch])
        gradients = slopes[:, :, None] * rows
        lengths = np.linalg.norm(gradients, axis=2, keepdims=True)
        total = np.sum(gradients / np.maximum(1, lengths / CLIP), axis=1)
        theta = theta - RATE * (total + noise[:, step]) / batch.shape[1]
    return np.mean((theta @ features[NUM:].T - labels[NUM:]) ** 2, axis=1)


@pytest.mark.parametrize("simulator", [jaxdp.FunctionSpace(), jaxdp.Iterates()])
def test_simulated_runs_have_the_law_of_dense_noise(simulator):
    runs = jaxdp.simulate(
        cosine_rows(), correlated(), num_runs=3000, key=jax.random.key(1), simulator=simulator
    )
    risks = np.asarray(runs.final_risk)
    assert ks_2samp(risks, numpy_risks(3000, inverse_matrix())).pvalue > FALSE_ALARM
    # Without the correlation it is another law.
    assert ks_2samp(risks, numpy_risks(3000, np.eye(STEPS))).pvalue < FALSE_ALARM


def test_all_steps_have_one_scale_however_their_sums_are_made():
    # The proof asks for it: sums of few records a time round less than others.
    algorithm = correlated(sampler=ShuffledEpochs(4096, 4096), num_steps=1)
    key, total = jax.random.key(0), TwoPartSum(jnp.zeros(3), jnp.zeros(3))
    buffers = algorithm.init(jnp.zeros(3)).buffers

    def noise(**sizes):
        return np.asarray(algorithm.noisy_sum(total, 0, key=key, buffers=buffers, **sizes))

    np.testing.assert_array_equal(noise(), noise(microbatch_size=64))
    rounded = algorithm.noisy_sum(jnp.zeros(3), 0, key=key, buffers=buffers)
    np.testing.assert_array_equal(rounded, noise())


def test_what_is_not_accounted_for_is_refused_before_the_first_step():
    def loss(weights, row, label):
        raise AssertionError("asked for a gradient")

    rows = jnp.ones((NUM, 2)), jnp.ones(NUM)
    longer = correlated(num_steps=STEPS + 1)
    with pytest.raises(jaxdp.NotCoveredError, match="in one batch at most"):
        train(longer, loss, jnp.zeros(2), *rows, key=jax.random.key(0))
