"""Records that do not fit a device: they stay on the host and are read batch by batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from jaxdp.clipping.arguments import num_rows_of, records_of
from jaxdp.core.arrays import as_numbers
from jaxdp.core.checks import refuse_collections
from jaxdp.core.digests import digest

# Bytes read at a time if all records are read.
_BLOCK_BYTES = 2**26
_WANTED = (
    "an array, or to have a length and give rows for an array of row numbers "
    "(numpy.stack([data[i] for i in range(len(data))]) makes an array)"
)


class HostRows:
    """Records that stay on the host; `shape` is that of all records, `dtype` the type in JAX."""

    def __init__(self, source: Any, name: str):
        self._source, self._name = source, name
        first = _first_rows(source, name)
        self._form = first.shape[1:], first.dtype
        self.shape = (len(source), *first.shape[1:])
        self.dtype = jax.dtypes.canonicalize_dtype(first.dtype)
        if self.dtype != first.dtype and first.dtype.kind in "iu":
            # Refuse numbers that are too large before the first step, not when they are drawn.
            for _ in self._blocks():
                pass

    def __getitem__(self, indices: Int[Any, " batch"]) -> np.ndarray:
        """The rows of these indices; ValueError if the source has changed its length or form."""
        # Files in chunks want increasing indices, each once.
        places, inverse = np.unique(np.asarray(indices), return_inverse=True)
        length = len(self._source)
        if length != self.shape[0]:
            expected = f"{self._name} to keep its {self.shape[0]} rows"
            raise ValueError(f"expected {expected}, got {length} while training went on")
        rows = np.asarray(as_numbers(self._source[places], self._name))
        if (rows.shape[1:], rows.dtype) != self._form or len(rows) != len(places):
            shape, dtype = self._form
            raise ValueError(
                f"expected {self._name} to give {len(places)} rows of shape {shape} and type "
                f"{dtype}, got {rows.dtype} of shape {rows.shape}"
            )
        return rows[inverse]

    def digest(self) -> str:
        return digest(tuple(map(digest, self._blocks())))

    def _blocks(self) -> Iterator[np.ndarray]:
        size = max(1, _BLOCK_BYTES // max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize))
        starts = range(0, self.shape[0], size)
        return (self[np.arange(i, min(i + size, self.shape[0]))] for i in starts)


def _first_rows(source: Any, name: str) -> np.ndarray:
    """Two rows of a source (or its only one); an error if it does not look up index arrays."""
    refuse_collections(name, source)
    try:
        count = len(source)
        found = source[np.arange(min(2, count))] if count else None
    except (MemoryError, OSError):
        raise
    except Exception as error:
        # Its message may show private data.
        came = f"{type(source).__name__}, which raised {type(error).__name__}"
        raise TypeError(f"expected {name} to be {_WANTED}, got {came}") from None
    if not count:
        raise ValueError(f"expected {name} to have rows, got none")
    if isinstance(found, tuple):
        raise TypeError(f"expected {name} to be {_WANTED}, got {type(source).__name__} of tuples")
    rows = np.asarray(as_numbers(found, name))
    if len(rows) != min(2, count):
        came = f"{type(source).__name__}, which gives rows of shape {rows.shape} for two numbers"
        raise TypeError(f"expected {name} to be {_WANTED}, got {came}")
    return rows


def held_records(inputs: PyTree[Any], targets: PyTree[Any]) -> PyTree[Any]:
    """Inputs and targets on the device, except for memory maps and other sources read by batch."""
    records = records_of(inputs, targets, keep=_stays_on_host)

    def held(path, leaf):
        name = ("inputs", "targets")[path[0].idx] + jax.tree_util.keystr(path[1:])
        return HostRows(leaf, name) if _stays_on_host(leaf) else jnp.asarray(leaf)

    return jax.tree_util.tree_map_with_path(held, records)


def are_on_host(records: PyTree[Any]) -> bool:
    return any(isinstance(leaf, HostRows) for leaf in jax.tree.leaves(records))


def num_records(records: PyTree[Any]) -> int:
    """The number of records; ValueError if the leading axes differ."""
    return num_rows_of(*jax.tree.map(lambda leaf: np.broadcast_to(0, leaf.shape), records))


def batches_ahead(
    records: PyTree[Any], sample: Callable[[int], tuple[Array, Array]], steps: range
) -> Iterator[tuple[PyTree[Array], tuple[Array, Array]]]:
    """The records of each step, read one batch ahead by a thread, with a batch of all of them."""

    def read(step):
        indices, is_real = sample(step)
        rows = [leaf[indices] for leaf in jax.tree.leaves(records)]
        # No number may raise an error, which would depend on the data.
        with np.errstate(all="ignore"), jax.debug_nans(False), jax.debug_infs(False):
            held = [jnp.asarray(leaf) for leaf in rows]
        whole = jnp.arange(len(indices)), is_real
        return jax.tree.unflatten(jax.tree.structure(records), held), whole

    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(read, steps.start)
        for step in steps:
            batch = ahead.result()
            if step + 1 < steps.stop:
                ahead = reader.submit(read, step + 1)
            yield batch


def _stays_on_host(leaf: Any) -> bool:
    if isinstance(leaf, np.memmap):
        return True
    is_whole = isinstance(leaf, (jax.Array, np.ndarray, np.generic, Sequence, Mapping))
    looks_up = hasattr(leaf, "__len__") and hasattr(leaf, "__getitem__")
    # Tables have `to_numpy`.
    return looks_up and not is_whole and not hasattr(leaf, "to_numpy")
