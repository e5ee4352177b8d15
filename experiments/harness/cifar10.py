"""CIFAR-10's training images from their files, or fetched by scikit-learn."""

import os
import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from experiments.harness.mnist import fetched
from jaxdp.core.checks import require_kind
from jaxdp.core.files import read_arrays

_SIDE, _NUM_COLOURS, _NUM_CLASSES = 32, 3, 10
_UNPACKED = "cifar-10-batches-bin"
_RECORD = 1 + _NUM_COLOURS * _SIDE**2
_SHAPE = (_SIDE, _SIDE, _NUM_COLOURS)
_NUM_FETCHED, _NUM_TRAIN = 60_000, 50_000
_SOURCE = "give the folder that holds CIFAR-10's binary batches (data_batch_1.bin, ...) or an .npz"


class Cifar10(NamedTuple):
    """Small photographs, red, green and blue from 0 to 255, and the class of each, 0, ..., 9."""

    images: UInt8[np.ndarray, "images 32 32 3"]
    labels: Int[np.ndarray, " images"]


def read_cifar10(folder: str | pathlib.Path | None = None) -> Cifar10:
    """CIFAR-10: the training images that there are, in the order of the files; int32 labels.

    Args:
        folder: holds, or its cifar-10-batches-bin holds, data_batch_1.bin to data_batch_5.bin, or
            only some of them, or parts of them (data_batch_*.bin: whole records); without any,
            one .npz with `images` (uint8, images x 32 x 32 x 3) and `labels`. None fetches
            OpenML's copy, whose first 50,000 rows are taken, by scikit-learn, which keeps it for
            the next time.

    Returns:
        `images`, (images, 32, 32, 3) from 0 to 255, and `labels`.

    Raises:
        ValueError: a file is missing or broken (says which, and why), or nothing was fetched.
        ImportError: scikit-learn is needed and not installed.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from experiments.harness.cifar10 import read_cifar10
        >>> rows = {"images": np.zeros((2, 32, 32, 3), np.uint8), "labels": np.array([3, 5])}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(pathlib.Path(folder, "images.npz"), **rows)
        ...     read_cifar10(folder).images.shape
        (2, 32, 32, 3)
    """
    if folder is None:
        return _fetched()
    require_kind("folder", folder, (str, os.PathLike), "a path, or None")
    folder = pathlib.Path(folder)
    # The folder that the archive unpacks to.
    folder = folder / _UNPACKED if (folder / _UNPACKED).is_dir() else folder
    whole = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
    batches = [path for path in whole if path.is_file()] or sorted(folder.glob("data_batch_*.bin"))
    if batches:
        parts = [_read_batch(path) for path in batches]
        images, labels = (np.concatenate(values) for values in zip(*parts, strict=True))
        return Cifar10(images, labels)
    archives = sorted(folder.glob("*.npz"))
    if not archives:
        raise ValueError(f"{whole[0]}: no such file, nor an .npz in its folder; {_SOURCE}")
    if len(archives) > 1:
        raise ValueError(f"{folder}: {len(archives)} .npz files, expected one; {_SOURCE}")
    return _read_archive(archives[0])


def _read_batch(path: pathlib.Path) -> Cifar10:
    """Records of a byte for the class and a plane of 32 x 32 bytes for each colour."""
    content = np.fromfile(path, np.uint8)
    if len(content) == 0 or len(content) % _RECORD:
        raise ValueError(
            f"{path}: expected records of {_RECORD} bytes, got {len(content)} bytes, which is "
            f"{len(content) // _RECORD} records and {len(content) % _RECORD} bytes"
        )
    records = content.reshape(-1, _RECORD)
    planes = records[:, 1:].reshape(-1, _NUM_COLOURS, _SIDE, _SIDE)
    return _checked(path, np.moveaxis(planes, 1, -1), records[:, 0])


def _read_archive(path: pathlib.Path) -> Cifar10:
    names = "images", "labels"
    try:
        found = read_arrays(path)
        missing = [name for name in names if name not in found]
        if missing:
            raise ValueError(f"no array named {' or '.join(missing)}")
    except ValueError as reason:
        raise ValueError(f"{path}: not an .npz of images and labels ({reason})") from None
    return _checked(path, *(found[name] for name in names))


def _checked(path: pathlib.Path, images: np.ndarray, labels: np.ndarray) -> Cifar10:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != _SHAPE:
        raise ValueError(
            f"{path}: expected images of uint8, (images, 32, 32, 3), got {images.dtype}, "
            f"{images.shape}"
        )
    if len(images) == 0:
        raise ValueError(f"{path}: no image")
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: expected one whole number as the label of each of {len(images)} images, got "
            f"{labels.dtype}, {labels.shape}"
        )
    strange = labels[(labels < 0) | (labels >= _NUM_CLASSES)]
    if strange.size:
        raise ValueError(f"{path}: expected labels from 0 to 9, got {strange[0]}")
    return Cifar10(np.ascontiguousarray(images), labels.astype(np.int32))


def _fetched() -> Cifar10:
    pixels, labels = fetched("CIFAR-10", "CIFAR_10", (_NUM_FETCHED, _RECORD - 1), _SOURCE)
    planes = pixels[:_NUM_TRAIN].astype(np.uint8).reshape(-1, _NUM_COLOURS, _SIDE, _SIDE)
    return _checked(pathlib.Path("CIFAR_10"), np.moveaxis(planes, 1, -1), labels[:_NUM_TRAIN])
