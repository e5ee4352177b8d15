"""What holds for every loss: its formulas, in JAX and on the host, its bounds and its labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_loss import SCALAR
from scipy.special import log_softmax

from jaxdp import losses
from jaxdp.losses.linear_model import loss_gradient, loss_smoothness, slope_limits

each_scalar = pytest.mark.parametrize("name", SCALAR)
GRID = np.linspace(-9, 9, 724)
SOFTMAX = losses.Softmax(3)


def _on_grid(name):
    entry = SCALAR[name]
    predictions, labels = (part.ravel() for part in np.meshgrid(GRID, entry.labels))
    return entry, predictions, labels


@each_scalar
def test_value_and_slope_are_the_formulas_in_jax_and_on_the_host(name):
    entry, predictions, labels = _on_grid(name)
    exact = entry.value_of(predictions, labels), entry.slope_of(predictions, labels)
    host = entry.loss.on_host()
    with jax.enable_x64():
        given = jnp.asarray(predictions), jnp.asarray(labels)
        found = entry.loss.value(*given), entry.loss.slope(*given)
        derivative = jax.jit(jax.vmap(jax.grad(entry.loss.value)))(*given)
        *found, derivative = map(np.asarray, (*found, derivative))
    given = predictions, labels
    on_host = host.value(*given, xp=np), host.slope(*given, xp=np)
    for one, other, right in zip(found, on_host, exact, strict=True):
        assert type(other) is np.ndarray
        assert one.dtype == other.dtype == np.float64
        np.testing.assert_allclose(one, right, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(other, right, rtol=1e-14, atol=1e-14)
    assert min(part.min() for part in (found[0], on_host[0])) >= 0
    np.testing.assert_allclose(derivative, exact[1], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(host.value(*given, xp=np), found[0], rtol=1e-14, atol=1e-15)


# Source: PK Assumptions 1 and 6.
@each_scalar
def test_bounds_on_slope_and_curvature_hold_and_are_met(name):
    entry, predictions, labels = _on_grid(name)
    loss = entry.loss
    with jax.enable_x64():
        given = jnp.asarray(predictions), jnp.asarray(labels)
        curvatures = np.asarray(jax.jit(jax.vmap(jax.grad(loss.slope)))(*given))
    assert curvatures.min() >= 0
    bounds = (float(loss.curvature_bound), float(loss.slope_bound))
    # Of the logistic loss the grid holds no margin of zero.
    np.testing.assert_allclose(curvatures.max(), bounds[0], rtol=1e-4)
    changes = loss.on_host().slope_changes(predictions, labels)(2 * np.ones(len(labels)))
    np.testing.assert_allclose(changes, 2 * curvatures, rtol=1e-12)
    slopes = np.abs(entry.slope_of(100 * predictions, labels))
    if np.isinf(bounds[1]):
        assert slopes.max() > 500
    else:
        np.testing.assert_allclose(slopes.max(), bounds[1], rtol=1e-12)
    sums = entry.slope(np.linspace(-9, 9, 99))
    assert loss.is_decreasing == np.all(sums <= 0)


@each_scalar
def test_float32_stays_float32_and_overflows_nowhere_it_need_not(name):
    entry = SCALAR[name]
    loss = entry.loss
    predictions = np.asarray([-1e30, -1e4, 0.0, 1e4, 1e30], np.float32)

    @jax.jit
    def found(label):
        gradients = jax.vmap(jax.grad(loss.value), (0, None))(predictions, label)
        return loss.value(predictions, label), loss.slope(predictions, label), gradients

    for label in entry.labels:
        value, slope, gradients = found(np.float32(label))
        assert value.dtype == slope.dtype == jnp.float32
        assert np.isfinite(slope).all()
        if np.isfinite(loss.slope_bound):
            assert np.isfinite(value).all()
        np.testing.assert_allclose(gradients, slope, rtol=1e-6)
        far = np.asarray([-1e150, 1e150])
        on_host = loss.on_host()
        assert np.isfinite(on_host.slope(far, np.full(2, label), xp=np)).all()


def test_a_small_logistic_loss_keeps_its_digits():
    with jax.enable_x64(False):
        value = jax.jit(losses.Logistic().value)(np.float32(20), 1)
        np.testing.assert_allclose(value, np.exp(-20.0), rtol=1e-6)
        logits = np.asarray([25.0, 0.0, 5.0], np.float32)
        value, slope = jax.jit(lambda one: (SOFTMAX.value(one, 0), SOFTMAX.slope(one, 0)))(logits)
        np.testing.assert_allclose(value, np.exp(-25.0) + np.exp(-20.0), rtol=1e-6)
        np.testing.assert_allclose(slope[0], -np.exp(-25.0) - np.exp(-20.0), rtol=1e-6)


def test_softmax_is_the_cross_entropy_for_any_leading_shape_and_kind_of_label():
    logits = np.random.default_rng(2).standard_normal((4, 5, 3))
    labels = np.random.default_rng(3).integers(0, 3, (4, 5))
    logs = log_softmax(logits, axis=-1)
    expected = -np.take_along_axis(logs, labels[..., None], -1)[..., 0]
    gradient = np.exp(logs) - np.eye(3)[labels]
    with jax.enable_x64():
        for kind in (np.int64, np.float32):
            found = jax.jit(SOFTMAX.value)(logits, jnp.asarray(labels.astype(kind)))
            np.testing.assert_allclose(found, expected, rtol=1e-13)
        for slope in (SOFTMAX.slope, jax.vmap(jax.vmap(SOFTMAX.slope))):
            np.testing.assert_allclose(jax.jit(slope)(logits, labels), gradient, atol=1e-14)
    np.testing.assert_allclose(SOFTMAX.value(logits, labels, xp=np), expected, rtol=1e-13)
    np.testing.assert_allclose(SOFTMAX.slope(logits, labels, xp=np), gradient, rtol=0, atol=1e-14)
    # The solver's certificate knows no rounding of gaps to a label's logit that is far away.
    far = SOFTMAX.slope(np.asarray([-1e9, 0.3, -0.2123456789]), np.asarray(0.0), xp=np)
    share = 1 / (1 + np.exp(-0.5123456789))
    np.testing.assert_allclose(far, [-1, share, 1 - share], rtol=0, atol=1e-15)


def test_the_bounds_of_softmax_hold_and_are_met():
    logits = 3 * np.random.default_rng(4).standard_normal((20, 3))
    logits = np.append(logits, [[30.0, 30.0, 0.0]], axis=0)
    with jax.enable_x64():
        hessians = jax.jit(jax.vmap(jax.hessian(lambda logits: SOFTMAX.value(logits, 0))))(logits)
        largest = np.linalg.eigvalsh(hessians).max()
        np.testing.assert_allclose(largest, SOFTMAX.curvature_bound, rtol=1e-10)
        worst = np.linalg.norm(SOFTMAX.slope(jnp.asarray([-60.0, 60.0, -60.0]), 0))
        np.testing.assert_allclose(worst, SOFTMAX.slope_bound, rtol=1e-14)
    changes = np.random.default_rng(5).standard_normal(logits.shape)
    found = SOFTMAX.slope_changes(logits, np.zeros(21))(changes)
    np.testing.assert_allclose(
        found, np.einsum("nij,nj->ni", hessians, changes), rtol=0, atol=1e-14
    )


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"expected predictions of shape \(..., 3\)"):
        SOFTMAX.value(jnp.zeros(4), 0)
    assert np.isnan(SOFTMAX.value(jnp.zeros(3), 3))
    assert np.isnan(SOFTMAX.slope(jnp.zeros(3), -1)).all()


@each_scalar
def test_gradient_and_smoothness_are_those_in_the_parameters(name):
    entry = SCALAR[name]
    inputs = jnp.asarray(np.random.default_rng(5).standard_normal((40, 3)))
    parameters, targets = jnp.asarray([0.3, -1.0, 0.5]), jnp.asarray(np.resize(entry.labels, 40))

    def gradients(parameters):
        return loss_gradient(entry.loss, inputs, inputs @ parameters, targets)

    def value(parameters, row, target):
        return entry.loss.value(row @ parameters, target)

    exact = jax.vmap(jax.grad(value), (None, 0, 0))(parameters, inputs, targets)
    np.testing.assert_allclose(gradients(parameters), exact, rtol=1e-4, atol=1e-6)
    bounds = loss_smoothness(entry.loss, inputs)
    curvature = float(entry.loss.curvature_bound)
    np.testing.assert_allclose(bounds, curvature * np.square(inputs).sum(axis=1), rtol=1e-6)
    step = jnp.asarray([0.3, 0.2, -0.4])
    moved = np.linalg.norm(gradients(parameters + step) - gradients(parameters), axis=1)
    assert np.all(moved <= (bounds * np.linalg.norm(step)) * (1 + 1e-5) + 1e-6)


# Source: AC (10), (11); PF Proposition 3.3, (3.3).
def test_a_gradient_clipped_by_its_norm_has_the_slope_clipped_at_its_limit():
    inputs = jnp.asarray([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    limits = slope_limits(2.0, jnp.linalg.norm(inputs, axis=1))
    np.testing.assert_allclose(limits, [0.4, 4.0, np.inf])
    slopes = losses.HalfSquared().slope(jnp.asarray([-3.0, -3.0, -3.0]), 0.0)
    clipped = jnp.clip(slopes, -limits, limits)[:, None] * inputs
    norms = np.linalg.norm(slopes[:, None] * inputs, axis=1)
    factors = np.minimum(1, 2.0 / np.maximum(norms, 1e-30))
    np.testing.assert_allclose(clipped, factors[:, None] * slopes[:, None] * inputs, rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "labels"), [(losses.Logistic(), [1, 2, 3, 4.5]), (losses.Softmax(10), [0, 12, 0.5])]
)
def test_labels_that_are_private_are_refused_and_not_shown(loss, labels):
    with pytest.raises(ValueError, match=r"got others") as caught:
        loss.require_labels("train_labels", np.asarray(labels), are_private=True)
    assert not any(f"{label}" in str(caught.value).split("got")[1] for label in (12, 0.5, 4.5))
