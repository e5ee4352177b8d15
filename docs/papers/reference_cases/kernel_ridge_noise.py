"""The noise of private kernel ridge regression: sum z z' and sum y z, released together.

Neighbours replace one record with |z| <= 1, |y| <= T. The second sum counts w times with
w T = sqrt(balance), and the distance of the two is largest at some cosine of z and z'.
"""

import math

import numpy as np


def delta_of(mu, epsilon):
    upper, lower = ((epsilon / mu + sign * mu / 2) / math.sqrt(2) for sign in (-1, 1))
    return math.erfc(upper) / 2 - math.exp(epsilon) * math.erfc(lower) / 2


def answers(inputs):
    count, bound = inputs["num_samples"], inputs["label_bound"]
    found = {"mu": [], "sensitivity": [], "std_of_C": [], "std_of_u": []}
    budgets = zip(inputs["epsilon"], inputs["delta"], inputs["balance"], strict=True)
    for epsilon, delta, balance in budgets:
        low, high = 0.0, 50.0
        for _ in range(100):
            mu = (low + high) / 2
            low, high = (mu, high) if delta_of(mu, epsilon) < delta else (low, mu)
        cosine = min(balance / 2, 1)  # the top of the parabola below
        distance = math.sqrt(2 - 2 * cosine**2 + 2 * balance * (1 + cosine))
        grid = np.linspace(0, 1, 101)
        assert np.all(2 - 2 * grid**2 + 2 * balance * (1 + grid) <= distance**2 * (1 + 1e-15))
        found["mu"].append(mu)
        found["sensitivity"].append(distance)
        found["std_of_C"].append(distance / mu / count)
        found["std_of_u"].append(distance / mu / math.sqrt(balance) * bound / count)
    return found
