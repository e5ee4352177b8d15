"""Released functions as files: arrays, a header in JSON, a digest over every byte; no code.

A file is a NumPy .npz archive. Its header states the class of every part, field by field
(`model_parts`); whatever else is found there is refused. The last bytes are a SHA-256 digest of all
bytes before them, which finds accidental damage of any kind. It does not authenticate: whoever
changes a file on purpose can write a digest that fits.
"""

import json
import os
from typing import Any

import equinox as eqx
import numpy as np

from jaxdp.core.checks import require_kind
from jaxdp.core.files.sealed_arrays import DamagedError, plain_json, read_sealed, sealed, unsealed
from jaxdp.core.files.whole_files import write_whole
from jaxdp.kernels.release.model_parts import Refused, check, decoded, encoded

_FORMAT, _VERSION = "jaxdp released function", 3
# Of version 2 the columns always had a name of their label.
_READABLE = (2, 3)
_HEADER = "header"
# No function of features that are worth having comes near it.
_MOST_BYTES = 2**32


def written(path: str | os.PathLike, function: eqx.Module, *, replace: bool = True) -> None:
    """Write a released function to a file; whole, or not at all.

    Raises:
        TypeError: a part of it has no written form.
        ValueError: it is too large for `load`.
        FileExistsError: it exists, and is not to be replaced; says so in words.
        OSError: the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {"format": _FORMAT, "version": _VERSION, "function": encoded(function, arrays)}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = sealed(arrays)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"expected a function of at most 4 GiB, got {len(content)} bytes")
    try:
        write_whole(path, content, replace=replace)
    except FileExistsError:
        raise FileExistsError(
            f"{os.fspath(path)} exists; a release that was paid for is not overwritten: choose "
            "another file, or say overwrite=True"
        ) from None


def load(path: str | os.PathLike) -> Any:
    """The released function that `save` wrote: its predictions are the same, bit by bit.

    Args:
        path: of a file that `ReleasedFunction.save` wrote.

    Returns:
        The `ReleasedFunction`, its cost included.

    Raises:
        ValueError: the file is damaged, not one that `save` wrote, of another version, or needs
            x64; the message names the file and the reason.
        OSError: the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge, load
        >>> kernel, bounds = Gaussian(0.5), {"label_bound": 1.0, "input_bound": 1.0}
        >>> learner = PrivateKernelRidge(kernel, num_projections=20, **bounds)
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> release = learner.fit(inputs, np.sin(3 * inputs[:, 0]), **budget)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     release.save(path)
        ...     again = load(path)
        >>> bool((again(inputs) == release(inputs)).all())
        True
    """
    require_kind("path", path, (str, bytes, os.PathLike), "the path of a file")
    try:
        return _unpacked(read_sealed(path, largest=_MOST_BYTES))
    except (Refused, DamagedError) as reason:
        raise ValueError(f"{os.fspath(path)}: {reason}") from None
    except MemoryError:
        raise ValueError(f"{os.fspath(path)}: more than this machine's memory holds") from None


def _unpacked(content: bytes) -> eqx.Module:
    arrays = unsealed(content)
    if _HEADER not in arrays:
        raise Refused("not a file of a released function: it has no header")
    header = plain_json(arrays.pop(_HEADER).tobytes())
    if not isinstance(header, dict) or list(header) != ["format", "version", "function"]:
        raise Refused("not a file of a released function: its header is of something else")
    kind, version, parts = header.values()
    if kind != _FORMAT:
        raise Refused(f"not a file of a released function, but of {kind!r}")
    if type(version) is not int or version not in _READABLE:
        readable = " or ".join(map(str, _READABLE))
        raise Refused(f"expected version {readable} of the format, got {version!r}")
    try:
        function = decoded(parts, arrays)
    except RecursionError:
        raise Refused("parts within parts without end") from None
    if arrays:
        raise Refused(f"entries that belong to nothing: {', '.join(sorted(arrays))}")
    check(function)
    return function
