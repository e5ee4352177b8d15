"""The abstract algorithms: how long they run, what they do in one step, what they release."""

import abc
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.core.arrays import as_wide_float, in_jax, in_numpy
from jaxdp.core.checks import concrete, require_count, require_kind
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.privacy.release import Release
from jaxdp.problems.base import AbstractProblem


class Length(eqx.Module):
    """A number of steps that is a Python int: it sets the length of a compiled loop."""

    value: int = eqx.field(static=True)


def as_length(num_steps: Any) -> Length | Int[Array, ""]:
    """A Python int as a `Length`, anything else as a scalar array of whole numbers from 1 on."""
    if isinstance(num_steps, (int, np.integer)):
        if num_steps >= 2**31:
            raise ValueError(f"expected num_steps < 2^31, got {num_steps}")
        return Length(require_count("num_steps", num_steps))
    dtype = getattr(num_steps, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"expected num_steps to be a whole number, got {num_steps!r}")
    # Of one type, not weak, so that no kind of whole number compiles a program of its own.
    array = jnp.asarray(num_steps).astype(int)
    if array.shape != ():
        raise ValueError(
            f"expected num_steps to be a scalar, got shape {array.shape}; "
            "make a batch with vmap over the constructor"
        )
    known = concrete(array)
    if known is not None and known < 1:
        raise ValueError(f"expected num_steps >= 1, got {int(known)}")
    return array


class AbstractStepwise(AbstractDescription):
    """An object that makes a number of steps, a Python int or a traced whole number."""

    _length: eqx.AbstractVar[Length | Int[Array, ""]]

    @property
    def num_steps(self) -> int | Int[Array, "*batch"]:
        """How many updates it makes."""
        return self._length.value if isinstance(self._length, Length) else self._length

    @property
    def has_length(self) -> Bool[Array, ""]:
        """Whether the number of steps, which may be traced, is one that the constructor takes."""
        steps = in_numpy(self.num_steps)
        return (steps >= 1) & jnp.issubdtype(jnp.result_type(steps), jnp.integer)

    def with_traced_length(self) -> Self:
        """The algorithm with `num_steps` and Python's floats as arrays, which compile nothing."""
        traced = eqx.tree_at(
            lambda tree: tree._length,
            self,
            in_jax(self.num_steps),
            is_leaf=lambda node: isinstance(node, Length),
        )
        return jax.tree.map(
            lambda leaf: as_wide_float(leaf) if isinstance(leaf, float) else leaf, traced
        )


def _written(optimiser: Any) -> bytes:
    """The optimiser of a user for another process; TypeError where it cannot be sent to one."""
    try:
        return pickle.dumps(optimiser)
    # What pickling may raise has no common name.
    except Exception as error:
        try:
            import cloudpickle
        except ImportError:
            raise TypeError(
                "expected an optimiser that other processes can be sent, got one that optax made "
                f"of functions ({error}): give the factory and its rate, as in "
                "PrivateOptimiser(optax.sgd, learning_rate=0.1, ...), or install cloudpickle"
            ) from None
        return cloudpickle.dumps(optimiser)


def _restored(kind: Any, values: dict[str, Any]) -> Any:
    """The object of these fields, as it was sent."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, pickle.loads(value) if name == "optimiser" else value)
    return made


class StepResult(NamedTuple):
    """The outcome of one step of training."""

    model: PyTree
    state: Any  # of the optimiser
    # How many records of the batch had a gradient that is not finite: private data, which no
    # account covers.
    num_dropped: Int[Array, ""]


class AbstractTrainable(AbstractStepwise):
    """An optimiser that `train` makes steps of, on all the records of a data set."""

    @property
    def steps_on_host(self) -> bool:
        """Whether each step returns to the host, so that no loop of them can be compiled."""
        return False

    def __reduce__(self):
        """The parts that pickle sends, among them functions of optax as bytes."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _restored, (type(self), values | {"optimiser": _written(values["optimiser"])})

    def __copy__(self):
        for name in constructor_arguments(type(self)):
            # Refused as in `replace`.
            self._argument(name)
        return self

    def __deepcopy__(self, memo):
        return self.__copy__()

    def require_valid(self) -> Any:
        """Raise if the constructor would not take what the description holds; traced numbers pass.

        The constructor, the account, `train` and every step call it: `equinox.tree_at` sets numbers
        and parts that no constructor has seen. Returns whether the traced numbers are valid.
        """
        as_length(self.num_steps)
        return self.has_length

    @property
    def drawn_with(self) -> tuple[Any, ...]:
        """What batches and noise depend on beside the run's key: numbers and descriptions."""
        return ()

    @abc.abstractmethod
    def init(self, model: PyTree) -> Any:
        """The state before the first step; the weights are the model's inexact arrays."""

    @abc.abstractmethod
    def moved_by(self, mean: PyTree[Array], model: PyTree, state: Any) -> tuple[PyTree, Any]:
        """Model and state after the optimiser has seen a mean gradient, its noise included."""

    def step(
        self,
        loss: Callable[[Any, Any, Any], Float[Array, ""]],
        model: PyTree,
        state: Any,
        inputs: PyTree[Array],
        targets: PyTree[Array],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
    ) -> tuple[PyTree, Any]:
        """One whole step on the data: the model and the state after it.

        Args:
            loss: of one record, as in `jaxdp.clipped_gradient_sum`.
            model: before the step.
            state: that of `init`, or of the step before.
            inputs: of all records of the data set, a pytree with a leading axis. Keys of
                `jax.random.key` among them are folded with the number of the step, as in `train`.
            targets: of all records, as `inputs`.
            key: one for the whole run and for no other, secret (`jaxdp.privacy.secret_key()`);
                batches and noise of each step are drawn from it and from the number of the step.
                With secret noise only the order of `ShuffledEpochs` and the batches of
                `FixedSizeBatches` are; the baseline draws nothing. Where the account needs one key
                (`ShuffledEpochs`) another is refused; traced, it leaves no numbers.
            microbatch_size: as in `jaxdp.clipped_gradient_sum`. Below 256 it also makes the noise
                that covers rounding less.

        A record whose loss or gradient is not finite counts as zero; `train` says how many did.
        With secret noise no number ends a step in an error. A step that ends in one of the loss or
        the optimiser counts as made: to call it again from the same state is a second release.

        Raises:
            ValueError: there are not as many records as the sampler draws from, all steps that
                are accounted for have been made, the key is another than before where one is
                needed, the loss has no gradient by any weight, or secret noise is asked for under
                `jit` or where sums are not proved (XLA's fast math, a TPU).
        """
        made = self.make_step(loss, model, state, inputs, targets, key, microbatch_size)
        return made.model, made.state

    @abc.abstractmethod
    def make_step(
        self, loss, model, state, inputs, targets, key, microbatch_size=None, mesh=None
    ) -> StepResult:
        """A whole `step`; the devices of a mesh share a batch of a private optimiser."""


class Update(eqx.Module):
    """The outcome of one step of a one-pass algorithm.

    Attributes:
        parameters: the new ones.
        state: of the algorithm, for the next step.
        clipped, capped: which samples were clipped, and which had their step capped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.algorithms import Update
        >>> clipped, capped = np.array([True, False, True, False]), np.zeros(4, bool)
        >>> update = Update(np.ones(3), None, clipped, capped)
        >>> float(update.clipped.mean()), float(update.capped.mean())
        (0.5, 0.0)
    """

    parameters: Float[Array, " dim"]
    state: PyTree
    clipped: Bool[Array, "*batch"]
    capped: Bool[Array, "*batch"]


class AbstractAlgorithm(AbstractStepwise):
    """An algorithm that learns in steps and adds Gaussian noise to each.

    What it carries from step to step beside the parameters is its state; the methods that start
    and step depend on where its samples come from.
    """

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether the parameters, which may be traced, are what the constructor asks for."""

    def _proved(self, mu: Any) -> Any:
        """mu, or infinity where a number of the description is one that its constructor refuses.

        A constructor sees no traced numbers, and none of what `equinox.tree_at` sets: so the
        numbers that the description has now are checked. A batch of mu is left for its mechanism
        to refuse.
        """
        if np.ndim(mu):
            return mu
        with jax.ensure_compile_time_eval():
            is_valid = self.is_valid
        if isinstance(is_valid, Tracer):
            return jnp.where(is_valid, mu, jnp.inf)
        return mu if is_valid else math.inf

    @abc.abstractmethod
    def release(self) -> Release:
        """What is made public, and what is proved about it."""


class AbstractOnePassAlgorithm(AbstractAlgorithm):
    """An algorithm that uses each sample once.

    Attributes:
        batch_size: how many samples one step uses.
    """

    batch_size: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def releases_every_iterate(self) -> bool:
        """Whether an iterate is released as it is recorded, the noise of its step included.

        Otherwise only the last one is, and the noise of the last step comes after the last record.
        """

    @abc.abstractmethod
    def step_size(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        """The learning rate of update number `step`, from 1."""

    @abc.abstractmethod
    def noise_std(self, step: Int[Any, "*shape"] | int, dim: int) -> Float[Array, "*shape"]:
        """Standard deviation, per coordinate, of the noise that `step` is given at that update."""

    @abc.abstractmethod
    def init(self, parameters: Float[Array, " dim"]) -> PyTree:
        """The state before the first step: arrays, or None."""

    @abc.abstractmethod
    def step(
        self,
        parameters: Float[Array, " dim"],
        state: PyTree,
        gradients: Float[Array, "*batch dim"],
        smoothness: Float[Array, "*batch"],
        step_size: Float[Array, ""],
        noise: Float[Array, " dim"],
    ) -> Update:
        """One step from per-sample gradients, with fresh noise already at its scale.

        A step of size 0 without noise leaves the parameters as they are, whatever it does to the
        state.

        One gradient without a batch axis stands for a batch of one, and is faster.
        """


def require_pair(problem: Any, algorithm: Any) -> None:
    """Raise TypeError unless the two are a problem and an algorithm, neither swapped nor absent."""
    require_kind("problem", problem, AbstractProblem, "a problem, such as LinearRegression")
    kinds = AbstractAlgorithm, AbstractTrainable
    require_kind("algorithm", algorithm, kinds, "an algorithm, such as OnePassDPSGD")
