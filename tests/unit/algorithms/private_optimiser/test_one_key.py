"""Where the account counts on one key for all batches of a run, a second key is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp import privacy
from jaxdp.algorithms import train
from jaxdp.privacy.batches.unamplified import AbstractUnamplifiedSampler

RECORDS, STEPS = 20, 5
DATA = np.ones((RECORDS, 2), np.float32), np.zeros(RECORDS, np.float32)
EPOCHS, ORDER = privacy.ShuffledEpochs(RECORDS, 4), privacy.FixedOrder(RECORDS, 2)
NOISES = {
    "simulated": None,
    "secret": privacy.SecretNoise(),
    "banded": privacy.BandedNoise(np.eye(STEPS) + 0.5 * np.eye(STEPS, k=-1)),
}


class InTurn(AbstractUnamplifiedSampler):
    """Batches of one's own: by turns, from a place that the key says."""

    def sample(self, step, *, key):
        start = jr.randint(key, (), 0, self.num_records) + step * self.capacity
        return (start + jnp.arange(self.capacity)) % self.num_records, jnp.ones(self.capacity, bool)

    def uses(self, num_steps):
        return -(-num_steps * self.capacity // self.num_records)

    def separation(self, num_steps):
        return self.num_records // self.capacity


def _loss(weight, x, y):
    return weight @ x


def _optimiser(sampler=EPOCHS, noise=None):
    given = {"clip_norm": 1.0, "noise_multiplier": 8.0, "num_steps": STEPS}
    return jaxdp.PrivateOptimiser(optax.sgd(1.0), **given, sampler=sampler, noise=noise)


def _steps(optimiser, keys, step=None):
    """Weights after each step, with a key for each."""
    step = step or (lambda *carry, key: optimiser.step(_loss, *carry, *DATA, key=key))
    weight, found = jnp.zeros(2), []
    state = optimiser.init(weight)
    for key in keys:
        weight, state = step(weight, state, key=key)
        found.append(np.asarray(weight))
    return np.stack(found)


def _most_batches(sampler, keys):
    counts = np.zeros(RECORDS, int)
    for step, key in enumerate(keys):
        indices, is_real = sampler.sample(step, key=key)
        counts[np.asarray(indices)[np.asarray(is_real)]] += 1
    return counts.max()


ONE = [jr.key(0)] * STEPS


def _fresh():
    return list(jr.split(jr.key(0), STEPS))


def test_with_fresh_keys_a_record_is_in_more_batches_than_are_accounted_for():
    halves = privacy.ShuffledEpochs(RECORDS, RECORDS // 2)
    kinds = (EPOCHS, STEPS), (halves, 2), (ORDER, 2), (InTurn(RECORDS, 4), STEPS)
    for sampler, steps in kinds:
        assert sampler.uses(steps) == _most_batches(sampler, ONE[:steps]) == 1
        assert _most_batches(sampler, _fresh()[:steps]) > 1
        assert sampler.needs_one_key


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "sampler", [EPOCHS, ORDER, InTurn(RECORDS, 4)], ids=["epochs", "fixed order", "ones own"]
)
def test_a_second_key_is_refused_in_a_step_and_in_an_update(sampler, noise):
    optimiser = _optimiser(sampler, NOISES[noise])
    total = jnp.ones(2)
    for call in (None, lambda *carry, key: optimiser.update(total, *carry, key=key)):
        for place in (1, STEPS - 1):
            keys = [*ONE[:place], _fresh()[1]]
            with pytest.raises(ValueError, match="expected the key of the steps before") as caught:
                _steps(optimiser, keys, call)
            assert "[" not in str(caught.value)


def test_a_traced_second_key_leaves_no_numbers():
    optimiser = _optimiser()
    step = jax.jit(lambda *carry, key: optimiser.step(_loss, *carry, *DATA, key=key))
    np.testing.assert_allclose(_steps(optimiser, ONE, step), _steps(optimiser, ONE), rtol=1e-5)
    found = _steps(optimiser, [*ONE[:2], *_fresh()[2:]], step)
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[2:]).all()

    @jax.jit
    def loop(keys):
        def body(carry, key):
            return step(*carry, key=key), None

        start = jnp.zeros(2), optimiser.init(jnp.zeros(2))
        return jax.lax.scan(body, start, keys)[0][0]

    assert np.isnan(loop(jnp.stack(_fresh()))).all()
    assert np.isfinite(loop(jnp.stack(ONE))).all()


@pytest.mark.parametrize(
    "sampler",
    [
        privacy.ShuffledEpochs(RECORDS, RECORDS),
        privacy.FixedOrder(RECORDS, 1),
        privacy.FixedSizeBatches(RECORDS, 4),
        privacy.PoissonSampler(RECORDS, 0.2),
    ],
    ids=["full", "full order", "fixed", "poisson"],
)
def test_where_every_batch_is_paid_for_each_step_may_have_its_own_key(sampler):
    for noise in (None, privacy.SecretNoise()):
        optimiser = _optimiser(sampler, noise)
        assert not sampler.needs_one_key
        assert np.isfinite(_steps(optimiser, _fresh())).all()
        assert "from one key" not in str(jaxdp.account(optimiser, delta=1e-3))


def test_a_state_that_was_stored_remembers_its_key(tmp_path):
    optimiser, file = _optimiser(noise=privacy.SecretNoise()), tmp_path / "state.eqx"
    zeros = jnp.zeros(2)
    weight, state = optimiser.step(_loss, zeros, optimiser.init(zeros), *DATA, key=jr.key(0))
    eqx.tree_serialise_leaves(file, state)
    state = eqx.tree_deserialise_leaves(file, optimiser.init(weight))
    optimiser.step(_loss, weight, state, *DATA, key=jr.key(0))
    with pytest.raises(ValueError, match="expected the key of the steps before"):
        optimiser.step(_loss, weight, state, *DATA, key=jr.key(1))
    other = _optimiser(privacy.FixedSizeBatches(RECORDS, 4)).init(weight)
    with pytest.raises(ValueError, match="got one without a key digest"):
        optimiser.step(_loss, weight, other, *DATA, key=jr.key(0))


def test_a_run_is_of_one_key_and_its_cost_says_so():
    def trained(optimiser, key):
        return train(optimiser, _loss, jnp.zeros(2), *DATA, key=key)

    for noise in (None, privacy.SecretNoise()):
        optimiser = _optimiser(noise=noise)
        run = trained(optimiser, jr.key(3))
        cost = jaxdp.account(run, delta=1e-3)
        assert cost.mu == pytest.approx(2 / 8)
        assert "are drawn from one key" in str(cost)
        # What was trained goes on with the run's key alone.
        longer = optimiser.replace(num_steps=STEPS + 1)
        longer.step(_loss, run.model, run.state, *DATA, key=jr.key(3))
        with pytest.raises(ValueError, match="expected the key of the steps before"):
            longer.step(_loss, run.model, run.state, *DATA, key=jr.key(4))
    runs = eqx.filter_vmap(lambda key: trained(_optimiser(), key).model)(jr.split(jr.key(0), 2))
    assert np.isfinite(runs).all()
    assert np.ptp(runs[:, 0]) > 0
