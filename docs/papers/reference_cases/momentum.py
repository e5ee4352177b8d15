"""Momentum as a matrix: (weight, velocity) <- F (weight, velocity) + g gradient.

And what it makes of noise: the variance of the weight when every gradient is standard normal.
"""

import numpy as np


def answers(inputs):
    eta, beta = inputs["learning_rate"], inputs["momentum"]
    matrices = {
        "heavy_ball": ([[1, -eta * beta], [0, beta]], [-eta, 1]),
        "nesterov": ([[1, -eta * beta**2], [0, beta]], [-eta * (1 + beta), 1]),
    }
    found = {}
    for name, (transition, injection) in matrices.items():
        transition, injection = np.array(transition, float), np.array(injection, float)
        covariance = np.zeros((2, 2))
        for _ in range(inputs["num_steps"]):
            covariance = transition @ covariance @ transition.T + np.outer(injection, injection)
        found[name] = {"F": transition, "g": injection, "variance": covariance[0, 0]}
    return found
