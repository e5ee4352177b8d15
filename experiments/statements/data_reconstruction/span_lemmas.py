r"""The quantities that DR's proof of Theorem 1 bounds, as numbers.

$\hat x$ is a row whose features are a combination of the training rows', (5) and (17):
$\varphi(\hat x) = \sum_i a_i\varphi(x_i)$. With the non-linear part $\tilde\phi(z) = \phi(z) -
\mu_1z$ and $\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$, the lemmas say that three gaps vanish where
p exceeds dn: that $a_i$ is $\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/(\tilde\mu^2p)$ (B.2, the
left half of (6)), that $|a|^2$ is 1 (B.3, the right half), and that the entrywise powers of
$X\hat x/d$ are no longer than those of its largest entry C (B.4, (7)). Their bounds are orders,
without constants: `stated_orders`. Printed without its factor p is (6)'s first half; B.2 has it.

They rest on Lemma B.1: for an activation with $\mu_0 = \mu_2 = 0$ the products
$\tilde\varphi(x)^\top\tilde\varphi(x')$ of two rows have the mean
$p\sum_{l\ge3}\mu_l^2(x^\top x'/d)^l$: next to nothing but for a row with itself. Without those two
they have $\mu_0^2 + \mu_2^2(x^\top x'/d)^2$ as well.

All in float64 on the host. Derived: test_span_lemmas.py.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.numerics.hermite import evaluate_on_host, host_function, scaled_coefficients
from jaxdp.theory.reconstruction.saturation import Activation


def nonlinear_power(activation: Activation) -> float:
    r"""Power $\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$ of an activation beyond its quadratic part.

    Source: DR Appendix B.

    Args:
        activation: phi, elementwise.

    Returns:
        $E\phi^2 - \mu_0^2 - \mu_1^2 - \mu_2^2$.
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
    """
    first, second, neurons = map(_wide, (inputs, others, weights))
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


class SpanCoefficients(NamedTuple):
    r"""Rows' features as combinations of the training rows'.

    Attributes:
        values: a, a row for each found row and a column for each training row.
        residuals: the share of each found row's squared feature norm that no combination has; 0
            under the theorem's hypothesis.
    """

    values: Float[np.ndarray, "found n"]
    residuals: Float[np.ndarray, " found"]


class StatedOrders(NamedTuple):
    r"""The orders that the lemmas give, without their constants.

    Attributes:
        coefficients: B.2, over p, for $|a| = 1$.
        norm: B.3.
        powers: B.4.
    """

    coefficients: float
    norm: float
    powers: float


def stated_orders(dim: int, num_samples: int, num_features: int) -> StatedOrders:
    r"""The bounds of Lemmas B.2 to B.4 on their gaps, up to constants.

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
    """
    d, n, p = dim, num_samples, num_features
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
    """
    rows, found, neurons = map(_wide, (inputs, found_inputs, weights))
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
    r"""Distance of the coefficients from the overlaps of the non-linear parts.

    $|\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/p - \tilde\mu^2a_i|$.

    Source: DR Lemma B.2, (37), over p; the left half of (6), which is printed without the p.

    Args:
        inputs, found_inputs, weights, activation: as in `span_coefficients`.

    Returns:
        (m, n): a row for each found row.
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
    r"""Distance of the coefficients' squared norm from one: $\bigl||a|^2 - 1\bigr|$.

    Source: DR Lemma B.3, (41); the right half of (6).

    Args:
        inputs, found_inputs, weights, activation: as in `span_coefficients`.

    Returns:
        (m,).
    """
    found = span_coefficients(inputs, found_inputs, weights, activation).values
    return np.abs(np.sum(found**2, axis=1) - 1)


def overlap_power_gaps(
    inputs: Float[Any, "n dim"], found_inputs: Float[Any, "m dim"], powers: Any
) -> Float[np.ndarray, "m powers"]:
    r"""Excess length of the powers of overlaps over those of the largest overlap.

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
    """
    rows, found = _wide(inputs), _wide(found_inputs)
    overlaps = np.abs(found @ rows.T) / rows.shape[1]
    largest = overlaps.max(axis=1)
    lengths = [np.linalg.norm(overlaps**order, axis=1) - largest ** (order - 1) for order in powers]
    return np.stack(lengths, axis=1)


def _wide(rows: Any) -> np.ndarray:
    return np.asarray(rows, np.float64)
