"""The labels of looped values, in a dataset and in errors."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

_LONGEST_LABEL = 60


def labels_of(values: Sequence[Any]) -> np.ndarray:
    """Coordinates of looped values: themselves when they are numbers or text, else a name."""
    kinds = {type(value) for value in values}
    if kinds == {bool} or kinds == {str} or kinds <= {int, float, np.float64, np.int64}:
        return np.asarray(values)
    names = [label(value) for value in values]
    counts = itertools.groupby(sorted(names))
    repeated = {name for name, group in counts if len(list(group)) > 1}
    # Descriptions of one kind may differ in numbers that their names do not show.
    return np.asarray(
        [f"{name} [{i}]" if name in repeated else name for i, name in enumerate(names)]
    )


def label(value: Any) -> str:
    """A short name of a value; of a description, with its numbers."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        name = f"{float(value):g}" if value.shape == () else f"array of shape {value.shape}"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        named = ", ".join(f"{name}={label(part)}" for name, part in parts.items())
        name = f"{type(value).__name__}({named})"
    else:
        name = " ".join((getattr(value, "__qualname__", None) or str(value)).split())
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 3]}..."
