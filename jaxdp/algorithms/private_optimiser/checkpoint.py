"""The file from which a stopped training run resumes, sealed with the run's key against editing.

It belongs to one run, because the same noise added to two different sums cancels, and is never made
longer: a number of steps chosen by a result depends on private data, unlike the account's.
"""

import functools
import hashlib
import hmac
import os
import pathlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key, PyTree

from jaxdp.algorithms.base import AbstractTrainable
from jaxdp.algorithms.private_optimiser.host_rows import HostRows
from jaxdp.algorithms.private_optimiser.state import require_untraced
from jaxdp.clipping.ghost.traced_loss import require_gradient
from jaxdp.core.checks import require_kind
from jaxdp.core.digests import UnreadableError, digest, versions_of_results
from jaxdp.core.display import is_key
from jaxdp.core.files import (
    HEADER,
    DamagedError,
    archived,
    as_header,
    header_of,
    read_arrays,
    write_whole,
)

FILE = "training.npz"
_FORMAT = 3
_RECORD = "record "
_PAST_NOISE = (
    "this file holds past noise, with which anybody can take the noise off the released weights: "
    "keep it secret"
)


def identity_of_run(
    optimiser: AbstractTrainable, loss, carried, records, *, key, settings
) -> dict[str, Any]:
    """The properties that must be equal to resume a run, as digests keyed by the run's key.

    Plain digests of rows would confirm a guess of them. `carried` is model and state at the start.
    """
    require_untraced("checkpoint=", (optimiser, carried, records, key))
    keyed = functools.partial(_keyed, key)
    leaves, structure = jax.tree.flatten(records)
    leaves = [leaf.digest() if isinstance(leaf, HostRows) else leaf for leaf in leaves]
    try:
        return {
            "format": _FORMAT,
            **versions_of_results(),
            "key": keyed("key"),
            "num_steps": int(optimiser.num_steps),
            "inputs or targets": keyed((structure, leaves)),
            "initial weights or optimiser state": keyed(
                jax.tree.leaves(eqx.filter(carried, eqx.is_array))
            ),
            "loss, optimiser or noise": keyed(
                (_program(optimiser, loss, carried, records), optimiser.drawn_with)
            ),
            "evaluate, every or microbatch_size": keyed(settings),
        }
    except UnreadableError as error:
        expected = "a loss and an optimiser that a checkpoint can tell from others"
        raise ValueError(f"expected {expected}, but there is {error} in them") from error


def _program(optimiser: AbstractTrainable, loss: Any, carried: PyTree, records: PyTree) -> Any:
    """The gradient of one record and the optimiser's move, as JAX traces them."""
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), records)
    require_gradient(loss, carried[0], *forms)
    record = jax.tree.map(lambda form: jax.ShapeDtypeStruct(form.shape[1:], form.dtype), forms)
    arrays, static = eqx.partition(carried, eqx.is_array)

    def step(arrays, record):
        model, state = eqx.combine(arrays, static)
        weights, rest = eqx.partition(model, eqx.is_inexact_array)
        gradient = jax.grad(lambda weights: loss(eqx.combine(weights, rest), *record))(weights)
        return gradient, eqx.filter(optimiser.moved_by(gradient, model, state), eqx.is_array)

    return jax.make_jaxpr(step)(arrays, record)


class Checkpoint:
    """The file of one run, readable by its owner only, in a folder that is made if absent."""

    def __init__(self, folder: str | os.PathLike, identity: dict[str, Any], *, key: Key[Array, ""]):
        require_kind("checkpoint", folder, (str, os.PathLike), "the path of a folder, or None")
        self.path, self._identity = pathlib.Path(folder) / FILE, identity
        self._seal = functools.partial(_keyed, key)
        if self.path.parent.exists() and not self.path.parent.is_dir():
            raise ValueError(f"expected checkpoint to be a folder, got the file {folder}")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Files that a killed process had begun to write.
        for unfinished in self.path.parent.glob(f".{FILE}.*.partial"):
            unfinished.unlink(missing_ok=True)
        self.made = 0

    def restored(self, carried: PyTree) -> tuple[int, PyTree, dict[int, dict[str, Any]]]:
        """The steps made, their result, and the metrics by step; a new file starts at step 0."""
        if not os.path.lexists(self.path):
            self.keep(0, carried, {})
            return 0, carried, {}
        try:
            arrays = read_arrays(self.path)
            whole = {name: array for name, array in arrays.items() if name != "seal"}
            about = header_of(arrays)
            self._require_same(about["identity"])
            if not hmac.compare_digest(str(arrays.pop("seal")), self._seal(whole)):
                raise DamagedError("it was edited after this run wrote it")
            self.made, steps = about["made"], about["measured"]
            held, static = eqx.partition(carried, eqx.is_array)
            leaves, structure = jax.tree.flatten(held)
            found = [_read(arrays[f"leaf {i}"], leaf) for i, leaf in enumerate(leaves)]
        except (DamagedError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"expected {self.path} to keep a run of training, got a file that is damaged or "
                f"something else ({error}); the run cannot go on from it"
            ) from error
        names = [name for name in arrays if name.startswith(_RECORD)]
        measurements = {
            step: {name.removeprefix(_RECORD): arrays[name][i] for name in names}
            for i, step in enumerate(steps)
        }
        return self.made, eqx.combine(jax.tree.unflatten(structure, found), static), measurements

    def keep(self, made: int, carried: PyTree, measurements: dict[int, dict[str, Any]]) -> None:
        """Replace the kept run by that after `made` steps."""
        leaves = jax.tree.leaves(eqx.filter(carried, eqx.is_array))
        about = {"identity": self._identity, "made": made, "measured": list(measurements)}
        if getattr(carried[1], "buffers", None) is not None:
            about["secret"] = _PAST_NOISE
        found = list(measurements.values())
        arrays = {HEADER: as_header(about)}
        for place, leaf in enumerate(leaves):
            content = np.ascontiguousarray(_numbers(leaf)).reshape(-1)
            arrays[f"leaf {place}"] = content.view(np.uint8)
        for name in found[0] if found else ():
            arrays[_RECORD + name] = np.stack([one[name] for one in found])
        content = archived(arrays | {"seal": np.asarray(self._seal(arrays))})
        try:
            write_whole(self.path, content, private=True)
        except OSError as error:
            what = f"could not write a checkpoint to {self.path.parent}: {error.strerror or error}"
            raise OSError(error.errno, what) from error
        self.made = made

    def _require_same(self, found: dict[str, Any]) -> None:
        wanted = self._identity
        name = next((name for name in wanted if found.get(name) != wanted[name]), None)
        if name is None:
            return
        is_plain = name in ("format", *versions_of_results())
        what = f"{name} {found.get(name)}, not {wanted[name]}" if is_plain else f"another {name}"
        if name == "num_steps":
            raise ValueError(
                f"expected checkpoint to be the folder of a run of {wanted[name]} steps, got "
                f"{self.path.parent} of a run of {found.get(name)}: a number of steps chosen by "
                "looking at results is in no account; call train with "
                f"num_steps={found.get(name)}, or use another folder"
            )
        raise ValueError(
            f"expected checkpoint to be the folder of this run, got {self.path.parent} of a run "
            f"with {what.replace('another in', 'other in')}: to go on would not give what either "
            "run gives, and could add one step's noise to two different sums; use another folder"
        )


def _keyed(key: Key[Array, ""], value: Any) -> str:
    """A digest of a value that nobody without the run's key can make or confirm."""
    secret = np.asarray(jr.key_data(key)).tobytes()
    return hmac.new(secret, digest(value).encode(), hashlib.sha256).hexdigest()


def _read(content: np.ndarray, like: Any) -> Array:
    """The array with these bytes; DamagedError if their number is wrong."""
    numbers = _numbers(like)
    if content.dtype != np.uint8 or content.size != numbers.nbytes:
        raise DamagedError("an array is not of the model's shape")
    array = jnp.asarray(content.view(numbers.dtype).reshape(numbers.shape))
    return jr.wrap_key_data(array, impl=jr.key_impl(like)) if is_key(like) else array


def _numbers(leaf: Any) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if is_key(leaf) else leaf)
