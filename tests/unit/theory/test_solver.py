"""The solver and the time loop of all theories, against closed forms and steps one by one."""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.core.trajectory import Status, longest_stretch, record_steps, trajectory_of
from jaxdp.theory.solver import EVEN, SLOW_AT_THE_END, Tolerances, adjoint_for, recorded, solve

TIME = np.linspace(0, 1, 5)
TIGHT, LOOSE = (1e-10, 1e-12), (1e-2, 1e-2)


def _largest(error):
    return jnp.max(jnp.abs(error))


def _solve(velocity, dtype, *, double=TIGHT, single=LOOSE, max_steps=1000, time=TIME, **options):
    """From y = 1."""
    tolerances = Tolerances(double, single, _largest, max_steps)
    start, time, adjoint = jnp.ones((), dtype), jnp.asarray(time, dtype), diffrax.ForwardMode()
    return solve(velocity, start, time, tolerances=tolerances, adjoint=adjoint, **options)


@functools.partial(jax.jit, static_argnames="max_steps")
def _decay(rate, *, max_steps=1000):
    return _solve(lambda _, y: -rate * y, rate.dtype, max_steps=max_steps)


def test_a_decay_is_exponential_and_another_rate_is_seen():
    with jax.enable_x64():
        found, stopped = _decay(jnp.asarray(2.0))
        assert found.dtype == np.float64
        assert not stopped
        np.testing.assert_allclose(found, np.exp(-2 * TIME), rtol=1e-8)
        wrong, _ = _decay(jnp.asarray(2 + 1e-7))
        assert not np.allclose(wrong, np.exp(-2 * TIME), rtol=1e-8, atol=0)


def test_the_tolerance_is_that_of_the_type_of_float():
    found, stopped = _decay(jnp.asarray(2.0))
    assert found.dtype == np.float32
    assert not stopped
    # What a step is allowed to be off, and not the rounding of float32.
    assert 1e-3 < np.abs(found - np.exp(-2 * TIME)).max() < 0.1


def test_what_is_read_at_the_ends_alone_is_read_at_many_records():
    def ends(rate):
        return _solve(
            lambda _, y: -rate * y, rate.dtype, time=TIME[[0, -1]], read=lambda y: {"square": y**2}
        )

    with jax.enable_x64():
        found, _ = jax.jit(ends)(jnp.asarray(2.0))
        many, _ = _decay(jnp.asarray(2.0))
        np.testing.assert_allclose(found["square"], many[jnp.asarray([0, -1])] ** 2, rtol=1e-8)
        np.testing.assert_allclose(found["square"], [1, np.exp(-4)], rtol=1e-8)


@functools.partial(jax.jit, static_argnames=("is_told", "max_steps"))
def _until(kink, *, is_told, max_steps):
    """Velocity 1 before the kink and 0 from there on; the solver is told of it or not."""

    def velocity(instant, y):
        is_passed = instant.passed[0] if is_told else instant.time >= kink
        return jnp.where(is_passed, 0.0, 1.0) + 0 * y

    # Two that lie outside the time do not count.
    kinks = jnp.append(kink, jnp.asarray([-1.0, 2.0])) if is_told else None
    return _solve(velocity, kink.dtype, kinks=kinks, max_steps=max_steps)


def test_no_step_crosses_a_kink():
    expected = 1 + np.minimum(TIME, 0.4)
    with jax.enable_x64():
        kink = jnp.asarray(0.4)
        found, stopped = _until(kink, is_told=True, max_steps=16)
        assert not stopped
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        # Steps across it are refused until they are short: 16 of them do not reach the end.
        assert _until(kink, is_told=False, max_steps=16)[1]
        wrong, _ = _until(kink + 1e-9, is_told=True, max_steps=16)
        assert not np.allclose(wrong, expected, rtol=1e-14, atol=0)


@functools.partial(jax.jit, static_argnames=("clock", "max_steps"))
def _root_at_the_end(factor, *, clock, max_steps):
    def velocity(instant, y):
        return factor * jnp.sqrt(jnp.maximum(1 - instant.time, 0)) + 0 * y

    return _solve(velocity, factor.dtype, clock=clock, max_steps=max_steps)


def test_a_root_at_the_end_takes_few_steps_of_the_clock_that_slows_down():
    expected = 1 + 2 * (1 - (1 - TIME) ** 1.5) / 3
    with jax.enable_x64():
        found, stopped = _root_at_the_end(jnp.asarray(1.0), clock=SLOW_AT_THE_END, max_steps=16)
        assert not stopped
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert _root_at_the_end(jnp.asarray(1.0), clock=EVEN, max_steps=16)[1]
        wrong, _ = _root_at_the_end(jnp.asarray(1 + 1e-7), clock=SLOW_AT_THE_END, max_steps=16)
        assert not np.allclose(wrong, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("clock", [EVEN, SLOW_AT_THE_END])
def test_a_clock_is_read_as_it_is_set(clock):
    with jax.enable_x64():
        position = jnp.asarray([0, 1e-9, 0.3, 1.0])
        np.testing.assert_allclose(clock.position(clock.time(position)), position, rtol=1e-12)
        speed = jnp.ones(4) if clock.speed is None else clock.speed(position)
        slope = jax.vmap(jax.grad(clock.time))(position)
        np.testing.assert_allclose(speed, slope, rtol=1e-12)
        # What lies beyond the end stays there.
        assert clock.position(jnp.asarray(2.0)) > 1


def _told(values, **options):
    """A prediction with these risks."""
    parts = {"risk": values, "final_risk": values[-1], "observables": {}, "label": "test"}
    time = jnp.asarray(TIME[: len(values)], values.dtype)
    return trajectory_of(jnp.asarray(True), time=time, **parts, **options)


def test_a_prediction_has_no_numbers_where_the_steps_were_used_up():
    with jax.enable_x64():
        found, stopped = _decay(jnp.asarray(2.0), max_steps=20)
        assert stopped
        # The first records were reached, and the last were not.
        np.testing.assert_allclose(found[:2], np.exp(-2 * TIME[:2]), rtol=1e-8)
        assert not np.isfinite(found[-1])
        told = _told(found, stopped=stopped, std=found)
    assert int(told.status) == Status.SOLVER_STOPPED
    for values in (told.risk, told.final_risk, told.std, told.final_std):
        assert np.all(np.isnan(values))


@pytest.mark.parametrize(
    ("values", "options", "status"),
    [
        ([1.0, 0.5], {"unstable": True}, Status.UNSTABLE),
        ([1.0, np.inf], {"unstable": True}, Status.DIVERGED),
        ([1.0, 0.5], {"unstable": True, "stopped": True}, Status.SOLVER_STOPPED),
    ],
)
def test_the_status_names_the_worst(values, options, status):
    options = {name: jnp.asarray(value) for name, value in options.items()}
    assert int(_told(jnp.asarray(values), **options).status) == status


def test_only_what_is_traced_is_solved_with_checkpoints():
    chosen = diffrax.RecursiveCheckpointAdjoint()
    traced = []
    jax.jit(lambda rate: traced.append(adjoint_for(chosen, {"rate": rate}, 1.0)))(2.0)
    assert traced == [chosen]
    assert adjoint_for(chosen, {"rate": jnp.ones(2)}, 1.0) == diffrax.ForwardMode()
    direct = diffrax.DirectAdjoint()
    assert adjoint_for(direct, 2.0) is direct


def _recorded(factor, num_steps, records, first=0):
    def step(state, index):
        return {"value": factor * state["value"] + index + first}

    def read(state):
        return state["value"] ** 2, {"value": state["value"]}

    at_record = jnp.asarray(record_steps(num_steps, records))
    start = {"value": jnp.ones(2)}
    return recorded(step, start, read, at_record, longest_stretch(num_steps, records))


def _one_by_one(num_steps, records):
    """The states at the records with the factor 1/2, and their derivatives in it."""
    value, slope, states = 1.0, 0.0, [(1.0, 0.0)]
    for index in range(num_steps):
        value, slope = value / 2 + index, slope / 2 + value
        states.append((value, slope))
    return np.asarray([states[step] for step in record_steps(num_steps, records)]).T


# Stretches of 2 and 3 steps; and fewer steps than records.
@pytest.mark.parametrize(("num_steps", "records"), [(7, 3), (3, 4)])
def test_records_are_the_states_after_their_steps(num_steps, records):
    expected, _ = _one_by_one(num_steps, records)
    squares, found = _recorded(0.5, num_steps, records)
    np.testing.assert_allclose(found["value"], np.stack([expected] * 2, 1), rtol=1e-6)
    np.testing.assert_allclose(squares, np.stack([expected**2] * 2, 1), rtol=1e-6)
    # Steps that are numbered from 1 are others.
    _, wrong = _recorded(0.5, num_steps, records, first=1)
    assert not np.allclose(wrong["value"], found["value"], rtol=1e-2)


def test_a_traced_length_gives_the_same():
    traced = jax.jit(lambda steps: _recorded(0.5, steps, 3))(7)
    np.testing.assert_array_equal(traced[0], _recorded(0.5, 7, 3)[0])


def test_gradients_are_those_of_the_steps_and_keep_one_stretch_at_a_time():
    def last(factor):
        return _recorded(factor, 60, 6)[1]["value"][-1, 0]

    _, slopes = _one_by_one(60, 6)
    np.testing.assert_allclose(jax.grad(last)(0.5), slopes[-1], rtol=1e-6)
    # No array of what is kept has an axis of all 60 steps.
    _, pull = jax.vjp(last, 0.5)
    shapes = [leaf.shape for leaf in jax.tree.leaves(pull) if hasattr(leaf, "shape")]
    assert any(6 in shape for shape in shapes)
    assert not any(10 in shape or 60 in shape for shape in shapes)
