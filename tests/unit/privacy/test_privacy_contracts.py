"""What every privacy function keeps, whichever it is: one suite over all of them."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp import privacy

_MU, _EPSILON, _ZCDP, _DELTA = (-4, 1.69), (-3, 1.69), (-6, 3), (-12, -0.3)


def _gaussian_std(epsilon, delta):
    return privacy.gaussian_noise_std(epsilon, delta, sensitivity=2.0, num_releases=3)


def _zcdp_std(epsilon, delta):
    return privacy.zcdp_noise_std(epsilon, delta, sensitivity=2.0, num_releases=3)


# Each with the decimal logarithms of its arguments' ranges, in which direction it moves, and its
# relative tolerance in float32, below the last number of which an answer is not counted.
FUNCTIONS = {
    "gaussian_delta": (privacy.gaussian_delta, (_MU, _EPSILON), (1, -1), (2e-5, 1e-12)),
    "gaussian_epsilon": (privacy.gaussian_epsilon, (_MU, _DELTA), (1, -1), (1e-5, 1e-6)),
    "gaussian_mu": (privacy.gaussian_mu, (_EPSILON, _DELTA), (1, 1), (1e-5, 0)),
    "zcdp_epsilon": (privacy.zcdp_epsilon, (_ZCDP, _DELTA), (1, -1), (1e-5, 1e-4)),
    "published": (privacy.zcdp_epsilon_published, (_ZCDP, _DELTA), (1, -1), (1e-5, 0)),
    "epsilon_to_zcdp": (privacy.epsilon_to_zcdp, (_EPSILON, _DELTA), (1, 1), (1e-5, 0)),
    "gaussian_noise_std": (_gaussian_std, (_EPSILON, _DELTA), (-1, -1), (3e-5, 0)),
    "zcdp_noise_std": (_zcdp_std, (_EPSILON, _DELTA), (-1, -1), (3e-5, 0)),
}
each_function = pytest.mark.parametrize("name", FUNCTIONS)


@functools.cache
def _traced(name):
    """A hundred answers and their derivatives: one program for all tests of a function."""
    return jax.jit(jax.vmap(jax.value_and_grad(FUNCTIONS[name][0], argnums=(0, 1))))


def _grid(ranges, size):
    """Points spread over the ranges, exact in float32."""
    shares = (np.arange(size)[:, None] * [0.618034, 0.754878]) % 1
    ends = np.asarray(ranges, float)
    return (10 ** (ends[:, 0] + shares * (ends[:, 1] - ends[:, 0]))).astype(np.float32).T


@each_function
def test_concrete_scalars_give_a_float_and_arrays_an_array(name):
    function, ranges, *_ = FUNCTIONS[name]
    first, second = _grid(ranges, 6)
    many = function(first.reshape(2, 3), second.reshape(2, 3))
    assert isinstance(many, np.ndarray)
    assert many.dtype == np.float64
    one = function(float(first[4]), float(second[4]))
    assert isinstance(one, float)
    assert many[1, 1] == one
    assert function(first, float(second[0])).shape == (6,)


@each_function
@settings(max_examples=40)
@given(data=st.data())
def test_each_argument_moves_the_answer_one_way(name, data):
    function, ranges, directions, _ = FUNCTIONS[name]
    point = [10 ** data.draw(st.floats(*ends)) for ends in ranges]
    for place, direction in enumerate(directions):
        moved = list(point)
        moved[place] *= 1 + data.draw(st.floats(1e-9, 0.9))
        if ranges[place] == _DELTA:
            moved[place] = min(moved[place], 0.99)
        before, after = function(*point), function(*moved)
        assert direction * (after - before) >= -1e-11 * before - 1e-300


@each_function
def test_arrays_with_one_wrong_number_or_of_other_shapes_are_refused(name):
    function, ranges, *_ = FUNCTIONS[name]
    good = [10 ** ends[1] for ends in ranges]
    for place in range(2):
        arguments = [*good[:place], np.asarray([0.1, -0.1]), *good[place + 1 :]]
        with pytest.raises(ValueError, match=r"expected (mu|epsilon|zcdp|0 < delta < 1)"):
            function(*arguments)
    with pytest.raises(ValueError, match="expected shapes that broadcast"):
        function(np.full(2, good[0]), np.full(3, good[1]))


@each_function
def test_traced_answers_and_derivatives_agree_with_concrete_ones(name):
    function, ranges, _, (tolerance, smallest) = FUNCTIONS[name]
    points = _grid(ranges, 100)
    expected = function(*points)
    counted = expected >= smallest
    assert counted.mean() > 0.4

    found, slopes = _traced(name)(*points)
    np.testing.assert_allclose(found[counted], expected[counted], rtol=tolerance)

    for place, slope in enumerate(slopes):
        near = points.astype(np.float64)
        near[place] *= 1 + 1e-5
        above = function(*near)
        near[place] *= (1 - 1e-5) / (1 + 1e-5)
        difference = (above - function(*near)) / (2e-5 * points[place])
        # What the rounding of two concrete answers does to their difference.
        doubt = 1e-6 * np.abs(expected / points[place])
        gap = np.abs(slope - difference) - doubt
        assert np.all(gap[counted] <= 3e-4 * np.abs(difference[counted]))


@each_function
def test_traced_arguments_out_of_range_give_nan(name):
    good = [10 ** ends[1] for ends in FUNCTIONS[name][1]]
    for place in (0, 1):
        arguments = [*good[:place], -1.0, *good[place + 1 :]]
        assert np.isnan(_traced(name)(*np.full((100, 2), arguments, np.float32).T)[0]).all()


@pytest.mark.parametrize(
    ("forward", "backward", "ranges"),
    [
        (privacy.gaussian_epsilon, privacy.gaussian_mu, (_MU, _DELTA)),
        (privacy.zcdp_epsilon, privacy.epsilon_to_zcdp, (_ZCDP, _DELTA)),
    ],
)
def test_inverses_undo_each_other_without_losing_privacy(forward, backward, ranges):
    strength, delta = _grid(ranges, 100).astype(np.float64)
    epsilon = forward(strength, delta)
    counted = epsilon > 1e-4
    back = backward(epsilon, delta)
    np.testing.assert_allclose(back[counted], strength[counted], rtol=1e-7)
    assert np.all(forward(back, delta) <= epsilon * (1 + 3e-12) + 1e-11)
