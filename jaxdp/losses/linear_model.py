r"""Losses of models that are linear in their parameters: gradients, and where they are clipped.

With a prediction $f = x^\top\theta$ the gradient is the loss's slope times the input, so that
clipping its norm at C is clipping the slope at $C/\|x\|$. These are the only places where that is
written.
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
    r"""The gradient in $\theta$ of the loss of each sample, $\ell'(f, y)\,x$.

    Args:
        loss: of one number.
        inputs: x, a row for each sample.
        predictions: f.
        labels: y.

    Returns:
        A gradient for each sample.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import HalfSquared
        >>> from jaxdp.losses.linear_model import loss_gradient
        >>> inputs, labels = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([1.0, 1.0])
        >>> loss_gradient(HalfSquared(), inputs, np.array([3.0, 1.0]), labels).tolist()
        [[2.0, 4.0], [0.0, 0.0]]
    """
    return inputs * loss.slope(predictions, labels)[..., None]


def loss_smoothness(
    loss: AbstractLoss, inputs: Float[Array, "*batch dim"]
) -> Float[Array, "*batch"]:
    r"""The Lipschitz constant of each sample's gradient: the loss's curvature times $\|x\|^2$.

    Args:
        loss: of `jaxdp.losses`.
        inputs: x, a row for each sample.

    Returns:
        A constant for each sample.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import Squared
        >>> from jaxdp.losses.linear_model import loss_smoothness
        >>> loss_smoothness(Squared(), np.array([[1.0, 2.0], [0.0, 3.0]])).tolist()
        [10.0, 18.0]
    """
    return loss.curvature_bound * jnp.sum(inputs**2, axis=-1)


def slope_limits(clip_norm: Any, input_norms: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""The slope beyond which a gradient is clipped, $C/\|x\|$; infinite for a zero input.

    Args:
        clip_norm: C, of a gradient.
        input_norms: $\|x\|$ of each sample.

    Returns:
        A limit for each sample.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses.linear_model import slope_limits
        >>> slope_limits(1.0, np.array([2.0, 0.0])).tolist()
        [0.5, inf]
    """
    is_input = input_norms > 0
    return jnp.where(is_input, clip_norm / jnp.where(is_input, input_norms, 1), jnp.inf)
