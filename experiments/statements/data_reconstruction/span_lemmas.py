r"""The quantities that DR's proof of Theorem 1 bounds, as numbers.

$\hat x$ is a row whose features are a combination of the training rows', (5) and (17):
$\varphi(\hat x) = \sum_i a_i\varphi(x_i)$. With the non-linear part $\tilde\phi(z) = \phi(z) -
\mu_1z$ and $\tilde\mu^2 = \sum_{l\ge3}\mu_l^2$, the lemmas say that three gaps vanish if
p exceeds dn: that $a_i$ is $\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/(\tilde\mu^2p)$ (B.2, the
left half of (6)), that $|a|^2$ is 1 (B.3, the right half), and that the entrywise powers of
$X\hat x/d$ are no longer than those of its largest entry C (B.4, (7)). Their bounds are orders,
without constants: `stated_orders`. (6)'s first half is printed without its factor p; B.2 has it.

They rest on Lemma B.1: for an activation with $\mu_0 = \mu_2 = 0$ the products
$\tilde\varphi(x)^\top\tilde\varphi(x')$ of two rows have the mean
$p\sum_{l\ge3}\mu_l^2(x^\top x'/d)^l$: almost 0 except for a row with itself. Without these
conditions they have $\mu_0^2 + \mu_2^2(x^\top x'/d)^2$ as well.

All in float64 on the host. `inputs` are training rows X, `found_inputs` rows $\hat x$, `weights` V
and `activation` is phi, elementwise. Derived: test_span_lemmas.py.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.numerics.hermite import evaluate_on_host, host_function, scaled_coefficients
from jaxdp.theory.reconstruction.error import Activation


def nonlinear_power(activation: Activation) -> float:
    r"""Power $\tilde\mu^2 = E\phi^2 - \mu_0^2 - \mu_1^2 - \mu_2^2$ beyond the quadratic part.

    Source: DR Appendix B.
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
    independent ones, and the same if the second factor is $\varphi(x')$ with its linear part.
    """
    first, second = (_arguments(rows, weights) for rows in (inputs, others))
    linear = _linear(activation)
    tilde = evaluate_on_host(activation, first) - linear * first
    other = evaluate_on_host(activation, second) - (0 if with_linear_part else linear) * second
    return tilde @ other.T / first.shape[1]


def _arguments(rows, weights):
    """Vx of every row."""
    return np.asarray(rows, np.float64) @ np.asarray(weights, np.float64).T


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
    """The orders that Lemmas B.2 (over p, for |a| = 1), B.3 and B.4 give, without constants."""

    coefficients: float
    norm: float
    powers: float


def stated_orders(dim: int, num_samples: int, num_features: int) -> StatedOrders:
    r"""The bounds of Lemmas B.2 to B.4 on their gaps, up to constants; below 1 for enormous d only.

    $2[\sqrt{d/p}\log d + \sqrt{n/p}\log d + \sqrt n\log^3d/d^{3/2}]$,
    $\sqrt{dn/p}\log d + \log^3d/\sqrt d$ and $d^{-1/10}$.

    Source: DR Lemma B.2, (37); Lemma B.3, (41); Lemma B.4, (50).
    """
    d, n, p = dim, num_samples, num_features
    log, root = math.log(d), math.sqrt(n)
    first = (math.sqrt(d) + root) * log / math.sqrt(p) + root * (log / d**0.5) ** 3
    return StatedOrders(2 * first, root * math.sqrt(d / p) * log + log**3 / d**0.5, d**-0.1)


def span_coefficients(
    inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "m dim"],
    weights: Float[Any, "features dim"],
    activation: Activation,
) -> SpanCoefficients:
    """The combinations of training features that come closest to the features of found rows.

    Source: DR (5) and (17). There are at most as many training rows as features.
    """
    features, others = (
        evaluate_on_host(activation, _arguments(rows, weights)) for rows in (inputs, found_inputs)
    )
    values = np.linalg.lstsq(features.T, others.T, rcond=None)[0].T
    left = np.sum((others - values @ features) ** 2, axis=1) / np.sum(others**2, axis=1)
    return SpanCoefficients(values, left)


def coefficient_gaps(inputs, found_inputs, weights, activation) -> Float[np.ndarray, "m n"]:
    r"""Distances $|\tilde\varphi(x_i)^\top\tilde\varphi(\hat x)/p - \tilde\mu^2a_i|$ of overlaps.

    Source: DR Lemma B.2, (37), over p; the left half of (6), which is printed without the p.
    """
    found = span_coefficients(inputs, found_inputs, weights, activation).values
    overlaps = nonlinear_products(found_inputs, inputs, weights, activation)
    return np.abs(overlaps - nonlinear_power(activation) * found)


def norm_gaps(inputs, found_inputs, weights, activation) -> Float[np.ndarray, " m"]:
    r"""Distances $\bigl||a|^2 - 1\bigr|$ of the coefficients' squared norms from one.

    Source: DR Lemma B.3, (41); the right half of (6).
    """
    found = span_coefficients(inputs, found_inputs, weights, activation).values
    return np.abs(np.sum(found**2, axis=1) - 1)


def overlap_power_gaps(
    inputs: Float[Any, "n dim"], found_inputs: Float[Any, "m dim"], powers: Any
) -> Float[np.ndarray, "m powers"]:
    r"""Excess length of the powers l >= 2 of overlaps over those of the largest overlap.

    $\|(X\hat x)^{\circ l}/d^l\| - C^{l-1}$ with $C = \max_i|x_i^\top\hat x|/d$, for rows on the
    sphere of radius $\sqrt d$. At most $C^{l-1}(\|X\|_{op}/\sqrt d - 1)$, whatever the rows, as
    $|X\hat x/d|$ is at most $\|X\|_{op}/\sqrt d$: the lemma's union over subsets of rows is needed
    if n grows with d.

    Source: DR Lemma B.4, (49) and (50); (7).
    """
    overlaps = np.abs(_arguments(found_inputs, inputs)) / np.shape(inputs)[1]
    largest = overlaps.max(axis=1)
    lengths = [np.linalg.norm(overlaps**order, axis=1) - largest ** (order - 1) for order in powers]
    return np.stack(lengths, axis=1)
