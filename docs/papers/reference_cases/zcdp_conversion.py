"""The best epsilon of z-zCDP at delta: the least over all Renyi orders alpha > 1."""

import numpy as np


def answers(inputs):
    z, delta = np.array(inputs["zcdp"]), np.array(inputs["delta"])
    # In excess = alpha - 1: z excess^2 + ln(1 + excess) = ln(1/delta) at the best order.
    low, high = np.zeros_like(z), np.sqrt(-np.log(delta) / z)
    for _ in range(200):
        middle = (low + high) / 2
        is_below = z * middle**2 + np.log1p(middle) < -np.log(delta)
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    alpha = 1 + low
    epsilon = alpha * z - np.log(alpha * delta) / low + np.log1p(-1 / alpha)
    return {"order": alpha, "epsilon": epsilon, "published": z + 2 * np.sqrt(-z * np.log(delta))}
