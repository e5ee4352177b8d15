"""What PF Theorem 1 assumes, decided where a problem decides it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from experiments.statements.privacy_for_free.theorem_assumptions import (
    excess_risk_assumptions,
    least_samples,
    most_samples,
)
from jaxdp.problems import sphere_inputs
from jaxdp.problems.rows.random_features import gaussian_inputs


def _problem(activation=jnp.tanh, inputs=sphere_inputs, num_train=40, dim=6, num_features=300):
    sizes = num_train, 3, dim, num_features
    return jaxdp.RandomFeatures.sample(
        *sizes, activation=activation, inputs=inputs, key=jax.random.key(0)
    )


def _verdicts(problem, **budget):
    return {one.statement: one.holds for one in excess_risk_assumptions(problem, **budget)}


@pytest.mark.parametrize(
    ("activation", "even", "first", "nonlinear", "is_lipschitz"),
    [
        (jnp.tanh, True, True, True, True),
        (jax.nn.relu, False, True, True, True),
        (lambda x: 2 * x, True, True, False, True),
        (lambda x: x**3 - 3 * x, True, False, True, False),  # orthogonal to x, and its slope grows
        (lambda x: jnp.tanh(x) + 0.01 * (x**2 - 1), False, True, True, True),
        (lambda x: x + jnp.sign(x), True, True, True, False),
        (jnp.sin, True, True, True, True),
    ],
)
def test_the_activation_is_judged_by_its_hermite_coefficients_and_its_slope(
    activation, even, first, nonlinear, is_lipschitz
):
    # Source: PF Assumption 2.
    found = _verdicts(_problem(activation))
    names = "mu_0 = mu_2 = 0", "mu_1 is not zero", "the activation is not linear"
    judged = [found[name] for name in (*names, "the activation is Lipschitz")]
    assert judged == [even, first, nonlinear, is_lipschitz]


@pytest.mark.parametrize(
    "activation",
    [lambda x: jnp.tanh(1000 * x), lambda x: jnp.sign(x) * jnp.sqrt(jnp.abs(x))],
)
def test_what_is_steep_does_not_jump(activation):
    found = excess_risk_assumptions(_problem(activation))
    assert not any("jumps" in str(one) for one in found)


def test_one_dimension_has_an_empty_range():
    found = [str(one) for one in excess_risk_assumptions(_problem(dim=1))]
    assert any("omega(d log^2 d); that is zero" in words for words in found)


def test_rows_are_judged_by_their_lengths_and_their_second_moment():
    # Source: PF Assumption 1.
    length, moment = "|x| = sqrt(d)", "the least eigenvalue of E x x^T is above a constant"
    sphere = _verdicts(_problem())
    assert sphere[length]
    assert sphere[moment]
    assert not _verdicts(_problem(inputs=gaussian_inputs))[length]
    # Fewer rows than inputs have a second moment of zero, and say nothing of the law's.
    assert _verdicts(_problem(num_train=4))[moment] is None
    rows = np.tile(np.asarray([[2.0, 0.0, 0.0, 0.0]]), (9, 1))
    flat = jaxdp.RandomFeatures.from_arrays(rows, np.ones(9), rows[:1], np.ones(1), np.ones((5, 4)))
    assert _verdicts(flat)[length]
    assert _verdicts(flat)[moment] is False


def test_sizes_and_budgets_are_compared_with_constants_of_one():
    # Source: PF Assumption 3, (4.1), and Assumption 4, (4.2).
    assert not _verdicts(_problem(num_train=40, num_features=300))["n = O(sqrt p)"]
    assert _verdicts(_problem(num_train=17, num_features=300))["n = O(sqrt p)"]
    assert _verdicts(_problem(num_features=None))["n = O(sqrt p)"]
    found = _verdicts(_problem(num_train=40, dim=6))
    assert found["n = omega(d log^2 d)"] is (6 * math.log(6) ** 2 < 40)
    assert found["n = o(d^1.5 / log^3 d)"] is (6**1.5 / math.log(6) ** 3 > 40)
    first, second = (_verdicts(_problem(), epsilon=epsilon, delta=1e-3) for epsilon in (50.0, 60.0))
    assert first["epsilon < 8 log(1/delta)"]
    assert not second["epsilon < 8 log(1/delta)"]
    needed = 6 * math.log(40) ** 5 / 40 * math.sqrt(math.log(1e3))
    name = "epsilon / sqrt(log(1/delta)) = omega(d log^5 n / n)"
    for factor, holds in ((0.99, False), (1.01, True)):
        assert _verdicts(_problem(), epsilon=factor * needed, delta=1e-3)[name] is holds


def test_no_number_of_samples_is_in_the_range_at_any_dimension_of_a_computer():
    # Source: PF Assumption 3: d log^2 d < n < d^1.5 / log^3 d, with constants of one.
    for dim in (4, 10, 10**3, 10**6, 10**12, int(math.exp(35.7))):
        assert least_samples(dim) > most_samples(dim)
    for dim in (2, 3, int(math.exp(35.9))):
        assert least_samples(dim) < most_samples(dim)
