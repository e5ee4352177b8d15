"""PF Algorithm 1 and its problems in NumPy, for tests: nothing of jaxdp."""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Inputs, labels, weights, and the features that they make."""

    train_inputs: np.ndarray
    train_labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    weights: np.ndarray
    train_features: np.ndarray
    test_features: np.ndarray


def relu(values):
    return np.maximum(values, 0)


def rows(seed, *, num_train, num_test, dim, num_features, activation=np.tanh, spread=0.0):
    """Gaussian rows with labels sign(u.x); `spread` makes the rows' norms unequal."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(dim)
    teacher /= np.linalg.norm(teacher)
    train, test = rng.standard_normal((num_train, dim)), rng.standard_normal((num_test, dim))
    weights = rng.standard_normal((num_features, dim)) / np.sqrt(dim)
    if spread:
        train *= np.exp(spread * rng.standard_normal((num_train, 1)))
    return Rows(
        train,
        np.sign(train @ teacher),
        test,
        np.sign(test @ teacher),
        weights,
        activation(train @ weights.T),
        activation(test @ weights.T),
    )


def twice_the_residual(predictions, labels):
    """Slopes of the squared loss."""
    return 2 * (predictions - labels)


def logistic_slope(predictions, labels):
    """Slopes of ln(1 + exp(-y f)), for labels -1 and +1."""
    return -labels / (1 + np.exp(labels * predictions))


def clipped_gradients(features, labels, theta, clip, slope=twice_the_residual):
    """The gradient of each row, (rows, features), scaled to norms of at most C."""
    gradients = slope(features @ theta, labels)[:, None] * features
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1, clip / norms)


def clipped_descent(
    features, labels, *, rate, clip, num_steps, slope=twice_the_residual, draw_noise=None
):
    """All iterates of one run of PF Algorithm 1 from zero, (T + 1, p), with such noise."""
    iterates = [np.zeros(features.shape[1])]
    for _ in range(num_steps):
        total = clipped_gradients(features, labels, iterates[-1], clip, slope).sum(0)
        noise = 0.0 if draw_noise is None else draw_noise(features.shape[1])
        iterates.append(iterates[-1] - rate / len(features) * total + noise)
    return np.array(iterates)


def algorithm_1(features, labels, test_features, test_labels, *, num_runs, seed, **settings):
    """Test error and clipped share of independent runs of PF Algorithm 1, (num_runs,) each."""
    eta, clip, sigma = (settings[name] for name in ("learning_rate", "clip_norm", "noise_scale"))
    rng = np.random.default_rng(seed)
    count, width = features.shape
    theta = np.zeros((num_runs, width))
    clipped = np.zeros(num_runs)
    lengths = np.linalg.norm(features, axis=1)
    for _ in range(settings["num_steps"]):
        slopes = 2 * (theta @ features.T - labels)
        norms = np.abs(slopes) * lengths  # of each sample's gradient 2 r phi
        factors = 1 / np.maximum(1, norms / clip)
        gradient = (factors * slopes) @ features / count
        noise = np.sqrt(eta) * (2 * clip * sigma / count) * rng.standard_normal(theta.shape)
        theta = theta - eta * gradient + noise
        clipped += np.mean(norms > clip, axis=1) / settings["num_steps"]
    return np.mean((theta @ test_features.T - test_labels) ** 2, axis=1), clipped


def scaled(data, *, epsilon, clip, tau, num_steps):
    """Settings in the units of the paper's figures: C/sqrt p, tau p/d; sigma of Proposition 3.2."""
    count, dim = data.train_inputs.shape
    width = data.weights.shape[0]
    duration = tau * dim / width
    return {
        "learning_rate": duration / num_steps,
        "clip_norm": clip * np.sqrt(width),
        "num_steps": num_steps,
        "noise_scale": np.sqrt(8 * duration * np.log(count)) / epsilon,
    }
