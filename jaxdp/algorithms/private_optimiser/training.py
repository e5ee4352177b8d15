"""A compiled training loop around `PrivateOptimiser.step`, for batches of every sampler."""

import contextlib
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractTrainable, Length, StepResult
from jaxdp.algorithms.private_optimiser.checkpoint import Checkpoint, identity_of_run
from jaxdp.algorithms.private_optimiser.host_rows import (
    are_on_host,
    batches_ahead,
    held_records,
    num_records,
)
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.private_step import private_step
from jaxdp.algorithms.private_optimiser.state import OptimiserState, require_untraced, with_keys_of
from jaxdp.algorithms.private_optimiser.training_result import Training
from jaxdp.algorithms.transformations.transformation import (
    Rate,
    Transformation,
    optimiser_of,
    rate_of,
)
from jaxdp.clipping import clipped_gradient_sum
from jaxdp.clipping.arguments import num_rows_of, records_of, require_loss, weights_of
from jaxdp.clipping.ghost.traced_loss import require_gradient
from jaxdp.core.arrays import as_numbers, on_auto_axes, plain_number
from jaxdp.core.checks import (
    concrete,
    described,
    is_boolean,
    require_callable,
    require_count,
    require_key,
    require_kind,
    require_real,
    require_scalar,
)
from jaxdp.core.progress import listening
from jaxdp.privacy.accounting import cost_of
from jaxdp.privacy.arguments import check_delta, warn_of_large_delta

_PROGRESS_BLOCKS = 20
_ANY_NUMBER = np.iinfo(np.int32).max


class NonPrivateOptimiser(AbstractTrainable):
    """The baseline without privacy: an optax optimiser given the mean gradient of all records.

    Args:
        optimiser: an optax gradient transformation, or a factory as for `PrivateOptimiser`.
        num_steps: T.
        learning_rate: for a factory, as for `PrivateOptimiser`.

    Raises:
        ValueError: num_steps is below 1, or a learning rate is negative or not finite.
        TypeError: an argument is of another kind.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import NonPrivateOptimiser
        >>> baseline = NonPrivateOptimiser(optax.adam(1e-3), num_steps=100)  # for `train`
        >>> baseline.num_steps
        100
    """

    optimiser: Any = eqx.field(static=True)
    _length: Length | Int[Array, ""]
    learning_rate: Rate | None

    def __init__(self, optimiser: Any, num_steps: int, *, learning_rate: Any = None):
        self.optimiser = optimiser_of(optimiser, learning_rate)
        self._length = Length(require_count("num_steps", plain_number(num_steps)))
        self.learning_rate = rate_of(self.optimiser, learning_rate, self._length.value)

    @property
    def transformation(self) -> Transformation:
        """The optimiser with its learning rate, which turns a mean gradient into a step."""
        return Transformation(self.optimiser, self.learning_rate, self.num_steps)

    def init(self, model):
        return self.transformation.init(weights_of(model)), jnp.zeros((), jnp.int32)

    def make_step(self, loss, model, state, inputs, targets, key, microbatch_size=None, mesh=None):
        require_key(key)
        records = with_keys_of(jax.tree.map(jnp.asarray, records_of(inputs, targets)), state[1])
        total, norms = clipped_gradient_sum(
            loss, model, *records, clip_norm=jnp.inf, microbatch_size=microbatch_size
        )
        require_gradient(loss, model, *records)
        count = num_rows_of(*records)
        weights = eqx.filter(model, eqx.is_inexact_array)
        mean = jax.tree.map(
            lambda leaf, weight: (leaf / count).astype(weight.dtype), total, weights
        )
        num_dropped = jnp.sum(~jnp.isfinite(norms), dtype=jnp.int32)
        return StepResult(*self.moved_by(mean, model, state), num_dropped)

    def moved_by(self, mean, model, state):
        inner, made = state
        weights, rest = eqx.partition(model, eqx.is_inexact_array)
        updates, inner = self.transformation.update(mean, inner, weights)
        return eqx.combine(optax.apply_updates(weights, updates), rest), (inner, made + 1)


def train(
    optimiser: PrivateOptimiser | NonPrivateOptimiser,
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    *,
    key: Key[Array, ""],
    evaluate: Callable[[PyTree], dict[str, Any]] | None = None,
    every: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: Callable[[float], None] | bool | None = None,
    delta: float | None = None,
    microbatch_size: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> Training:
    """Train a model: make all `num_steps` steps of an optimiser, with metrics and checkpoints.

    Steps between two stops run as one compiled loop, compiled once for each loss and optimiser (the
    same objects), model shape and number of records. `eqx.filter_vmap` over the key, weights, noise
    multiplier or learning rate trains several runs together; publishing several costs their
    composition (`jaxdp.privacy.compose`). Differentiate forwards (`jax.jvp`): the number of steps
    is traced. With `SecretNoise()` every step returns to the host for its noise.

    Args:
        optimiser: a `PrivateOptimiser` (its cost covers one run), or a `NonPrivateOptimiser`.
        loss: the loss of one record, as in `jaxdp.clipped_gradient_sum`.
        model: the initial model.
        inputs: all records, a pytree of arrays, tables or lists of numbers with a leading axis.
            NumPy memory maps, and objects with a length that give rows for increasing indices (an
            h5py dataset), stay on the host and are read batch by batch. Keys made by
            `jax.random.key` (for dropout) are folded with the step number; keys of
            `jax.random.PRNGKey` stay unchanged.
        targets: the labels of all records, in the same forms as `inputs`.
        key: a key for this run only, secret in a real release: `jaxdp.privacy.secret_key()`.
        evaluate: a function from the model (with an average: the average so far) to a dict of named
            numbers or arrays, called on the host, first on the initial model. An error later only
            costs that record, with a warning. Metrics on training records are private and not in
            the account, so they cannot stop a run early.
        every: number of steps between two stops. At each stop, and before the first and after the
            last step, the model is evaluated and kept in `checkpoint`; one of the two is needed.
            None: evaluate after the last step only, keep twenty times.
        checkpoint: a folder for private data. Called again with equal arguments, `train` resumes
            and gives bit-identical results on the same kind of device; a finished run is returned
            and never made longer. A file of another run, or an edited one, is refused. One process
            at a time. With `SecretNoise()` unkept steps are repeated with fresh noise, since nobody
            has seen them. If a checkpoint after the first cannot be written, the run goes on with a
            warning; if that is the last, remove the folder: resuming would be a second release.
        progress: True for a bar, or a function called on the host with the fraction of steps done,
            whose errors are warnings.
        delta: if given, the progress bar also shows epsilon at this delta.
        microbatch_size: number of records clipped at a time, as in `jaxdp.clipped_gradient_sum`.
        mesh: a mesh with one axis, over whose devices every batch is split. The summed gradient
            gets one noise draw; the result equals the single-device one up to rounding and the
            noise that covers rounding.

    Returns:
        The trained model, the final optimiser state and the recorded metrics.

    Warns:
        UserWarning: records were dropped because their loss or gradient was not finite (this
            depends on private data); the final weights are not finite; or `evaluate`, `progress` or
            a checkpoint failed after the first step. A warning turned into an error is printed
            instead, because the run's budget is spent.

    Raises:
        ValueError: `every` is below 1, `every` or `delta` has no effect, the checkpoint is damaged,
            edited or of another run, the loss has no gradient by any weight, or as in
            `PrivateOptimiser.step`.
        OSError: the first checkpoint cannot be written.
        TypeError: an argument is of another kind, or data hold something other than numbers.
        KeyboardInterrupt: Ctrl-C; the message gives the steps made and how to resume.
        Exception: an error of `evaluate` at the initial model.

    Example:
        >>> import jax, jaxdp, numpy as np, optax
        >>> sampler = jaxdp.privacy.FixedSizeBatches(num_records=40, batch_size=10)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 5.0, "num_steps": 20, "sampler": sampler}
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps)
        >>> loss = lambda weights, input, target: (weights @ input - target) ** 2
        >>> given = np.zeros(3, np.float32), np.ones((40, 3), np.float32), np.ones(40, np.float32)
        >>> training = jaxdp.train(algorithm, loss, *given, key=jaxdp.privacy.secret_key())
        >>> print(f"mu = {jaxdp.account(training, delta=1e-5).mu:.3f}")
        mu = 1.789
    """
    kinds = PrivateOptimiser, NonPrivateOptimiser
    require_kind("optimiser", optimiser, kinds, "a PrivateOptimiser or a NonPrivateOptimiser")
    require_key(key)
    require_loss(loss)
    if evaluate is not None:
        require_callable("evaluate", evaluate, "a function of the model, or None")
    mesh = None if mesh is None else _mesh_of(mesh, optimiser)
    weights_of(model)
    optimiser.require_valid()
    num_steps = int(optimiser.num_steps)
    spacing = num_steps if every is None else require_count("every", every)
    if every is not None and evaluate is None and checkpoint is None:
        raise ValueError("expected evaluate or checkpoint together with every, got neither")
    rows = held_records(inputs, targets)
    # Refuse a run without an account before the data are used.
    statement = optimiser.release(key=key) if isinstance(optimiser, PrivateOptimiser) else None
    note = None if delta is None else _cost_so_far(optimiser, delta)
    if note is not None and progress is not True:
        raise ValueError("expected progress=True together with delta, got no bar for the cost")
    carried, measurements, done = (model, optimiser.init(model), jnp.zeros((), jnp.int32)), {}, 0
    # An error of the user's function shows before anything is paid for.
    tried = None if evaluate is None else _checked(evaluate(model))
    kept = None
    if checkpoint is not None:
        settings = microbatch_size, mesh and mesh.size, None if evaluate is None else spacing
        start = carried[:2]
        identity = identity_of_run(optimiser, loss, start, rows, key=key, settings=settings)
        kept = Checkpoint(checkpoint, identity, key=key)
        done, carried, measurements = kept.restored(carried)
        if measurements:
            _checked(tried, next(iter(measurements.values())))
    if mesh is not None:
        everywhere = NamedSharding(mesh, PartitionSpec())
        carried, rows, key = eqx.filter_shard((carried, rows, key), everywhere)
    make_steps = _steps_maker(optimiser, loss, rows, key, microbatch_size, mesh)
    if every is not None and tried is not None and done == 0:
        measurements = {0: tried}
    stops_to_measure = {*range(spacing, num_steps, spacing), num_steps}
    failed = set()
    try:
        with listening(progress, "train", note) as report:
            is_watched = report is not None or (kept is not None and every is None)
            for stop in _stops(num_steps, spacing, is_watched):
                is_kept = True
                if stop > done:
                    carried = jax.block_until_ready(make_steps(carried, stop - done))
                    done = stop
                    if kept is not None:
                        with _going_on("the checkpoint", done, num_steps, failed):
                            kept.keep(done, carried, measurements)
                        is_kept = kept.made == done
                    if report is not None:
                        with _going_on("progress", done, num_steps, failed):
                            report(done / num_steps)
                # Only after the run was kept: a run that was seen must be the one that goes on.
                is_due = stop == done and stop in stops_to_measure and stop not in measurements
                if evaluate is not None and is_due and (is_kept or done == num_steps):
                    with _going_on("evaluate", done, num_steps, failed):
                        measurements[stop] = _checked(evaluate(carried[0]), tried)
    except KeyboardInterrupt as reason:
        raise KeyboardInterrupt(_how_to_go_on(reason, kept, done, num_steps)) from None
    if kept is not None and kept.made < done:
        _warn(
            f"the last step that the checkpoint keeps is {kept.made} of {done}: remove its folder, "
            "because with SecretNoise() to call train again makes the steps after it a second "
            "time, with other noise, which this run's account does not cover"
        )
    found = measurements.values()
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found) if found else None
    model, state, dropped = carried
    _warn_of_numbers(dropped, model)
    if isinstance(optimiser, PrivateOptimiser) and isinstance(state, OptimiserState):
        made = concrete(state.num_released)
        statement = statement if made is None else optimiser.release(key=key, num_steps=int(made))
    return Training(model, state, tuple(measurements), stacked, statement, dropped)


@contextlib.contextmanager
def _going_on(name: str, done: int, num_steps: int, failed: set[str]) -> Iterator[None]:
    """Warn of the first error under a name, and go on: the steps made are paid for."""
    try:
        yield
    except Exception as error:
        if name not in failed:
            failed.add(name)
            _warn(
                f"{name} failed after step {done} of {num_steps}: {type(error).__name__}: {error}. "
                "The run goes on, and further failures of this kind show no warning",
                level=5,
            )


def _how_to_go_on(reason: Any, kept: Checkpoint | None, done: int, num_steps: int) -> str:
    words = f"{reason}: " if str(reason) else ""
    words += f"train stopped after {done} of {num_steps} steps, "
    if kept is None:
        return f"{words}which are lost: give a checkpoint to keep them next time"
    words += f"{kept.made} of which are kept in {kept.path.parent}: "
    return f"{words}call train again with the same arguments to go on"


def _cost_so_far(optimiser: Any, delta: float) -> Callable[[float], str]:
    """A function from the fraction of steps made to their cost in words."""
    require_kind("optimiser", optimiser, PrivateOptimiser, "a PrivateOptimiser if delta is given")
    num_steps, said = int(optimiser.num_steps), {}

    def cost(share: float) -> str:
        made = round(share * num_steps)
        block = made * _PROGRESS_BLOCKS // num_steps
        if block not in said:
            found = cost_of(optimiser.release(num_steps=made), delta).epsilon
            said[block] = f"epsilon {found:.2f} after step {made}"
        return said[block]

    require_scalar("delta", delta)
    check_delta(delta)
    warn_of_large_delta(delta, optimiser.sampler.num_records, stacklevel=3)
    cost(1.0)
    return cost


def _mesh_of(mesh: Any, optimiser: Any) -> jax.sharding.Mesh:
    """The mesh with an axis of the kind that the compiler shards by itself."""
    require_kind("mesh", mesh, jax.sharding.Mesh, "a jax.sharding.Mesh of one axis, or None")
    require_kind("optimiser", optimiser, PrivateOptimiser, "a PrivateOptimiser if mesh is given")
    if len(mesh.axis_names) != 1:
        raise ValueError(f"expected a mesh of one axis, got {mesh.axis_names}")
    return jax.sharding.Mesh(mesh.devices, mesh.axis_names)


def _checked(found: Any, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The result of `evaluate`, if its names and shapes are those of the call before."""
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise TypeError(
            f"expected evaluate to return a dict of names and numbers, got {described(found)}"
        )
    for value in found.values():
        if not is_boolean(value):
            require_real("what evaluate returns", value)
    # Values without a JAX array would otherwise end the run after its last step.
    found = {
        name: jnp.asarray(as_numbers(value if eqx.is_array(value) else np.asarray(value), name))
        for name, value in found.items()
    }
    if before is not None and jax.tree.map(np.shape, found) != jax.tree.map(np.shape, before):
        raise ValueError(
            "expected evaluate to return the same names and shapes each time, got "
            f"{eqx.tree_pformat(found)} after {eqx.tree_pformat(before)}"
        )
    return found


def _warn_of_numbers(dropped: Int[Array, ""], model: PyTree) -> None:
    """Warn of records (private) and of weights (public) that were not finite."""
    known = concrete(dropped)
    if known is not None and known > 0:
        _warn(
            f"the losses or gradients of records were not finite {int(known)} times over the run, "
            "and those records counted as zero: look for labels out of range, NaN in the table, or "
            "a learning rate at which training diverges. Only the data's owner may see this "
            "number: it depends on private data"
        )
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    if any(isinstance(leaf, Tracer) for leaf in weights):
        return
    if not all(np.isfinite(np.asarray(leaf)).all() for leaf in weights):
        _warn("the trained weights are not finite: training diverged, so lower the learning rate")


def _warn(text: str, *, level: int = 4) -> None:
    """Warn at the line that calls `train`, and raise nothing: the budget of the run is spent."""
    # Standard error may be closed, full or in an encoding that lacks a letter.
    with contextlib.suppress(Exception):
        try:
            warnings.warn(text, UserWarning, stacklevel=level)
        except UserWarning:
            if sys.stderr is not None:
                print(f"UserWarning: {text}", file=sys.stderr)


def _as_array(leaf: Any) -> Any:
    """A number of an optimiser as an array, so that it is not part of what is compiled."""
    is_number = eqx.is_inexact_array(leaf) or isinstance(leaf, (int, float, np.number))
    return jnp.asarray(leaf, float) if is_number and not is_boolean(leaf) else leaf


def _added(total: Int[Array, ""], more: Int[Array, ""]) -> Int[Array, ""]:
    """The sum of two counts, which saturates instead of overflowing."""
    return jnp.where(total > _ANY_NUMBER - more, _ANY_NUMBER, total + more)


def _stops(num_steps: int, spacing: int, is_watched: bool) -> list[int]:
    blocks = _PROGRESS_BLOCKS if is_watched else 1
    regular = (num_steps * block // blocks for block in range(1, blocks + 1))
    return sorted({*range(0, num_steps, spacing), *regular})


def _steps_maker(optimiser, loss, rows, key, microbatch_size, mesh):
    """A function that makes a number of steps from model, state and dropped records."""
    if are_on_host(rows):
        expected = "a PrivateOptimiser for records that are read batch by batch"
        require_kind("optimiser", optimiser, PrivateOptimiser, expected)
        require_untraced("records that are read batch by batch", (optimiser, key))
        optimiser.require_rows(num_records(rows))
    is_compiled = not (are_on_host(rows) or optimiser.steps_on_host)
    traced_optimiser = optimiser
    if not optimiser.steps_on_host:
        # The steps are counted here, on the host: runs of any length share one compilation.
        traced_optimiser = jax.tree.map(_as_array, optimiser.with_traced_length())
    steps = _compiled_steps if is_compiled else _host_steps

    def make_steps(carried, count):
        count = jnp.asarray(count, jnp.int32)
        return steps(traced_optimiser, loss, carried, rows, key, count, microbatch_size, mesh)

    return make_steps


def _host_steps(optimiser, loss, carried, rows, key, count, microbatch_size, mesh):
    """`count` steps that return to the host, for their noise or for the records of a batch."""
    step, batches = private_step, itertools.repeat((rows, None), int(count))
    if are_on_host(rows):
        draw = functools.partial(optimiser.noise_strategy.batch, optimiser.sampler, key=key)
        if not optimiser.steps_on_host:
            step, draw = _compiled_step, jax.jit(draw)
        first = int(carried[1].num_released)
        batches = batches_ahead(rows, draw, range(first, first + int(count)))
    for (inputs, targets), batch in batches:
        model, state, dropped = carried
        made = step(
            optimiser, loss, model, state, inputs, targets, key, microbatch_size, mesh, batch
        )
        carried = made.model, made.state, _added(dropped, made.num_dropped)
    return carried


_compiled_step = eqx.filter_jit(on_auto_axes(private_step))


@eqx.filter_jit
@on_auto_axes
def _compiled_steps(optimiser, loss, carried, rows, key, count, microbatch_size, mesh):
    """`count` steps, a traced number of them."""
    arrays, static = eqx.partition(carried, eqx.is_array)

    def step(_, arrays):
        model, state, dropped = eqx.combine(arrays, static)
        made = optimiser.make_step(loss, model, state, *rows, key, microbatch_size, mesh)
        moved = made.model, made.state, _added(dropped, made.num_dropped)
        return eqx.filter(moved, eqx.is_array)

    return eqx.combine(lax.fori_loop(0, count, step, arrays), static)
