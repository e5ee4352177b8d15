"""A shard, and the file that holds it: a NumPy archive that shows every damage.

The archive's zip comment is the digest of all before it. The file says which sweep and which cells
it belongs to, so that neither a copy from elsewhere nor another name is taken for what it is not.
"""

import dataclasses
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxdp.sweeps.results import Variable

_NAME = re.compile(r"shard-(\d+)-(\d+)-(\d+)\.npz")
_DIGEST_LENGTH = 64


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
        return cls(*map(int, match.groups())) if match else None


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


class DamagedError(Exception):
    """A file that is not what was written."""


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
    buffer = io.BytesIO()
    np.savez(buffer, about=np.asarray(json.dumps(about)), **arrays)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"0" * _DIGEST_LENGTH
    content = buffer.getvalue()[:-_DIGEST_LENGTH]
    return content + hashlib.sha256(content).hexdigest().encode()


def unpacked(place: Place, data: bytes) -> tuple[Shard, str]:
    """The shard in a file of this place's name, and the digest of the sweep that it belongs to.

    Raises:
        DamagedError: the content is not as it was written, or belongs to another place.
    """
    content, written = data[:-_DIGEST_LENGTH], data[-_DIGEST_LENGTH:]
    if not data:
        raise DamagedError("it is empty")
    if hashlib.sha256(content).hexdigest().encode() != written:
        raise DamagedError("its digest does not match")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        about = json.loads(str(archive["about"]))
        if about["place"] != list(dataclasses.astuple(place)):
            raise DamagedError("its name is another shard's")
        variables = tuple(
            Variable(name, tuple(dims), tuple((key, text) for key, text in attrs))
            for name, dims, attrs in about["variables"]
        )
        arrays = {v.name: archive[f"value_{i}"] for i, v in enumerate(variables)}
    return Shard(place, arrays, variables, about["provenance"]), about["sweep"]
