"""Several classes at once: the calibration's inequalities, and the whole by exact quadrature.

Source: PK Algorithm 2 and Theorem 9, for several outputs.
"""

import functools
import math

import numpy as np
import pytest
from perturbed_minimisers import privacy_losses
from scipy.special import softmax

from jaxdp.kernels.margin.objective_calibration import (
    objective_perturbation_std,
    softmax_perturbation_std,
)

CLASSES, EPSILON, DELTA = 3, 1.0, 1e-3


@pytest.mark.parametrize("num_classes", [2, 3, 6])
def test_a_record_changes_the_determinant_by_no_more_than_stated(num_classes):
    rng, worst = np.random.default_rng(3), 0.0
    ridge, size = 0.3, 2
    allowed = (num_classes - 1) * math.log1p(1 / (num_classes * ridge))
    # What is charged for it, of one record and a ridge above the floor, is that.
    found = softmax_perturbation_std(
        40.0, 1e-5, input_bound=1.0, num_classes=num_classes, num_samples=1, ridge=ridge
    )
    assert found.ridge == ridge
    assert found.log_jacobian == pytest.approx(allowed, rel=1e-9)
    assert found.log_jacobian >= allowed
    for scale in (0.0, 0.1, 1.0, 5.0):
        shares = softmax(scale * rng.normal(size=num_classes))
        curvature = np.diag(shares) - np.outer(shares, shares)
        direction = rng.normal(size=size)
        direction /= np.linalg.norm(direction)
        block = np.kron(np.outer(direction, direction), curvature)
        root = rng.normal(size=(size * num_classes, 4)) * scale / 4
        shared = ridge * np.eye(len(block)) + root @ root.T
        change = np.linalg.slogdet(shared + block)[1] - np.linalg.slogdet(shared)[1]
        assert 0 <= change <= allowed * (1 + 1e-12)
        worst = max(worst, change)
    # Attained by equal shares and nothing but the ridge.
    assert worst == pytest.approx(allowed, rel=1e-9)


def test_two_classes_are_the_logistic_loss_of_their_difference():
    given = {"num_samples": 500, "ridge": 0.02, "approximation_share": 0.01}
    two = softmax_perturbation_std(1.0, 1e-5, input_bound=1.0, num_classes=2, **given)
    constants = {"input_bound": math.sqrt(2), "lipschitz": 1.0, "smoothness": 0.25}
    margin = objective_perturbation_std(1.0, 1e-5, **constants, margin_loss=True, **given)
    assert two.noise_std == pytest.approx(margin.noise_std, rel=1e-9)
    assert two.ridge_floor == pytest.approx(margin.ridge_floor, rel=1e-12)
    assert two.log_jacobian == pytest.approx(margin.log_jacobian, rel=1e-9)


def _slopes(records, pull, coefficients):
    """Gradient and Jacobian of the summed objective but for b, one feature a record."""
    slopes = pull * coefficients
    jacobian = np.broadcast_to(pull * np.eye(CLASSES), (*coefficients.shape, CLASSES))
    for feature, label in records:
        shares = softmax(coefficients * feature, axis=-1)
        slopes = slopes + feature * (shares - np.eye(CLASSES)[label])
        square = (
            shares[..., :, None] * np.eye(CLASSES) - shares[..., :, None] * shares[..., None, :]
        )
        jacobian = jacobian + feature**2 * square
    return slopes, jacobian


def _divergence(first, second, std, pull, num=61):
    """Hockey-stick, by quadrature over the plane of the noise in which the data act."""
    nodes = np.linspace(-7, 7, num)
    weights = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi) * (nodes[1] - nodes[0])
    plane = np.asarray([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    pair = (functools.partial(_slopes, records, pull) for records in (first, second))
    loss = privacy_losses(*pair, std * grid @ plane, pull, std)
    return np.outer(weights, weights).ravel() @ np.maximum(-np.expm1(EPSILON - loss), 0)


@pytest.mark.parametrize("ridge", [pytest.param(0.0, marks=pytest.mark.slow), 5.0])
def test_the_divergence_of_worst_records_stays_within_delta(ridge):
    found = softmax_perturbation_std(
        EPSILON, DELTA, input_bound=1.0, num_classes=CLASSES, num_samples=1, ridge=ridge
    )
    pairs = [((1.0, 0), (1.0, 1)), ((1.0, 0), (-1.0, 0)), ((1.0, 0), (0.0, 0))]
    kept = [_divergence([a], [b], found.noise_std, found.ridge) for a, b in pairs]
    assert max(kept) <= DELTA
    # The same quadrature sees a third of the noise.
    assert _divergence([pairs[0][0]], [pairs[0][1]], found.noise_std / 3, found.ridge) > 1.5 * DELTA
