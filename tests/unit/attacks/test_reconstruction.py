import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import random_victim, single_target

from experiments.networks.last_layer import TwoLayerNetwork
from jaxdp.attacks import AbstractOptimiser, reconstruct, reconstruction_error
from jaxdp.attacks.optimisers.base import Attempt, Ending
from jaxdp.core.keys import purpose_key, run_keys

DIM, COUNT, FEATURES = 20, 5, 1000
VICTIM = random_victim(0, DIM, COUNT, FEATURES)
KEY = jr.key(0)


def _target(parameters=VICTIM.parameters):
    return single_target(VICTIM._replace(parameters=parameters))


@pytest.fixture(scope="module")
def found():
    return reconstruct(_target(), COUNT, key=KEY, max_passes=600)


def test_the_training_inputs_are_found(found):
    assert found.converged
    assert found.status is Ending.CONVERGED
    assert found.loss <= 1e-7
    assert found.num_passes <= 600
    assert found.losses.shape == (1,)
    assert reconstruction_error(VICTIM.inputs, found.inputs) <= 0.01
    np.testing.assert_allclose(np.linalg.norm(found.inputs, axis=1), np.sqrt(DIM), rtol=1e-5)


def test_same_key_same_result_and_progress_is_told(found):
    seen = []
    how = {"key": KEY, "max_passes": 600, "progress": lambda *each: seen.append(each)}
    again = reconstruct(_target(), COUNT, **how)
    np.testing.assert_array_equal(again.inputs, found.inputs)
    passes, losses = zip(*seen, strict=True)
    assert list(passes) == sorted(passes)
    assert passes[-1] <= again.num_passes
    assert losses[-1] < 1e-3 * losses[0]


def test_permuted_parameters_give_chance_and_no_convergence():
    order = np.random.default_rng(1).permutation(FEATURES)
    failed = reconstruct(_target(VICTIM.parameters[order]), COUNT, key=KEY, max_passes=150)
    assert not failed.converged
    assert failed.status in (Ending.STALLED, Ending.OUT_OF_PASSES)
    assert failed.num_passes <= 150
    assert failed.loss > 0.1
    # Independent rows on the sphere are sqrt(2) apart, 1 where the nearest is chosen.
    assert reconstruction_error(VICTIM.inputs, failed.inputs) > 0.8


class _Starts(AbstractOptimiser):
    """Ends where it starts."""

    def minimise(self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None):
        return Attempt(starts, jnp.ones(len(starts)), 1.0, np.zeros(len(starts), int))


def test_starts_are_not_the_weights_of_a_network_of_the_same_key():
    network = TwoLayerNetwork(DIM, FEATURES, 1, key=KEY)
    start = np.asarray(reconstruct(_target(), COUNT, key=KEY, optimiser=_Starts()).inputs)
    rows = np.asarray(network.hidden)[:COUNT]
    cosines = np.sum(start * rows, 1) / np.linalg.norm(start, axis=1) / np.linalg.norm(rows, axis=1)
    assert np.abs(cosines).max() < 5 / np.sqrt(DIM)
    # What they were: one key gives both, but for their lengths.
    once = jr.normal(run_keys(purpose_key(KEY, "init"), 1)[0], (COUNT, DIM))
    np.testing.assert_allclose(once / np.sqrt(DIM), rows, rtol=1e-6)
