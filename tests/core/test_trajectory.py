"""The answer type's own check."""

import jax.numpy as jnp
import pytest

from jaxdp import Status, Trajectory
from jaxdp.core.trajectory import status_of


def _trajectory(status):
    status = jnp.asarray(status)
    zeros = jnp.zeros((*status.shape, 3))
    return Trajectory(jnp.arange(3.0), zeros, zeros[..., 0], status, {}, label="simulated")


def test_check_returns_the_trajectory_when_all_is_well():
    good = _trajectory([0, 0])
    assert good.check() is good


def test_check_says_how_many_runs_ended_badly_and_how():
    bad = _trajectory([Status.OK, Status.DIVERGED, Status.DIVERGED, Status.SOLVER_STOPPED])
    with pytest.raises(RuntimeError, match="of 4 runs 2 diverged, 1 solver stopped"):
        bad.check()


def test_status_sees_a_nan_anywhere_on_the_path():
    risk = jnp.zeros((3, 4)).at[1, 2].set(jnp.nan)
    final = jnp.asarray([0.0, 0.0, jnp.inf])
    assert status_of(risk, final).tolist() == [0, 1, 1]
