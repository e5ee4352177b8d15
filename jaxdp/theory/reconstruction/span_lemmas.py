r"""The quantities that DR's proof of Theorem 1 bounds, as numbers.

$\hat x$ is a row whose features are a combination of the training rows', (5) and (17):
$\varphi(\hat x) = \sum_i a_i\varphi(x_i)$. With the non-linear part $\tilde\phi(z) = \phi(z) -
\mu_1z$ and $\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$, the lemmas say that three gaps vanish where
p exceeds dn: that $a_i$ is $\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/(\tilde\mu^2p)$ (B.2, the
left half of (6)), that $|a|^2$ is 1 (B.3, the right half), and that the entrywise powers of
$X\hat x/d$ are no longer than those of its largest entry C (B.4, (7)). Their bounds are orders,
without constants: `stated_orders`. Printed without its factor p is (6)'s first half; B.2 has it.

All in float64 on the host. Derived: tests/theory/reconstruction/test_span_lemmas.py.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import host_array, require_count
from jaxdp.core.numerics.hermite import evaluate_on_host
from jaxdp.theory.reconstruction.nonlinear_part import (
    host_rows,
    nonlinear_power,
    nonlinear_products,
)
from jaxdp.theory.reconstruction.saturation import Activation


class SpanCoefficients(NamedTuple):
    r"""Rows' features as combinations of the training rows'.

    Attributes:
        values: a, a row for each found row and a column for each training row.
        residuals: the share of each found row's squared feature norm that no combination has; 0
            under the theorem's hypothesis.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import SpanCoefficients
        >>> SpanCoefficients(np.eye(2), np.zeros(2)).values.shape
        (2, 2)
    """

    values: Float[np.ndarray, "found n"]
    residuals: Float[np.ndarray, " found"]


class StatedOrders(NamedTuple):
    r"""The orders that the lemmas give, without their constants.

    Attributes:
        coefficients: B.2, over p, for $|a| = 1$.
        norm: B.3.
        powers: B.4.

    Example:
        >>> from jaxdp.theory import stated_orders
        >>> [round(order, 2) for order in stated_orders(10_000, 10, 10**9)]
        [0.07, 7.91, 0.4]
    """

    coefficients: float
    norm: float
    powers: float


def stated_orders(dim: int, num_samples: int, num_features: int) -> StatedOrders:
    r"""What Lemmas B.2 to B.4 bound their gaps by, up to constants.

    $2[\sqrt{d/p}\log d + \sqrt{n/p}\log d + \sqrt n\log^3d/d^{3/2}]$,
    $\sqrt{dn/p}\log d + \log^3d/\sqrt d$ and $d^{-1/10}$. They are below 1 for enormous d only:
    statements about limits.

    Source: DR Lemma B.2, (37); Lemma B.3, (41); Lemma B.4, (50).

    Args:
        dim: d >= 2.
        num_samples: n.
        num_features: p.

    Returns:
        The three orders.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> from jaxdp.theory import stated_orders
        >>> stated_orders(10**4, 10, 10**8).powers < stated_orders(100, 10, 10**8).powers
        True
    """
    d, n, p = (
        require_count(name, value, least=least)
        for name, value, least in (
            ("dim", dim, 2),
            ("num_samples", num_samples, 1),
            ("num_features", num_features, 1),
        )
    )
    log = math.log(d)
    first = 2 * (
        (math.sqrt(d) + math.sqrt(n)) * log / math.sqrt(p) + math.sqrt(n) * (log / d**0.5) ** 3
    )
    return StatedOrders(first, math.sqrt(d * n / p) * log + log**3 / math.sqrt(d), d**-0.1)


def span_coefficients(
    inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "m dim"],
    weights: Float[Any, "features dim"],
    activation: Activation,
) -> SpanCoefficients:
    r"""The combinations of training features that come closest to the features of found rows.

    Source: DR (5) and (17).

    Args:
        inputs: the training rows X, at most as many as there are features.
        found_inputs: rows $\hat x$.
        weights: V.
        activation: phi, elementwise.

    Returns:
        a for every found row, and what is left.

    Raises:
        TypeError, ValueError: shapes do not match.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.theory import span_coefficients
        >>> rows, weights = np.eye(2, 3), np.random.default_rng(0).normal(size=(50, 3))
        >>> np.abs(span_coefficients(rows, rows[::-1], weights, jax.numpy.tanh).values.round(6))
        array([[0., 1.],
               [1., 0.]])
    """
    rows, found, neurons = host_rows(inputs, found_inputs, weights)
    if len(rows) > len(neurons):
        raise ValueError(f"expected at most {len(neurons)} inputs, as features, got {len(rows)}")
    features = evaluate_on_host(activation, rows @ neurons.T)
    others = evaluate_on_host(activation, found @ neurons.T)
    values = np.linalg.lstsq(features.T, others.T, rcond=None)[0].T
    left = np.sum((others - values @ features) ** 2, axis=1) / np.sum(others**2, axis=1)
    return SpanCoefficients(values, left)


def coefficient_gaps(
    inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "m dim"],
    weights: Float[Any, "features dim"],
    activation: Activation,
) -> Float[np.ndarray, "m n"]:
    r"""How far coefficients are from what the non-linear parts' overlaps say they are.

    $|\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/p - \tilde\mu^2a_i|$.

    Source: DR Lemma B.2, (37), over p; the left half of (6), which is printed without the p.

    Args:
        inputs, found_inputs, weights, activation: as in `span_coefficients`.

    Returns:
        (m, n): a row for each found row.

    Raises:
        TypeError, ValueError: as `span_coefficients`.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.theory import coefficient_gaps
        >>> rows, weights = np.eye(2, 3), np.random.default_rng(0).normal(size=(900, 3))
        >>> bool(np.all(coefficient_gaps(rows, rows, weights, jax.numpy.tanh) < 0.05))
        True
    """
    found = span_coefficients(inputs, found_inputs, weights, activation).values
    overlaps = nonlinear_products(found_inputs, inputs, weights, activation)
    return np.abs(overlaps - nonlinear_power(activation) * found)


def norm_gaps(
    inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "m dim"],
    weights: Float[Any, "features dim"],
    activation: Activation,
) -> Float[np.ndarray, " m"]:
    r"""How far the coefficients' norm is from one: $\bigl||a|^2 - 1\bigr|$.

    Source: DR Lemma B.3, (41); the right half of (6).

    Args:
        inputs, found_inputs, weights, activation: as in `span_coefficients`.

    Returns:
        (m,).

    Raises:
        TypeError, ValueError: as `span_coefficients`.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.theory import norm_gaps
        >>> rows, weights = np.eye(2, 3), np.random.default_rng(0).normal(size=(50, 3))
        >>> bool(np.all(norm_gaps(rows, rows, weights, jax.numpy.tanh) < 1e-9))
        True
    """
    found = span_coefficients(inputs, found_inputs, weights, activation).values
    return np.abs(np.sum(found**2, axis=1) - 1)


def overlap_power_gaps(
    inputs: Float[Any, "n dim"], found_inputs: Float[Any, "m dim"], powers: Any
) -> Float[np.ndarray, "m powers"]:
    r"""By how much powers of overlaps are longer than those of the largest one.

    $\|(X\hat x)^{\circ l}/d^l\| - C^{l-1}$ with $C = \max_i|x_i^\top\hat x|/d$. At most
    $C^{l-1}(\|X\|_{op}/\sqrt d - 1)$, whatever the rows, because $|X\hat x/d|$ is at most
    $\|X\|_{op}/\sqrt d$: the lemma's union over subsets of rows is needed where n grows with d.

    Source: DR Lemma B.4, (49) and (50); (7).

    Args:
        inputs: X, rows on the sphere of radius $\sqrt d$.
        found_inputs: rows $\hat x$ on it.
        powers: l >= 2.

    Returns:
        (m, number of powers).

    Raises:
        TypeError, ValueError: shapes do not match, or a power is less than two.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import overlap_power_gaps
        >>> overlap_power_gaps(2 * np.eye(4), np.ones((1, 4)), [2, 3]).round(3)
        array([[0., 0.]])
    """
    rows, found, _ = host_rows(inputs, found_inputs, inputs)
    orders = np.asarray(host_array("powers", powers))
    if orders.ndim != 1 or not np.all(orders >= 2):
        raise ValueError(f"expected powers of at least 2, got {powers}")
    overlaps = np.abs(found @ rows.T) / rows.shape[1]
    largest = overlaps.max(axis=1)
    lengths = [np.linalg.norm(overlaps**order, axis=1) - largest ** (order - 1) for order in orders]
    return np.stack(lengths, axis=1)
