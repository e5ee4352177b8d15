"""The calibration of objective perturbation: every step of its proof, and the whole, by numbers."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from perturbed_minimisers import divergence, gradient, huber_hinge, logistic, privacy_losses

from jaxdp.kernels.margin.objective_calibration import objective_perturbation_std
from jaxdp.privacy import ObjectivePerturbationMechanism, gaussian_delta
from jaxdp.privacy.adjacency import REPLACE_ONE

_FLIP = ([(1, [1.0], 1)], [(1, [1.0], -1)])


def _calibrated(epsilon, delta, smoothness=0.25, num_samples=500, **options):
    sizes = {"input_bound": 1.0, "lipschitz": 1.0, "num_samples": num_samples}
    return objective_perturbation_std(epsilon, delta, smoothness=smoothness, **sizes, **options)


def test_the_bound_for_slopes_of_any_sign_is_the_one_found_independently():
    for arguments, std, floor in (
        ((0.5, 1e-5, 0.25), 19.17727050671384, 0.00375520697750092),
        ((2.0, 1e-6, 1.0), 5.991311772303464, 0.0030829881650735963),
    ):
        found = _calibrated(*arguments)
        assert found.noise_std == pytest.approx(std, rel=1e-9)
        assert found.ridge == found.ridge_floor == pytest.approx(floor, rel=1e-12)
        assert found.log_jacobian == pytest.approx(arguments[0] / 4, rel=1e-9)


@pytest.mark.parametrize("narrow", [np.float32, jnp.float32])
def test_narrow_numbers_are_answered_in_float64(narrow):
    # The rounding that is allowed for is that of float64.
    epsilon, delta = narrow(1.1), narrow(1e-5)
    found, wide = _calibrated(epsilon, delta), _calibrated(float(epsilon), float(delta))
    assert found.noise_std == wide.noise_std
    mechanism = ObjectivePerturbationMechanism(0.5, 0.1)
    assert mechanism.delta(epsilon) == mechanism.delta(float(epsilon))
    assert mechanism.epsilon(delta, REPLACE_ONE) == mechanism.epsilon(float(delta), REPLACE_ONE)


def test_the_loss_is_at_most_its_largest_at_a_vertex():
    rng = np.random.default_rng(1)
    for derivatives, smoothness in ((logistic, 0.25), (huber_hinge(0.1), 5.0)):
        std, pull = 1.3, 0.9
        shared = [
            (1, row, label)
            for row, label in zip(rng.normal(size=(4, 2)), [1, -1, 1, 1], strict=True)
        ]
        for _ in range(20):
            z, other = rng.normal(size=(2, 2))
            z, other = z / max(1, np.linalg.norm(z)), other / max(1, np.linalg.norm(other))
            labels = rng.choice([-1, 1], 2)
            first, second = [*shared, (1, z, labels[0])], [*shared, (1, other, labels[1])]
            noise = std * rng.normal(size=(300, 2))
            slopes = functools.partial(gradient, derivatives)
            pair = (functools.partial(slopes, part, pull) for part in (first, second))
            losses = privacy_losses(*pair, noise, pull, std)
            a, b = -labels[0] * z, labels[1] * other
            vertices = np.stack([0 * a, a, b, a + b])
            shifted = (2 * noise @ vertices.T + np.sum(vertices**2, axis=1)) / (2 * std**2)
            most = math.log1p(smoothness / pull) + shifted.max(axis=1)
            assert np.all(losses <= most + 1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_a_flipped_label_costs_nearly_what_is_claimed(epsilon, delta):
    # A large ridge keeps the minimiser where both labels have the full slope.
    found = _calibrated(epsilon, delta, 1.0, ridge=2.0, margin_loss=True)
    sizes = {"pull": 500 * found.ridge, "epsilon": epsilon}
    exact = divergence(huber_hinge(0.5), *_FLIP, std=found.noise_std, **sizes)
    assert 0.97 * delta < exact <= delta
    less = divergence(huber_hinge(0.5), *_FLIP, std=found.noise_std / 2, **sizes)
    assert less > 20 * delta


@pytest.mark.parametrize("ridge", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "wide", "narrow"])
def test_no_pair_of_records_exceeds_delta(loss, ridge):
    derivatives, smoothness = {
        "logistic": (logistic, 0.25),
        "wide": (huber_hinge(0.5), 1.0),
        "narrow": (huber_hinge(0.02), 25.0),
    }[loss]
    epsilon, delta = 1.0, 1e-4
    found = _calibrated(epsilon, delta, smoothness, ridge=ridge, margin_loss=True)
    pull, std = 500 * found.ridge, found.noise_std
    shared = (30, [0.4], 1)
    pairs = [
        *(_FLIP, ([(1, [1.0], 1)], [(1, [0.0], 1)])),
        *(([shared, (1, [1.0], 1)], [shared, (1, [z], y)]) for z, y in ((1.0, -1), (0.3, 1))),
    ]
    for pair in pairs:
        for first, second in (pair, pair[::-1]):
            sizes = {"pull": pull, "std": std, "epsilon": epsilon, "num": 1501}
            assert divergence(derivatives, first, second, **sizes) <= delta


def test_the_logistic_loss_comes_near_its_bound_in_the_plane():
    # On a line the two slopes of a flipped label add up to one; off it, other records can push
    # both margins far below zero, where each is one.
    sine, num = 0.3, 10**8
    cosine = math.sqrt(1 - sine**2)
    shared = (num, [0.0, 1.0], -1)
    first, second = ([shared, (1, [sign * cosine, sine], 1)] for sign in (1.0, -1.0))
    found = _calibrated(1.0, 1e-4, num_samples=num, ridge=1e-6, margin_loss=True)
    sizes = {"pull": num * found.ridge, "epsilon": 1.0, "num": 1201, "across": 5}
    exact = divergence(logistic, first, second, std=found.noise_std, **sizes)
    # At least what nine tenths of the shift would give.
    assert gaussian_delta(0.9 * 2 / found.noise_std, 1.0) < exact <= 1e-4
    on_a_line = divergence(logistic, *_FLIP, std=found.noise_std, **{**sizes, "num": 2001})
    assert on_a_line < 1e-8


def _law_with_noise(records, centre_shift, pull, std, coefficient_std, grid):
    """Density of minimiser + shift + noise on a grid, for the narrow hinge on a line."""
    slopes, jacobian = gradient(huber_hinge(0.02), records, pull, grid[:, None])
    density = np.exp(-(slopes[:, 0] ** 2) / (2 * std**2)) * jacobian[:, 0, 0]
    density /= density.sum()
    kernel = np.exp(-((grid - centre_shift) ** 2) / (2 * coefficient_std**2))
    return np.convolve(density, kernel / kernel.sum(), mode="same")


def test_an_approximate_minimiser_is_covered_by_its_noise():
    epsilon, delta, tolerance = 1.0, 1e-3, 0.004
    shares = {"margin_loss": True, "ridge": 0.1, "approximation_share": 0.5}
    found = _calibrated(epsilon, delta, 25.0, 500, **shares)
    pull, far = 500 * found.ridge, tolerance / found.ridge
    grid = np.linspace(-2, 2, 8001)

    def worst(coefficient_std):
        # The solver ends as far to one side as its tolerance allows, and to the other for the
        # neighbour.
        laws = [
            _law_with_noise(records, side * far, pull, found.noise_std, coefficient_std, grid)
            for records, side in zip(_FLIP, (1, -1), strict=True)
        ]
        return np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum()

    assert worst(found.coefficient_std(tolerance)) <= delta
    # In this direction the two shifts add up; without enough noise they show.
    assert worst(found.coefficient_std(tolerance) / 20) > 1.2 * delta


def test_what_is_reported_never_exceeds_what_was_asked():
    for epsilon in (0.01, 0.5, 3.0, 30.0):
        for delta in (1e-10, 1e-5, 0.1):
            for ridge in (0.0, 0.5):
                options = {"margin_loss": True, "approximation_share": 0.01, "ridge": ridge}
                found = _calibrated(epsilon, delta, **options)
                reported = found.mechanism.epsilon(delta, "replace-one")
                assert reported <= epsilon
                if found.mechanism.delta(found.log_jacobian) > delta:
                    assert reported == pytest.approx(epsilon, rel=1e-8)


def test_units_of_the_features_do_not_matter():
    one = _calibrated(1.0, 1e-5, ridge=0.01)
    sizes = {"lipschitz": 2.0, "smoothness": 0.25, "num_samples": 500}
    other = objective_perturbation_std(1.0, 1e-5, input_bound=3.0, ridge=0.09, **sizes)
    assert other.noise_std == pytest.approx(6 * one.noise_std)
    assert other.log_jacobian == pytest.approx(one.log_jacobian)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1e-300, 1e-150, 1e150, 1e300, 1.7e308])
@pytest.mark.parametrize("delta", [1e-300, 1e-5])
def test_a_budget_has_noise_that_float64_holds_or_is_refused_by_its_name(epsilon, delta):
    constants = {"input_bound": 1.0, "lipschitz": 1.0, "smoothness": 0.25, "num_samples": 100}
    try:
        found = objective_perturbation_std(epsilon, delta, **constants)
    except ValueError as error:
        assert "expected an epsilon that some" in str(error)  # noqa: PT017
        assert epsilon < 1e-300 or epsilon > 1e290
    else:
        assert 0 < found.noise_std < math.inf
        assert found.ridge < math.inf
