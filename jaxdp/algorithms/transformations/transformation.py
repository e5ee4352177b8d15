"""An optimiser of optax whose learning rate is data, so that a new rate compiles nothing."""

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
from jaxdp.core.checks import (
    concrete,
    described,
    require_kind,
    require_non_negative,
    require_scalar,
)
from jaxdp.schedules import AbstractSchedule, Constant, Hyperbolic
from jaxdp.schedules.callables import as_schedule

Rate = Float[Array, ""] | AbstractSchedule
# Number of times below 1 at which a traced schedule is checked.
_POINTS = 256


class Transformation(eqx.Module):
    """A transformation of optax, or a factory with its learning rate as a leaf of this pytree."""

    optimiser: Any = eqx.field(static=True)  # the transformation, or a function of a rate to one
    learning_rate: Rate | None = None  # None if `optimiser` is a transformation
    num_steps: Int[Array, ""] | None = None  # T, over which a schedule runs

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
        """Whether the rate, which may be traced, is finite and >= 0 (a schedule: on a grid)."""
        rates = self.learning_rate
        if rates is None:
            return np.asarray(True)
        if isinstance(rates, AbstractSchedule):
            rates = _rates_at(rates, jnp.arange(_POINTS), jnp.asarray(_POINTS))
        rates = in_numpy(rates)
        return ((rates >= 0) & (rates < math.inf)).all()

    def stand_in(self) -> "Transformation":
        """The factory at a concrete rate, for checks that a traced rate does not allow."""
        rate = self.learning_rate
        if rate is None or self.num_steps is None:
            return Transformation(self.optimiser, None if rate is None else as_wide_float(0.1))
        return Transformation(self.optimiser, Hyperbolic(0.1, 1.0), self.num_steps)

    def made(self, dtype: Any) -> optax.GradientTransformation:
        """The transformation of optax with its rate in the type of the weights."""
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

        # A float64 reading needs the schedule in float64 too.
        rate, num_steps = jax.tree.map(widened, rate), self.num_steps.astype(int)
        return rate.at_step(step, num_steps).astype(dtype)

    def init(self, weights: PyTree) -> PyTree:
        """The state before the first step; TypeError if updates need more than a gradient."""
        transformation = self.made(float_dtype(weights))
        state = transformation.init(weights)
        _require_no_more_than_gradients(transformation, state, weights)
        return state

    def update(self, updates: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
        """The increment of the weights, and the next state."""
        return self.made(float_dtype(weights)).update(updates, state, weights)


class Factory(functools.partial):
    """A `functools.partial` that equals another of the same content, so that JAX compiles once."""

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
    """The user's transformation, or with a learning rate the factory; else TypeError."""
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
    # A `Factory` keeps its identity, and with it the programs compiled for it.
    is_plain = isinstance(optimiser, functools.partial) and not isinstance(optimiser, Factory)
    return Factory(optimiser) if is_plain else optimiser


def rate_of(
    optimiser: Callable[[Any], Any], learning_rate: Any, num_steps: int | Int[Array, ""]
) -> Rate | None:
    """A learning rate as an array or a schedule (step k, from 0, has its value at k/T)."""
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
        require_scalar("learning_rate", rate)
    expected = "expected optimiser to make a transformation of a learning rate, as optax.sgd does"
    try:
        made = Transformation(optimiser, rate, num_steps).made(float)
    # The factory is the user's, and may raise anything.
    except Exception as error:
        came = f"got one that raised {type(error).__name__}: {error}"
        raise TypeError(f"{expected}, {came}") from error
    if not isinstance(made, optax.GradientTransformation):
        raise TypeError(f"{expected}, got one that made {described(made)}")
    return rate


@eqx.filter_jit
def _rates_at(schedule, steps, num_steps):
    return schedule.at_step(steps, num_steps)


def _require_rates(schedule: AbstractSchedule, num_steps: int | Int[Array, ""]) -> None:
    """Raise ValueError if a concrete schedule has a rate that is negative or not finite."""
    if concrete(num_steps) is None:
        return
    with jax.ensure_compile_time_eval():
        rates = concrete(_rates_at(schedule, *in_jax((np.arange(int(num_steps)), num_steps))))
    if rates is not None and (is_wrong := ~(np.isfinite(rates) & (rates >= 0))).any():
        worst = int(np.argmax(is_wrong))
        came = f"{rates[worst]} at step {worst} of {num_steps}"
        raise ValueError(f"expected learning_rate to be finite and >= 0 at every step, got {came}")


def refuse_losses(transformation: Transformation) -> None:
    """Raise TypeError if updates on two weights need the value of the loss."""
    try:
        jax.eval_shape(transformation.init, jnp.zeros(2))
    # The optimiser is the user's, and may raise anything.
    except Exception as error:
        # Python's own words for a keyword without which a function cannot be called.
        if "required keyword-only argument" in str(error.__cause__):
            raise


def _require_no_more_than_gradients(transformation, state, weights):
    """Raise TypeError if an update needs more than a gradient, such as the loss."""
    if not isinstance(transformation, optax.GradientTransformationExtraArgs):
        return
    try:
        jax.eval_shape(transformation.update, weights, state, weights)
    # An update that needs concrete numbers may still run outside of jit.
    except jax.errors.JAXTypeError:
        return
    # An optimiser may miss its argument in any way.
    except Exception as error:
        raise TypeError(
            "expected an optimiser that needs gradient, state and weights only, as optax.sgd does, "
            f"because the loss is not released; got one that raised {type(error).__name__}: {error}"
        ) from error
