"""The abstract algorithms: the number of steps, one step, and the release."""

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
from jaxdp.core.checks import concrete, require_count, require_kind, require_scalar
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.privacy.release import Release
from jaxdp.problems.base import AbstractProblem


class Length(eqx.Module):
    """A number of steps that is a Python int: it sets the length of a compiled loop."""

    value: int = eqx.field(static=True)


def as_length(num_steps: Any) -> Length | Int[Array, ""]:
    """A Python int as a `Length`, another whole number as a scalar array."""
    if isinstance(num_steps, (int, np.integer)):
        if num_steps >= 2**31:
            raise ValueError(f"expected num_steps < 2^31, got {num_steps}")
        return Length(require_count("num_steps", num_steps))
    dtype = getattr(num_steps, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"expected num_steps to be a whole number, got {num_steps!r}")
    # A single type, not weak, so that all kinds of whole numbers share compiled programs.
    array = jnp.asarray(num_steps).astype(int)
    require_scalar("num_steps", array)
    known = concrete(array)
    if known is not None and known < 1:
        raise ValueError(f"expected num_steps >= 1, got {int(known)}")
    return array


class AbstractStepwise(AbstractDescription):
    """A description with a number of steps, which is a Python int or a traced whole number."""

    _length: eqx.AbstractVar[Length | Int[Array, ""]]

    @property
    def num_steps(self) -> int | Int[Array, "*batch"]:
        """The number of updates."""
        return self._length.value if isinstance(self._length, Length) else self._length

    @property
    def has_length(self) -> Bool[Array, ""]:
        """Whether the number of steps, which may be traced, is valid."""
        steps = in_numpy(self.num_steps)
        return (steps >= 1) & jnp.issubdtype(jnp.result_type(steps), jnp.integer)

    def with_traced_length(self) -> Self:
        """The algorithm with `num_steps` and Python floats as arrays, which compile nothing."""
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
    """The bytes of a user's optimiser for another process; TypeError if it cannot be pickled."""
    try:
        return pickle.dumps(optimiser)
    # Pickling raises errors of many types.
    except Exception as error:
        try:
            import cloudpickle
        except ImportError:
            raise TypeError(
                f"expected an optimiser that can be pickled ({error}): give factory and rate, as "
                "in PrivateOptimiser(optax.sgd, learning_rate=0.1, ...), or install cloudpickle"
            ) from None
        return cloudpickle.dumps(optimiser)


def _restored(kind: Any, values: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, pickle.loads(value) if name == "optimiser" else value)
    return made


class StepResult(NamedTuple):
    """The outcome of one step of training."""

    model: PyTree
    state: Any  # of the optimiser
    num_dropped: Int[Array, ""]  # records with a gradient that is not finite: private data


class AbstractTrainable(AbstractStepwise):
    """An optimiser with which `train` makes steps on all the records of a data set."""

    @property
    def steps_on_host(self) -> bool:
        """Whether each step returns to the host, so that steps cannot run in one compiled loop."""
        return False

    def __reduce__(self):
        """The parts that pickle sends; functions of optax go as bytes."""
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
        """Raise if the constructor would refuse a value; return whether traced ones are valid."""
        as_length(self.num_steps)
        return self.has_length

    @property
    def drawn_with(self) -> tuple[Any, ...]:
        """Numbers and descriptions on which batches and noise depend, besides the run's key."""
        return ()

    @abc.abstractmethod
    def init(self, model: PyTree) -> Any:
        """The state before the first step; the weights are the model's inexact arrays."""

    @abc.abstractmethod
    def moved_by(self, mean: PyTree[Array], model: PyTree, state: Any) -> tuple[PyTree, Any]:
        """Model and state after the optimiser has received a (noisy) mean gradient."""

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
        """Make one step on the data, and return the model and the state after it.

        A record whose loss or gradient is not finite counts as zero. With secret noise no number
        raises an error. A step in which the loss or the optimiser raises counts as made: repeating
        it from the same state is a second release.

        Args:
            loss: the loss of one record, as in `jaxdp.clipped_gradient_sum`.
            model: the model before the step.
            state: the state of `init`, or of the step before.
            inputs: all records of the data set, a pytree with a leading axis; keys as in `train`.
            targets: the labels of all records, in the same forms as `inputs`.
            key: one secret key for the whole run and no other (`jaxdp.privacy.secret_key()`), from
                which, with the step number, batches and noise are drawn. Secret noise uses it only
                for the batches of `ShuffledEpochs` and `FixedSizeBatches`. If the account needs one
                key (`ShuffledEpochs`) another is refused; a traced other key gives NaN.
            microbatch_size: see `jaxdp.clipped_gradient_sum`; below 256 it also lowers the noise
                that covers rounding.

        Raises:
            ValueError: the number of records is not the sampler's, all steps in the account have
                been made, the sampler needs one key and another came, the loss has no gradient by
                any weight, or secret noise is asked for under `jit` or on a machine whose sums are
                not proved (XLA's fast math, a TPU).
        """
        made = self.make_step(loss, model, state, inputs, targets, key, microbatch_size)
        return made.model, made.state

    @abc.abstractmethod
    def make_step(
        self, loss, model, state, inputs, targets, key, microbatch_size=None, mesh=None
    ) -> StepResult:
        """A whole `step`; the devices of a mesh share a batch of a private optimiser."""


class Update(eqx.Module):
    """The result of one step of a one-pass algorithm.

    Attributes:
        parameters: the new parameters.
        state: the state for the next step.
        clipped, capped: flags of samples that were clipped, and that had their step capped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.algorithms import Update
        >>> clipped = np.array([True, False])
        >>> float(Update(np.ones(3), None, clipped, ~clipped).clipped.mean())
        0.5
    """

    parameters: Float[Array, " dim"]
    state: PyTree
    clipped: Bool[Array, "*batch"]
    capped: Bool[Array, "*batch"]


class AbstractAlgorithm(AbstractStepwise):
    """An algorithm that learns in steps and adds Gaussian noise to each."""

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether the parameters, which may be traced, are in the constructor's ranges."""

    def _proved(self, mu: Any) -> Any:
        """mu, or infinity if a number, traced or set by `equinox.tree_at`, is out of range."""
        if np.ndim(mu):
            return mu
        with jax.ensure_compile_time_eval():
            is_valid = self.is_valid
        if isinstance(is_valid, Tracer):
            return jnp.where(is_valid, mu, jnp.inf)
        return mu if is_valid else math.inf

    @abc.abstractmethod
    def release(self) -> Release:
        """The statement about the released values: mechanism, adjacency and assumptions."""


class AbstractOnePassAlgorithm(AbstractAlgorithm):
    """An algorithm that uses each sample once, `batch_size` samples in each step."""

    batch_size: eqx.AbstractVar[int]
    # Whether each iterate is released as recorded; else the last noise comes afterwards.
    releases_every_iterate: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def step_size(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        """The learning rate of update number `step`, from 1."""

    @abc.abstractmethod
    def noise_std(self, step: Int[Any, "*shape"] | int, dim: int) -> Float[Array, "*shape"]:
        """Standard deviation per coordinate of the noise that `step` is given at that update."""

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
        """One step from per-sample gradients (no batch axis: of one sample) and scaled noise.

        A step of size 0 without noise leaves the parameters unchanged.
        """


def require_pair(problem: Any, algorithm: Any) -> None:
    """Raise TypeError unless the two are a problem and an algorithm, in this order."""
    require_kind("problem", problem, AbstractProblem, "a problem, such as LinearRegression")
    kinds = AbstractAlgorithm, AbstractTrainable
    require_kind("algorithm", algorithm, kinds, "an algorithm, such as OnePassDPSGD")
