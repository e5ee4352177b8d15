"""A check by values whether an optax optimiser is linear and treats all coordinates equally.

State arrays shaped like the weights enter the matrices; all else (step number, scheduled rate, key)
is the *clock*, which gradients must not change. Each step is tried on random weights, states and
gradients of two shapes, at sizes from 2^-40 to 2^40, to find thresholds and small constants.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.transformations.transformation import Transformation
from jaxdp.core.numerics.precision import on_host

# Optimisers may compute in float32.
TOLERANCE = 64 * float(jnp.finfo(jnp.float32).eps)
# A matrix and a vector, which some optimisers treat differently; a scalar would hide coupling.
SHAPES = ((3, 2), (4,))
_SCALES = tuple(2.0**power for power in (-40, -20, 20, 40))
# Shares of a random state, a random gradient, and another state and gradient that are added up.
_COMBINATIONS = np.array(
    [(0, 0, 0), (1, 1, 0), (1, 1, 1)]
    + [(scale, scale, 0) for scale in _SCALES]
    + [(1, scale, 0) for scale in _SCALES]
)
# Rounding of float64 over that of float32.
_CANCELLED = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)

_CONSTANT = "got one that moves weights or state if gradient, weights and state are zero"
_SHARED = "got one in which the gradient changes a number that no coordinate has for itself"
_NONLINEAR = (
    "got one whose step is not linear: multiplying or adding up gradients, weights and states does "
    "not do the same to their steps"
)
_MIXED = "got one that mixes coordinates: the gradient of one of them moves another"
_UNEVEN = "got one that treats coordinates differently"
_START = "got one whose state does not start as a multiple of the weights"
_SHAPED = "got one that treats a vector of weights unlike a matrix"


class CoordinateStep(NamedTuple):
    """An optimiser on one array of weights."""

    names: tuple[str, ...]  # "weight", then paths of a coordinate's numbers in the state
    shape: tuple[int, ...]  # of the weights
    dtype: Any  # of the weights
    # From weights to the numbers of all coordinates, (size, *shape), and the clock.
    start: Callable[[Array], tuple[Float[Array, "size ..."], list[Array]]]
    # From those numbers and the gradients, (size + 1, *shape), and a clock, to the weights'
    # increment and the new other numbers, (size, *shape), and the next clock.
    move: Callable[[Array, list[Array]], tuple[Float[Array, "size ..."], list[Array]]]


def coordinate_step(
    optimiser: Transformation, shape: tuple[int, ...], dtype: Any
) -> CoordinateStep:
    """The optimiser on weights of a shape and type; raises what it raises on a gradient alone."""
    weights = jax.ShapeDtypeStruct(shape, dtype)
    state = jax.eval_shape(optimiser.init, weights)
    _, moved = jax.eval_shape(optimiser.update, weights, state, weights)
    paths, structure = jax.tree_util.tree_flatten_with_path(state)
    if jax.tree.structure(moved) != structure:
        raise TypeError("the first step changes the form of its state")
    types = [leaf.dtype for _, leaf in paths]
    is_own = [leaf.shape == shape and jnp.issubdtype(leaf.dtype, jnp.floating) for _, leaf in paths]
    names = [
        jax.tree_util.keystr(path) for (path, _), own in zip(paths, is_own, strict=True) if own
    ]

    def parted(weights, state):
        leaves = zip(jax.tree.leaves(state), types, is_own, strict=True)
        leaves = [(_of_type(leaf, kind), own) for leaf, kind, own in leaves]
        values = [jnp.asarray(leaf, dtype) for leaf, own in leaves if own]
        clock = [leaf for leaf, own in leaves if not own]
        return jnp.stack([jnp.asarray(weights, dtype), *values]), clock

    def start(weights):
        return parted(weights, optimiser.init(weights))

    def move(values, clock):
        weights, *own, gradients = values
        own, clock = iter(own), iter(clock)
        leaves = [
            next(own).astype(kind) if is_one else next(clock)
            for kind, is_one in zip(types, is_own, strict=True)
        ]
        state = jax.tree.unflatten(structure, leaves)
        return parted(*optimiser.update(gradients, state, weights))

    return CoordinateStep(("weight", *names), shape, dtype, start, move)


def unit_inputs(step: CoordinateStep) -> Float[np.ndarray, "inputs inputs *shape"]:
    """The numbers of the first coordinate set to one in turn, the gradient last; others zero."""
    num_inputs = len(step.names) + 1
    units = np.zeros((num_inputs, num_inputs, *step.shape), step.dtype)
    units[(..., *_first(step))] = np.eye(num_inputs)
    return units


def unit_weights(step: CoordinateStep) -> Float[np.ndarray, "..."]:
    weights = np.zeros(step.shape, step.dtype)
    weights[_first(step)] = 1
    return weights


def at_first(step: CoordinateStep, values: Any) -> Any:
    """The first coordinate of arrays that end with the axes of the weights."""
    return values[(..., *_first(step))]


def responses(
    step: CoordinateStep, num_steps: int, inputs: Float[Array, "trials inputs *shape"]
) -> tuple[Float[Array, "steps trials size *shape"], Bool[Array, " steps"]]:
    """The outputs of each step of a run on some inputs, and whether any of them moved its clock.

    The clock goes on with zero gradients and weights; without a clock one step stands for all.
    """
    still = jnp.zeros((len(step.names) + 1, *step.shape), step.dtype)
    inputs = jnp.concatenate([still[None], inputs])

    def move(clock, _):
        values, clocks = jax.vmap(step.move, (0, None))(inputs, clock)
        following = [leaf[0] for leaf in clocks]
        return following, (values[1:], is_other_clock(clocks, following))

    clock = step.start(jnp.zeros(step.shape, step.dtype))[1]
    return lax.scan(move, clock, None, num_steps if clock else 1)[1]


def is_other_clock(clocks: list[Array], expected: list[Array]) -> Bool[Array, ""]:
    """Whether any of several clocks, on a leading axis, is not the one expected."""
    differs = jnp.asarray(False)
    for some, one in zip(clocks, expected, strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            some, one = jax.random.key_data(some), jax.random.key_data(one)
        one = one[None]
        if jnp.issubdtype(one.dtype, jnp.inexact):
            gap = jnp.abs(some - one) > TOLERANCE * jnp.maximum(jnp.abs(some), jnp.abs(one))
            differs |= jnp.any(gap | (jnp.isnan(some) != jnp.isnan(one)))
        else:
            differs |= jnp.any(some != one)
    return differs


def _first(step):
    return (0,) * len(step.shape)


def _of_type(leaf, kind):
    # Keys have a type of their own, which cannot be converted.
    return leaf if getattr(leaf, "dtype", None) == kind else jnp.asarray(leaf, kind)


class Reading(NamedTuple):
    """A linear optimiser on one coordinate."""

    # For each step, or all, (steps, size, size + 1): the weight's increment, then the new other
    # numbers; the last column is the gradient's.
    rows: Any
    initial: Any  # the numbers at the start for a weight of one, (size,)
    names: tuple[str, ...]


def checked_reading(optimiser: Transformation, num_steps: int) -> Reading | str:
    """The optimiser's steps as matrices, in float64, or the reason why they are not linear."""
    # Many trials from one state use the optimiser's key again.
    with jax.ensure_compile_time_eval(), on_host(), jax.debug_key_reuse(False):
        try:
            steps = [coordinate_step(optimiser, shape, jnp.float64) for shape in SHAPES]
        # The optimiser is the user's, and may raise anything.
        except Exception as error:
            line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            return f"got one that needs more than gradient and weights: {line}"
        first = _reading(optimiser, steps[0], num_steps)
        second = first if isinstance(first, str) else _reading(optimiser, steps[1], num_steps)
    if isinstance(first, str) or isinstance(second, str):
        return second
    pairs = (first.rows, second.rows), (first.initial, second.initial)
    is_same = first.names == second.names and all(
        np.allclose(*both, rtol=TOLERANCE, atol=0) for both in pairs
    )
    return first if is_same else _SHAPED


@eqx.filter_jit
def compiled_responses(optimiser: Transformation, shape: tuple[int, ...], num_steps: int, inputs):
    """`responses`, compiled once for all learning rates of an optimiser."""
    return responses(coordinate_step(optimiser, shape, inputs.dtype), num_steps, inputs)


def _reading(optimiser: Transformation, step: CoordinateStep, num_steps: int) -> Reading | str:
    one, other = np.random.default_rng(0).standard_normal((2, len(step.names) + 1, *step.shape))
    state, gradient = one.copy(), 0 * one
    state[-1], gradient[-1] = 0, one[-1]
    bases = np.stack([state, gradient, other])
    inputs = np.concatenate([unit_inputs(step), bases, np.tensordot(_COMBINATIONS, bases, 1)])
    found = compiled_responses(optimiser, step.shape, num_steps, inputs)
    values, is_shared = (np.array(part) for part in found)
    ends = np.cumsum([len(one), len(bases)])
    at_units, at_bases, at_combinations = np.split(np.moveaxis(values, 1, 0), ends)
    rows = np.moveaxis(at_first(step, at_units), 0, -1).copy()
    at_first(step, at_units)[...] = 0

    def at_rows(rows, values):
        return np.moveaxis(np.tensordot(rows, values, (-1, 1)), 2, 0)

    # Rounding is relative to terms that may cancel, and in float64 also to those that do: optax's
    # running means add an old value and subtract it.
    sizes = np.abs(at_bases) + at_rows(np.abs(rows), np.abs(bases))
    sizes += _CANCELLED * np.abs(bases).sum(axis=1)[:, None, None]
    is_nonlinear = np.any(
        [
            _differs(found, np.tensordot(shares, at_bases, 1), np.tensordot(shares, sizes, 1))
            for shares, found in zip(_COMBINATIONS, at_combinations, strict=True)
        ],
        axis=0,
    )
    is_uneven = [
        _differs(*both) for both in zip(at_bases, at_rows(rows, bases), sizes, strict=True)
    ]
    for reason, fails in (
        (_CONSTANT, _differs(at_combinations[0], 0, 0)),
        (_SHARED, is_shared),
        (_NONLINEAR, is_nonlinear),
        (_MIXED, np.any([_differs(at_unit, 0, 0) for at_unit in at_units], axis=0)),
        (_UNEVEN, np.any(is_uneven, axis=0)),
    ):
        if fails.any():
            return f"{reason} (first at step {int(np.argmax(fails))})"
    weights = np.multiply.outer((0, 1, *_SCALES), one[0])
    weights = np.concatenate([unit_weights(step)[None], weights])
    starts, has_other_clock = (np.asarray(part) for part in _starts(optimiser, weights))
    initial = at_first(step, starts[0]).copy()
    expected = np.moveaxis(np.multiply.outer(initial, weights), 0, 1)
    if has_other_clock or _differs(starts, expected, np.abs(expected)).any():
        return _START
    return Reading(rows, initial, step.names)


@eqx.filter_jit
def _starts(optimiser: Transformation, weights):
    """The initial numbers of runs from several weights, and whether their clocks differ."""
    start = coordinate_step(optimiser, weights.shape[1:], weights.dtype).start
    values, clocks = jax.vmap(start)(weights)
    return values, is_other_clock(clocks, [leaf[0] for leaf in clocks])


def _differs(first, second, size):
    """The steps (first axis) at which two arrays differ by more than rounding of such a size."""
    is_close = np.abs(first - second) <= TOLERANCE * np.asarray(size)
    return ~is_close.reshape(len(is_close), -1).all(axis=1)
