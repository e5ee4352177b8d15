"""The loop that all simulators share: what is recorded when, told and drawn, and what comes out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.simulation.driver import AbstractRuns, Reading, average_so_far, drive, ranges_of

LAST = 1000


class _Counters(AbstractRuns):
    """Two runs whose risk is the number of steps made; the second's ends at infinity."""

    valid: bool = True
    keeps_noise: bool = False

    @property
    def is_valid(self):
        return jnp.asarray(self.valid)

    def _reading(self, steps):
        risk = jnp.stack([steps, jnp.where(steps == LAST, jnp.inf, steps)]).astype(float)
        return Reading(risk, {"steps": jnp.stack([steps, 2 * steps])})

    def begin(self):
        return jnp.asarray(0), self._reading(jnp.zeros(1, int))

    def advance(self, state, starts, ends):
        # Ranges follow one another, without gaps, from where the state is.
        if not isinstance(state, jax.core.Tracer):
            assert int(state) == int(starts[0])
            assert np.array_equal(starts[1:], ends[:-1])
        return jnp.asarray(ends[-1]), self._reading(jnp.asarray(ends))

    def finish(self, state):
        final_risk = jnp.full(2, -1.0) if self.keeps_noise else None
        return final_risk, state * jnp.ones((2, 3))

    def time(self, steps):
        return steps / 2

    def observables(self, reading, steps):
        return {"share": reading.sums["steps"] / jnp.maximum(steps, 1)[None]}


def _drive(num_steps, records, runs=None, progress=None, **how):
    runs, ranges = runs or _Counters(), ranges_of(num_steps, records, progress)
    return drive(runs, ranges, progress=progress, **{"keep_parameters": False} | how)


@pytest.mark.parametrize(("num_steps", "records"), [(13, 5), (3, 8), (230, 100)])
def test_record_j_is_the_state_after_its_share_of_the_steps(num_steps, records):
    expected = np.arange(records + 1) * num_steps // records
    for progress in (None, lambda share: None):
        found = _drive(num_steps, records, progress=progress)
        np.testing.assert_array_equal(found.risk, [expected, expected])
        np.testing.assert_array_equal(found.time, expected / 2)
        share = np.minimum(expected, 1)
        np.testing.assert_allclose(found.observables["share"], [share, 2 * share], rtol=1e-6)
        np.testing.assert_array_equal(found.final_risk, found.risk[:, -1])
        assert found.parameters is None
        assert found.label == "simulated"


def test_the_listener_hears_twenty_times_and_the_last_time_one():
    heard = []
    _drive(230, 100, progress=heard.append)
    np.testing.assert_allclose(heard, [(5 * i * 230 // 100) / 230 for i in range(1, 21)])
    assert heard[-1] == 1


def test_a_traced_length_has_the_same_records():
    def traced(num_steps):
        found = _drive(num_steps, 5)
        return found.risk, found.observables["share"]

    risk, share = jax.jit(traced)(jnp.asarray(13))
    found = _drive(13, 5)
    np.testing.assert_array_equal(risk, found.risk)
    np.testing.assert_allclose(share, found.observables["share"], rtol=1e-6)


def test_each_run_has_its_status_and_an_invalid_description_voids_all():
    found = _drive(LAST, 4)
    assert found.status.tolist() == [jaxdp.Status.OK, jaxdp.Status.DIVERGED]
    void = _drive(LAST, 4, runs=_Counters(valid=False))
    assert void.status.tolist() == [jaxdp.Status.INVALID] * 2
    assert np.isnan(void.risk).all()
    assert np.isnan(void.final_risk).all()


def test_what_finishing_adds_is_the_final_risk_and_parameters_are_kept_when_asked():
    found = _drive(13, 5, runs=_Counters(keeps_noise=True), keep_parameters=True)
    np.testing.assert_array_equal(found.final_risk, [-1, -1])
    np.testing.assert_array_equal(found.parameters, np.full((2, 3), 13.0))


def test_the_average_of_a_line_is_half_way_and_zero_at_the_start():
    times = jnp.asarray([0.0, 0.1, 0.4, 1.0])
    values = jnp.stack([2 + 3 * times, times])
    expected = np.stack([2 + 1.5 * times, times / 2])
    expected[:, 0] = 0
    np.testing.assert_allclose(average_so_far(values, times), expected, rtol=1e-6)
    # As a plain mean of the records would not be.
    assert not np.allclose(values.mean(axis=1), expected[:, -1], rtol=0.01)
