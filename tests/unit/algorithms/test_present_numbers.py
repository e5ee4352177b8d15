"""A cost is that of the numbers which a description has, however they came into it."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp import privacy
from jaxdp.algorithms import AdaptiveClip, train
from jaxdp.algorithms.base import Length
from jaxdp.core.numerics.precision import x64
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.mechanisms import ZeroConcentrated
from jaxdp.schedules.callables import Plain

DELTA = 1e-4


def _mu(thing):
    return jaxdp.account(thing, delta=DELTA).mu


def _taken_out(make, *numbers):
    """The second of three descriptions that `vmap` over their constructor made."""
    batch = jax.vmap(make)(*(jnp.stack([jnp.asarray(x, float)] * 3) for x in numbers))
    return jax.tree.map(lambda leaf: leaf[1], batch)


def _one_pass(rate, **changes):
    return jaxdp.OnePassDPSGD(rate, **{"clip_scale": 1.0, "rho": 0.7, "num_steps": 50} | changes)


def _descent(**changes):
    given = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50, "noise_scale": 2.0}
    return jaxdp.DPGD(**given | changes)


def _correlated(strategy, **changes):
    given = {"clip_scale": 0.5, "rho": 1.5, "batch_size": 10}
    return jaxdp.CorrelatedDPSGD(np.ones(len(strategy)), strategy=strategy, **given | changes)


def _optimiser(**changes):
    given = {"optimiser": optax.sgd(1.0), "clip_norm": 1.0}
    given |= {"noise_multiplier": 4.0, "num_steps": 20}
    given |= {
        "sampler": privacy.ShuffledEpochs(20, 1),
        "noise": privacy.BandedNoise(np.eye(20) + 0.5 * np.eye(20, k=-1)),
    }
    return jaxdp.PrivateOptimiser(**given | changes)


def _set(where, thing, value):
    def is_leaf(node):
        return isinstance(node, (Length, privacy.PoissonSampler))

    return eqx.tree_at(where, thing, value, is_leaf=is_leaf)


def _forged(**fields):
    """A sampler with a field that no constructor has seen."""
    sampler = privacy.PoissonSampler(20, 0.5)
    for name, value in fields.items():
        object.__setattr__(sampler, name, value)
    return sampler


PIECES = [0.0, 0.5, 1.0]
STRATEGY = privacy.square_root_strategy(4, 0.2)
LOST = np.tril(np.ones((40, 40)), -1) + 1e-3 * np.eye(40)

# What a constructor refuses where it can look: makers of one description, and its numbers.
OUT_OF_RANGE = {
    "a rise": (lambda v: _one_pass(jaxdp.PiecewiseLinear(PIECES, v)), [1.0, 2.0, 3.0]),
    "a negative power": (lambda p: _one_pass(jaxdp.Polynomial(1.0, power=p)), -0.5),
    "a negative knee": (lambda k: _one_pass(jaxdp.Hyperbolic(1.0, knee=k)), -2.0),
    "a negative rho": (lambda r: _one_pass(1.0, rho=r), -1.0),
    "no clip": (lambda c: _one_pass(1.0, clip_scale=c), np.inf),
    "descent: rate": (lambda r: _descent(learning_rate=r), -0.02),
    "descent: clip": (lambda c: _descent(clip_norm=c), np.inf),
    "descent: noise": (lambda s: _descent(noise_scale=s), -2.0),
    "correlated: rho": (lambda r: _correlated(STRATEGY, rho=r), -1.5),
    "correlated: long columns": (_correlated, 1.1 * STRATEGY),
    "correlated: above the diagonal": (_correlated, STRATEGY.T),
    "correlated: negative": (_correlated, -np.eye(4)),
    "correlated: singular": (_correlated, np.tril(np.ones((4, 4)), -1) / 2 + 1e-20 * np.eye(4)),
    # Its inverse has no digits left.
    "correlated: nearly singular": (_correlated, LOST / np.linalg.norm(LOST, axis=0)),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_what_a_constructor_would_refuse_costs_infinity_traced_and_taken_out(name):
    make, numbers = OUT_OF_RANGE[name]
    with pytest.raises(ValueError, match="expected"):
        make(np.asarray(numbers, float))
    assert jax.jit(lambda x: _mu(make(x)))(jnp.asarray(numbers, float)) == np.inf
    taken = _taken_out(make, numbers)
    assert (_mu(taken), jaxdp.account(taken, delta=DELTA).epsilon) == (np.inf, np.inf)


IN_RANGE = {
    "one pass": (lambda v: _one_pass(jaxdp.PiecewiseLinear(PIECES, v)), [3.0, 2.0, 2.0], 0.7),
    "constant": (lambda r: _one_pass(1.0, rho=r), 0.5, 0.5),
    "no noise": (lambda r: _one_pass(1.0, clip_scale=np.inf, rho=r), np.inf, np.inf),
    "descent": (lambda r: _descent(learning_rate=r), 0.02, 0.5),
    "correlated": (_correlated, STRATEGY, 1.5),
    "optimiser": (lambda z: _optimiser(noise_multiplier=z), 5.0, 0.4),
}


@pytest.mark.parametrize("name", IN_RANGE)
def test_what_it_would_take_costs_the_same_however_it_was_made(name):
    make, numbers, mu = IN_RANGE[name]
    for thing in (make(np.asarray(numbers, float)), _taken_out(make, numbers)):
        assert _mu(thing) == pytest.approx(mu, rel=1e-6)
    assert float(jax.jit(lambda x: _mu(make(x)))(jnp.asarray(numbers, float))) == pytest.approx(mu)


SET = {
    "rate": (_one_pass(3.0), lambda a: a.learning_rate.value, -1.0),
    "values": (
        _one_pass(jaxdp.PiecewiseLinear(PIECES, [3.0, 2.0, 1.0])),
        lambda a: a.learning_rate.values,
        jnp.asarray([3.0, 1.0, 2.0]),
    ),
    "rho": (_one_pass(3.0), lambda a: a.rho, -1.0),
    "clip": (_one_pass(3.0), lambda a: a.clip.scale, jnp.inf),
    "descent's rate": (_descent(), lambda a: a.learning_rate, jnp.nan),
    "descent's clip": (_descent(), lambda a: a.clip_norm, jnp.inf),
    "mixing": (_correlated(STRATEGY), lambda a: a._mixing, 0 * STRATEGY),
}


@pytest.mark.parametrize("name", SET)
def test_a_number_out_of_its_range_that_is_set_costs_infinity(name):
    thing, where, number = SET[name]
    assert _mu(thing) < np.inf
    assert _mu(eqx.tree_at(where, thing, jnp.asarray(number))) == np.inf


@pytest.mark.filterwarnings("ignore:the learning rate only goes")
@pytest.mark.parametrize("rise", [9e-6, 6e-7])
@pytest.mark.parametrize("num_steps", [10, 1000])
def test_a_callable_that_rises_by_more_than_its_rounding_is_refused(rise, num_steps):
    for rate in (lambda t: 1 + rise * t, lambda t: 1 + rise * (t > 0.65)):
        with pytest.raises(ValueError, match="expected a non-increasing learning rate"):
            _one_pass(rate, num_steps=num_steps)


def test_a_rise_of_small_rates_is_one_beside_large_rates_too():
    with pytest.raises(ValueError, match="expected a non-increasing learning rate"):
        _one_pass(lambda t: jnp.where(t < 0.5, 1.0, jnp.where(t < 0.75, 1e-6, 1.01e-6)))


@pytest.mark.filterwarnings("ignore:the learning rate only goes")
def test_rounding_is_that_of_the_rates_type_and_leaves_no_step_without_noise():
    with x64():
        for rise in (1e-7, 1e-14):
            with pytest.raises(ValueError, match="expected a non-increasing learning rate"):
                _one_pass(Plain(lambda t, rise=rise: 1 + rise * t))
    # Two units of float32 up and down from step to step, as a function that rounds has them.
    algorithm = _one_pass(lambda t: 1 + 2.4e-7 * (jnp.floor(100 * t) % 2), num_steps=100)
    stds = np.asarray(algorithm.noise_std(jnp.arange(1, 101), 4), np.float64)
    assert np.isfinite(stds).all()
    # No record has less noise after its step than it is charged for.
    rates = np.asarray(algorithm.learning_rate.at_step(jnp.arange(1, 101), 100), np.float64)
    after = np.sqrt(np.cumsum(stds[::-1] ** 2)[::-1])
    assert np.all(2 * np.sqrt(4) * rates / 100 <= 0.7 * after * (1 + 1e-6))


@pytest.mark.filterwarnings("ignore:the learning rate only goes")
@pytest.mark.parametrize("num_steps", [7, 4000])
def test_what_falls_steeply_is_taken_with_the_rounding_of_its_terms(num_steps):
    knots, values = np.array([0.0, 0.3, 0.57, 1.0]), np.array([3.0, 2.9999, 1e-3, 9e-4])
    pieces = jaxdp.PiecewiseLinear(knots, values)
    for rate in (pieces, lambda t: jnp.interp(t, jnp.asarray(knots), jnp.asarray(values))):
        algorithm = _one_pass(rate, num_steps=num_steps)
        assert _mu(algorithm) == pytest.approx(0.7)
        assert np.isfinite(algorithm.noise_std(jnp.arange(1, num_steps + 1), 4)).all()
    made = jax.jit(lambda v: _mu(_one_pass(jaxdp.PiecewiseLinear(knots, v), num_steps=num_steps)))
    assert float(made(jnp.asarray(values))) == pytest.approx(0.7)


def test_a_mixing_that_is_set_costs_what_its_noise_hides():
    algorithm = _correlated(STRATEGY)
    less = eqx.tree_at(lambda a: a._mixing, algorithm, algorithm.mixing / 3)
    assert _mu(less) == pytest.approx(3 * 1.5, rel=1e-6)
    assert _mu(eqx.tree_at(lambda a: a._mixing, algorithm, 3 * algorithm.mixing)) == 1.5


def _exact_inverse(lower):
    """The columns of the inverse of a lower triangular matrix, by exact substitution."""
    rows = [[Fraction(float(x)) for x in row] for row in lower]
    columns = []
    for place in range(len(rows)):
        column = []
        for row, numbers in enumerate(rows):
            known = sum((a * b for a, b in zip(numbers, column, strict=False)), Fraction(0))
            column.append(((row == place) - known) / numbers[row])
        columns.append([float(x) for x in column])
    return columns


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-6])
def test_a_traced_strategy_costs_at_least_what_its_inverse_as_rounded_does(smallest):
    strategy = np.tril(np.ones((6, 6)), -1) + smallest * np.eye(6)
    strategy /= np.linalg.norm(strategy, axis=0)
    traced = float(jax.jit(lambda s: _mu(_correlated(s)))(jnp.asarray(strategy)))
    mixing = np.asarray(jax.jit(_correlated)(jnp.asarray(strategy)).mixing, np.float64)
    columns = _exact_inverse(mixing) if np.isfinite(mixing).all() else [[np.inf]]
    assert traced >= 1.5 * max(map(np.linalg.norm, columns)) * (1 - 1e-6)
    # Well conditioned, it costs rho and no more.
    if smallest == 1:
        assert traced == 1.5


@pytest.mark.parametrize(
    ("where", "number"),
    [
        (lambda o: o.noise.ratios, np.full((20, 1), 1025.0)),
        (lambda o: o.noise.stds, np.full(20, np.inf)),
        (lambda o: o.noise, privacy.ScheduledNoise(np.ones(19))),
    ],
)
def test_noise_over_the_steps_that_a_constructor_would_refuse_has_no_cost(where, number):
    with pytest.raises(ValueError, match=r"^expected .*(noise|strategy|diagonal)"):
        _mu(eqx.tree_at(where, _optimiser(), number))


@pytest.mark.parametrize("noise", [None, privacy.SecretNoise()], ids=["simulated", "secret"])
def test_independent_noise_that_is_multiplied_by_less_costs_more(noise):
    optimiser = _optimiser(noise=noise)
    for number, mu in ((0.25, 2.0), (1.0, 0.5), (3.0, 0.5)):
        changed = eqx.tree_at(lambda o: o.correlation_sensitivity, optimiser, number)
        assert changed.nominal_std_of_sum == 4 * number
        assert _mu(changed) == pytest.approx(mu)
    for number in (-1.0, np.nan):
        with pytest.raises(ValueError, match="expected noise_multiplier >= 0"):
            _mu(eqx.tree_at(lambda o: o.correlation_sensitivity, optimiser, number))


@pytest.mark.parametrize("noise", [None, privacy.SecretNoise()], ids=["simulated", "secret"])
@pytest.mark.parametrize("number", [0.0, np.nan, 2.0**61])
def test_a_clip_norm_outside_the_proof_is_not_accounted_for(noise, number):
    optimiser = _optimiser(noise=noise, sampler=privacy.PoissonSampler(20, 0.5))
    with pytest.raises(ValueError, match="expected clip_norm > 0"):
        _mu(eqx.tree_at(lambda o: o.clip_norm, optimiser, number))
    without = eqx.tree_at(lambda o: o.noise_multiplier, optimiser, 0.0)
    if noise is None:
        cost = jaxdp.account(without, delta=DELTA)
        assert (cost.epsilon, cost.is_certified) == (np.inf, False)
    else:
        with pytest.raises(ValueError, match="expected noise_multiplier > 0 with secret noise"):
            _mu(without)


def _of_noise(noise, **changes):
    given = {"noise": noise, "sampler": privacy.PoissonSampler(20, 0.5)} | changes
    return _optimiser(**given)


ADAPTIVE = {"clip_norm": AdaptiveClip(1.0, count_noise=5.0)}
AVERAGED = {"average": jaxdp.algorithms.ExponentialAverage(0.9)}
SCHEDULED = {"optimiser": optax.sgd, "learning_rate": jaxdp.Polynomial(1.0, power=1.0)}
# What is made, the field that is set, and what it is set to.
EDITS = {
    "count noise too small": (ADAPTIVE, lambda o: o.clip_norm.count_noise, 2.0),
    "count noise at the end": (ADAPTIVE, lambda o: o.noise_multiplier, 10.0),
    "no first clip": (ADAPTIVE, lambda o: o.clip_norm.initial, 0.0),
    "quantile": (ADAPTIVE, lambda o: o.clip_norm.quantile, 1.5),
    "rate of the clip": (ADAPTIVE, lambda o: o.clip_norm.learning_rate, np.nan),
    "text for a clip": (ADAPTIVE, lambda o: o.clip_norm.initial, "1"),
    "another clip": ({}, lambda o: o.clip_norm, AdaptiveClip(1.0, count_noise=1.0)),
    "clip norm": ({}, lambda o: o.clip_norm, 0.0),
    "several clip norms": ({}, lambda o: o.clip_norm, np.ones(2)),
    "multiplier": ({}, lambda o: o.noise_multiplier, np.nan),
    "decay": (AVERAGED, lambda o: o.average.decay, jnp.asarray(1.5)),
    "average": (AVERAGED, lambda o: o.average, "mean"),
    "rate": (SCHEDULED, lambda o: o.learning_rate.peak, jnp.asarray(-1.0)),
    "sampler": ({}, lambda o: o.sampler, "poisson"),
    "rate of the sampler": ({}, lambda o: o.sampler, _forged(sampling_rate=-0.5)),
    "capacity of the sampler": ({}, lambda o: o.sampler, _forged(capacity=0)),
    "length": ({}, lambda o: o._length, 0),
    "half a step": ({}, lambda o: o._length, jnp.asarray(2.5)),
}


@pytest.mark.parametrize("noise", [None, privacy.SecretNoise()], ids=["simulated", "secret"])
@pytest.mark.parametrize("name", EDITS)
def test_no_step_is_made_and_no_cost_stated_of_what_a_constructor_would_refuse(name, noise):
    changes, where, number = EDITS[name]
    made = _of_noise(noise, **changes)
    weights, rows, key = jnp.zeros(2), (jnp.ones((20, 2)), jnp.ones(20)), jax.random.key(0)
    state, wrong = made.init(weights), _set(where, made, number)

    def loss(weights, x, y):
        return (weights @ x - y) ** 2

    for call in (
        lambda: jaxdp.account(wrong, delta=DELTA),
        lambda: wrong.release(num_steps=1),
        lambda: wrong.step(loss, weights, state, *rows, key=key),
        lambda: wrong.update(weights, weights, state, key=key, count_within=jnp.zeros(())),
        lambda: wrong.noisy_sum(weights, 0, key=key),
        lambda: train(wrong, loss, weights, *rows, key=key),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^expected"):
            call()


@pytest.mark.parametrize(
    "where", [lambda o: o.clip_norm.count_noise, lambda o: o.clip_norm.initial]
)
def test_a_traced_number_that_a_constructor_would_refuse_leaves_no_weights(where):
    made, weights = _of_noise(None, **ADAPTIVE), jnp.zeros(2)

    @jax.jit
    def moved(number):
        changed = eqx.tree_at(where, made, number)
        count = jnp.zeros(())
        options = {"key": jax.random.key(0), "count_within": count}
        return changed.update(weights, weights, made.init(weights), **options)[0]

    assert np.isfinite(moved(5.0)).all()
    assert np.isnan(moved(0.0)).all()


def test_a_traced_clip_norm_of_zero_releases_no_plain_sum():
    made, total = _of_noise(None), jnp.ones(2)

    @jax.jit
    def released(clip):
        changed = eqx.tree_at(lambda o: o.clip_norm, made, clip)
        return changed.noisy_sum(total, 0, key=jax.random.key(0))

    assert np.isfinite(released(1.0)).all()
    assert np.isnan(released(0.0)).all()


@pytest.mark.parametrize("number", [jnp.asarray(2.5), jnp.asarray(0), jnp.asarray(-3)])
def test_a_number_of_steps_that_is_none_costs_infinity(number):
    for thing in (_one_pass(3.0), _descent(), _correlated(STRATEGY)):
        assert _mu(_set(lambda a: a._length, thing, number)) == np.inf
    longer = _set(lambda a: a._length, _correlated(STRATEGY), jnp.asarray(8))
    assert _mu(longer) == np.inf


def test_a_statement_is_checked_again_when_it_is_read():
    poisson = PoissonSubsampledGaussian(privacy.PoissonSampler(20, 1.0), 4.0, 20)
    release = privacy.Release("a sum", "replace-one", privacy.GaussianMechanism(1.0))
    with pytest.raises(ValueError, match="expected an adjacency for which PoissonSubsampled"):
        _mu(eqx.tree_at(lambda r: r.mechanism, release, poisson))
    # A sum would hide what one of several takes off.
    parts = privacy.Composition((ZeroConcentrated(1.0), ZeroConcentrated(2.0)))
    objective = privacy.ObjectivePerturbationMechanism(1.0, 0.1)
    for mechanism, where in (
        (poisson, lambda m: m.noise_multiplier),
        (objective, lambda m: m.log_jacobian),
        (objective, lambda m: m.shift),
        (privacy.GaussianMechanism(1.0), lambda m: m.mu),
        (parts, lambda m: m.mechanisms[0].zcdp),
    ):
        for number in (-1.0, np.nan):
            wrong = eqx.tree_at(where, mechanism, number)
            with pytest.raises(ValueError, match=">= 0, got"):
                _mu(privacy.Release("a sum", mechanism.adjacencies[-1], wrong))
