"""What the verb makes of an optimiser's answer: its best start, its rows, its passes."""

import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import random_victim, single_target, sphere_rows

from jaxdp.attacks import AbstractOptimiser, reconstruct
from jaxdp.attacks.optimisers.base import Attempt, Ending

DIM, COUNT, FEATURES = 6, 3, 120
VICTIM = random_victim(2, DIM, COUNT, FEATURES)


@functools.cache
def _target():
    return single_target(VICTIM)


class _Scripted(AbstractOptimiser):
    """Ends at given rows with given losses, whatever the truth; keeps what it was asked."""

    ends: np.ndarray
    losses: tuple
    asked: dict
    turn: int = 0

    def minimise(self, target, starts, **more):
        self.asked.update(more, starts=starts)
        status = np.roll(np.arange(len(Ending)), self.turn)[: len(self.losses)]
        ends = jnp.asarray(self.ends, starts.dtype)
        return Attempt(ends, jnp.asarray(self.losses, starts.dtype), 12.5, status)


def _scripted(ends, losses, num_starts, *, turn=0, **more):
    optimiser = _Scripted(np.asarray(ends), losses, {}, turn)
    options = {"key": jr.key(0), "optimiser": optimiser, "num_starts": num_starts}
    return reconstruct(_target(), COUNT, **options, **more), optimiser.asked


def test_the_start_of_least_loss_is_returned_and_one_that_is_no_number_is_not():
    ends = sphere_rows(np.random.default_rng(0), 4 * COUNT, DIM).reshape(4, COUNT, DIM)
    found, asked = _scripted(ends, (np.nan, 0.5, 0.1, 0.2), 4)
    np.testing.assert_array_equal(found.inputs, ends[2].astype(np.float32))
    assert found.status is Ending.OUT_OF_PASSES
    assert asked["starts"].shape == (4, COUNT, DIM)
    # Starts differ, and lie on the sphere.
    starts = np.asarray(asked["starts"]).reshape(-1, DIM)
    np.testing.assert_allclose(np.linalg.norm(starts, axis=1), np.sqrt(DIM), rtol=1e-5)
    assert np.linalg.matrix_rank(starts) == DIM
    assert len(np.unique(starts[:, 0])) == len(starts)


@pytest.mark.parametrize("turn", range(len(Ending)))
def test_the_status_is_that_of_what_is_returned(turn):
    others = sphere_rows(np.random.default_rng(0), COUNT, DIM)
    won, _ = _scripted(np.stack([others, VICTIM.inputs]), (0.5, 1e-9), 2, turn=turn)
    assert won.converged
    assert won.status is Ending.CONVERGED
    lost, _ = _scripted(np.stack([others, VICTIM.inputs]), (1e-9, 0.5), 2, turn=turn)
    assert not lost.converged
    claimed = np.roll(list(Ending), turn)[0]
    assert lost.status is (Ending.STALLED if claimed == Ending.CONVERGED else Ending(claimed))


def test_convergence_is_not_denied_by_a_loss_that_the_optimiser_got_wrong():
    found, _ = _scripted(VICTIM.inputs[None], (0.5,), 1)
    assert found.converged
    assert found.status is Ending.CONVERGED
    assert found.loss < 1e-10
    # Its own count, and one pass for the recomputed loss.
    assert found.num_passes == 13.5


def test_known_rows_come_first_in_every_start_as_they_were_given():
    known = 2 * VICTIM.inputs[:2].astype(np.float32)
    _, asked = _scripted(VICTIM.inputs[None], (0.5,), 3, known_inputs=known)
    assert asked["num_known"] == 2
    np.testing.assert_array_equal(asked["starts"][:, :2], np.broadcast_to(known, (3, 2, DIM)))
    free = np.asarray(asked["starts"])[:, 2]
    np.testing.assert_allclose(np.linalg.norm(free, axis=1), np.sqrt(DIM), rtol=1e-5)
    assert len(np.unique(free[:, 0])) == 3
