r"""Expectations of a product of one function of two correlated Gaussians, by quadrature.

For functions with kinks or jumps and correlations near one, where a series in Hermite polynomials
converges too slowly: panels are cut at the kinks and graded where the inner expectation bends.
"""

import math

import numpy as np

from jaxdp.core.numerics.hermite import NODES, WEIGHTS

# Reaches of the two integrals in standard deviations; the inner one is also taken by Gauss-Hermite
# nodes, which are exact where no edge is near.
_REACH, _INNER_REACH = 12.0, 9.0
_GRADES = np.array([-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
_INNER_NODES, _INNER_WEIGHTS = np.polynomial.legendre.leggauss(48)
_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / math.sqrt(2 * math.pi)


def pair_expectations(function, outer, inner, outer_scale, inner_scale, cosine, sine):
    """E[phi(s g) phi(s' (rho g + sqrt(1 - rho^2) h))], the inner expectation over h first.

    As a function of g the inner expectation changes over sqrt(1 - rho^2) / rho at each kink, so
    that the panels in g are graded around it.
    """
    slope = inner_scale * cosine
    graded = inner.kinks[:, None] / slope[:, None, None] + (
        (sine / np.abs(cosine))[:, None, None] * _GRADES
    )
    cuts = [
        np.broadcast_to(np.linspace(-_REACH, _REACH, 13), (len(slope), 13)),
        outer.edges / outer_scale[:, None],
        inner.edges / slope[:, None],
        graded.reshape(len(slope), -1),
    ]
    edges = np.sort(np.clip(np.concatenate(cuts, axis=1), -_REACH, _REACH), axis=1)
    half = np.diff(edges, axis=1) / 2
    pair, panel = np.nonzero(half > 1e-16)
    half = half[pair, panel][:, None]
    g = edges[pair, panel][:, None] + half * (1 + NODES)
    measure = half * WEIGHTS * np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)
    pair = np.repeat(pair, len(NODES))
    g = g.ravel()
    smoothed = _smoothed(function, inner.edges, slope[pair] * g, (inner_scale * sine)[pair])
    terms = measure.ravel() * function(outer_scale[pair] * g) * smoothed
    return np.bincount(pair, terms, minlength=len(slope))


def _smoothed(function, edges, mean, std):
    """E[phi(mean + std h)] at each entry; phi is a polynomial between the edges."""
    result = np.empty(len(mean))
    low = np.searchsorted(edges, mean - _INNER_REACH * std)
    num_inside = np.searchsorted(edges, mean + _INNER_REACH * std) - low
    exact = std <= 1e-15 * np.abs(edges).max()
    result[exact] = function(mean[exact]) if exact.any() else 0.0
    num_inside[exact] = -1
    for count in np.unique(num_inside[~exact]):
        of_count = np.flatnonzero(num_inside == count)
        rows = max(1, 2**19 // (len(_INNER_NODES) * (count + 1)))
        for start in range(0, len(of_count), rows):
            part = of_count[start : start + rows]
            m, s = mean[part, None], std[part, None]
            if count == 0:
                h, weights = _HERMITE_NODES, _HERMITE_WEIGHTS
            else:
                ends = np.full((len(part), 1), _INNER_REACH)
                inside = (edges[low[part, None] + np.arange(count)] - m) / s
                cuts = np.concatenate([-ends, inside, ends], axis=1)
                half = np.diff(cuts, axis=1)[..., None] / 2
                h = (cuts[:, :-1, None] + half * (1 + _INNER_NODES)).reshape(len(part), -1)
                weights = (half * _INNER_WEIGHTS).reshape(h.shape) * np.exp(-(h**2) / 2)
                weights /= math.sqrt(2 * math.pi)
            x = m + s * h
            result[part] = (function(x.ravel()).reshape(x.shape) * weights).sum(axis=1)
    return result
