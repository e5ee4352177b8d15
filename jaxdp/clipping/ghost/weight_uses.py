"""Where a traced loss uses each weight, from which ghost norms are read.

A value that depends on one weight and not on the sample is a *view* of it; a step that joins one
view with values of the sample is a *use*. A weight's gradient is a sum over its uses of a function
of the use's output cotangent. A weight used otherwise (in a branch, mixed with another weight
before the sample enters) is *not covered*.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn

from jaxdp.clipping.ghost.program import Program, Step

# Operations whose derivative does not depend on the other operand.
_ADDITIONS = {"add", "add_any", "sub"}
# The only uses of a weight of lower precision than float32 whose gradients can be widened.
_WIDENED = {*_ADDITIONS, "mul", "dot_general", "conv_general_dilated", "gather"}
# Operations that move the entries of an array and lose or repeat none.
_REARRANGEMENTS = {"transpose", "reshape", "squeeze", "expand_dims", "rev", "neg", "copy", "copy_p"}
_REARRANGEMENTS |= {"convert_element_type"}


class View(NamedTuple):
    """A value made by `steps` from constants and one weight, by position."""

    weight: int
    steps: tuple[Step, ...]
    is_rearrangement: bool  # it holds the weight's entries, each once, up to sign


class Use(NamedTuple):
    """A step that joins one view of a weight, value number `value`, with values of the sample."""

    step: Step
    view: View
    value: int
    captured: tuple[int, ...]  # the sample's values that the weight's gradient needs

    @property
    def output(self) -> int:
        return self.step.results[0]


class WeightUses(NamedTuple):
    """How a program uses its weights."""

    uses: tuple[Use, ...]
    not_covered: frozenset[int]  # weights, by position
    fixed: frozenset[int]  # the values that do not depend on the sample, views among them

    def by_weight(self) -> dict[int, list[Use]]:
        grouped: dict[int, list[Use]] = {}
        for use in self.uses:
            grouped.setdefault(use.view.weight, []).append(use)
        return grouped


def find_uses(program: Program) -> WeightUses:
    """Find the uses of every weight, and the weights that are not covered."""
    not_covered: frozenset[int] = frozenset()
    while True:
        found, also = _classify(program, not_covered)
        if not also:
            return found
        not_covered |= also


def _classify(program: Program, not_covered: frozenset[int]) -> tuple[WeightUses, frozenset[int]]:
    """One pass in which the weights of `not_covered` are left alone."""
    views = {
        value: View(weight, (), True)
        for weight, value in enumerate(program.weights)
        if weight not in not_covered
    }
    constants = set(program.constants)
    # Values made of weights not covered, but not of the sample.
    left_alone = {program.weights[weight] for weight in not_covered}
    uses: list[Use] = []
    also: set[int] = set()
    for step in program.steps:
        # Weights that a loop reads through taps get derivatives by the steps that stand in.
        tapped = step.tapped.intersection(views)
        viewed = [value for value in step.inputs if value in views and value not in tapped]
        weights = {views[value].weight for value in viewed}
        others = [value for value in step.inputs if value not in views and value not in constants]
        differentiable = step.name != "stop_gradient" and _is_inexact(program, step.results)
        if not others and (not viewed or not differentiable) and not step.equation.effects:
            constants.update(step.results)
        elif others and left_alone.issuperset(others):
            left_alone.update(step.results)
            also |= weights if differentiable else set()
        elif not viewed or not differentiable:
            continue
        elif (
            len(weights) > 1
            or step.equation.effects
            or (not others and not step.is_linear_backward)
        ):
            also |= weights
        elif not others:
            view = _derived(step, [views[value] for value in viewed], program.shapes)
            views.update(dict.fromkeys(step.results, view))
        elif _is_use(step, viewed, views[viewed[0]], program.shapes):
            captured = () if step.name in _ADDITIONS else tuple(others)
            uses.append(Use(step, views[viewed[0]], viewed[0], captured))
        else:
            also |= weights
    if program.result in views:
        also.add(views[program.result].weight)
    found = WeightUses(tuple(uses), not_covered, frozenset(constants) | frozenset(views))
    return found, frozenset(also)


def _is_inexact(program: Program, values: Iterable[int]) -> bool:
    return any(jnp.issubdtype(program.shapes[value].dtype, jnp.inexact) for value in values)


def _derived(step: Step, sources: Sequence[View], shapes: dict[int, ShapedArray]) -> View:
    steps: dict[int, Step] = {}
    for source in sources:
        steps.update((id(known), known) for known in source.steps)
    is_real = jnp.issubdtype(shapes[step.results[0]].dtype, jnp.floating)
    same_entries = all(source.is_rearrangement for source in sources) and is_real
    same_entries = same_entries and (
        step.name in _REARRANGEMENTS
        or (
            step.name == "broadcast_in_dim"
            and shapes[step.results[0]].size == shapes[step.inputs[0]].size
        )
    )
    return View(sources[0].weight, (*steps.values(), step), same_entries)


def _is_use(step: Step, viewed: Sequence[int], view: View, shapes: dict[int, ShapedArray]) -> bool:
    """Whether the output's cotangent gives the weight's gradient by this one step."""
    once = len(viewed) == 1 and step.operands.count(viewed[0]) == 1
    if not once or len(step.results) != 1 or len(step.outputs) != 1 or step.holds_program:
        return False
    if step.contains("conv_general_dilated") and not is_unfoldable(step, viewed[0]):
        return False
    values = (viewed[0], *step.results, *(v for made in view.steps for v in made.inputs))
    if all(not is_narrow(shapes[value].dtype) for value in values):
        return True
    # A gradient is summed in float32 at least, whatever the weight's own precision.
    widens = all(made.name in (*_REARRANGEMENTS, "broadcast_in_dim") for made in view.steps)
    return step.name in _WIDENED and widens


def is_narrow(dtype: Any) -> bool:
    """Whether it is a floating-point type of less than 32 bits."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32


def is_unfoldable(step: Step, kernel: int) -> bool:
    """Whether the step is a convolution whose kernel is the value `kernel`."""
    return (
        step.name == "conv_general_dilated"
        and step.operands[1] == kernel
        and step.equation.params["batch_group_count"] == 1
    )


def num_unfolded(equation: JaxprEqn, kernel: ShapedArray, output: ShapedArray) -> int:
    """The number of entries of a convolution's unfolded input patches."""
    _, rhs_spec, out_spec = equation.params["dimension_numbers"]
    positions = output.size // output.shape[out_spec[1]]
    per_group = kernel.size // kernel.shape[rhs_spec[0]]
    return equation.params["feature_group_count"] * per_group * positions


def num_products(use: Use, shapes: dict[int, ShapedArray]) -> int:
    """The number of multiplications of the weight's gradient in a use: those of the use itself."""
    size, params = shapes[use.output].size, use.step.equation.params
    if use.step.name in _ADDITIONS:
        return 0
    if use.step.name == "dot_general":
        contracted = params["dimension_numbers"][0][use.step.operands.index(use.value)]
        return size * math.prod(shapes[use.value].shape[axis] for axis in contracted)
    if is_unfoldable(use.step, use.value):
        kernel = shapes[use.value]
        return size * kernel.size // kernel.shape[params["dimension_numbers"].rhs_spec[0]]
    return size
