"""An optimiser of optax whose learning rate is data, so that a new rate compiles nothing.

A transformation such as `optax.sgd(0.1)` is a pair of functions with the number 0.1 inside them:
to JAX another rate is another function. Here the rate, or the parameters of a schedule, are leaves
of a pytree, and the transformation is made from them inside the function that is compiled.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.core.arrays import as_wide_float, float_dtype, in_jax, in_numpy
from jaxdp.core.checks import concrete, described, require_kind, require_non_negative
from jaxdp.schedules import AbstractSchedule, Constant, Hyperbolic
from jaxdp.schedules.callables import as_schedule

Rate = Float[Array, ""] | AbstractSchedule
# Times at which a traced schedule is looked at; the time 1, after the last step, is none of them.
_POINTS = 256


class Transformation(eqx.Module):
    """A transformation of optax, or a factory of them with the learning rate that it is given.

    The object is used like a transformation itself, by `init` and `update`.
    """

    # The transformation, or a function from a learning rate to one.
    optimiser: Any = eqx.field(static=True)
    # a number, a schedule, or None where `optimiser` is a transformation.
    learning_rate: Rate | None = None
    # T, over which a schedule runs; None without a schedule.
    num_steps: Int[Array, ""] | None = None

    def __init__(
        self,
        optimiser: Any,
        learning_rate: Rate | None = None,
        num_steps: int | Int[Array, ""] | None = None,
    ):
        self.optimiser, self.learning_rate = optimiser, learning_rate
        self.num_steps = None
        if isinstance(learning_rate, AbstractSchedule):
            with jax.ensure_compile_time_eval():
                self.num_steps = jnp.asarray(num_steps, jnp.int32)

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether a traced rate keeps what is asked of a concrete one, a schedule's on a grid."""
        rates = self.learning_rate
        if rates is None:
            return np.asarray(True)
        if isinstance(rates, AbstractSchedule):
            rates = _rates_at(rates, jnp.arange(_POINTS), jnp.asarray(_POINTS))
        rates = in_numpy(rates)
        return ((rates >= 0) & (rates < math.inf)).all()

    def stand_in(self) -> "Transformation":
        """The factory at a concrete rate, for a check that cannot look at a traced one."""
        rate = self.learning_rate
        if rate is None or self.num_steps is None:
            return Transformation(self.optimiser, None if rate is None else as_wide_float(0.1))
        return Transformation(self.optimiser, Hyperbolic(0.1, 1.0), self.num_steps)

    def made(self, dtype: Any) -> optax.GradientTransformation:
        """The transformation of optax, for weights of a type.

        The rate takes the type of the weights, as optax's own takes it, which is a Python number.
        """
        rate = self.learning_rate
        if rate is None:
            return self.optimiser
        if isinstance(rate, AbstractSchedule):
            return self.optimiser(lambda count: self.rate_at(count, dtype))
        return self.optimiser(rate.astype(dtype))

    def rate_at(self, step: Int[Array, "*shape"], dtype: Any) -> Float[Array, "*shape"]:
        """The rate of step number `step`, from 0, in the type of the weights."""
        rate = self.learning_rate
        if not isinstance(rate, AbstractSchedule) or self.num_steps is None:
            return jnp.broadcast_to(jnp.asarray(rate, dtype), jnp.shape(step))

        def widened(leaf):
            is_float = eqx.is_inexact_array(leaf)
            return leaf.astype(jnp.promote_types(leaf.dtype, dtype)) if is_float else leaf

        # So that what is read in float64 has the schedule in float64 too.
        rate, num_steps = jax.tree.map(widened, rate), self.num_steps.astype(int)
        return rate.at_step(step, num_steps).astype(dtype)

    def init(self, weights: PyTree) -> PyTree:
        """The state before the first step; TypeError if updates need more than a gradient."""
        transformation = self.made(float_dtype(weights))
        state = transformation.init(weights)
        _require_no_more_than_gradients(transformation, state, weights)
        return state

    def update(self, updates: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
        """What is added to the weights, and the next state."""
        return self.made(float_dtype(weights)).update(updates, state, weights)


class Factory(functools.partial):
    """A `functools.partial` that equals another of the same function and arguments.

    Python's own is equal to itself alone, and JAX would compile once for each. Arguments that have
    no hash, such as arrays, are compared by identity.
    """

    @property
    def _content(self) -> Any:
        keywords = sorted(self.keywords.items())
        named = tuple((name, type(value), value) for name, value in keywords)
        content = self.func, tuple((type(value), value) for value in self.args), named
        try:
            hash(content)
        except TypeError:
            return id(self)
        return content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factory) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


def optimiser_of(optimiser: Any, learning_rate: Any) -> Any:
    """The transformation of a user, or the factory, which has to be there with a learning rate."""
    if learning_rate is None:
        expected = "an optax.GradientTransformation, such as optax.sgd(0.1)"
        if callable(optimiser) and not isinstance(optimiser, type):
            expected += ", or give learning_rate= for the factory of such transformations"
        require_kind("optimiser", optimiser, optax.GradientTransformation, expected)
        return optimiser
    if isinstance(optimiser, optax.GradientTransformation) or not callable(optimiser):
        raise TypeError(
            "expected optimiser to be a function from a learning rate to a transformation, such as "
            f"optax.sgd, because learning_rate= is given; got {described(optimiser)}"
        )
    # A factory that is made equal already stays itself, and with it what is compiled for it.
    is_plain = isinstance(optimiser, functools.partial) and not isinstance(optimiser, Factory)
    return Factory(optimiser) if is_plain else optimiser


def rate_of(
    optimiser: Callable[[Any], Any], learning_rate: Any, num_steps: int | Int[Array, ""]
) -> Rate | None:
    """A learning rate as an array or a schedule, once its factory has taken it.

    A schedule, or another function of the time in [0, 1], has the rate of step k, from 0, at k/T.
    """
    if learning_rate is None:
        return None
    if callable(learning_rate):
        rate = as_schedule(learning_rate)
        if isinstance(rate, Constant):
            rate = rate.value
        else:
            _require_rates(rate, num_steps)
    else:
        rate = as_wide_float(learning_rate, "learning_rate")
        require_non_negative("learning_rate", rate)
        if rate.ndim:
            raise ValueError(
                f"expected learning_rate to be a scalar, got shape {rate.shape}; make a batch "
                "with vmap over the constructor"
            )
    expected = "expected optimiser to make an optax.GradientTransformation of a learning rate, as "
    try:
        made = Transformation(optimiser, rate, num_steps).made(float)
    # The factory is the user's, and may raise anything.
    except Exception as error:
        raise TypeError(
            f"{expected}optax.sgd does, got one that raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, optax.GradientTransformation):
        raise TypeError(f"{expected}optax.sgd does, got one that made {described(made)}")
    return rate


@eqx.filter_jit
def _rates_at(schedule, steps, num_steps):
    return schedule.at_step(steps, num_steps)


def _require_rates(schedule: AbstractSchedule, num_steps: int | Int[Array, ""]) -> None:
    """Raise ValueError where a concrete schedule has a rate below zero, or not finite."""
    if concrete(num_steps) is None:
        return
    with jax.ensure_compile_time_eval():
        rates = concrete(_rates_at(schedule, *in_jax((np.arange(int(num_steps)), num_steps))))
    if rates is None:
        return
    is_wrong = ~(np.isfinite(rates) & (rates >= 0))
    if is_wrong.any():
        worst = int(np.argmax(is_wrong))
        raise ValueError(
            "expected learning_rate to be finite and >= 0 at every step, got "
            f"{rates[worst]} at step {worst} of {num_steps}"
        )


def refuse_losses(transformation: Transformation) -> None:
    """Raise TypeError where an update asks for the loss, before there is a model to say so.

    On two weights: what fails on them for another reason may be made for others, which `init` sees.
    """
    try:
        jax.eval_shape(transformation.init, jnp.zeros(2))
    # The optimiser is the user's, and may raise anything.
    except Exception as error:
        # Python's own words for a keyword without which a function cannot be called.
        if "required keyword-only argument" in str(error.__cause__):
            raise


def _require_no_more_than_gradients(transformation, state, weights):
    """Raise TypeError where an update asks for the loss, say, which no noisy sum tells."""
    if not isinstance(transformation, optax.GradientTransformationExtraArgs):
        return
    try:
        jax.eval_shape(transformation.update, weights, state, weights)
    # What needs concrete numbers may still run outside of jit.
    except jax.errors.JAXTypeError:
        return
    # An optimiser may miss its argument in any way.
    except Exception as error:
        raise TypeError(
            "expected an optimiser that needs gradient, state and weights only, as optax.sgd does, "
            "because the value of the loss, or the loss itself, is not released; got one that "
            f"raised {type(error).__name__}: {error}"
        ) from error
