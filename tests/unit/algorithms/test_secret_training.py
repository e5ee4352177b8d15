"""Private training with secret noise: its law, its low bits, what it refuses and what it states."""

import contextlib
import functools
import math

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import assert_mean_close, assert_variance, give_noise
from scipy.special import erfinv, ndtr

import jaxdp
from jaxdp.algorithms import AdaptiveClip, train
from jaxdp.algorithms.private_optimiser.noise import LARGEST_NORMAL, least_delta
from jaxdp.clipping import TwoPartSum, sensitivity_excess
from jaxdp.privacy import PoissonSampler, SecretNoise, ShuffledEpochs, gaussian_epsilon, secret_key
from jaxdp.privacy.secret.secret_noise import grid_unit, widened_for_grid

RECORDS, DIM = 16, 5
SEEDED = SecretNoise(2**200 + 1)
INPUTS = np.random.default_rng(0).normal(size=(RECORDS, DIM)).astype(np.float32)
LABELS = np.sin(INPUTS[:, 0])


def squared_loss(model, x, y):
    return (model["weight"] @ x + model["bias"] - y) ** 2


MODEL = {"weight": jnp.zeros(DIM), "bias": jnp.zeros(())}


_optimiser = functools.partial(
    jaxdp.PrivateOptimiser,
    optax.sgd(0.1, momentum=0.9),
    clip_norm=0.5,
    noise_multiplier=2.0,
    num_steps=3,
    sampler=ShuffledEpochs(RECORDS, RECORDS),
    noise=SEEDED,
)


def _trained(optimiser, key=None, **options):
    key = jr.key(0) if key is None else key
    return train(optimiser, squared_loss, MODEL, INPUTS, LABELS, key=key, **options)


def test_without_the_noise_the_steps_are_those_of_simulated_training(monkeypatch):
    give_noise(monkeypatch, lambda purpose, count: np.zeros(count))
    for sampler in (ShuffledEpochs(RECORDS, 4), PoissonSampler(RECORDS, 1.0)):
        secret = _trained(_optimiser(sampler=sampler))
        plain = _trained(_optimiser(sampler=sampler, noise=None, noise_multiplier=0.0))
        chex.assert_trees_all_close(secret.model, plain.model, rtol=1e-6)
        assert secret.state.num_released == 3


def test_the_noise_is_that_of_the_bound_on_the_sums_and_of_their_grid():
    optimiser = _optimiser(noise_multiplier=3.0)
    zeros = {"weight": jnp.zeros((60, 50)), "bias": jnp.zeros(3000)}
    excess = sensitivity_excess(RECORDS, 6000)
    noisy = optimiser.noisy_sum(TwoPartSum(zeros, zeros), 0, key=jr.key(0))
    std = widened_for_grid(1.5 * (1 + excess), 3.0, 6000)
    assert 1.5 < std < 1.501
    for leaf in jax.tree.leaves(noisy):
        assert leaf.dtype == np.float64
        assert_variance(np.ravel(leaf), std**2)
        with pytest.raises(AssertionError):
            assert_variance(np.ravel(leaf), (std / 1.33) ** 2)
        steps = leaf / grid_unit(std)
        np.testing.assert_array_equal(steps, np.rint(steps))


@pytest.mark.parametrize(("records", "multiplier"), [(16, 1.0), (300, 0.7), (4096, 40.0)])
def test_the_noise_covers_the_rounding_of_the_sums_and_of_the_grid(
    records, multiplier, monkeypatch
):
    drawn = []

    def noisy_integers(self, values, std, purpose):
        drawn.append(std)
        return np.asarray(values, np.int64)

    monkeypatch.setattr(SecretNoise, "noisy_integers", noisy_integers)
    # One record more or less moves the sum by C, and by a unit its rounding.
    sampler = PoissonSampler(records, 1.0, capacity=records)
    optimiser = _optimiser(noise_multiplier=multiplier, sampler=sampler)
    part = TwoPartSum(jnp.full(1000, 0.1), jnp.zeros(1000))
    released = optimiser.noisy_sum(part, 0, key=jr.key(0))
    # The unit is seen in what is released: every tenth is a whole number of them.
    unit = grid_unit(multiplier * 0.5)
    assert np.abs(released - np.float64(np.float32(0.1))).max() <= unit / 2
    moved = 0.5 * (1 + sensitivity_excess(records, 1000)) + math.sqrt(1000) * unit
    assert drawn[0] * unit >= multiplier * moved


def test_the_noise_covers_sums_over_devices_and_rounded_ones():
    optimiser = _optimiser(sampler=ShuffledEpochs(4096, 4096), noise_multiplier=1.0)
    part = TwoPartSum(jnp.zeros(5000), jnp.zeros(5000))
    plain = optimiser.noisy_sum(part, 0, key=jr.key(0))
    several = optimiser.noisy_sum(part, 0, key=jr.key(0), num_devices=8)
    rounded = optimiser.noisy_sum(part.high, 0, key=jr.key(0))
    shorter = optimiser.noisy_sum(part, 0, key=jr.key(0), microbatch_size=64)
    # One seed hides other noise for other deviations; these differ by parts in a hundred.
    assert len({float(noisy[0]) for noisy in (plain, several, rounded, shorter)}) == 4
    with pytest.raises(ValueError, match="expected batches whose rounding is bounded"):
        _optimiser(sampler=ShuffledEpochs(2**24, 2**24)).noisy_sum(part, 0, key=jr.key(0))


def test_no_two_noises_and_no_two_batches_are_alike():
    optimiser = _optimiser(sampler=PoissonSampler(4000, 0.5))
    other = _optimiser(noise=SecretNoise(2**201))
    zeros = (jnp.zeros(1000), jnp.zeros(1000))
    noises = [
        leaf
        for made, step in ((optimiser, 0), (optimiser, 1), (other, 1))
        for leaf in made.noisy_sum(zeros, step, key=jr.key(0))
    ]
    assert np.abs(np.corrcoef(np.stack(noises)) - np.eye(6)).max() < 5 / math.sqrt(1000)
    batches = [
        optimiser.sampler.sample_secretly(step, noise=noise, key=jr.key(0))
        for step, noise in enumerate((SEEDED, SEEDED, other.noise, SecretNoise(2**202)))
    ]
    drawn = np.zeros((4, 4000))
    for row, (indices, mask) in zip(drawn, batches, strict=True):
        row[np.asarray(indices)[np.asarray(mask)]] = 1
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 5 / math.sqrt(4000)
    assert_mean_close(drawn.ravel(), 0.5)
    # The operating system's differ too: 1000 numbers agree by chance once in 10^3000 times.
    unseeded = _optimiser(noise=SecretNoise())
    first, again = (unseeded.noisy_sum(zeros[0], 0, key=jr.key(0)) for _ in range(2))
    assert not np.array_equal(first, again)
    with pytest.raises(AssertionError):
        assert_mean_close(drawn.ravel(), 0.5 / 1.33)


def _separation(optimiser, trials=40_000):
    """mu between the sums of a record clipped at +C and at -C, over all steps: a trial a weight."""
    scores = []
    for sign in (1.0, -1.0):
        part = TwoPartSum(jnp.full(trials, sign * optimiser.clip_norm), jnp.zeros(trials))
        steps = range(optimiser.num_steps)
        scores.append(sum(optimiser.noisy_sum(part, step, key=jr.key(0)) for step in steps))
    first, second = scores
    return (first.mean() - second.mean()) / np.sqrt((first.var() + second.var()) / 2)


def test_the_worst_case_reaches_the_claim_and_less_noise_exceeds_it():
    claim = jaxdp.account(_optimiser(), delta=1e-5).mu
    # Five standard errors: of a difference of means over 40,000, and of a spread over 80,000.
    error = 5 * math.sqrt(2 / 40_000 / claim**2 + 1 / 160_000)
    assert 0.9 * claim <= _separation(_optimiser()) <= claim * (1 + error)
    assert _separation(_optimiser(noise_multiplier=2.0 / 1.33)) > 1.2 * claim


# Low bits. Float32 normals are few, and so are the numbers that a sum can become with them.


def _float32_normals():
    """Every number that `jax.random.normal` gives in float32, sorted."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    unit = np.arange(2**23, dtype=np.uint32) * np.float32(2.0**-23)
    uniform = np.maximum(low, (unit * (np.float32(1) - low) + low).astype(np.float32))
    return np.unique(np.asarray(jax.jit(lambda u: jnp.sqrt(2.0) * jax.lax.erf_inv(u))(uniform)))


def _is_reached(released, total, std, normals):
    """Whether some normal takes the sum to the released number, in float32."""
    place = np.searchsorted(normals, (released - total) / std)
    near = normals[np.clip(place[:, None] + np.arange(-3, 4), 0, len(normals) - 1)]
    reached = np.float32(total) + (np.float32(std) * near).astype(np.float32)
    return (reached.astype(np.float32) == released[:, None].astype(np.float32)).any(axis=1)


def _right_guesses(noise, normals, trials):
    """How often one released weight tells a sum of .31 from one of -.19, by its last bits alone."""
    optimiser = _optimiser(noise=noise, noise_multiplier=4.0)
    std = np.float32(optimiser.nominal_std_of_sum * (1 + sensitivity_excess(RECORDS, trials)))
    sums = np.where(np.arange(trials) % 2, 0.31, -0.19).astype(np.float32)
    part = TwoPartSum(jnp.asarray(sums), jnp.zeros(trials))
    released = np.asarray(optimiser.noisy_sum(part, 0, key=jr.key(1)), np.float32)
    first, second = (
        _is_reached(released, np.float32(total), std, normals) for total in (-0.19, 0.31)
    )
    coins = np.random.default_rng(0).integers(0, 2, trials)
    guesses = np.where(first == second, coins, second)
    return np.mean(guesses == np.arange(trials) % 2)


def test_the_last_bits_of_one_weight_betray_simulated_noise_and_not_secret_noise():
    normals, trials = _float32_normals(), 4000
    assert 5.4 < -normals[0] <= LARGEST_NORMAL
    # The distance of the sums is a quarter of the noise's deviation: Phi(.125) by size alone.
    allowed = ndtr(0.125)
    error = 5 * 0.5 / math.sqrt(trials)
    assert _right_guesses(None, normals, trials) > allowed + error
    assert _right_guesses(SEEDED, normals, trials) < allowed + error


# The tail.


def test_a_cost_says_what_the_tail_of_float32_betrays_and_secret_noise_has_none():
    for sampler, shift, rate in (
        (PoissonSampler(1000, 0.25), 1.0, 0.25),
        (PoissonSampler(1000, 1.0), 1.0, 1.0),
        (ShuffledEpochs(1000, 10), 2.0, 1.0),
    ):
        multiplier = 1.37
        expected = rate * (ndtr(shift / multiplier - 5.42) - ndtr(-5.42))
        assert least_delta(multiplier, sampler) == pytest.approx(expected, rel=1e-9)
        settings = {"noise_multiplier": multiplier, "sampler": sampler, "num_steps": 3}
        made = _optimiser(**settings, noise=None), _optimiser(**settings)
        simulated, certified = (jaxdp.account(one, delta=1e-3 * expected) for one in made)
        assert (simulated.is_certified, certified.is_certified) == (False, True)
        assert simulated.epsilon == certified.epsilon > 0
        assert f"up to {3 * expected:.1e} over all steps" in str(simulated)
        assert "over all steps" not in str(certified)


def test_the_floor_is_what_the_ends_of_the_noise_give_away():
    """A record moves a coordinate by s deviations: beyond the end it is there for certain."""
    multiplier, sampler = 0.4, PoissonSampler(10, 1.0)
    # Some 2,600 lie beyond, and a third more or fewer are 12 standard errors off.
    uniform = np.random.default_rng(0).uniform(-1, 1, 1_500_000)
    noise = np.clip(math.sqrt(2) * erfinv(uniform), -LARGEST_NORMAL, LARGEST_NORMAL)
    beyond = noise + 1 / multiplier > LARGEST_NORMAL
    floor = least_delta(multiplier, sampler)
    assert_mean_close(beyond, floor)
    with pytest.raises(AssertionError):
        assert_mean_close(beyond, floor / 1.33)


def test_no_noise_and_noise_that_is_traced_have_no_floor():
    def cost(multiplier):
        return jaxdp.account(_optimiser(noise=None, noise_multiplier=multiplier), delta=1e-9)

    assert least_delta(0.0, ShuffledEpochs(10, 10)) == 0.0
    assert cost(0.0).epsilon == math.inf
    assert jax.jit(lambda multiplier: cost(multiplier).mu)(2.0) == pytest.approx(math.sqrt(3))


def test_a_sum_that_is_no_number_is_released_like_any_other():
    """Nothing that a record does ends in an error."""
    optimiser = _optimiser(sampler=ShuffledEpochs(RECORDS, RECORDS))
    for broken in (jnp.nan, jnp.inf, -jnp.inf, 3e38):
        part = TwoPartSum(jnp.asarray([broken, 1.0]), jnp.zeros(2))
        noisy = optimiser.noisy_sum(part, 0, key=jr.key(0))
        assert np.isfinite(noisy).all()
        assert np.abs(noisy).max() < 0.5 * RECORDS * 1.1 + 10


@contextlib.contextmanager
def _trapped(name):
    """Numbers that are not finite, or overflow, raise an error."""
    if name == "numpy":
        with np.errstate(all="raise"):
            yield
    else:
        before = getattr(jax.config, name)
        jax.config.update(name, True)
        try:
            yield
        finally:
            jax.config.update(name, before)


@pytest.mark.parametrize("trap", ["jax_debug_nans", "jax_debug_infs", "numpy"])
@pytest.mark.parametrize("clip", [0.5, AdaptiveClip(0.5, count_noise=4.0, learning_rate=1e4)])
def test_no_number_ends_a_step_that_could_be_made_again_with_fresh_noise(clip, trap):
    """A step that raises has not been counted, and errors would choose among runs."""
    for rate in (jnp.nan, 3e38):
        late = optax.scale_by_schedule(lambda step, rate=rate: jnp.where(step < 0, 1.0, rate))
        optimiser = _optimiser(clip_norm=clip, noise=SecretNoise())
        optimiser = optimiser.replace(optimiser=optax.chain(late, late))
        model, state, inputs = MODEL, optimiser.init(MODEL), INPUTS.copy()
        inputs[3] = 3e38
        with _trapped(trap):
            for _ in range(2):
                given = squared_loss, model, state, inputs, LABELS
                model, state = optimiser.step(*given, key=jr.key(0))
        assert int(state.num_released) == 2
        assert not np.isfinite(model["weight"]).all()


# What is stated.


def test_a_release_says_whether_its_noise_is_certified_and_what_its_key_is():
    def lines(thing):
        return " ".join(thing.release().assumptions)

    made = _trained(_optimiser(noise=None), key=jr.key(5))
    cost = jaxdp.account(made, delta=1e-3)
    assert "simulated noise" in str(cost).splitlines()[0]
    assert not cost.is_certified
    assert "made from an integer below 2^32" in lines(made)
    assert "at most 64 bits" in lines(_trained(_optimiser(noise=None), key=secret_key()))
    assert "secret_key()" in lines(_optimiser(noise=None))
    found = _trained(_optimiser(noise=SecretNoise()))
    certified = jaxdp.account(found, delta=1e-9)
    assert "certified noise" in str(certified).splitlines()[0]
    assert (certified.is_certified, certified.mu) == (True, cost.mu)
    assert certified.epsilon == gaussian_epsilon(certified.mu, 1e-9)
    assert "made from an integer" not in lines(found)
    guessable = jaxdp.account(_optimiser(noise=SecretNoise(7)), delta=1e-5)
    assert (guessable.epsilon, guessable.is_certified) == (math.inf, False)


def test_a_run_without_privacy_has_no_release():
    run = _trained(jaxdp.algorithms.NonPrivateOptimiser(optax.sgd(0.1), 2))
    with pytest.raises(TypeError, match="without privacy"):
        jaxdp.account(run, delta=1e-5)


# Copies.


def _batch(optimiser):
    return optimiser.sampler.sample_secretly(0, noise=optimiser.noise, key=jr.key(0))[0]


def test_a_copy_never_repeats_the_batches_of_a_secret_seed_unasked():
    optimiser = _optimiser(sampler=PoissonSampler(400, 0.5))
    with pytest.raises(ValueError, match=r"expected noise= in replace: .* secret seed"):
        optimiser.replace(num_steps=5)
    for noise in (SecretNoise(), SecretNoise(2**201)):
        copy = optimiser.replace(num_steps=5, noise=noise)
        assert copy.num_steps == 5
        assert not np.array_equal(_batch(copy), _batch(optimiser))
    # What was refused: the seed's batches do not see the other arguments.
    again = optimiser.replace(num_steps=5, noise=SEEDED)
    np.testing.assert_array_equal(_batch(again), _batch(optimiser))


# Wrong calls.


def test_secret_noise_is_not_drawn_under_jit():
    optimiser, state = _optimiser(), _optimiser().init(MODEL)

    def step(model):
        return optimiser.step(squared_loss, model, state, INPUTS, LABELS, key=jr.key(0))

    def update(total):
        return optimiser.update(total, MODEL, state, key=jr.key(0))

    # Else all runs of a batch would share one noise.
    several = eqx.filter_vmap(lambda key: _trained(optimiser, key=key).model)
    keys = jr.split(jr.key(0), 2)
    for call, given in (
        (eqx.filter_jit(step), MODEL),
        (eqx.filter_jit(update), MODEL),
        (several, keys),
    ):
        with pytest.raises(ValueError, match="outside jit, vmap and grad"):
            call(given)


@pytest.mark.parametrize("multiplier", [1e-9, 1e-12, 1e-200])
def test_noise_of_any_size_leaves_the_sums_what_they_are(multiplier):
    # At 1e-12 the sums are 2^70 units of the noise's grid, and 64 bits do not hold them.
    total = TwoPartSum(jnp.asarray([7.5, -7.5, 0.0]), jnp.asarray([0.0, 2.0**-40, 0.0]))
    noisy = _optimiser(noise_multiplier=multiplier).noisy_sum(total, 0, key=jr.key(0))
    expected = np.asarray([7.5, -7.5 + 2.0**-40, 0.0])
    np.testing.assert_allclose(noisy, expected, rtol=0, atol=20 * multiplier + 1e-15)


def test_noise_that_no_grid_has_is_refused():
    for multiplier in (1e-280, 1e30):
        with pytest.raises(ValueError, match=r"secret noise, in \[2\^-800, 2\^28\]"):
            _optimiser(noise_multiplier=multiplier)
    with pytest.raises(ValueError, match="standard deviation in"):
        grid_unit(1e-280)
    with pytest.raises(ValueError, match="expected a noise_multiplier below"):
        widened_for_grid(1.0, 1e9, 100)
