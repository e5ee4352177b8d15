"""Schedules: values, drops that do not cancel, and what is refused."""

import functools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import jaxdp
from jaxdp.privacy import PoissonSampler
from jaxdp.schedules import base
from jaxdp.schedules.base import is_non_increasing, require_non_increasing
from jaxdp.schedules.callables import Plain, as_schedule

# Each with the same function in NumPy.
SCHEDULES = [
    (jaxdp.Constant(3.0), lambda t: 3.0 + 0 * t),
    (jaxdp.Polynomial(3.0, power=0.5), lambda t: 3 * np.sqrt(1 - t)),
    (jaxdp.Polynomial(2.0, power=2.0), lambda t: 2 * (1 - t) ** 2),
    (jaxdp.Polynomial(2.0, power=0.0), lambda t: 2.0 + 0 * t),
    (jaxdp.Polynomial(2.0, power=0.1), lambda t: 2 * (1 - t) ** 0.1),
    (jaxdp.Hyperbolic(20.0, knee=0.1), lambda t: 20 / (1 + t / 0.1)),
    (
        jaxdp.PiecewiseLinear([0.0, 0.3, 1.0], [5.0, 2.0, 0.5]),
        lambda t: np.interp(t, [0.0, 0.3, 1.0], [5.0, 2.0, 0.5]),
    ),
]


# Source: AC (6).
@pytest.mark.parametrize(("schedule", "function"), SCHEDULES)
def test_values(schedule, function):
    time = np.linspace(0, 1, 33)
    np.testing.assert_allclose(schedule(jnp.asarray(time)), function(time), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("schedule", "function"), SCHEDULES)
@settings(max_examples=10)
@given(step=st.integers(0, 99_999))
@example(step=99_998)
@example(step=99_999)
def test_squared_drop_keeps_its_digits_in_float32(schedule, function, step):
    count = 100_000
    start, stop = step / count, (step + 1) / count
    exact = function(start) ** 2 - function(stop) ** 2
    drop = schedule.squared_drop(jnp.asarray(step), count)
    # A step across a knot is known to the rounding of t, 6e-8 of a step of 1e-5.
    slack = 1e-2 if isinstance(schedule, jaxdp.PiecewiseLinear) else 2e-5
    assert abs(float(drop) - exact) <= slack * abs(exact) + 1e-9 * function(0) ** 2 / count


@pytest.mark.parametrize(
    "schedule",
    [jaxdp.Polynomial(3.0, power=0.5), SCHEDULES[-1][0], lambda time: 2.0 - time],
    ids=lambda schedule: type(schedule).__name__,
)
def test_step_numbers_may_be_of_python_numpy_or_jax(schedule):
    algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, 1.0, 10)
    asked = [
        lambda step: algorithm.learning_rate.at_step(step, 10),
        lambda step: algorithm.learning_rate.squared_drop(step, 10),
        algorithm.step_size,
        lambda step: algorithm.noise_std(step, 4),
    ]
    for ask in asked:
        expected = ask(jnp.asarray(3))
        for step in (3, np.int64(3), np.asarray(3)):
            answer = ask(step)
            assert isinstance(answer, jax.Array)
            assert answer.shape == expected.shape == ()
            np.testing.assert_allclose(answer, expected, rtol=1e-6)


def test_only_what_never_changes_is_called_constant():
    constant = [schedule.is_constant for schedule, _ in SCHEDULES]
    assert constant == [True, False, False, True, False, False, False]
    assert jaxdp.PiecewiseLinear([0.0, 1.0], [2.0, 2.0]).is_constant


def test_a_plain_callable_works():
    schedule = as_schedule(lambda t: 2 - t)
    np.testing.assert_allclose(schedule(jnp.asarray([0.0, 1.0])), [2, 1])
    np.testing.assert_allclose(schedule.squared_drop(jnp.asarray(0), 2), 4 - 2.25)
    partial = functools.partial(jnp.subtract, 3.0)
    np.testing.assert_array_equal(as_schedule(partial)(jnp.ones(2)), [2, 2])


@pytest.mark.parametrize("rate", [3.0, np.float32(3), np.asarray(3.0), jnp.float32(3)])
def test_a_number_is_a_constant_rate(rate):
    schedule = as_schedule(rate)
    assert isinstance(schedule, jaxdp.Constant)
    assert float(schedule.value) == 3
    traced = jax.jit(lambda rate: as_schedule(rate).at_step(jnp.arange(2), 2))(rate)
    np.testing.assert_array_equal(traced, [3, 3])


OPTAX = {
    "cosine": optax.cosine_decay_schedule(3.0, 100),
    "linear": optax.linear_schedule(3.0, 0.0, 100),
    "staircase": optax.piecewise_constant_schedule(3.0, {30: 0.5, 60: 0.1}),
    # Of an array of steps optax computes another, wrong function.
    "interpolated": optax.piecewise_interpolate_schedule("linear", 3.0, {30: 0.5, 100: 0.1}),
}


@pytest.mark.parametrize("num_steps", [10, 1_000_003])
def test_a_schedule_of_steps_is_asked_at_exactly_the_step(num_steps):
    # k/K times K is k plus or minus a rounding, in which a staircase would fall a step late.
    schedule = jaxdp.FromSteps(lambda step: 2.0**24 - step, num_steps)
    steps = np.arange(num_steps - 9, num_steps + 1)
    np.testing.assert_array_equal(schedule.at_step(steps, num_steps), 2**24 - steps)
    with_traced_length = jax.jit(schedule.at_step)(steps, num_steps)
    np.testing.assert_array_equal(with_traced_length, 2**24 - steps)


@pytest.mark.parametrize("name", OPTAX)
def test_a_schedule_of_optax_by_steps(name):
    schedule = jaxdp.FromSteps(OPTAX[name], num_steps=100)
    steps = np.arange(0, 101, 5)
    one_by_one = jax.jit(lambda steps: jax.lax.map(lambda k: 1.0 * OPTAX[name](k), steps))
    expected = one_by_one(steps)
    np.testing.assert_allclose(jax.jit(schedule.at_step)(steps, 100), expected, atol=3e-6)
    if name != "staircase":
        np.testing.assert_allclose(jax.jit(schedule)(steps / 100), expected, atol=1e-5)


def test_an_algorithm_runs_through_a_schedule_of_steps():
    schedules = jaxdp.FromSteps(OPTAX["linear"], 100), jaxdp.Polynomial(3.0, power=1.0)

    @jax.jit
    def rates_and_noise(algorithm):
        steps = jnp.arange(1, 101)
        return algorithm.step_size(steps), algorithm.noise_std(steps, 30)

    found = [rates_and_noise(jaxdp.OnePassDPSGD(one, 1.0, 1.0, 100)) for one in schedules]
    rates, stds = zip(*found, strict=True)
    np.testing.assert_allclose(*rates, atol=1e-7)
    # The last is 0, to the rounding of the others' squares.
    np.testing.assert_allclose(*stds, rtol=1e-3, atol=1e-6 * stds[0].max())


def test_a_schedule_of_steps_stretches_over_another_number_of_them():
    schedule = jaxdp.FromSteps(OPTAX["linear"], num_steps=100)
    rates = schedule.at_step(jnp.arange(11), 10)
    np.testing.assert_allclose(rates, 3 - 0.3 * np.arange(11), atol=1e-6)
    assert not schedule.is_constant
    assert schedule.kinks.shape == (0,)


@pytest.mark.parametrize("name", OPTAX)
def test_a_schedule_of_optax_is_refused_as_a_function_of_time(name):
    schedule = OPTAX[name]
    # As it is, behind a partial, and behind a decorator.
    for function in (schedule, functools.partial(schedule), jax.jit(schedule)):
        with pytest.raises(TypeError, match=r"use jaxdp.FromSteps\(schedule, num_steps\)"):
            as_schedule(function)


@pytest.mark.parametrize("num_steps", [20, 100_000])
def test_functions_that_hardly_change_or_only_rise_are_warned_of(num_steps):
    falls = optax.cosine_decay_schedule(3.0, num_steps)
    for of_steps in (falls, optax.linear_schedule(1.0, 3.0, num_steps)):
        with pytest.warns(UserWarning, match="use jaxdp.FromSteps"):
            as_schedule(lambda step, of_steps=of_steps: of_steps(step))


OF_STEPS = {
    "step decay": lambda step: jnp.where(step < 30, 0.1, 0.01),
    "whole numbers": lambda step: 9 - step // 30,
    "a decay at the first step": lambda step: jnp.where(step < 1, 0.1, 0.01),
    "a table": lambda step: jnp.linspace(0.1, 0.0, 100)[step.astype(int)],
    "warm-up": lambda step: 0.1 * jnp.minimum(1.0, step / 20),
    "warm-up and cosine": lambda step: optax.warmup_cosine_decay_schedule(0.0, 0.1, 20, 99)(step),
}


@pytest.mark.parametrize("name", OF_STEPS)
def test_a_function_of_steps_is_refused_as_a_function_of_time(name):
    sampler = PoissonSampler(100, 0.5)
    steps = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 100, "sampler": sampler}
    with pytest.raises(ValueError, match=r"use jaxdp.FromSteps\(function, num_steps\)"):
        jaxdp.PrivateOptimiser(optax.sgd, learning_rate=OF_STEPS[name], **steps)
    with pytest.raises(ValueError, match=r"use jaxdp.FromSteps\(function, num_steps\)"):
        jaxdp.OnePassDPSGD(OF_STEPS[name], 1.0, 1.0, 100)


def test_a_function_of_whole_steps_alone_is_told_of_steps():
    for function in (lambda step: jnp.ones(100)[step], lambda step: jnp.ones(9) << step):
        with pytest.raises(TypeError, match=r"also at fractions; .*use jaxdp.FromSteps"):
            as_schedule(function)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda t: 3.0 * jnp.exp(-0.06 * t),
        lambda t: jnp.where(t < 0.5, 3.0, 0.3),
        lambda t: 3.0 + jnp.sin(2 * jnp.pi * t),
        # Warm-ups in time: a line, one that ends smoothly, and one before a decay.
        lambda t: jnp.minimum(3.0, 30 * t),
        lambda t: 3.0 * jnp.minimum(10 * t, 1 - t),
        Plain(lambda t: 3.0 + 0 * t),
        jaxdp.PiecewiseLinear([0.0, 1.0], [3.0, 2.999]),
        jaxdp.FromSteps(optax.cosine_decay_schedule(3.0, 100), num_steps=1),
    ],
)
def test_functions_of_time_and_schedules_of_jaxdp_are_not_warned_of(schedule):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_schedule(schedule)


NO_RATE = "expected learning_rate to be a number, a schedule such"
NO_FUNCTION = "expected function to map a number of steps"
RISES = "expected a non-increasing learning rate"
WARM = optax.warmup_cosine_decay_schedule(0.1, 3.0, 10, 100)


def _checked(function):
    require_non_increasing(Plain(function))


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        *((as_schedule, (value,), TypeError, NO_RATE) for value in (None, "3.0", True, [1.0, 2.0])),
        *(
            (as_schedule, (value,), ValueError, "learning_rate")
            for value in (0.0, -1.0, np.nan, np.inf, np.ones(2))
        ),
        (as_schedule, (lambda t: np.sqrt(1 - t),), TypeError, "instead of numpy or math"),
        (jaxdp.FromSteps, (3.0, 10), TypeError, NO_FUNCTION),
        (jaxdp.FromSteps, (lambda k: 1.0 if k < 5 else 0.1, 10), TypeError, "numpy or math"),
        (jaxdp.PiecewiseLinear, ([0.0, 1.0], [1.0, 2.0]), ValueError, "non-increasing values"),
        (jaxdp.OnePassDPSGD, (jaxdp.FromSteps(WARM, 100), 1.0, 1.0, 100), ValueError, RISES),
        (_checked, (lambda t: 0.5 - t,), ValueError, "learning rate >= 0"),
        (_checked, (lambda t: 1 / t,), ValueError, "finite"),
    ],
)
def test_what_is_no_non_increasing_schedule_is_refused(make, arguments, error, message):
    with pytest.raises(error, match=message):
        make(*arguments)


class _Line(eqx.Module):
    slope: jax.Array

    def __call__(self, time):
        return self.slope * (2 - time)


def _with_a_spike(at, width):
    return lambda t: (2 - t) * jnp.where(jnp.abs(t - at) < width, 1.5, 1.0)


# The second stands first in a block of steps that are looked at together.
@pytest.mark.parametrize(("num_steps", "step"), [(3, 2), (70_001, 65_537), (10**6, 500_003)])
def test_a_rise_at_a_single_step_is_refused(num_steps, step):
    spike = _with_a_spike(step / num_steps, 1e-7)
    with pytest.raises(ValueError, match=f"got .* at step {step - 1} and .* at step {step}$"):
        jaxdp.OnePassDPSGD(spike, 1.0, 1.0, num_steps)
    # The points of time alone do not show it, and between two steps it does no harm.
    require_non_increasing(as_schedule(spike))
    jaxdp.OnePassDPSGD(_with_a_spike((step - 0.4) / num_steps, 1e-7), 1.0, 1.0, num_steps)


def test_a_release_says_where_not_every_step_was_looked_at(monkeypatch):
    monkeypatch.setattr(base, "MOST_STEPS", 200)
    spike = _with_a_spike(545 / 1100, 1e-7)

    def lines(schedule, num_steps):
        algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, 1.0, num_steps)
        return [line for line in algorithm.release().assumptions if "rises at no step" in line]

    assert len(lines(spike, 1100)) == 1
    # What is not seen is never released: the noise there is not a number.
    noise = jaxdp.OnePassDPSGD(spike, 1.0, 1.0, 1100).noise_std(np.arange(1, 1101), 5)
    assert np.flatnonzero(np.isnan(noise)).tolist() == [543]
    assert lines(lambda t: 2 - t, 200) == []
    for schedule in (jaxdp.Polynomial(3.0, power=0.5), jaxdp.PiecewiseLinear([0, 1], [2.0, 1.0])):
        assert lines(schedule, 2**31 - 1) == []

    def traced(make):
        found = []
        jax.eval_shape(lambda peak: found.append(lines(make(peak), 100)) or peak, 1.0)
        return len(found[0])

    assert traced(lambda peak: jaxdp.Polynomial(peak, power=0.5)) == 0
    assert traced(_Line) == 1


def _is_right(make, parameter):
    """Whether a schedule of a traced parameter is found not to rise, and what is held for it."""
    program = jax.jit(jax.vmap(lambda value: is_non_increasing(make(value))))
    compiled = program.lower(np.full(1000, parameter, np.float32)).compile()
    return bool(compiled(np.full(1000, parameter, np.float32))[0]), compiled.memory_analysis()


@pytest.mark.parametrize(
    ("make", "right", "wrong"),
    [
        (jaxdp.Constant, [3.0, 1e-9], [-3.0, np.inf, np.nan]),
        (lambda power: jaxdp.Polynomial(3.0, power), [0.0, 0.1, 2.0], [-1e-4, -2.0, np.nan]),
        (lambda peak: jaxdp.Polynomial(peak, 0.5), [3.0], [-3.0, np.inf]),
        (lambda knee: jaxdp.Hyperbolic(3.0, knee), [0.1, 9.0], [-0.01, -0.5, -1.0, -2.0, -500.0]),
    ],
)
def test_a_formula_that_falls_is_looked_at_in_few_places(make, right, wrong):
    for parameter, expected in [(one, True) for one in right] + [(one, False) for one in wrong]:
        found, memory = _is_right(make, parameter)
        assert found == expected
        # A float for each of 257 times would be a thousand bytes a cell.
        assert memory.temp_size_in_bytes < 200 * 1000
