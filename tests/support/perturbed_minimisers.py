"""Objective perturbation in NumPy: minimisers of (copies, features, label), and their laws."""

import functools
import math

import numpy as np
from scipy.special import expit


def logistic(margins):
    """Slope and curvature of the loss."""
    return -expit(-margins), expit(margins) * expit(-margins)


def huber_hinge(width):
    def derivatives(margins):
        depth = (1 + width - margins) / (2 * width)
        is_inside = (depth > 0) & (depth < 1)
        return -np.clip(depth, 0, 1), is_inside / (2 * width)

    return derivatives


def gradient(derivatives, records, pull, coefficients):
    """The gradient of the summed objective but for b, and its Jacobian; `pull` is n lambda."""
    dim = coefficients.shape[-1]
    slopes = pull * coefficients
    jacobian = np.broadcast_to(pull * np.eye(dim), (*coefficients.shape, dim))
    for weight, features, label in records:
        features = np.asarray(features, float)
        slope, curvature = derivatives(label * (coefficients @ features))
        slopes = slopes + weight * (label * slope)[..., None] * features
        square = np.outer(features, features)
        jacobian = jacobian + weight * curvature[..., None, None] * square
    return slopes, jacobian


def minimisers(gradient, noise, pull, *, num_steps=200):
    """Where the gradient is -noise: damped Newton steps on a batch, until all gradients vanish."""
    coefficients = np.zeros_like(noise)
    slopes, jacobian = gradient(coefficients)
    size = np.ones(noise.shape[:-1])
    for _ in range(num_steps):
        step = np.linalg.solve(jacobian, (slopes + noise)[..., None])[..., 0]
        trial = coefficients - size[..., None] * step
        new_slopes, new_jacobian = gradient(trial)
        before, after = (np.linalg.norm(found + noise, axis=-1) for found in (slopes, new_slopes))
        is_better = after <= (1 - size / 10) * before + 1e-11
        size = np.where(is_better, np.minimum(1, 2 * size), size / 2)
        keep = is_better[..., None]
        coefficients, slopes = (
            np.where(keep, trial, coefficients),
            np.where(keep, new_slopes, slopes),
        )
        jacobian = np.where(keep[..., None], new_jacobian, jacobian)
        if np.all(np.linalg.norm(slopes + noise, axis=-1) < 1e-10 * (1 + pull)):
            return coefficients
    raise AssertionError("the reference did not converge")


def privacy_losses(first, second, noise, pull, std):
    """ln p_first/p_second where the noise leads under the first of two gradients."""
    found, total = minimisers(first, noise, pull), 0.0
    for gradient, sign in ((first, 1), (second, -1)):
        slopes, jacobian = gradient(found)
        log_density = -np.sum(slopes**2, axis=-1) / (2 * std**2)
        total = total + sign * (log_density + np.linalg.slogdet(jacobian)[1])
    return total


def divergence(derivatives, first, second, *, pull, std, epsilon, num=4001, across=9):
    """The hockey-stick divergence at epsilon, by quadrature over noise of one or two dimensions."""
    dim = len(first[0][1])
    nodes = np.linspace(-9, 9, num)
    weights = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi) * (nodes[1] - nodes[0])
    if dim == 1:
        noise = nodes[:, None]
    else:
        others, other_weights = np.polynomial.hermite_e.hermegauss(across)
        grid = np.meshgrid(nodes, others, indexing="ij")
        noise = np.stack([part.ravel() for part in grid], axis=-1)
        weights = np.outer(weights, other_weights / math.sqrt(2 * math.pi)).ravel()
    pair = (functools.partial(gradient, derivatives, part, pull) for part in (first, second))
    losses = privacy_losses(*pair, std * noise, pull, std)
    return float(weights @ np.maximum(-np.expm1(epsilon - losses), 0))
