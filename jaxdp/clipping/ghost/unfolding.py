"""The kernel gradient of a convolution as one product with unfolded patches.

Differentiating a convolution once per sample makes a grouped convolution with one group a sample,
which accelerators and CPUs alike run far below the speed of a matrix product.
"""

import math

import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float

from jaxdp.clipping.ghost.program import Step


def is_unfoldable(step: Step, kernel: int) -> bool:
    """Whether the step is a convolution whose kernel is the value `kernel`."""
    return (
        step.name == "conv_general_dilated"
        and step.operands[1] == kernel
        and step.equation.params["batch_group_count"] == 1
    )


def num_unfolded(equation: JaxprEqn, kernel: ShapedArray, output: ShapedArray) -> int:
    """How many numbers the unfolded patches of a convolution's inputs have."""
    _, rhs_spec, out_spec = equation.params["dimension_numbers"]
    positions = output.size // output.shape[out_spec[1]]
    per_group = kernel.size // kernel.shape[rhs_spec[0]]
    return equation.params["feature_group_count"] * per_group * positions


def kernel_gradient(
    equation: JaxprEqn,
    kernel: ShapedArray,
    inputs: Float[Array, "..."],
    cotangent: Float[Array, "..."],
) -> Float[Array, "..."]:
    """Gradient of a convolution's kernel from its inputs and its output's cotangent.

    Stride, padding, both dilations, feature groups and any layout are those of the equation.
    """
    params = equation.params
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups = params["feature_group_count"]
    kernel_shape = [kernel.shape[axis] for axis in rhs_spec]
    num_outputs, channels, *window = kernel_shape
    padding = zip(params["padding"], params["lhs_dilation"], strict=True)
    padded = lax.pad(
        inputs.transpose(lhs_spec),
        jnp.zeros((), inputs.dtype),
        [(0, 0, 0), (0, 0, 0), *((low, high, gap - 1) for (low, high), gap in padding)],
    )
    outputs = cotangent.transpose(out_spec)
    batch, _, *positions = outputs.shape
    unfolded = padded
    for axis, (size, stride, gap) in enumerate(
        zip(positions, params["window_strides"], params["rhs_dilation"], strict=True)
    ):
        # One spatial axis at a time: the window's axes gather behind the channels.
        spatial = 2 + 2 * axis
        shifted = [
            lax.slice_in_dim(
                unfolded, at * gap, at * gap + (size - 1) * stride + 1, stride, axis=spatial
            )
            for at in range(window[axis])
        ]
        unfolded = jnp.stack(shifted, 2 + axis)
    unfolded = unfolded.reshape(batch, groups, channels * math.prod(window), -1)
    outputs = outputs.reshape(batch, groups, num_outputs // groups, -1)
    gradient = jnp.einsum("ngkt,ngot->gok", unfolded, outputs, precision=lax.Precision.HIGHEST)
    return gradient.reshape(kernel_shape).transpose(
        [rhs_spec.index(axis) for axis in range(kernel.ndim)]
    )
