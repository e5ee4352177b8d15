r"""The overlap of two Gaussians without cancellation, for NumPy and for JAX.

With $n = \epsilon/\mu - \mu/2$ and $f = n + \mu$ both terms of the Gaussian $\delta$ are
$\varphi(n)$ times a Mills ratio $R(x) = \int_0^\infty e^{-xt - t^2/2}\,dt$, so

$$\delta = \varphi(n)\,[R(n) - R(f)] = \varphi(n)\int_0^\infty e^{-nt-t^2/2}(1 - e^{-\mu t})\,dt.$$

Every term of the integral is positive: a fixed quadrature keeps its digits where the difference
would lose them. Derived: tests/privacy/conversions/test_gaussian.py compares with high precision.
"""

from typing import Any

import numpy as np

# Nodes on [0, 1], and the exponent at which the integrand is cut off, by bytes of the type.
_ORDERS = {4: (16, 20.0), 8: (32, 40.0)}
_RULES = {
    size: ((1 + nodes) / 2, weights / 2, cut_off)
    for size, (order, cut_off) in _ORDERS.items()
    for nodes, weights in [np.polynomial.legendre.leggauss(order)]
}


def mills_ratio(library: Any, x: Any) -> Any:
    """R(x) for x >= -1."""
    return _integrals(library, x, None)[0]


def mills_ratio_and_gap(library: Any, x: Any, shift: Any) -> tuple[Any, Any]:
    """R(x), and R(x) - R(x + shift) for 0 <= shift <= 1, for x >= -1."""
    return _integrals(library, x, shift)


def _integrals(library, x, shift):
    x = library.asarray(x)
    nodes, weights, cut_off = _RULES[x.dtype.itemsize]
    # Along the last axis, beside those of the arguments.
    nodes, weights = (part.astype(x.dtype).reshape(*(1,) * x.ndim, -1) for part in (nodes, weights))
    # x t + t^2 / 2 = cut_off, in the form that does not cancel.
    width = 2 * cut_off / (x + library.sqrt(x * x + 2 * cut_off))
    times = width[..., None] * nodes
    terms = library.exp(-times * (x[..., None] + times / 2)) * weights
    ratio = width * terms.sum(-1)
    if shift is None:
        return ratio, None
    gap = width * (terms * -library.expm1(-library.asarray(shift)[..., None] * times)).sum(-1)
    return ratio, gap
