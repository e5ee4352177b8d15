r"""What a diffusion needs of a sample's clipped and capped gradient: its mean and its spread.

For Gaussian inputs and least squares they are AC (3)'s: descent factor times rate, and the root of
the variance factor times $2P$ times rate. In general they are asked of the loss: given a scale s of
the input, the prediction's error is $N(0, 2sR + \zeta^2)$, slopes are clipped at $c/\sqrt s$, and
the rate is at most $2/(\gamma B s)$ over the loss's curvature; then they are averaged over s.
Derived: test_gradient_moments.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.problems.streams.linear import LinearRegression


class MeanGradient(NamedTuple):
    r"""Mean and spread of a sample's part in a step.

    Attributes:
        descent: factor of $\Sigma(\theta - \theta^*)$ in the mean.
        spread: the root of the factor of $\Sigma$ in the second moment, over n samples.
        clipped: the probability that the gradient's norm is clipped.
    """

    descent: Float[Array, ""]
    spread: Float[Array, ""]
    clipped: Float[Array, ""]


def mean_gradient(
    problem: LinearRegression,
    algorithm: OnePassDPSGD,
    risk: Float[Array, ""],
    rate: Float[Array, ""],
) -> MeanGradient:
    """The mean gradient at a risk; `rate` is the learning rate before it is capped."""
    gamma = algorithm.aspect_ratio(problem.dim).astype(risk.dtype)
    cap = 2 / (gamma * algorithm.batch_size)
    if problem.input_scales is None and problem.loss.square_curvature == 1:
        second_moment = 2 * risk + problem.label_noise**2
        descent, variance = algorithm.clip.moments(second_moment)
        capped = jnp.minimum(rate, cap)
        spread = capped * jnp.sqrt(variance * second_moment * gamma / problem.dim)
        return MeanGradient(capped * descent, spread, 1 - descent)
    values = weights = jnp.ones(1, risk.dtype)
    if problem.input_scales is not None:
        values = problem.input_scales.values.astype(risk.dtype)
        weights = problem.input_scales.weights.astype(risk.dtype)
    error = 2 * values * risk + problem.label_noise**2
    zero, limit = jnp.zeros_like(error), algorithm.clip_scale / jnp.sqrt(values)
    slope = problem.loss.clipped_slope(zero, error, zero, limit)
    capped = jnp.minimum(rate, cap / (problem.loss.curvature_bound * values))
    heavy = weights * values * capped
    power = jnp.sum(heavy * capped * slope.square)
    return MeanGradient(
        jnp.sum(heavy * slope.derivative),
        jnp.sqrt(power * gamma / problem.dim),
        jnp.sum(weights * slope.clipped),
    )
