"""Linear optimisers as matrices: gradient descent, momentum, Nesterov, averages, weight decay."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.algorithms.transformations.linearity import (
    SHAPES,
    Reading,
    at_first,
    checked_reading,
    compiled_responses,
    coordinate_step,
    unit_inputs,
    unit_weights,
)
from jaxdp.algorithms.transformations.transformation import Transformation, optimiser_of
from jaxdp.core.checks import NotCoveredError, require_count

AVERAGE = "average"


class LinearState(eqx.Module):
    r"""A linear optimiser on one coordinate: $z_{t+1} = F_t z_t + g_t \hat g_t$, $z_0 = a\theta_0$.

    z is the weight followed by the numbers that the optimiser remembers of it (its momentum, say),
    and $\hat g_t$ the gradient. Arrays are float64 of NumPy, or JAX's if a number is traced.

    Attributes:
        transitions: $F_t$ of each step, or one matrix for all of them.
        injections: $g_t$ of each step, or one vector for all.
        initial: a.
        names: "weight", then the path of each component in the optimiser's state, then "average" if
            an average of the weight is released (`linear_state_of`).
        num_steps: T.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import linear_state
        >>> linear_state(optax.sgd(0.1, momentum=0.9), num_steps=10).size
        2
    """

    transitions: Float[Array | np.ndarray, "steps size size"]
    injections: Float[Array | np.ndarray, "steps size"]
    initial: Float[Array | np.ndarray, " size"]
    names: tuple[str, ...] = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of components of a coordinate's state, its weight included."""
        return len(self.names)

    @property
    def is_constant(self) -> bool:
        """Whether one matrix serves all steps."""
        return self.transitions.shape[0] == 1

    @property
    def output(self) -> int:
        """The released component: the average if there is one, else the weight."""
        return self.names.index(AVERAGE) if AVERAGE in self.names else 0


def linear_state(
    optimiser: optax.GradientTransformation | Transformation, num_steps: int
) -> LinearState:
    """The matrices of an optax optimiser that is linear, coordinate by coordinate.

    They are its values at unit vectors; derivatives at zero do not exist where a norm is taken.
    `linearity` checks the form at every step. Derived: test_linear_state, against optax and against
    the matrices of heavy ball and Nesterov.

    Args:
        optimiser: an optimiser whose steps are linear in gradient, weights and state together, and
            equal for every coordinate: `optax.sgd` with and without momentum, `optax.ema`,
            `optax.add_decayed_weights`, chains of them, with schedules of the step number. The
            learning rate of a `Transformation` may be traced; its factory is then checked at
            another.
        num_steps: T.

    Returns:
        The matrices, a single one if all steps are equal.

    Raises:
        NotCoveredError: the optimiser is not linear, or treats coordinates together or differently;
            the message says which, and at which step.
        TypeError: it is not of optax, or a number other than the learning rate is traced.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import linear_state
        >>> state = linear_state(optax.sgd(0.1, momentum=0.5), num_steps=10)
        >>> print(state.transitions[0].round(2), state.injections[0].round(2))
        [[ 1.   -0.05]
         [ 0.    0.5 ]] [-0.1  1. ]
    """
    num_steps = require_count("num_steps", num_steps)
    if not isinstance(optimiser, Transformation):
        optimiser = Transformation(optimiser_of(optimiser, None))
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(optimiser)):
        return _at_traced_rate(optimiser, num_steps)
    _refuse_hidden_tracers(optimiser)
    found = _known_reading(_Content(optimiser), num_steps)
    if isinstance(found, str):
        raise NotCoveredError(
            "expected an optimiser that is linear in gradient, weights and state and does the same "
            f"to every coordinate, such as optax.sgd with or without momentum; {found}"
        )
    is_constant = np.array_equal(found.rows, np.broadcast_to(found.rows[:1], found.rows.shape))
    return _as_state(found._replace(rows=found.rows[:1]) if is_constant else found, num_steps)


def _at_traced_rate(optimiser, num_steps):
    """The matrices of a factory at a traced rate, once those at another rate have been checked."""
    linear_state(optimiser.stand_in(), num_steps)
    step = coordinate_step(optimiser, SHAPES[0], jnp.result_type(float))
    values, _ = compiled_responses(optimiser, step.shape, num_steps, unit_inputs(step))
    rows = jnp.moveaxis(at_first(step, values), 1, -1)
    initial = at_first(step, step.start(jnp.asarray(unit_weights(step)))[0])
    return _as_state(Reading(rows, initial, step.names), num_steps)


def _as_state(reading, num_steps):
    """Matrices from rows, which give the weight's increment."""
    matrices, injections = reading.rows[..., :-1], reading.rows[..., -1]
    kept = np.zeros(matrices.shape[-2:])
    kept[0, 0] = 1
    return LinearState(matrices + kept[None], injections, reading.initial, reading.names, num_steps)


class _Content:
    """An optimiser without traced numbers, equal to another of the same functions and numbers."""

    def __init__(self, optimiser: Transformation):
        leaves, structure = jax.tree.flatten(optimiser)
        arrays = [np.asarray(leaf) for leaf in leaves]
        self.optimiser = optimiser
        self._key = structure, tuple((one.dtype, one.shape, one.tobytes()) for one in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@functools.lru_cache(maxsize=64)
def _known_reading(content, num_steps):
    found = checked_reading(content.optimiser, num_steps)
    if not isinstance(found, str):
        # The cached arrays are shared and must not be written to.
        found.rows.flags.writeable = found.initial.flags.writeable = False
    return found


def _refuse_hidden_tracers(optimiser):
    """Raise TypeError if a number that a step uses is traced inside the optimiser's functions."""
    weights = np.ones(SHAPES[0], np.float32)
    try:
        with jax.ensure_compile_time_eval():
            state = optimiser.init(weights)
            found = state, optimiser.update(weights, state, weights)
    # `checked_reading` will report that it cannot be run.
    except Exception:
        return
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(found)):
        raise TypeError(
            "expected an optimiser of concrete numbers, got a traced one: give the factory and the "
            "traced rate as learning_rate="
        )
