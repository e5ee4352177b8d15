r"""A linear optimiser read as matrices: what it does to the weights, one coordinate at a time.

Gradient descent with any schedule, momentum, Nesterov's step, averages of gradients and weight
decay all do the same to every coordinate, and do it linearly. With z the coordinate's weight and
what the optimiser remembers of it (its momentum, say), step t is

$$ z_{t+1} = F_t z_t + g_t\, \hat g_t, \qquad z_0 = a\,\theta_0, $$

with $\hat g_t$ the coordinate of the gradient that the optimiser is given, a matrix $F_t$ and
vectors $g_t$, a. A theory that follows the mean and the covariance of the weights needs no more.

The matrices are read off the optimiser itself: the columns of a linear map are its values at the
unit vectors. Derivatives at zero would say the same, but do not exist where a norm is taken. That
the optimiser is of this form is checked, at every step, by `linearity` beside this module.
Derived: test_linear_state, against optax and against the matrices of heavy ball and Nesterov.
"""

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

    The weight itself is component 0 of z. Arrays are float64 of NumPy, so that products of many
    steps keep their digits without x64, or JAX's where a number of the optimiser is traced.

    Attributes:
        transitions: $F_t$ of each step, or one matrix for all of them.
        injections: $g_t$ of each step, or one vector for all.
        initial: a.
        names: of the components: "weight", then the path of each in the optimiser's state, then
            "average" where an average of the weight is released (`linear_state_of`).
        num_steps: T.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import linear_state
        >>> state = linear_state(optax.sgd(0.1, momentum=0.9), num_steps=10)
        >>> state.size, state.names[0], state.is_constant
        (2, 'weight', True)
    """

    transitions: Float[Array | np.ndarray, "steps size size"]
    injections: Float[Array | np.ndarray, "steps size"]
    initial: Float[Array | np.ndarray, " size"]
    names: tuple[str, ...] = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """How many numbers a coordinate's state has, its weight included."""
        return len(self.names)

    @property
    def is_constant(self) -> bool:
        """Whether one matrix is known to stand for all steps."""
        return self.transitions.shape[0] == 1

    @property
    def output(self) -> int:
        """Which component is released: the average where there is one, else the weight."""
        return self.names.index(AVERAGE) if AVERAGE in self.names else 0


def linear_state(
    optimiser: optax.GradientTransformation | Transformation, num_steps: int
) -> LinearState:
    """The matrices of an optax optimiser that is linear, coordinate by coordinate.

    Args:
        optimiser: covered are those whose steps are linear in gradient, weights and state
            together, without a constant, and the same for every coordinate, whatever the size of
            the gradient: `optax.sgd` with and without momentum, `optax.ema`,
            `optax.add_decayed_weights`, chains of them, with schedules that read the step's
            number. A `Transformation` has its learning rate as data, which may be traced; then
            its factory is checked at another rate.
        num_steps: T.

    Returns:
        The matrices, one for all steps where they do not change.

    Raises:
        NotCoveredError: the optimiser is not linear, acts on several coordinates together, or
            differently on different ones; says which, and at which step.
        TypeError: it is not of optax, or a number of it is traced that is not the learning rate of
            a `Transformation`.

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
    if _has_tracers(optimiser):
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
    """Rows say what is added to the weight; matrices, what becomes of it."""
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
        # Those who share the arrays must not write to them.
        found.rows.flags.writeable = found.initial.flags.writeable = False
    return found


def _has_tracers(optimiser):
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(optimiser))


def _refuse_hidden_tracers(optimiser):
    """Raise TypeError if a number that a step uses is traced inside the optimiser's functions."""
    weights = np.ones(SHAPES[0], np.float32)
    try:
        with jax.ensure_compile_time_eval():
            state = optimiser.init(weights)
            found = state, optimiser.update(weights, state, weights)
    # It cannot be run at all, which the check says.
    except Exception:
        return
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(found)):
        raise TypeError(
            "expected an optimiser of concrete numbers, got a traced one, of which nothing can be "
            "looked at: give the factory and the traced rate as learning_rate="
        )
