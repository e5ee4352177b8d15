"""The gradient of one covered weight, from the captures of its uses in one backward pass."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float, Inexact

from jaxdp.clipping.ghost.program import Program, Step
from jaxdp.clipping.ghost.weight_uses import Use, View, is_narrow, is_unfoldable

_FEW = 8  # so few samples are scaled and added one by one


class Capture(eqx.Module):
    """The values of a use in a backward pass: the sample's operands by number, the cotangent."""

    operands: dict[int, Array]
    cotangent: Inexact[Array, "..."]


class WeightGradient:
    """Gradients of one weight, in float32 or wider; `known` holds the sample-independent values."""

    def __init__(self, program: Program, uses: Sequence[Use], known: dict[int, Any]):
        self.program, self.uses, self.known = program, tuple(uses), known

    def of_sample(self, captures: Sequence[Capture]) -> Float[Array, "..."]:
        """The gradient of one sample, in the weight's shape."""
        parts = [
            self._through_view(use.view, use.value, self._of_use(use, capture))
            for use, capture in zip(self.uses, captures, strict=True)
        ]
        return functools.reduce(jnp.add, parts)

    def through_view(self, total: Float[Array, "..."]) -> Float[Array, "..."]:
        """The weight's gradient from that of its only use's view, rearranged, not rounded."""
        (use,) = self.uses

        def function(weight):
            values = {self.program.weights[use.view.weight]: weight}
            for step in use.view.steps:
                given = [values[value] for value in step.inputs]
                is_cast = step.name == "convert_element_type"
                found = given if is_cast else step.evaluate(given)
                values.update(zip(step.results, found, strict=True))
            return values[use.value]

        return _pull(function, jnp.zeros(self.shape, total.dtype), total)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.program.shapes[self.program.weights[self.uses[0].view.weight]].shape

    def bytes_of(self, value: int) -> int:
        """The bytes of one of the program's values, for one sample."""
        shape = self.program.shapes[value]
        return shape.size * shape.dtype.itemsize

    def _of_use(self, use, capture):
        cotangent = widened(capture.cotangent)
        if is_unfoldable(use.step, use.value):
            (inputs,) = capture.operands.values()
            kernel = self.program.shapes[use.value]
            return kernel_gradient(use.step.equation, kernel, widened(inputs), cotangent)
        view = widened(self.known[use.value])
        return _pull(lambda view: self._output(use, view, capture.operands), view, cotangent)

    def _output(self, use, view, operands):
        """The use's output as a function of the weight's view."""
        values = {**self.known, **operands, use.value: view}
        for value in use.step.inputs:
            if value not in values:
                # The derivative of an addition does not depend on its other operand.
                shape = self.program.shapes[value]
                values[value] = jnp.zeros(shape.shape, shape.dtype)
        return _evaluate(use.step, [widened(values[value]) for value in use.step.inputs])[0]

    def _through_view(self, view: View, value: int, gradient):
        if not view.steps:
            return gradient
        source = self.program.weights[view.weight]

        def function(weight):
            values = {**self.known, source: weight}
            for step in view.steps:
                results = _evaluate(step, [widened(values[value]) for value in step.inputs])
                values.update(zip(step.results, results, strict=True))
            return values[value]

        return _pull(function, widened(self.known[source]), gradient)


def kernel_gradient(equation: JaxprEqn, kernel: ShapedArray, inputs: Array, cotangent: Array):
    """Gradient of a convolution's kernel as one product with unfolded patches, for speed."""
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


def widened(value: Any) -> Any:
    """A floating array in float32 at least; other arrays unchanged."""
    return value.astype(jnp.float32) if is_narrow(value.dtype) else value


def scaled(scale: Float[Array, " batch"], values: Float[Array, "batch ..."]) -> Array:
    return scale.reshape((-1,) + (1,) * (values.ndim - 1)) * widened(values)


def flushed(values: Array) -> Array:
    """Values with zero for numbers too small for full relative precision on all machines."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return values
    tiny = float(jnp.finfo(jnp.promote_types(values.dtype, jnp.float32)).tiny)
    return jnp.where(jnp.abs(widened(values)) < tiny, jnp.zeros_like(values), values)


def weighted(values: Float[Array, "batch ..."], scale: Float[Array, " batch"]) -> Array:
    """The sum over samples of scale times values."""
    if len(values) <= _FEW:
        # One pass with the sum that it is added to; a product would be stored first.
        parts = [part * widened(row) for part, row in zip(scale, values, strict=True)]
        return functools.reduce(jnp.add, parts)
    return jnp.tensordot(scale, widened(values), 1, precision=lax.Precision.HIGHEST)


def _pull(function, at: Array, cotangent: Array) -> Array:
    output, pull = jax.vjp(function, at)
    return pull(cotangent.astype(output.dtype))[0]


def _evaluate(step: Step, inputs: list[Any]) -> list[Any]:
    """The step on widened values: products at the highest precision, and no narrowing."""
    params = step.equation.params
    if step.name == "convert_element_type" and is_narrow(params["new_dtype"]):
        return inputs
    if step.name == "dot_general":
        lhs, rhs = (inputs[step.inputs.index(operand)] for operand in step.operands)
        return [lax.dot_general(lhs, rhs, params["dimension_numbers"], lax.Precision.HIGHEST)]
    if step.name == "conv_general_dilated":
        lhs, rhs = (inputs[step.inputs.index(operand)] for operand in step.operands)
        names = ["window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers"]
        names += ["feature_group_count", "batch_group_count"]
        options = {name: params[name] for name in names}
        return [lax.conv_general_dilated(lhs, rhs, precision=lax.Precision.HIGHEST, **options)]
    return step.evaluate(inputs)
