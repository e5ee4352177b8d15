"""What holds for every loss: its slope is its derivative, and its bounds are the smallest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import losses

HUBER = losses.Huber(0.75)
# With labels that each takes.
SCALAR = {
    "squared": (losses.Squared(), (-1.5, 0.0, 2.0)),
    "half squared": (losses.HalfSquared(), (-1.5, 0.0, 2.0)),
    "Huber": (HUBER, (-1.5, 0.0, 2.0)),
    "logistic": (losses.Logistic(), (-1.0, 1.0)),
}
each_scalar = pytest.mark.parametrize("name", SCALAR)
GRID = np.linspace(-9, 9, 721)
SOFTMAX = losses.Softmax(3)


def _on_grid(name):
    loss, labels = SCALAR[name]
    predictions, labels = (part.ravel() for part in np.meshgrid(GRID, labels))
    return loss, jnp.asarray(predictions), jnp.asarray(labels)


@each_scalar
def test_the_slope_is_the_derivative_of_the_value(name):
    with jax.enable_x64():
        loss, predictions, labels = _on_grid(name)
        derivative = jax.jit(jax.vmap(jax.grad(loss.value)))(predictions, labels)
        np.testing.assert_allclose(loss.slope(predictions, labels), derivative, atol=1e-14)
        assert derivative.dtype == jnp.float64


# Source: PK Assumption 1.
@each_scalar
def test_bounds_on_slope_and_curvature_hold_and_are_met(name):
    with jax.enable_x64():
        loss, predictions, labels = _on_grid(name)
        curvatures = jax.jit(jax.vmap(jax.grad(loss.slope)))(predictions, labels)
        assert curvatures.min() >= 0
        np.testing.assert_allclose(curvatures.max(), loss.curvature_bound, rtol=1e-12)
        slopes = jnp.abs(loss.slope(10 * predictions, labels))
        if np.isinf(loss.slope_bound):
            assert slopes.max() > 50
        else:
            np.testing.assert_allclose(slopes.max(), loss.slope_bound, rtol=1e-12)


def test_values_are_the_formulas():
    prediction, label = 0.7, -1.0
    known = {
        "squared": 1.7**2,
        "half squared": 1.7**2 / 2,
        "Huber": 0.75 * 1.7 - 0.75**2 / 2,
        "logistic": np.log(1 + np.exp(0.7)),
    }
    for name, expected in known.items():
        assert float(SCALAR[name][0].value(prediction, label)) == pytest.approx(expected, rel=1e-6)
    assert float(HUBER.value(0.3, 0.0)) == pytest.approx(0.045)
    logits = jnp.asarray([0.2, -1.0, 0.5])
    expected = np.log(np.exp([0.2, -1.0, 0.5]).sum()) + 1.0
    assert float(SOFTMAX.value(logits, 1)) == pytest.approx(expected, rel=1e-6)


@each_scalar
def test_float32_stays_float32_and_overflows_nowhere_it_need_not(name):
    loss, labels = SCALAR[name]
    predictions = jnp.asarray([-1e30, -1e4, 0.0, 1e4, 1e30], jnp.float32)
    for label in labels:
        value, slope = loss.value(predictions, label), loss.slope(predictions, label)
        assert value.dtype == slope.dtype == jnp.float32
        assert np.isfinite(slope).all()
        if np.isfinite(loss.slope_bound):
            assert np.isfinite(value).all()
        gradients = jax.vmap(jax.grad(loss.value), (0, None))(predictions, jnp.float32(label))
        np.testing.assert_allclose(gradients, slope, rtol=1e-6)


def test_a_small_logistic_loss_keeps_its_digits():
    with jax.enable_x64(False):
        np.testing.assert_allclose(losses.Logistic().value(jnp.float32(20), 1), np.exp(-20.0), 1e-6)
        value = SOFTMAX.value(jnp.asarray([25.0, 0.0, 5.0]), 0)
        np.testing.assert_allclose(value, np.exp(-25.0) + np.exp(-20.0), rtol=1e-6)
        slope = SOFTMAX.slope(jnp.asarray([25.0, 0.0, 5.0]), 0)
        np.testing.assert_allclose(slope[0], -np.exp(-25.0) - np.exp(-20.0), rtol=1e-6)


def test_two_classes_are_the_logistic_loss_of_their_difference():
    loss, two = losses.Logistic(), losses.Softmax(2)
    logits = jnp.asarray(np.random.default_rng(0).standard_normal((50, 2)) * 4)
    labels = jnp.asarray(np.random.default_rng(1).integers(0, 2, 50))
    difference, signs = logits[:, 1] - logits[:, 0], 2.0 * labels - 1
    np.testing.assert_allclose(two.value(logits, labels), loss.value(difference, signs), rtol=1e-5)
    np.testing.assert_allclose(
        two.slope(logits, labels)[:, 1], loss.slope(difference, signs), rtol=1e-5
    )


def test_softmax_is_the_cross_entropy_for_any_leading_shape_and_kind_of_label():
    with jax.enable_x64():
        logits = jnp.asarray(np.random.default_rng(2).standard_normal((4, 5, 3)))
        labels = np.random.default_rng(3).integers(0, 3, (4, 5))
        logs = np.asarray(jax.nn.log_softmax(logits))
        expected = -np.take_along_axis(logs, labels[..., None], -1)[..., 0]
        for kind in (np.int64, np.float32):
            found = jax.jit(SOFTMAX.value)(logits, jnp.asarray(labels.astype(kind)))
            np.testing.assert_allclose(found, expected, rtol=1e-13)
        gradient = jax.grad(lambda logits: jnp.sum(SOFTMAX.value(logits, labels)))(logits)
        np.testing.assert_allclose(SOFTMAX.slope(logits, labels), gradient, atol=1e-14)
        one = jax.vmap(jax.vmap(SOFTMAX.slope))(logits, jnp.asarray(labels))
        np.testing.assert_allclose(one, gradient, atol=1e-14)


def test_the_bounds_of_softmax_hold_and_are_met():
    with jax.enable_x64():
        logits = 3 * np.random.default_rng(4).standard_normal((20, 3))
        logits = jnp.asarray(np.append(logits, [[30.0, 30.0, 0.0]], axis=0))
        hessians = jax.jit(jax.vmap(jax.hessian(lambda logits: SOFTMAX.value(logits, 0))))(logits)
        largest = np.linalg.eigvalsh(hessians).max()
        np.testing.assert_allclose(largest, SOFTMAX.curvature_bound, rtol=1e-10)
        worst = np.linalg.norm(SOFTMAX.slope(jnp.asarray([-60.0, 60.0, -60.0]), 0))
        np.testing.assert_allclose(worst, SOFTMAX.slope_bound, rtol=1e-14)


def test_wrong_arguments_are_refused():
    for width in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="expected finite width > 0"):
            losses.Huber(width)
    with pytest.raises(ValueError, match="num_classes"):
        losses.Softmax(1)
    with pytest.raises(ValueError, match=r"expected predictions of shape \(..., 3\)"):
        SOFTMAX.value(jnp.zeros(4), 0)
    assert np.isnan(SOFTMAX.value(jnp.zeros(3), 3))
    assert np.isnan(SOFTMAX.slope(jnp.zeros(3), -1)).all()


def test_a_width_can_be_swept_and_replaced():
    widths = jnp.asarray([0.5, 1.0, 2.0])
    slopes = jax.vmap(lambda width: losses.Huber(width).slope(1.5, 0.0))(widths)
    assert slopes.tolist() == [0.5, 1.0, 1.5]
    assert float(HUBER.replace(width=2.0).slope_bound) == 2.0
    assert float(jax.grad(lambda width: losses.Huber(width).value(3.0, 0.0))(1.0)) == 2.0


def test_gradient_and_smoothness_are_those_in_the_parameters():
    inputs = jnp.asarray(np.random.default_rng(5).standard_normal((40, 3)))
    parameters = jnp.asarray([0.3, -1.0, 0.5])
    for loss, labels in SCALAR.values():
        targets = jnp.asarray(np.resize(labels, 40))

        def gradients(parameters, loss=loss, targets=targets):
            return losses.loss_gradient(loss, inputs, inputs @ parameters, targets)

        def value(parameters, row, target, loss=loss):
            return loss.value(row @ parameters, target)

        exact = jax.vmap(jax.grad(value), (None, 0, 0))(parameters, inputs, targets)
        np.testing.assert_allclose(gradients(parameters), exact, rtol=1e-4, atol=1e-6)
        bounds = losses.loss_smoothness(loss, inputs)
        np.testing.assert_allclose(
            bounds, loss.curvature_bound * np.square(inputs).sum(axis=1), rtol=1e-6
        )
        step = jnp.asarray([0.3, 0.2, -0.4])
        moved = np.linalg.norm(gradients(parameters + step) - gradients(parameters), axis=1)
        assert np.all(moved <= (bounds * np.linalg.norm(step)) * (1 + 1e-5) + 1e-6)


# Source: AC (10), (11); PF Proposition 3.3, (3.3).
def test_a_gradient_clipped_by_its_norm_has_the_slope_clipped_at_its_limit():
    inputs = jnp.asarray([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    limits = losses.slope_limits(2.0, jnp.linalg.norm(inputs, axis=1))
    np.testing.assert_allclose(limits, [0.4, 4.0, np.inf])
    slopes = losses.HalfSquared().slope(jnp.asarray([-3.0, -3.0, -3.0]), 0.0)
    clipped = jnp.clip(slopes, -limits, limits)[:, None] * inputs
    norms = np.linalg.norm(slopes[:, None] * inputs, axis=1)
    factors = np.minimum(1, 2.0 / np.maximum(norms, 1e-30))
    np.testing.assert_allclose(clipped, factors[:, None] * slopes[:, None] * inputs, rtol=1e-6)


def test_the_margin_functions_of_the_logistic_loss_are_the_loss():
    with jax.enable_x64():
        loss, predictions, labels = _on_grid("logistic")
        margins = np.asarray(labels * predictions)
        np.testing.assert_allclose(loss.value_of_margin(margins), loss.value(predictions, labels))
        np.testing.assert_allclose(
            labels * loss.slope_of_margin(margins), loss.slope(predictions, labels), rtol=1e-12
        )
    assert (loss.lipschitz, loss.smoothness) == (1.0, 0.25)
