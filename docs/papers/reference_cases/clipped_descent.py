"""Expected test error of DP-GD with clipping, closed at the weights' mean and covariance.

The slope of record i, 2 (f_i - y_i) with f_i normal, is cut at k = C / |phi_i|. The
closure needs the mean E, the mean square M and the mean derivative D of the cut slope.
"""

import math

import numpy as np


def answers(inputs):
    train, test = np.array(inputs["train_features"]), np.array(inputs["test_features"])
    y, y_test = np.array(inputs["train_labels"]), np.array(inputs["test_labels"])
    rate, count = inputs["learning_rate"], len(y)
    noise = rate * (2 * inputs["clip_norm"] * inputs["noise_scale"] / count) ** 2
    limit = inputs["clip_norm"] / np.linalg.norm(train, axis=1)
    below = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2)
    mean, covariance = np.zeros(train.shape[1]), np.zeros((train.shape[1],) * 2)
    risks = []
    for _ in range(inputs["num_steps"]):
        m = 2 * (train @ mean - y)
        sd = 2 * np.sqrt(np.sum(train @ covariance * train, axis=1)) + 1e-150  # not 0 / 0
        a, b = (-limit - m) / sd, (limit - m) / sd
        at_a, at_b = (np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        inside, over, under = below(b) - below(a), below(-b), below(a)
        slope = m * inside + sd * (at_a - at_b) + limit * (over - under)
        square = (m**2 + sd**2) * inside + 2 * m * sd * (at_a - at_b) + limit**2 * (over + under)
        square += sd**2 * (np.where(at_a > 0, a, 0) * at_a - np.where(at_b > 0, b, 0) * at_b)
        bend = square - slope**2 - inside**2 * sd**2  # of the cut, beyond its linear part
        step = np.eye(len(mean)) - 2 * rate / count * (train.T * inside) @ train
        mean = mean - rate / count * train.T @ slope
        covariance = step @ covariance @ step.T + noise * np.eye(len(mean))
        covariance += (rate / count) ** 2 * (train.T * np.maximum(bend, 0)) @ train
        spread = np.mean(np.sum(test @ covariance * test, axis=1))
        risks.append(np.mean((test @ mean - y_test) ** 2) + spread)
    return {"risk": risks}
