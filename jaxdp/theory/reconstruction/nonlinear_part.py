r"""What an activation has beyond its linear part: the products that DR's Lemma B.1 concentrates.

$\tilde\phi(z) = \phi(z) - \mu_1z$, $\tilde\varphi(x) = \tilde\phi(Vx)$ and
$\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$. For an activation with $\mu_0 = \mu_2 = 0$ the products of two
rows have the mean $p\sum_{l\ge3}\mu_l^2(x^\top x'/d)^l$: next to nothing but for a row with itself.
Without those two they have $\mu_0^2 + \mu_2^2(x^\top x'/d)^2$ as well.

All in float64 on the host. Derived: tests/theory/reconstruction/test_span_lemmas.py.
"""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import host_array, require_shape
from jaxdp.core.numerics.hermite import evaluate_on_host, host_function, scaled_coefficients
from jaxdp.theory.reconstruction.saturation import Activation


def nonlinear_power(activation: Activation) -> float:
    r"""$\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$, what an activation has beyond its quadratic part.

    Source: DR Appendix B.

    Args:
        activation: phi, elementwise.

    Returns:
        $E\phi^2 - \mu_0^2 - \mu_1^2 - \mu_2^2$.

    Raises:
        TypeError, ValueError: as `hermite_coefficients`.

    Example:
        >>> import jax
        >>> from jaxdp.theory import nonlinear_power
        >>> print(f"{nonlinear_power(jax.nn.relu):.4f}")  # 1/2 - 1/2pi - 1/4 - 1/4pi
        0.0113
    """
    coefficients, square = scaled_coefficients(host_function(activation), np.ones(1), 3)
    return float(square[0] - np.sum(coefficients[0] ** 2))


def nonlinear_products(
    inputs: Float[Any, "n dim"],
    others: Float[Any, "m dim"],
    weights: Float[Any, "features dim"],
    activation: Activation,
    *,
    with_linear_part: bool = False,
) -> Float[np.ndarray, "n m"]:
    r"""$\tilde\varphi(x)^\top\tilde\varphi(x')/p$ for all pairs of rows.

    Source: DR Lemma B.1, (18) to (22): near $\tilde\mu^2$ for a row with itself, near 0 for
    independent ones, and alike with and without the second's linear part.

    Args:
        inputs, others: rows x and x'.
        weights: V.
        activation: phi, elementwise.
        with_linear_part: whether the second factor is $\varphi(x')$ itself.

    Returns:
        (n, m).

    Raises:
        TypeError, ValueError: shapes do not match, or as `hermite_coefficients`.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.theory import nonlinear_products
        >>> rows, weights = np.eye(2, 3), np.random.default_rng(0).normal(size=(50, 3))
        >>> nonlinear_products(rows, rows, weights, jax.numpy.tanh).shape
        (2, 2)
    """
    first, second, neurons = host_rows(inputs, others, weights)
    tilde = _nonlinear(first, neurons, activation)
    if with_linear_part:
        return tilde @ evaluate_on_host(activation, second @ neurons.T).T / len(neurons)
    return tilde @ _nonlinear(second, neurons, activation).T / len(neurons)


def _nonlinear(rows, neurons, activation):
    """The features less their linear part."""
    arguments = rows @ neurons.T
    return evaluate_on_host(activation, arguments) - _linear(activation) * arguments


@functools.lru_cache(maxsize=32)
def _linear(activation):
    """mu_1."""
    return float(scaled_coefficients(host_function(activation), np.ones(1), 2)[0][0, 1])


def host_rows(inputs, others, weights):
    """All three on the host, of one length of rows."""
    first = np.asarray(host_array("inputs", inputs), np.float64)
    require_shape("inputs", first, (None, None))
    second = np.asarray(host_array("found_inputs", others), np.float64)
    require_shape("found_inputs", second, (None, first.shape[1]))
    neurons = np.asarray(host_array("weights", weights), np.float64)
    require_shape("weights", neurons, (None, first.shape[1]))
    return first, second, neurons
