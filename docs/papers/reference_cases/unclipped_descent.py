"""Expected test error of DP-GD without clipping: mean and covariance, step by step."""

import numpy as np


def answers(inputs):
    train, test = np.array(inputs["train_features"]), np.array(inputs["test_features"])
    y, y_test = np.array(inputs["train_labels"]), np.array(inputs["test_labels"])
    rate, count = inputs["learning_rate"], len(y)
    noise = rate * (2 * inputs["clip_norm"] * inputs["noise_scale"] / count) ** 2
    mean, covariance = np.zeros(train.shape[1]), np.zeros((train.shape[1],) * 2)
    step = np.eye(len(mean)) - 2 * rate / count * train.T @ train
    for _ in range(inputs["num_steps"]):
        mean = step @ mean + 2 * rate / count * train.T @ y
        covariance = step @ covariance @ step.T + noise * np.eye(len(mean))
    bias = np.mean((test @ mean - y_test) ** 2)
    variance = np.mean(np.sum(test @ covariance * test, axis=1))
    return {"bias": bias, "variance": variance, "risk": bias + variance}
