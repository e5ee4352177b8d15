"""mu(z) = E clip_z(g) g = P(|g| <= z) and nu(z) = E clip_z(g)^2, by quadrature over |g| <= z."""

import math

import numpy as np


def answers(inputs):
    nodes, weights = np.polynomial.legendre.leggauss(80)
    descent, variance = [], []
    for ratio in inputs["ratio"]:
        end = min(ratio, 12.0)  # beyond 12 standard deviations there is nothing
        g = end * (nodes + 1) / 2
        density = end / 2 * weights * np.sqrt(2 / np.pi) * np.exp(-(g**2) / 2)
        descent.append(density.sum())
        variance.append(density @ g**2 + ratio**2 * math.erfc(ratio / math.sqrt(2)))
    return {"descent_factor": descent, "variance_factor": variance}
