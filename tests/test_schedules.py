"""Schedules: values, drops that do not cancel, and what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import jaxdp
from jaxdp.schedules import as_schedule, require_non_increasing

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


@pytest.mark.parametrize(("schedule", "function"), SCHEDULES)
def test_values(schedule, function):
    time = np.linspace(0, 1, 33)
    np.testing.assert_allclose(schedule(jnp.asarray(time)), function(time), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("schedule", "function"), SCHEDULES)
@settings(max_examples=25, deadline=None)
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


@pytest.mark.parametrize(("schedule", "function"), SCHEDULES)
def test_squared_drops_add_up(schedule, function):
    total = schedule.squared_drop(jnp.arange(1000), 1000).sum()
    expected = function(0.0) ** 2 - function(1.0) ** 2
    np.testing.assert_allclose(total, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [*(schedule for schedule, _ in SCHEDULES), lambda time: 2.0 - time],
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


def test_polynomial_is_differentiable_at_its_end():
    for power in (0.0, 0.5, 1.0):
        grads = jax.grad(lambda peak, power: jaxdp.Polynomial(peak, power)(1.0), argnums=(0, 1))(
            3.0, power
        )
        assert np.all(np.isfinite(grads))


def test_only_what_never_changes_is_called_constant():
    constant = [schedule.is_constant for schedule, _ in SCHEDULES]
    assert constant == [True, False, False, True, False, False, False]
    assert jaxdp.PiecewiseLinear([0.0, 1.0], [2.0, 2.0]).is_constant


def test_a_plain_callable_works():
    schedule = as_schedule(lambda t: 2 - t)
    np.testing.assert_allclose(schedule(jnp.asarray([0.0, 1.0])), [2, 1])
    np.testing.assert_allclose(schedule.squared_drop(jnp.asarray(0), 2), 4 - 2.25)
    assert as_schedule(functools.partial(jnp.full_like, fill_value=1.0))(jnp.zeros(2)).shape == (2,)


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="expected learning_rate to be a schedule"):
        as_schedule(3.0)


@pytest.mark.parametrize("function", [lambda t: np.sqrt(1 - t), lambda t: 1.0 if t < 0.5 else 0.1])
def test_callables_that_cannot_be_traced_are_refused(function):
    with pytest.raises(TypeError, match="instead of numpy or math"):
        as_schedule(function)


@pytest.mark.parametrize("value", ["1", None, 1 + 2j, [1.0, None]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="expected real numbers, got"):
        jaxdp.Constant(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jaxdp.Constant(-1.0), "value > 0, got -1.0"),
        (lambda: jaxdp.Polynomial(3.0, power=-0.1), "power >= 0, got -0.1"),
        (lambda: jaxdp.Polynomial(float("nan"), power=0.5), "peak > 0, got nan"),
        (lambda: jaxdp.Hyperbolic(3.0, knee=0.0), "knee > 0, got 0.0"),
        (lambda: jaxdp.PiecewiseLinear([0.0, 1.0], [1.0, 2.0]), "non-increasing values"),
        (lambda: jaxdp.PiecewiseLinear([0.5, 0.5], [1.0, 1.0]), "increasing knots"),
        (lambda: jaxdp.PiecewiseLinear([0.0], [1.0]), "one shape"),
        (lambda: jaxdp.Constant([1.0, 2.0]), "make a batch with vmap over the constructor"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: 1 + t, "expected a non-increasing learning rate"),
        (lambda t: 0.5 - t, "learning rate >= 0"),
        (lambda t: 1 / t, "finite"),
        (lambda t: 1 + 0.03 * t, "non-increasing learning rate"),
    ],
)
def test_increasing_negative_and_singular_schedules_are_refused(function, message):
    with pytest.raises(ValueError, match=message):
        require_non_increasing(as_schedule(function))
