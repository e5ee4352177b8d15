"""E phi(g) h_k(g) in the orthonormal Hermite basis, by quadrature on either side of the kink."""

import math

import numpy as np


def answers(inputs):
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(0, 14, 29)
    half = np.diff(edges)[:, None] / 2
    g = (edges[:-1, None] + half * (nodes + 1)).ravel()
    g, weights = np.append(-g, g), np.tile((half * weights).ravel(), 2)
    density = weights * np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)
    found = {}
    for name, phi in (("tanh", np.tanh(g)), ("relu", np.maximum(g, 0))):
        before, now, found[name] = np.zeros_like(g), np.ones_like(g), []
        for order in range(inputs["max_order"] + 1):
            found[name].append(density @ (phi * now))
            following = g * now - math.sqrt(order) * before
            before, now = now, following / math.sqrt(order + 1)
    return found
