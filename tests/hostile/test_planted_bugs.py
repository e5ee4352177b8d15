"""Bugs that break privacy, planted one by one: each is caught by the test that bears its name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from algorithms import test_one_pass_dp_sgd
from algorithms.private_optimiser import test_optimiser
from clipping_models import cross_entropy, reference
from helpers import FALSE_ALARM, assert_mean_close
from privacy import test_noise_over_steps

import jaxdp
from jaxdp.algorithms import correlated_dp_sgd
from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.clipping import per_sample
from jaxdp.clipping.ghost import ghost_pass, ghosts
from jaxdp.clipping.ghost.ghost_pass import GhostPass
from jaxdp.clipping.ghost.ghosts import Kept
from jaxdp.clipping.ghost.weight_uses import WeightUses
from jaxdp.privacy import ShuffledEpochs, audit, budgets, square_root_strategy
from jaxdp.privacy.batches.unamplified import FixedOrder
from jaxdp.privacy.noise_over_steps import AbstractNoiseOverSteps

RECORDS, CLIP_NORM = 6, 0.5
LAYER = eqx.nn.Linear(4, 4, key=jr.key(0))
INPUTS, LABELS = 3 * jr.normal(jr.key(1), (RECORDS, 4)), jnp.arange(RECORDS) % 4


def _optimiser():
    return PrivateOptimiser(
        optax.sgd(1.0),
        clip_norm=CLIP_NORM,
        noise_multiplier=1.5,
        num_steps=2,
        sampler=ShuffledEpochs(RECORDS, RECORDS),
    )


def _clipped(layer_loss, inputs=INPUTS, **options):
    # A function of its own each time, so that nothing compiled before is used again.
    def loss(layer, x, y):
        return layer_loss(layer, x, y)

    given = loss, LAYER, inputs, LABELS
    total, norms = jaxdp.clipped_gradient_sum(*given, clip_norm=CLIP_NORM, **options)
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(total)], np.asarray(norms)


def _assert_is_reference(found, layer_loss):
    (total, norms), (wanted, wanted_norms) = (
        found,
        reference(layer_loss, LAYER, INPUTS, LABELS, CLIP_NORM),
    )
    np.testing.assert_allclose(norms, wanted_norms, rtol=2e-6)
    for leaf, expected in zip(total, wanted, strict=True):
        np.testing.assert_allclose(leaf, expected, atol=2e-6 * RECORDS * CLIP_NORM)


def test_the_audited_optimiser_keeps_its_claim():
    optimiser = _optimiser()

    def mechanism(first, key):
        weight = jnp.zeros(1)
        state = optimiser.init(weight)
        inputs = jnp.zeros((RECORDS, 1)).at[0].set(first)
        for _ in range(optimiser.num_steps):
            weight, state = optimiser.step(
                lambda weight, x, y: weight @ x, weight, state, inputs, LABELS, key=key
            )
        return weight[0]

    options = {"num_trials": 30_000, "confidence": 1 - FALSE_ALARM, "key": jr.key(7)}
    found = audit(mechanism, jnp.ones(()), -jnp.ones(()), measure="mu", **options)
    claim = jaxdp.account(optimiser, delta=1e-4).mu
    assert 0.9 * claim <= found <= claim


def test_sum_and_norms_are_those_of_float64():
    _assert_is_reference(_clipped(cross_entropy), cross_entropy)


def test_a_sum_in_microbatches_clips_each_record():
    _assert_is_reference(_clipped(cross_entropy, microbatch_size=2), cross_entropy)


def test_a_layer_used_twice_has_one_gradient():
    def twice(layer, x, y):
        return cross_entropy(lambda x: layer(jnp.tanh(layer(x))), x, y)

    _assert_is_reference(_clipped(twice), twice)


def test_a_broken_record_adds_nothing():
    total, norms = _clipped(cross_entropy, INPUTS.at[2].set(jnp.nan))
    assert np.isfinite(norms).tolist() == [True, True, False, True, True, True]
    assert all(np.isfinite(leaf).all() for leaf in total)


def test_noises_are_independent_over_steps_and_weights():
    zeros = jnp.zeros(2000), jnp.zeros(2000)
    noises = [
        leaf
        for step in (0, 1)
        for leaf in _optimiser().noisy_sum(zeros, jnp.asarray(step), key=jr.key(0))
    ]
    noises += _optimiser().noisy_sum(zeros, jnp.asarray(0), key=jr.key(1))
    off_diagonal = np.corrcoef(np.stack(noises)) - np.eye(6)
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(2000)


ONE_PASS = jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, 0.5), 1.0, 1.5, 8, batch_size=3)


def _last_iterates(sign, num_runs=20_000):
    """The first record of the first step pushes one way, all others do nothing."""

    def step(parameters, index, key):
        is_first = (index == 1) & (jnp.arange(3) == 0)
        gradients = jnp.where(is_first, 1e3 * sign, 0.0)[:, None]
        noise = ONE_PASS.noise_std(index, 1) * jr.normal(key, (1,))
        smoothness = jnp.full(3, 1e-12)
        step_size = ONE_PASS.step_size(index)
        return ONE_PASS.step(parameters, None, gradients, smoothness, step_size, noise).parameters

    parameters = jnp.zeros((num_runs, 1))
    for index in range(1, ONE_PASS.num_steps + 1):
        keys = jr.split(jr.fold_in(jr.key(3), index), num_runs)
        parameters = jax.vmap(step, (0, None, 0))(parameters, jnp.asarray(index), keys)
    return np.asarray(parameters[:, 0], np.float64)


def test_the_last_iterate_tells_neighbours_apart_by_rho():
    plus, minus = _last_iterates(1.0), _last_iterates(-1.0)
    claim = jaxdp.account(ONE_PASS, delta=1e-5).mu
    assert_mean_close(((plus - plus.mean()) / (plus - minus).mean()) ** 2, claim**-2)


def test_a_capped_step_does_not_stretch_a_distance():
    inputs = jnp.full((3, 1), 3.0)

    def after(theta):
        return ONE_PASS.step(
            theta, None, inputs * theta[None], 9 * jnp.ones(3), jnp.asarray(2.0), jnp.zeros(1)
        ).parameters

    assert abs(float((after(jnp.full(1, 0.01)) - after(jnp.zeros(1)))[0])) <= 0.01 * (1 + 1e-5)


def test_correlated_noise_covers_a_record_in_every_step():
    count, batch, rho, scale = 3, 4, 1.5, 0.5
    given = {"batch_size": batch, "strategy": square_root_strategy(count, 0.1)}
    algorithm = CorrelatedDPSGD(np.ones(count), scale, rho, **given)

    def moves(fresh):
        theta, made = jnp.zeros(1), []
        state = algorithm.init(theta)
        for index in range(count):
            nothing, ones = jnp.zeros((batch, 1)), jnp.ones(batch)
            noise = algorithm.noise_std(index + 1, 1) * fresh[index]
            update = algorithm.step(theta, state, nothing, ones, 1.0, noise)
            made.append((theta - update.parameters)[0])
            theta, state = update.parameters, update.state
        return np.asarray(made, np.float64)

    noise = np.stack([moves(row) for row in np.eye(count, dtype=np.float32)], axis=1)
    # How far one record moves what is released, in units of its noise, in each of the steps.
    moved = np.linalg.norm(np.linalg.inv(noise), axis=0) * 2 * scale / batch
    np.testing.assert_allclose(moved, rho, rtol=1e-5)


def _a_pass_is_calibrated():
    test_one_pass_dp_sgd.test_calibration_meets_its_target_and_wastes_nothing(1.0, 1e-5)


def _swapped(owner, name, make):
    """Plants what is made of the honest function in its place."""

    def plant(patch):
        patch.setattr(owner, name, make(getattr(owner, name)))

    return plant


def _scaled(factor):
    return lambda honest: lambda *given: factor * honest(*given)


def _std_of_sum(make):
    return _swapped(PrivateOptimiser, "nominal_std_of_sum", lambda honest: property(make))


_HALVE_THE_NOISE = _std_of_sum(lambda self: self.noise_multiplier * self.clip_norm / 2)
_USE_ONE_KEY_FOR_ALL_WEIGHTS = _swapped(
    PrivateOptimiser,
    "noisy_sum",
    lambda honest: (
        lambda self, total, step, *, key: jax.tree.map(
            lambda leaf: leaf + jr.normal(jr.fold_in(key, step), leaf.shape), total
        )
    ),
)
_USE_A_KEY_TWICE = _swapped(
    PrivateOptimiser,
    "noisy_sum",
    lambda honest: lambda self, total, step, *, key: honest(self, total, 0 * step, key=key),
)
_SKIP_ONE_RECORD = _swapped(
    GhostPass,
    "weighted_sum",
    lambda honest: (
        lambda self, measured, scale, num_blocks: honest(
            self, measured, scale.at[0].set(1), num_blocks
        )
    ),
)
_COUNT_A_LAYER_ONCE = _swapped(
    WeightUses,
    "by_weight",
    lambda honest: lambda self: {weight: uses[:1] for weight, uses in honest(self).items()},
)
_FORGET_THE_CAP = _swapped(
    OnePassDPSGD,
    "step",
    lambda honest: (
        lambda self, parameters, state, gradients, smoothness, *rest: honest(
            self, parameters, state, gradients, 0 * smoothness + 1e-12, *rest
        )
    ),
)


def _clip_the_accumulated_sum(honest):
    def clipped(function, *rest):
        def of_microbatch(batch, num_blocks):
            sums, norms = function(batch, num_blocks)
            length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(sums)))
            factor = jnp.minimum(1, CLIP_NORM / length)
            return jax.tree.map(lambda leaf: factor * leaf, sums), norms

        return honest(of_microbatch, *rest)

    return clipped


def _measure_in_bfloat16(patch):
    honest = ghosts.length

    def narrow(values):
        return honest(values.astype(jnp.bfloat16)).astype(jnp.float32)

    for module in (ghosts, ghost_pass):
        patch.setattr(module, "length", narrow)


def _one_pass_std(make):
    return _swapped(OnePassDPSGD, "noise_std", make)


# By the test that catches them: bugs, and how each is planted.
CAUGHT = {
    test_optimiser.test_the_noise_on_sum_and_mean_is_as_named: {
        "noise halved": _HALVE_THE_NOISE,
        "mean's noise on a sum": _std_of_sum(
            lambda self: self.noise_multiplier * self.clip_norm / self.sampler.expected_batch_size
        ),
    },
    test_the_audited_optimiser_keeps_its_claim: {"noise halved, audited": _HALVE_THE_NOISE},
    test_the_last_iterate_tells_neighbours_apart_by_rho: {
        "one pass: one step without noise": _one_pass_std(
            lambda honest: lambda self, step, dim: jnp.where(step == 3, 0, honest(self, step, dim))
        ),
        # The noise of step k from the drop before it in place of the drop after it.
        "one pass: noise of the step before": _one_pass_std(
            lambda honest: lambda self, step, dim: honest(self, step - 1, dim)
        ),
        "one pass: noise for other neighbours": _one_pass_std(_scaled(1 / 2)),
    },
    _a_pass_is_calibrated: {
        "one pass: rho 7 % too large": _swapped(budgets, "gaussian_mu", _scaled(1.07))
    },
    test_a_capped_step_does_not_stretch_a_distance: {"one pass: no cap": _FORGET_THE_CAP},
    test_correlated_noise_covers_a_record_in_every_step: {
        "correlated noise: a third too little": _swapped(
            correlated_dp_sgd, "noise_mixing", _scaled(2 / 3)
        ),
        "correlated noise: for other neighbours": _swapped(
            CorrelatedDPSGD, "noise_std", _scaled(1 / 2)
        ),
        "correlated noise: of the turned strategy": _swapped(
            correlated_dp_sgd,
            "noise_mixing",
            lambda honest: lambda *given: honest(*given)[::-1, ::-1].T,
        ),
    },
    test_noise_over_steps.test_the_best_test_reaches_the_price_of_secret_noise_too: {
        "banded noise: too little by the root of 2": _swapped(
            AbstractNoiseOverSteps, "sensitivity", _scaled(0.5**0.5)
        ),
        "banded noise: of the columns' first entries": _swapped(
            AbstractNoiseOverSteps, "squares", lambda honest: lambda self, n: self.stds[:n] ** -2
        ),
        "banded noise: nothing is taken back": _swapped(
            AbstractNoiseOverSteps, "taken_back", _scaled(0)
        ),
        "epochs: charged for as one": _swapped(
            FixedOrder, "uses", lambda honest: lambda self, n: 1
        ),
        "epochs: charged for the steps of one": _swapped(
            FixedOrder, "uses", lambda honest: lambda self, n: self.num_batches
        ),
    },
    test_sum_and_norms_are_those_of_float64: {
        "clip skipped for one record": _SKIP_ONE_RECORD,
        "norms in bfloat16": _measure_in_bfloat16,
        "norms without the bias": _swapped(
            Kept, "norms", lambda honest: lambda self, held: honest(self, held) * (held.ndim != 2)
        ),
    },
    test_a_sum_in_microbatches_clips_each_record: {
        "accumulation clips the sum": _swapped(
            per_sample, "in_microbatches", _clip_the_accumulated_sum
        )
    },
    test_a_broken_record_adds_nothing: {
        "NaN record passed through": _swapped(
            ghost_pass, "_only", lambda honest: lambda keep, values: values
        )
    },
    test_noises_are_independent_over_steps_and_weights: {
        "key used twice": _USE_A_KEY_TWICE,
        "key shared by weights": _USE_ONE_KEY_FOR_ALL_WEIGHTS,
    },
    test_a_layer_used_twice_has_one_gradient: {
        "layer used twice counted once": _COUNT_A_LAYER_ONCE
    },
}
PLANTED = {bug: (plant, test) for test, plants in CAUGHT.items() for bug, plant in plants.items()}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    plant, caught_by = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        caught_by()
