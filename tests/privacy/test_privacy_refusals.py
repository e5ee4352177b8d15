"""What the privacy room refuses, with one clear error that names the argument.

Keys, counts and things of another kind: tests/test_keys_of_public_functions.py, test_numbers.py and
test_wrong_calls.py.
"""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp import privacy
from jaxdp.privacy import (
    BufferedToeplitzNoise,
    FixedSizeBatches,
    GaussianMechanism,
    ObjectivePerturbation,
    PoissonSampler,
    Release,
    SecretNoise,
    ShuffledEpochs,
    account,
    audit,
    audit_one_run,
    calibrated_noise_multiplier,
)
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.mechanisms import ZeroConcentrated
from jaxdp.privacy.objective_perturbation import SoftmaxPerturbation
from jaxdp.privacy.secret.secret_key import key_entropy_bits
from jaxdp.privacy.strategies import check_strategy

NAN, INF, KEY = math.nan, math.inf, jr.key(0)
GAUSSIAN, SAMPLER, SCORES = GaussianMechanism(1.0), PoissonSampler(10, 0.5), np.arange(100.0)
ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), 1.0, 1.0, 100)
BATCH = jax.vmap(lambda rho: jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, rho, 10))(jnp.ones(2))
FIRST, OTHER = (Release("a sum", who, GAUSSIAN) for who in ("replace-one", "zero-out-one"))


def _noisy(shift, key):
    return shift + jr.normal(key)


def _audit(mechanism=_noisy, first=0.0, second=1.0, **changed):
    return audit(mechanism, first, second, **(dict(num_trials=100, delta=0.01, key=KEY) | changed))


def _one_run(**changed):
    return audit_one_run(SCORES[:10], SCORES[:10] > 4, **(dict(delta=0.0) | changed))


def _std(**changed):
    return privacy.gaussian_noise_std(1.0, 1e-5, **(dict(sensitivity=1.0) | changed))


def _zcdp_std(**changed):
    return privacy.zcdp_noise_std(1.0, 1e-5, **(dict(sensitivity=1.0) | changed))


def _multiplier(epsilon, sampler=SAMPLER):
    return calibrated_noise_multiplier(epsilon, 1e-5, sampler=sampler, num_steps=10)


def _secret(std):
    return SecretNoise(1).noisy_integers(np.zeros(2, np.int64), std, "sums")


def _whole(values):
    return SecretNoise(1).noisy_integers(values, 5.0, "sums")


def _strategy(matrix):
    return check_strategy(np.asarray(matrix), 2)


def _scored(first=SCORES, second=SCORES, **given):
    return audit(first, second, **({"measure": "mu"} | given))


def _sampled(sampler=SAMPLER, noise=1.0, num_steps=9):
    return PoissonSubsampledGaussian(sampler, noise, num_steps)


# A call, what it may not be given one by one, and what each error says.
VALUES = [
    (lambda mu: privacy.composed_mu(1.0, mu), [-1.0], "mu >= 0"),
    (lambda mu: privacy.gaussian_tradeoff(mu, 0.5), [-1.0], "mu >= 0"),
    (lambda rate: privacy.gaussian_tradeoff(1.0, rate), [1.2], "false-positive"),
    (GaussianMechanism, [-1.0, NAN], "mu >= 0"),
    (GaussianMechanism, [np.ones(2)], "expected mu to be a scalar"),
    (ZeroConcentrated, [-1.0, NAN], "zcdp >= 0"),
    (lambda delta: privacy.StatedBudget(1.0, delta), [0.0], "0 < delta < 1"),
    (lambda delta: account(ALGORITHM, delta=delta), [0.0], "0 < delta < 1"),
    (lambda delta: account(ALGORITHM, delta=delta), [np.ones(2) / 9], "use vmap over account"),
    (lambda thing: account(thing, delta=1e-5), [BATCH], "use vmap over account"),
    (lambda who: Release("a sum", who, GAUSSIAN), ["unbounded"], "adjacency to be one of"),
    (privacy.Composition, [()], "at least one mechanism"),
    (lambda other: privacy.compose(FIRST, other), [OTHER], "expected releases with one adjacency"),
    (lambda things: privacy.compose(*things), [()], "got none"),
    (lambda mu: ObjectivePerturbation(mu, 1.0, 1.0), [-1.0, NAN], "expected shift >= 0"),
    (lambda r: ObjectivePerturbation(1.0, r, 1.0), [-1.0, NAN], "expected log_jacobian >= 0"),
    (lambda m: ObjectivePerturbation(1.0, 1.0, m), [-1.0, NAN], "expected approximation_mu >= 0"),
    (ObjectivePerturbation(1.0, 0.1).delta, [-1.0, NAN], "expected epsilon >= 0"),
    (lambda k: SoftmaxPerturbation(0.5, 0.1, num_classes=k), [1], "num_classes"),
    (lambda mu: SoftmaxPerturbation(mu, 0.1, num_classes=3), [-1.0, NAN], "shift"),
    (lambda noise: _sampled(noise=noise), [-1.0], "noise_multiplier >= 0"),
    (lambda steps: _sampled(num_steps=steps), [0], "num_steps >= 1"),
    (_sampled, ["shuffled"], r"got shuffled: amplification .* use ShuffledEpochs"),
    (lambda rate: PoissonSampler(10, rate), [0.0, -0.1, 1.5, NAN, 1e-11], "sampling_rate"),
    (lambda batch: PoissonSampler(10, 0.5, batch), [2**31, 2**40], "fewer than 2\\^31 records"),
    (lambda batch: ShuffledEpochs(2**31 - 2, batch), [2, 3], "fewer than 2\\^31 records"),
    (lambda count: FixedSizeBatches(count, 2), [2**31, 2**33], "fewer than 2\\^31 records"),
    (_whole, [[2**62 + 1], [-(2**62) - 1], np.array([2**63], np.uint64)], "size at most 2\\^62"),
    (_whole, [[0.5], [NAN], [1.0, INF]], "expected values to be whole numbers"),
    (lambda count: PoissonSampler(count, 0.5), [2**31, 10**40], "fewer than 2\\^31 records"),
    (lambda capacity: PoissonSampler(10, 0.5, capacity), [0], "capacity >= 1"),
    (lambda kind: kind(5, 6), [ShuffledEpochs, FixedSizeBatches], "<= num_records = 5, got 6"),
    (ShuffledEpochs(5, 2).mechanism, [(1.0, 0)], "num_steps >= 1"),
    (FixedSizeBatches(5, 2).mechanism, [(1.0, 0)], "num_steps >= 1"),
    (lambda delta: privacy.gaussian_mu(1.0, delta), [5e-324, 1e-310, 9e-301], "at least 1e-300"),
    (lambda delta: privacy.gaussian_epsilon(1.0, delta), [5e-324, 9e-301], "at least 1e-300"),
    (lambda size: _std(sensitivity=size), [-1.0], "sensitivity >= 0"),
    (lambda size: _zcdp_std(sensitivity=size), [-1.0], "sensitivity >= 0"),
    (lambda number: _std(num_releases=number), [0, 1.5, NAN], "num_releases to be a whole number"),
    (lambda number: _zcdp_std(num_releases=number), [0, 1.5, NAN], "num_releases to be a whole"),
    (_multiplier, [0.0, -1.0, NAN, INF], "0 < epsilon < infinity"),
    (_multiplier, [np.ones(2)], "expected epsilon to be one number"),
    (
        lambda sampler: _multiplier(1.0, sampler),
        [PoissonSampler(10_000, 0.01, capacity=100)],
        r"capacity of 100, got 1e-05; capacity=10001 holds all",
    ),
    (_secret, [0.0, -1.0, 2.0**59, INF, NAN, [1.0, 0.0]], r"in \(0, 2\^58\]"),
    (lambda nu: privacy.square_root_strategy(3, nu), [-0.1, 1.1], "expected 0 <= nu <= 1"),
    (privacy.independent_strategy, [0], "num_steps >= 1"),
    (_strategy, [np.eye(3)], r"of shape \(2, 2\), .* got \(3, 3\)"),
    (_strategy, [np.ones(2)], r"a strategy of shape \(2, 2\)"),
    (_strategy, [[[0.5, 0.1], [0.0, 0.5]]], "lower triangular .* size 0.1 above"),
    (_strategy, [[[0.0, 0.0], [1.0, 1.0]], -np.eye(2)], "positive diagonal, got an entry"),
    (_strategy, [[[1.0, 0.0], [0.1, 1.0]]], r"of norm at most 1, .* norm 1\.00499"),
    (_strategy, [np.diag([1.0, NAN])], "finite entries"),
    (BufferedToeplitzNoise, [([0.1], [0.5, 0.6]), (0.1, 0.5)], "vectors of one length"),
    (BufferedToeplitzNoise, [([0.1], [1.0]), ([0.1], [-0.1])], r"decays in \[0, 1\)"),
    (BufferedToeplitzNoise, [([-0.3], [0.8]), ([-0.1, 2.5], [0.5, 0])], "grows without bound"),
    (BufferedToeplitzNoise, [([3.0], [0.0])], "a zero at .x. = 0.333"),
    (BufferedToeplitzNoise, [([INF], [0.8])], "expected finite scales"),
    (lambda value: _audit(confidence=value), [0.0, 1.0, 95, NAN], "expected 0 < confidence < 1"),
    (lambda value: _audit(delta=value), [-1e-5, 1.0, NAN], "expected 0 <= delta < 1, got"),
    (lambda value: _audit(num_trials=value), [0], "expected num_trials >= 1, got 0"),
    (lambda value: _audit(num_trials=value), [1, 3], "expected enough trials to show something"),
    (lambda value: _audit(delta=value), [0.999], "expected enough trials to show something"),
    (lambda value: _audit(batch_size=value), [0], "expected batch_size >= 1, got 0"),
    (lambda value: audit(SCORES, SCORES, delta=value), [1.0], "expected 0 <= delta < 1"),
    (
        lambda value: _scored(measure=value),
        ["nu", None],
        "expected measure to be 'epsilon' or 'mu'",
    ),
    (lambda value: _one_run(measure=value), ["nu", None], "expected measure to be 'epsilon' or"),
    (lambda value: _scored(confidence=value), [0.0, 95, NAN], "expected 0 < confidence < 1"),
    (
        lambda found: _scored(second=found),
        [SCORES[:, None], SCORES[0], []],
        "(first|second)_scores to be a vector",
    ),
    (_scored, [SCORES[:1]], r"enough trials .* got 1 on one input and 100"),
    (lambda value: _one_run(num_guesses=value), [11], "num_guesses <= num_canaries, got 11"),
    (lambda value: _one_run(num_guesses=value), [0], "expected num_guesses >= 1, got 0"),
    (lambda value: _one_run(confidence=value), [1.0], "expected 0 < confidence < 1, got 1"),
    (lambda value: _one_run(delta=value), [-1.0], "expected 0 <= delta < 1, got -1"),
    (lambda mu: privacy.reconstruction_bound(mu, 0.5), [-1.0], "mu >= 0"),
    (lambda kappa: privacy.reconstruction_bound(1.0, kappa), [1.5], "baseline"),
    (lambda dim: privacy.sphere_log_baseline(0.5, dim), [1], "dim >= 2"),
    (lambda error: privacy.sphere_log_baseline(error, 3), [-0.5], "error >= 0"),
    (lambda d: privacy.approximate_reconstruction_bound(1.0, d, 0.5), [0.0], "delta"),
]
KINDS = [
    (_sampled, [0.01], "sampler to be a Poisson"),
    (SecretNoise, [1.0, "1", True, np.zeros(2)], "expected seed to be None or an int"),
    (key_entropy_bits, [5], r"jax\.random\.key"),
    (lambda value: _audit(num_trials=value), [100.0, None], "num_trials to be a Python int"),
    (lambda value: _audit(key=value), [None], "expected key to be a jax.random.key"),
    (lambda value: _audit(delta=value), [None], "expected delta to be a real number"),
    (lambda value: _one_run(delta=value), [None], "expected delta to be a real number"),
    (_audit, [0.0, SCORES], "expected mechanism to be a function of data and key"),
    (_audit, [lambda s, key: (s, s), lambda s, key: s + 1j], r"expected .* real scalar score"),
    (_audit, [lambda shift, key: _noisy(shift, key)[None]], "real scalar score"),
    (_scored, ["scores", ["a", "b"], SCORES + 1j, None], "first_scores to be a real number"),
    (jax.jit(lambda x: _scored(x, x)), [SCORES], "traced"),
    (lambda value: _one_run(num_guesses=value), [10.0], "num_guesses to be a Python int"),
    (
        jax.jit(lambda shift: ObjectivePerturbation(shift, 0.1).epsilon(1e-5, "replace-one")),
        [1.0],
        "expected concrete arguments",
    ),
    (
        jax.jit(lambda noise: _sampled(noise=noise).epsilon(1e-5, "zero-out-one")),
        [1.0],
        "expected concrete arguments",
    ),
]
REFUSED = [(*row, ValueError) for row in VALUES] + [(*row, TypeError) for row in KINDS]
# Calls of several arguments.
PAIRS = (BufferedToeplitzNoise, ShuffledEpochs(5, 2).mechanism, FixedSizeBatches(5, 2).mechanism)


@pytest.mark.parametrize(("call", "wrong", "message", "kind"), REFUSED)
def test_a_wrong_argument_is_refused(call, wrong, message, kind):
    for value in wrong:
        given = value if call in PAIRS else (value,)
        with pytest.raises(kind, match=message):
            call(*given)
