"""What a run of training shows of itself, and its records as a file."""

import csv

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.algorithms import OptimiserState, Training

STEPS = (0, 10, 20)
LOSSES = np.array([2.0, 1.5, 0.25], np.float32)
STATEMENT = jaxdp.DPGD(0.02, 1.0, 20, 2.0).release()


def _run(scale=1.0):
    """As `train` makes it, of a model with 1,500 weights."""
    model = {"weight": jnp.full((300, 5), scale), "number": 3}
    losses = {"loss": scale * jnp.asarray(LOSSES), "rates": jnp.arange(6.0).reshape(3, 2)}
    state = OptimiserState(None, jnp.asarray(20))
    dropped = jnp.asarray(7 * scale, jnp.int32)
    return Training(model, state, STEPS, losses, STATEMENT, dropped)


def test_its_representation_is_short_and_says_nothing_that_was_measured():
    shown = "1,500 parameters, steps 20, release replace-one, simulated noise"
    assert repr(_run()) == f"Training({shown})"
    assert repr(_run(3.0)) == repr(_run())
    runs = eqx.filter_vmap(_run)(jnp.array([1.0, 2.0]))
    assert str(runs).startswith("Training, a batch of 2")


def test_records_are_written_to_a_csv_file_to_the_last_digit(tmp_path):
    _run().to_csv(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["step", "loss", "rates[0]", "rates[1]"]
    found = np.array(lines, float)
    np.testing.assert_array_equal(found[:, 0], STEPS)
    np.testing.assert_array_equal(found[:, 1].astype(np.float32), LOSSES)
    np.testing.assert_array_equal(found[:, 2:], np.arange(6.0).reshape(3, 2))
    without = Training({"w": jnp.ones(2)}, None, (), None, None, jnp.asarray(0))
    for run in (without, eqx.filter_vmap(_run)(jnp.array([1.0, 2.0]))):
        with pytest.raises(ValueError, match="expected one run with records, got a"):
            run.to_csv(tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()
