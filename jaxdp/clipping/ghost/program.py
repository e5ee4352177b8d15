"""A traced per-sample loss as one flat list of steps, with nested compiled functions unrolled."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array

# For each call the parameter that holds the called program.
_TRANSPARENT = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
_NOT_LINEAR_BACKWARD = ("custom_vjp_call", "custom_vjp_call_jaxpr", "reduce_precision")

OpenLoop: TypeAlias = Callable[["Unroller", JaxprEqn, Sequence[int]], list[int]]


class Step(NamedTuple):
    """One primitive operation between numbered values."""

    equation: JaxprEqn
    operands: tuple[int | None, ...]  # the value of each operand, None for a literal
    outputs: tuple[int | None, ...]  # the value of each output, None for one that nothing reads
    alone: Jaxpr  # a program of this equation only
    stands_in: bool = False  # never carried out, it represents a use inside a loop (`loops`)
    tapped: frozenset[int] = frozenset()  # a loop's operands with derivatives by stand-ins
    kernels: tuple[int | None, ...] = (None,)  # a loop's convolution kernels, None for its own

    @property
    def name(self) -> str:
        return self.equation.primitive.name

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands that are values, each once, in order."""
        return tuple(dict.fromkeys(value for value in self.operands if value is not None))

    @property
    def results(self) -> tuple[int, ...]:
        return tuple(output for output in self.outputs if output is not None)

    @property
    def holds_program(self) -> bool:
        """Whether the operation contains a program: a loop, a branch, a rule."""
        return bool(_inner_programs(self.equation))

    def equations(self) -> Iterator[JaxprEqn]:
        """The operation, and all those of the programs in it."""
        return _with_inner([self.equation])

    def contains(self, *names: str) -> bool:
        """Whether it is one of the named operations or has one in a program inside."""
        return any(equation.primitive.name in names for equation in self.equations())

    @property
    def is_linear_backward(self) -> bool:
        """Whether the backward pass of a sum of cotangents is the sum of those of its terms."""
        return not self.contains(*_NOT_LINEAR_BACKWARD)

    def evaluate(self, inputs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.inputs, inputs, strict=True))
        operands = [values[operand] for operand in self.operands if operand is not None]
        if self.name == "conv_general_dilated" and len(operands) == len(self.operands):
            return [channels_last(self.equation, *operands)]
        # One value may have two names.
        named = {
            variable: values[operand]
            for operand, variable in zip(self.operands, self.equation.invars, strict=True)
            if operand is not None
        }
        return eval_jaxpr(self.alone, (), *(named[variable] for variable in self.alone.invars))


class Program(NamedTuple):
    """A function of weights and of one sample, unrolled: steps in order, values by number."""

    steps: tuple[Step, ...]
    shapes: dict[int, ShapedArray]
    weights: tuple[int, ...]
    sample: tuple[int, ...]
    constants: dict[int, Any]
    result: int
    closed: ClosedJaxpr


def trace(function, weights, sample, open_loop: OpenLoop | None = None) -> Program:
    """Trace `function(weights, sample)`, which returns one array, at the given shapes."""
    closed = jax.make_jaxpr(function)(list(weights), list(sample))
    return Unroller(open_loop).program(closed, len(weights))


def evaluate(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    """The results of a traced function, with convolutions computed by `channels_last`."""
    unroller = Unroller()
    inputs, results = unroller.opened(closed)
    values = {**unroller.constants, **dict(zip(inputs, arguments, strict=True))}
    for step in unroller.steps:
        found = step.evaluate([values[value] for value in step.inputs])
        values.update(zip(step.results, found, strict=True))
    return [values[value] for value in results]


def channels_last(equation: JaxprEqn, lhs: Array, rhs: Array) -> Array:
    """A convolution in the layout of XLA's fast CPU routine, which convolutions in loops miss."""
    lhs_spec, rhs_spec, out_spec = equation.params["dimension_numbers"]
    last, spatial = lhs.ndim - 1, range(1, lhs.ndim - 1)
    images, kernels = (0, last, *spatial), (last, last - 1, *range(last - 1))
    numbers = lax.ConvDimensionNumbers(images, kernels, images)
    outputs = equation.primitive.bind(
        lhs.transpose([lhs_spec[0], *lhs_spec[2:], lhs_spec[1]]),
        rhs.transpose([*rhs_spec[2:], rhs_spec[1], rhs_spec[0]]),
        **equation.params | {"dimension_numbers": numbers},
    )
    order = [out_spec[0], *out_spec[2:], out_spec[1]]
    return outputs.transpose([order.index(axis) for axis in range(lhs.ndim)])


class Unroller:
    """A collector of the steps of a traced function; without `open_loop`, a loop is one step."""

    def __init__(self, open_loop: OpenLoop | None = None):
        self.open_loop = open_loop
        self.steps: list[Step] = []
        self.shapes: dict[int, ShapedArray] = {}
        self.constants: dict[int, Any] = {}
        self.fixed: set[int] = set()  # values that do not depend on the sample
        self.of_weights: set[int] = set()  # fixed values with a derivative by a weight

    def program(self, closed: ClosedJaxpr, num_weights: int) -> Program:
        inputs, (result,) = self.opened(closed, num_weights)
        return Program(
            steps=_needed(self.steps, result),
            shapes=self.shapes,
            weights=tuple(inputs[:num_weights]),
            sample=tuple(inputs[num_weights:]),
            constants=self.constants,
            result=result,
            closed=closed,
        )

    def opened(self, closed: ClosedJaxpr, num_weights: int = 0) -> tuple[list[int], list[int]]:
        """The values of a function's arguments, weights first, and of its results."""
        inputs = [self.value(variable.aval) for variable in closed.jaxpr.invars]
        self.of_weights.update(inputs[:num_weights])
        self.fixed.update(inputs[:num_weights])
        return inputs, self._unroll(closed.jaxpr, closed.consts, inputs)

    def inlined(
        self, function: Callable[..., Any], inputs: Sequence[int], *, opens: bool = True
    ) -> list[int]:
        """Add the steps of a function of known values, its loops opened or not; its results."""
        shapes = (self.shapes[value] for value in inputs)
        given = [jax.ShapeDtypeStruct(shape.shape, shape.dtype) for shape in shapes]
        closed = jax.make_jaxpr(function)(*given)
        return self._unroll(closed.jaxpr, closed.consts, inputs, opens=opens)

    def renumbered(self, step: Step, numbers: dict[int, int], origin: "Unroller") -> None:
        """Add a step of another program; `numbers` maps its values to those here, and grows."""
        for value in step.inputs:
            if value not in numbers:
                numbers[value] = self.constant(origin.shapes[value], origin.constants[value])
        for value in step.results:
            if value not in numbers:
                numbers[value] = self.value(origin.shapes[value])
        operands, outputs = (
            tuple(None if value is None else numbers[value] for value in values)
            for values in (step.operands, step.outputs)
        )
        self._add(step._replace(operands=operands, outputs=outputs))

    def value(self, shape: Any) -> int:
        number = len(self.shapes)
        self.shapes[number] = shape
        return number

    def constant(self, shape: Any, constant: Any) -> int:
        """A new value that is known beforehand."""
        number = self.value(shape)
        self.constants[number] = constant
        self.fixed.add(number)
        return number

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if step.equation.effects or not self.fixed.issuperset(step.inputs):
            return
        self.fixed.update(step.results)
        if self.of_weights.intersection(step.inputs) and step.name != "stop_gradient":
            for value in step.results:
                if jnp.issubdtype(self.shapes[value].dtype, jnp.inexact):
                    self.of_weights.add(value)

    def _meet(self, equation: JaxprEqn, operands: Sequence[int]) -> bool:
        """Whether it is a scan in which weights meet values of the sample."""
        return (
            equation.primitive.name == "scan"
            and not equation.effects
            and equation.params["length"] > 0
            and bool(self.of_weights.intersection(operands))
            and not self.fixed.issuperset(operands)
        )

    def _unroll(
        self, jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[int], *, opens: bool = True
    ) -> list[int]:
        values = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[variable] = self.constant(variable.aval, constant)
        read = {v for equation in jaxpr.eqns for v in _variables(equation.invars)}
        read.update(_variables(jaxpr.outvars))

        def value_of(atom):
            return self.constant(atom.aval, atom.val) if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            inner = _called(equation)
            known = [values[atom] for atom in _variables(equation.invars)]
            open_loop = self.open_loop if opens and self._meet(equation, known) else None
            if inner is not None or open_loop is not None:
                operands = [value_of(atom) for atom in equation.invars]
                if inner is not None:
                    found = self._unroll(inner.jaxpr, inner.consts, operands, opens=opens)
                elif open_loop is not None:
                    found = open_loop(self, equation, operands)
                values.update(zip(equation.outvars, found, strict=True))
                continue
            operands = tuple(
                None if isinstance(atom, Literal) else values[atom] for atom in equation.invars
            )
            outputs = tuple(self.value(v.aval) if v in read else None for v in equation.outvars)
            values.update(
                (variable, output)
                for variable, output in zip(equation.outvars, outputs, strict=True)
                if output is not None
            )
            alone = jaxpr.replace(
                constvars=[],
                invars=list(dict.fromkeys(_variables(equation.invars))),
                outvars=[v for v in equation.outvars if v in read],
                eqns=[equation],
                effects=equation.effects,
            )
            self._add(Step(equation, operands, outputs, alone))
        return [value_of(atom) for atom in jaxpr.outvars]


def all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Every operation of a program and of the programs in it."""
    return _with_inner(list(jaxpr.eqns))


def _with_inner(pending: list[JaxprEqn]) -> Iterator[JaxprEqn]:
    while pending:
        equation = pending.pop()
        yield equation
        pending += [inner for program in _inner_programs(equation) for inner in program.eqns]


def _inner_programs(equation: JaxprEqn) -> list[Jaxpr]:
    leaves = [
        leaf
        for value in equation.params.values()
        for leaf in (value if isinstance(value, (tuple, list)) else (value,))
    ]
    closed = [leaf.jaxpr for leaf in leaves if isinstance(leaf, ClosedJaxpr)]
    return closed + [leaf for leaf in leaves if isinstance(leaf, Jaxpr)]


def _called(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The program that a transparent call calls, or None."""
    name = _TRANSPARENT.get(equation.primitive.name)
    inner = None if name is None else equation.params[name]
    if isinstance(inner, Jaxpr):
        inner = ClosedJaxpr(inner, ())
    return inner


def _needed(steps: Sequence[Step], result: int) -> tuple[Step, ...]:
    """The steps that the result depends on, or that have an effect."""
    needed, kept = {result}, []
    for step in reversed(steps):
        # A step that stands in for a use comes behind the loop that has it.
        if step.equation.effects or step.stands_in or needed & set(step.results):
            needed |= set(step.inputs)
            kept.append(step)
    return tuple(reversed(kept))


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]
