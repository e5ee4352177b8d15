"""Private training of a linear model in NumPy and float64: Abadi et al. (2016), Algorithm 1.

Momentum is as in PyTorch, Adam as in Kingma and Ba (2015), Algorithm 1. Nothing is from jaxdp.
"""

import numpy as np


class Momentum:
    """v <- b v + g and theta <- theta - eta v."""

    def __init__(self, rate, decay):
        self.rate, self.decay, self.velocity = rate, decay, 0.0

    def change(self, gradient):
        self.velocity = self.decay * self.velocity + gradient
        return -self.rate * self.velocity


class Adam:
    """With the constants of the paper."""

    def __init__(self, rate, first=0.9, second=0.999, epsilon=1e-8):
        self.rate, self.first, self.second, self.epsilon = rate, first, second, epsilon
        self.mean, self.square, self.steps = 0.0, 0.0, 0

    def change(self, gradient):
        self.steps += 1
        self.mean = self.first * self.mean + (1 - self.first) * gradient
        self.square = self.second * self.square + (1 - self.second) * gradient**2
        mean = self.mean / (1 - self.first**self.steps)
        square = self.square / (1 - self.second**self.steps)
        return -self.rate * mean / (np.sqrt(square) + self.epsilon)


def squared(predictions, labels):
    """Values of (f - y)^2 and slopes, for predictions (..., rows, 1)."""
    residuals = predictions - labels[:, None]
    return residuals[..., 0] ** 2, 2 * residuals


def logistic(predictions, labels):
    """Values of ln(1 + exp(-y f)) and slopes, for labels -1 and +1."""
    margins = labels[:, None] * predictions
    return np.log1p(np.exp(-margins))[..., 0], -labels[:, None] / (1 + np.exp(margins))


def softmax(predictions, labels):
    """Values of the cross entropy and slopes, for labels 0, ..., k - 1."""
    powers = np.exp(predictions - predictions.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    own = np.eye(predictions.shape[-1])[labels.astype(int)]
    return -np.log(np.sum(shares * own, axis=-1)), shares - own


def clipped_gradients(features, slopes, clip_norm):
    """Gradients of each row, (rows, features, outputs), scaled to norms of at most C; norms."""
    gradients = features[:, :, None] * slopes[:, None, :]
    norms = np.sqrt(np.sum(gradients**2, axis=(1, 2)))
    factors = 1 / np.maximum(1, norms / clip_norm)
    return gradients * factors[:, None, None], norms


def dp_sgd(
    features,
    labels,
    rng,
    num_runs,
    *,
    loss,
    optimiser,
    clip_norm,
    noise_multiplier,
    sampling_rate,
    num_steps,
    num_outputs=1,
    noise_is_in="sum",
):
    """The iterates of independent runs, (T + 1, runs, features, outputs).

    `noise_is_in` is "sum", as printed, or a mistake: "mean", where noise of the sum's size is added
    to the mean, or "weights", where the optimiser does not see the noise.
    """
    theta = np.zeros((num_runs, features.shape[1], num_outputs))
    path = [theta]
    expected_size = sampling_rate * len(features)
    lengths = np.linalg.norm(features, axis=1)
    for _ in range(num_steps):
        batch = rng.random((num_runs, len(features))) < sampling_rate
        _, slopes = loss(features @ theta, labels)
        norms = lengths * np.linalg.norm(slopes, axis=-1)
        factors = batch / np.maximum(1, norms / clip_norm)
        total = features.T @ (slopes * factors[..., None])
        noise = noise_multiplier * clip_norm * rng.normal(size=theta.shape)
        if noise_is_in == "sum":
            theta = theta + optimiser.change((total + noise) / expected_size)
        elif noise_is_in == "mean":
            theta = theta + optimiser.change(total / expected_size + noise)
        else:
            theta = theta + optimiser.change(total / expected_size)
            theta = theta - optimiser.rate * noise / expected_size
        path.append(theta)
    return np.asarray(path)
