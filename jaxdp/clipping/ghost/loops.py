"""Loops opened: uses of weights in a `lax.scan` become steps outside it, over all turns at once.

- Steps that read no changing value of the sample are computed before the loop, for stacked weights
over all turns at once, unless their backward pass is not linear.
- A *tap*, a zero for each turn, is added to the output of each other use; its derivative is the
cotangent there. The values that the use joins with the weight come out of the scan.
- A step outside, never carried out, *stands in* for the use over all turns, from these values and
the weight to the tap. Ghost norms read it like any other use.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from jaxdp.clipping.ghost.program import Step, Unroller

# Operations that batching may put behind a use; they only move entries.
_MOVES = {"transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim"}


class _Tap(NamedTuple):
    """One use of a weight in a loop, over all turns; `program` holds it as a step of its own."""

    step: Step  # in the loop
    before: list[Step]  # put before the use by batching
    use: Step  # joins the weight with the other values
    behind: list[Step]  # moves entries of its output
    program: Unroller
    inputs: list[int]  # the program's values of the step's inputs and result
    result: int


def open_scan(unroller: Unroller, equation: JaxprEqn, operands: Sequence[int]) -> list[int]:
    """Add the steps of a rewritten scan, and return the values of its results."""
    return _Opening(unroller, equation.params, list(operands)).results()


class _Opening:
    def __init__(self, unroller: Unroller, params: dict[str, Any], operands: list[int]):
        self.outer, self.params = unroller, params
        self.body = Unroller()
        inputs, self.body_results = self.body.opened(params["jaxpr"])
        first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
        carries = list(zip(inputs[first:last], operands[first:last], strict=True))
        self.num_carry = len(carries)
        # Carries that no turn changes.
        is_kept = [new == old for new, (old, _) in zip(self.body_results, carries, strict=False)]
        self.kept = {at: carries[at][1] for at, kept in enumerate(is_kept) if kept}
        self.carries = {at: pair for at, pair in enumerate(carries) if at not in self.kept}
        # The value outside of each value of the body that is known there.
        self.outside = dict(zip(inputs, operands, strict=True))
        for value, _ in self.carries.values():
            del self.outside[value]
        for value, constant in self.body.constants.items():
            self.outside[value] = unroller.constant(self.body.shapes[value], constant)
        self.by_turn = set(inputs[last:])

    def results(self) -> list[int]:
        within = self._hoist()
        taps = {id(step): tap for step in within if (tap := self._tapped(step)) is not None}
        zeros = {key: self._zero(tap) for key, tap in taps.items()}
        captured = [v for tap in taps.values() for v in tap.step.inputs if v not in self.outside]
        captured = list(dict.fromkeys(captured))
        ys = self.body_results[self.num_carry :]
        emitted = [v for v in ys if v not in self.by_turn]
        emitted = list(dict.fromkeys([*emitted, *captured]))
        first = len(self.outer.steps)
        found = self._rewritten(within, {key: tap for key, (_, tap) in zeros.items()}, emitted)
        self._note_taps(first, within, taps)
        last = dict(zip(self.carries, found, strict=False))
        stacked = dict(zip(emitted, found[len(last) :], strict=True))
        for key, tap in taps.items():
            self._stand_in(tap, stacked, zeros[key][0])
        carries = [last[at] if at in last else self.kept[at] for at in range(self.num_carry)]
        return [*carries, *(stacked[v] if v in stacked else self.outside[v] for v in ys)]

    def _hoist(self) -> list[Step]:
        """Compute before the loop the steps that no changing value of the sample enters."""
        reached = {value for value, _ in self.carries.values()}
        reached.update(v for v in self.by_turn if self.outside[v] not in self.outer.fixed)
        turning = self.by_turn - reached
        once, each_turn, within = [], [], []
        for step in self.body.steps:
            if reached.intersection(step.inputs) or not step.is_linear_backward:
                within.append(step)
                reached.update(step.results)
            elif turning.intersection(step.inputs):
                each_turn.append(step)
                turning.update(step.results)
            else:
                once.append(step)
        self._compute(once, over_turns=False)
        self._compute(each_turn, over_turns=True)
        return within

    def _compute(self, steps: list[Step], *, over_turns: bool) -> None:
        made = [value for step in steps for value in step.results]
        reads = [v for step in steps for v in step.inputs if v not in set(made)]
        reads = list(dict.fromkeys(reads))

        def function(*values):
            known = dict(zip(reads, values, strict=True))
            _carry_out(steps, known)
            return [known[value] for value in made]

        if over_turns and made:
            axes = tuple(0 if value in self.by_turn else None for value in reads)
            size = self.params["length"]
            function = jax.vmap(function, axes, axis_size=size)
        found = self.outer.inlined(function, [self.outside[value] for value in reads])
        self.outside.update(zip(made, found, strict=True))
        self.by_turn.update(made if over_turns else ())

    def _weights(self, step: Step) -> list[int]:
        """The inputs of a step in the loop that are made of weights only."""
        return [v for v in step.inputs if self.outside.get(v) in self.outer.of_weights]

    def _tapped(self, step: Step) -> _Tap | None:
        """The step over all turns, if it is one use of a weight, with moves around it."""
        weights = self._weights(step)
        if not weights or len(step.outputs) != 1 or not step.results:
            return None
        if not jnp.issubdtype(self.body.shapes[step.results[0]].dtype, jnp.inexact):
            return None
        length = self.params["length"]
        is_turning = [v in self.by_turn or v not in self.outside for v in step.inputs]
        shapes = [self.body.shapes[value] for value in step.inputs]
        shapes = [
            jax.ShapeDtypeStruct((length,) * turning + shape.shape, shape.dtype)
            for turning, shape in zip(is_turning, shapes, strict=True)
        ]
        axes = tuple(0 if turning else None for turning in is_turning)
        over_turns = jax.vmap(lambda *values: step.evaluate(values)[0], axes, axis_size=length)
        program = Unroller()
        inputs, (result,) = program.opened(jax.make_jaxpr(over_turns)(*shapes))
        of_weight = {i for v, i in zip(step.inputs, inputs, strict=True) if v in weights}
        of_others = set(inputs) - of_weight
        before, use, behind, made = [], None, [], set()
        for inner in program.steps:
            sides = [side for side in (of_weight, of_others) if side.intersection(inner.inputs)]
            if made.intersection(inner.inputs):
                if inner.name not in _MOVES:
                    return None
                behind.append(inner)
                made.update(inner.results)
            elif use is None and len(sides) == 2:
                use = inner
                made.update(inner.results)
            else:
                before.append(inner)
                for side in sides:
                    side.update(inner.results)
        if use is None or len(use.results) != 1 or (behind or [use])[-1].results != (result,):
            return None
        return _Tap(step, before, use, behind, program, inputs, result)

    def _zero(self, tap: _Tap) -> tuple[int, int]:
        """The values of the zero at a use's output and of the tap made from it."""
        output = tap.use.results[0]
        zero = self.outer.value(tap.program.shapes[output])
        numbers = {output: zero}
        for step in tap.behind:
            self.outer.renumbered(step, numbers, tap.program)
        return zero, numbers[tap.result]

    def _rewritten(self, within, taps: dict[int, int], emitted: list[int]) -> list[int]:
        """Add the loop with taps, by step; the values of last carries and of emitted numbers."""
        carried = list(self.carries.values())
        ends = [self.body_results[at] for at in self.carries]
        reads = [v for step in within for v in step.inputs] + ends + emitted
        reads = [v for v in dict.fromkeys(reads) if v in self.outside]
        once = [v for v in reads if v not in self.by_turn]
        each = [v for v in reads if v in self.by_turn]
        if not ends and not emitted:
            return []

        def function(*values):
            left = iter(values)
            known = dict(zip(once, left, strict=False))
            start = [next(left) for _ in carried]

            def turn(carry, given):
                values = {**known, **dict(zip(each, given, strict=False))}
                values.update((v, c) for (v, _), c in zip(carried, carry, strict=True))
                _carry_out(within, values, dict(zip(taps, given[len(each) :], strict=True)))
                return [values[v] for v in ends], [values[v] for v in emitted]

            options = {name: self.params[name] for name in ("length", "reverse", "unroll")}
            return jax.tree.leaves(lax.scan(turn, start, list(left), **options))

        given = [self.outside[v] for v in once] + [start for _, start in carried]
        given += [self.outside[v] for v in each] + list(taps.values())
        return self.outer.inlined(function, given, opens=False)

    def _note_taps(self, first: int, within, taps: dict[int, _Tap]) -> None:
        """Note in the rewritten loop which weights it reads through taps only."""
        through = {v for step in within if id(step) in taps for v in self._weights(step)}
        directly = {v for step in within if id(step) not in taps for v in step.inputs}
        directly.update(self.body_results)
        tapped = frozenset(self.outside[v] for v in through) - {
            self.outside[v] for v in directly if v in self.outside
        }
        tapped -= {start for _, start in self.carries.values()}
        convolved = [step for step in within if step.contains("conv_general_dilated")]
        kernels = [
            self.outside.get(step.operands[1]) if step.name == "conv_general_dilated" else None
            for step in convolved
        ]
        for at in range(first, len(self.outer.steps)):
            step = self.outer.steps[at]
            if step.name == "scan":
                self.outer.steps[at] = step._replace(tapped=tapped, kernels=tuple(kernels))

    def _stand_in(self, tap: _Tap, stacked: dict[int, int], zero: int) -> None:
        values = [stacked[v] if v in stacked else self.outside[v] for v in tap.step.inputs]
        numbers = dict(zip(tap.inputs, values, strict=True))
        for step in tap.before:
            self.outer.renumbered(step, numbers, tap.program)
        numbers[tap.use.results[0]] = zero
        self.outer.renumbered(tap.use._replace(stands_in=True), numbers, tap.program)


def _carry_out(steps: list[Step], values: dict[int, Any], taps: dict[int, Any] | None = None):
    for step in steps:
        results = step.evaluate([values[value] for value in step.inputs])
        if taps and id(step) in taps:
            results = [_with_tap(results[0], taps[id(step)])]
        values.update(zip(step.results, results, strict=True))


@jax.custom_jvp
def _with_tap(value: Array, tap: Array) -> Array:
    """Value plus tap, which is zero and therefore not read."""
    return value


@_with_tap.defjvp
def _tangent(primals, tangents):
    return primals[0], tangents[0] + tangents[1]
