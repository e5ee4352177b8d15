"""A shard, and the file that holds it: sealed arrays, which show every damage.

The file says which sweep and which cells
it belongs to, so that neither a copy from elsewhere nor another name is taken for what it is not.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxdp.core.files.sealed_arrays import DamagedError, plain_json, sealed, unsealed
from jaxdp.sweeps.results import Variable

_NAME = re.compile(r"shard-(\d+)-(\d+)-(\d+)\.npz")


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """Where a shard lies: cells `start` to `stop` of a combination."""

    combination: int
    start: int
    stop: int

    @property
    def file_name(self) -> str:
        """Under which a store keeps it."""
        return f"shard-{self.combination:06d}-{self.start:09d}-{self.stop:09d}.npz"

    @classmethod
    def of_file(cls, name: str) -> "Place | None":
        """The place whose shard a file of this name is; None for other files."""
        match = _NAME.fullmatch(name)
        place = cls(*map(int, match.groups())) if match else None
        return place if place and place.start < place.stop and place.file_name == name else None


@dataclasses.dataclass(frozen=True)
class Shard:
    """The variables of some cells, and how they were made.

    Attributes:
        place: which cells.
        arrays: each variable of the cells, along a leading axis.
        variables: what they are.
        provenance: versions, device and commit.
    """

    place: Place
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    provenance: Mapping[str, str]


def packed(shard: Shard, digest: str) -> bytes:
    """The content of a shard's file, equal wherever the shard and its provenance are."""
    about = {
        "sweep": digest,
        "place": dataclasses.astuple(shard.place),
        "variables": [[v.name, v.dims, v.attrs] for v in shard.variables],
        "provenance": dict(shard.provenance),
    }
    arrays: dict[str, Any] = {
        f"value_{i}": shard.arrays[v.name] for i, v in enumerate(shard.variables)
    }
    return sealed({"about": np.asarray(json.dumps(about)), **arrays})


def unpacked(place: Place, content: bytes) -> tuple[Shard, str]:
    """The shard in a file of this place's name, and the digest of the sweep that it belongs to.

    Raises:
        DamagedError: the content is not as it was written, or belongs to another place.
    """
    arrays = unsealed(content)
    about = plain_json(str(arrays.pop("about", "")))
    if not _is_description(about):
        raise DamagedError("it does not describe a shard")
    if about["place"] != list(dataclasses.astuple(place)):
        raise DamagedError("its name is another shard's")
    variables = tuple(
        Variable(name, tuple(dims), tuple((key, text) for key, text in attrs))
        for name, dims, attrs in about["variables"]
    )
    found = {v.name: arrays.pop(f"value_{i}", None) for i, v in enumerate(variables)}
    is_whole = len(found) == len(variables) and not arrays
    if not is_whole or not all(_fits(found[v.name], v, place) for v in variables):
        raise DamagedError("its arrays are not those that it describes")
    return Shard(place, found, variables, about["provenance"]), about["sweep"]  # pyright: ignore[reportArgumentType]


def _is_description(about: Any) -> bool:
    """Whether what stands beside the arrays is of the kinds that `packed` writes."""
    if not isinstance(about, dict) or list(about) != ["sweep", "place", "variables", "provenance"]:
        return False
    sweep, place, variables, provenance = about.values()
    return (
        isinstance(sweep, str)
        and _is_list(place, int)
        and isinstance(provenance, dict)
        and _is_list([*provenance.values()], str)
        and _is_list(variables, list)
        and all(_is_variable(each) for each in variables)
    )


def _is_variable(described: list[Any]) -> bool:
    if len(described) != 3 or not all(_is_list(part, object) for part in described[1:]):
        return False
    name, dims, attrs = described
    pairs = all(_is_list(pair, str) and len(pair) == 2 for pair in attrs)
    return isinstance(name, str) and _is_list(dims, str) and len({*dims}) == len(dims) and pairs


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _fits(array: np.ndarray | None, variable: Variable, place: Place) -> bool:
    return (
        array is not None
        and array.ndim == 1 + len(variable.dims)
        and len(array) == place.stop - place.start
    )
