"""mu-Gaussian differential privacy in terms of (epsilon, delta), both ways, by bisection."""

import math


def delta_of(mu, epsilon):
    upper, lower = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tails = (math.erfc(x / math.sqrt(2)) / 2 for x in (upper, lower))
    return next(tails) - math.exp(epsilon) * next(tails)


def bisected(function, target):
    """Where an increasing function of a positive number has this value."""
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return middle


def answers(inputs):
    found = {"delta": [], "epsilon": [], "mu": []}
    for mu, epsilon, delta in zip(inputs["mu"], inputs["epsilon"], inputs["delta"], strict=True):
        found["delta"].append(delta_of(mu, epsilon))
        found["epsilon"].append(bisected(lambda e, mu=mu: -delta_of(mu, e), -delta))
        found["mu"].append(bisected(lambda m, e=epsilon: delta_of(m, e), delta))
    return found
