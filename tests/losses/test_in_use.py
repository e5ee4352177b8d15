"""Where losses are asked: numbers are those of the formulas that stood there, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp import losses
from jaxdp.core.numerics.clipped_gaussian import clipped_mean, inside_probability
from jaxdp.problems.base import Samples
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.theory.features.closed_moments import Closure
from jaxdp.theory.features.modes import kernel_modes, product

RNG = np.random.default_rng(0)


def _normals(*shape):
    return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


def test_a_gradient_of_linear_regression_is_the_residual_times_the_input():
    problem = jaxdp.LinearRegression.power_law(7, condition_number=3.0, label_noise=0.3)
    samples, parameters = Samples(_normals(50, 7), _normals(50)), _normals(7)

    @jax.jit
    def old(parameters, samples):
        residuals = jnp.sum(samples.inputs * parameters[None], axis=-1) - samples.labels
        return samples.inputs * residuals[..., None], jnp.sum(samples.inputs**2, axis=-1)

    @jax.jit
    def new(parameters, samples):
        return problem.gradient(parameters, samples), problem.smoothness(samples)

    for before, after in zip(old(parameters, samples), new(parameters, samples), strict=True):
        np.testing.assert_array_equal(before, after)


def test_slopes_of_dp_gd_are_twice_the_residuals_cut_at_the_limits():
    algorithm = jaxdp.DPGD(0.1, 0.8, 3, 0.5)
    predictions, labels = 3 * _normals(4, 30), _normals(30)
    norms = jnp.abs(_normals(30)).at[3].set(0)

    @jax.jit
    def old(predictions):
        limits = algorithm.clip_norm / jnp.where(norms > 0, norms, 1)
        limits = jnp.where(norms > 0, limits, jnp.inf)
        limits = jnp.broadcast_to(limits, predictions.shape)
        slopes = 2 * (predictions - labels[None])
        return jnp.clip(slopes, -limits, limits), jnp.abs(slopes) > limits

    @jax.jit
    def new(predictions):
        slopes = _reduced().loss.slope(predictions, labels[None])
        return algorithm.clipped_slopes(slopes, norms)

    for before, after in zip(old(predictions), new(predictions), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_closure_has_the_moments_of_twice_the_residuals():
    modes = kernel_modes(_reduced())
    limits = modes.slope_limits(jaxdp.DPGD(0.1, 5.0, 3, 0.5))
    closure, rank = Closure(modes, limits, 3), 3
    count = modes.eigenvalues.shape[0]
    moments = _normals(count), jnp.eye(rank), jnp.abs(_normals(count - rank))

    @jax.jit
    def old(mean, covariances, variances):
        factor, count = modes.factor, modes.num_train
        leading = factor[:, :rank]
        residuals = product(factor, mean) - modes.train_labels
        spread = jnp.sum(product(leading, covariances) * leading, axis=1)
        spread = jnp.maximum(spread + product(closure.squares, variances), 0)
        slopes = 2 * residuals, 4 * spread, limits
        inside = inside_probability(*slopes)
        return (
            product(factor.T, clipped_mean(*slopes)) / count,
            product(leading.T * (2 * inside)[None], leading) / count,
            product(closure.squares.T, 2 * inside) / count,
            jnp.mean(1 - inside),
        )

    forces = jax.jit(lambda *moments: closure.forces(*moments))(*moments)
    found = forces.pull, forces.leading, forces.others, forces.clipped
    for before, after in zip(old(*moments), found, strict=True):
        # One compiler may add up in another order than in the other program.
        np.testing.assert_allclose(before, after, rtol=1e-6, atol=1e-7)
    assert 0.1 < forces.clipped < 0.9


def test_problems_say_which_loss_they_have():
    assert isinstance(_reduced().loss, losses.Squared)
    problem = jaxdp.LinearRegression.isotropic(3, label_noise=0.1)
    assert isinstance(problem.loss, losses.HalfSquared)
    table = jaxdp.TabularRegression(RNG.standard_normal((20, 2)), RNG.standard_normal(20))
    assert isinstance(table.loss, losses.HalfSquared)


def _reduced():
    generator = np.random.default_rng(1)
    shapes = (30, 6), (5, 6), (5, 2), (30,), (5,)
    return ReducedFeatures(*(generator.standard_normal(shape) for shape in shapes))
