"""One step of an optax optimiser as a function of arrays: for `linear_state` and its check.

What an optimiser remembers is told apart by shape. An array of real numbers that is shaped like
the weights holds one number for each coordinate (momentum, an average); it enters the matrices.
All else (the step's number, a scheduled rate, a key) is called the clock here: it may change from
step to step, but not with the gradients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.transformations.transformation import Transformation

# Optimisers may compute in float32.
TOLERANCE = 64 * float(jnp.finfo(jnp.float32).eps)


class CoordinateStep(NamedTuple):
    """An optimiser on one array of weights.

    Attributes:
        names: of the numbers that a coordinate has: "weight", then paths in the optimiser's state.
        shape: of the weights.
        dtype: of the weights.
        start: from weights to the numbers of all coordinates, (size, *shape), and the clock.
        move: from those numbers and the gradients, (size + 1, *shape), and a clock, to what is
            added to the weights and what becomes of the rest, (size, *shape), and the next clock.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    start: Callable[[Array], tuple[Float[Array, "size ..."], list[Array]]]
    move: Callable[[Array, list[Array]], tuple[Float[Array, "size ..."], list[Array]]]


def coordinate_step(
    optimiser: Transformation, shape: tuple[int, ...], dtype: Any
) -> CoordinateStep:
    """The optimiser on weights of a shape and type.

    Raises:
        Exception: whatever the optimiser raises when it is given a gradient and weights only.
    """
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
    """Each number of the first coordinate in turn as one, the gradient last; all else zero."""
    num_inputs = len(step.names) + 1
    units = np.zeros((num_inputs, num_inputs, *step.shape), step.dtype)
    units[(..., *_first(step))] = np.eye(num_inputs)
    return units


def unit_weights(step: CoordinateStep) -> Float[np.ndarray, "..."]:
    """Weights of which the first is one and the others zero."""
    weights = np.zeros(step.shape, step.dtype)
    weights[_first(step)] = 1
    return weights


def at_first(step: CoordinateStep, values: Any) -> Any:
    """The first coordinate of arrays that end with the axes of the weights."""
    return values[(..., *_first(step))]


def responses(
    step: CoordinateStep, num_steps: int, inputs: Float[Array, "trials inputs *shape"]
) -> tuple[Float[Array, "steps trials size *shape"], Bool[Array, " steps"]]:
    """What each step of a run makes of some inputs, and whether any of them moved its clock.

    The clock of the run goes on with gradients, weights and state that are zero. Without a clock
    all steps are the same, and one is given.
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
