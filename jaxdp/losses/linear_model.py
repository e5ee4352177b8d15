r"""Losses of models that are linear in their parameters: gradients and clipping.

With a prediction $f = x^\top\theta$ the gradient is the loss's slope times the input, so clipping
its norm at C means clipping the slope at $C/\|x\|$.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.losses.base import AbstractLoss, AbstractScalarLoss


def loss_gradient(
    loss: AbstractScalarLoss,
    inputs: Float[Array, "*batch dim"],
    predictions: Float[Array, "*batch"],
    labels: Float[Array, "*batch"],
) -> Float[Array, "*batch dim"]:
    r"""The gradient in $\theta$ of the loss of each sample, $\ell'(f, y)\,x$."""
    return inputs * loss.slope(predictions, labels)[..., None]


def loss_smoothness(
    loss: AbstractLoss, inputs: Float[Array, "*batch dim"]
) -> Float[Array, "*batch"]:
    r"""The Lipschitz constant of each sample's gradient: the loss's curvature times $\|x\|^2$."""
    return loss.curvature_bound * jnp.sum(inputs**2, axis=-1)


def slope_limits(clip_norm: Any, input_norms: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""The largest unclipped slope, $C/\|x\|$, of each sample; infinite for a zero input."""
    is_input = input_norms > 0
    return jnp.where(is_input, clip_norm / jnp.where(is_input, input_norms, 1), jnp.inf)
