"""MNIST from its four IDX files, or fetched by scikit-learn."""

import gzip
import io
import os
import pathlib
import zlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxdp.core.checks import require_kind
from jaxdp.core.packages import require_extra

# Number of bytes that a compressed file may unpack to: a "decompression bomb" is not unpacked.
_MOST_UNPACKED = 2**30
_NUM_TRAIN, _SIDE, _NUM_CLASSES = 60_000, 28, 10
# Two zero bytes, the code of unsigned bytes, the number of axes.
_MAGIC = {1: b"\0\0\x08\x01", 3: b"\0\0\x08\x03"}
_SOURCE = "give the folder that holds MNIST's four IDX files (train-images-idx3-ubyte, ...)"


class Mnist(NamedTuple):
    """Handwritten digits: a row of 784 pixels in [0, 1] for each, and its value 0, ..., 9."""

    train_images: Float[np.ndarray, "train 784"]
    train_labels: Int[np.ndarray, " train"]
    test_images: Float[np.ndarray, "test 784"]
    test_labels: Int[np.ndarray, " test"]


def read_mnist(folder: str | pathlib.Path | None = None) -> Mnist:
    """MNIST: 60,000 digits to train on and 10,000 to test on; float32 pixels, int32 labels.

    Args:
        folder: holds train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of t10k, plain
            or gzipped (.gz). None fetches OpenML's copy, in the same order, by scikit-learn, which
            keeps it for the next time.

    Returns:
        Images and labels of both parts.

    Raises:
        ValueError: a file is missing or broken (says which, and why), or nothing was fetched.
        ImportError: scikit-learn is needed and not installed.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from experiments.harness.mnist import read_mnist
        >>> shapes = {"images-idx3": (2, 28, 28), "labels-idx1": (2,)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for kind, shape in shapes.items():
        ...         head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
        ...         for part in ("train", "t10k"):
        ...             file = pathlib.Path(folder, f"{part}-{kind}-ubyte")
        ...             _ = file.write_bytes(head + np.zeros(shape, np.uint8).tobytes())
        ...     read_mnist(folder).train_images.shape
        (2, 784)
    """
    if folder is None:
        return _fetched()
    require_kind("folder", folder, (str, os.PathLike), "a path, or None")
    parts = []
    for part in ("train", "t10k"):
        images_path = _find(pathlib.Path(folder), f"{part}-images-idx3-ubyte")
        labels_path = _find(pathlib.Path(folder), f"{part}-labels-idx1-ubyte")
        images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
        if images.shape[1:] != (_SIDE, _SIDE):
            raise ValueError(f"{images_path}: expected 28 x 28 pixels, got {images.shape[1:]}")
        if len(images) == 0:
            raise ValueError(f"{images_path}: no image")
        if len(labels) != len(images):
            raise ValueError(f"{labels_path}: {len(labels)} labels for {len(images)} images")
        if labels.max() >= _NUM_CLASSES:
            raise ValueError(f"{labels_path}: expected labels from 0 to 9, got {labels.max()}")
        parts += [_scaled(images.reshape(len(images), -1)), labels.astype(np.int32)]
    return Mnist(*parts)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / 255


def _find(folder: pathlib.Path, name: str) -> pathlib.Path:
    paths = folder / name, folder / f"{name}.gz"
    for path in paths:
        if path.is_file():
            return path
    raise ValueError(f"{paths[0]}: no such file, plain or .gz; {_SOURCE}")


def read_idx(path: pathlib.Path, num_axes: int) -> np.ndarray:
    """Unsigned bytes in IDX form, gzipped or not: a magic number, each axis's length, values."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                content = file.read(_MOST_UNPACKED + 1)
            if len(content) > _MOST_UNPACKED:
                raise ValueError(f"more than {_MOST_UNPACKED} bytes once it is unpacked")
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise ValueError(f"{path}: damaged gzip file ({error})") from None
    magic, start = content[:4], 4 + 4 * num_axes
    if magic != _MAGIC[num_axes]:
        raise ValueError(
            f"{path}: not the IDX file expected: its magic number is {magic.hex() or 'missing'}, "
            f"not {_MAGIC[num_axes].hex()}"
        )
    if len(content) < start:
        raise ValueError(f"{path}: ends within its header")
    shape = tuple(np.frombuffer(content, ">u4", num_axes, 4).tolist())
    expected, found = int(np.prod(shape, dtype=object)), len(content) - start
    if expected != found:
        raise ValueError(f"{path}: its header announces {expected} bytes, {found} follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def fetched(
    what: str, name: str, shape: tuple[int, int], source: str
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and int32 labels of OpenML's data set `name`; `source` says what to give instead."""
    with require_extra("sklearn", "data", f"fetching {what}", f"; or {source}"):
        from sklearn.datasets import fetch_openml
    try:
        found = fetch_openml(name, version=1, return_X_y=True, as_frame=False, parser="liac-arff")
    # OSError: no network, no server, no room; ValueError: another data set than asked for.
    except (OSError, ValueError) as error:
        raise ValueError(f"{what} could not be fetched ({error}); {source}") from error
    pixels, labels = map(np.asarray, found)
    if pixels.shape != shape or labels.shape != shape[:1]:
        raise ValueError(
            f"fetched {name!r} of unexpected shapes {pixels.shape}, {labels.shape}; {source}"
        )
    return pixels, labels.astype(np.int32)


def _fetched() -> Mnist:
    pixels, labels = fetched("MNIST", "mnist_784", (_NUM_TRAIN + 10_000, _SIDE**2), _SOURCE)
    images = _scaled(pixels)
    train, test = slice(_NUM_TRAIN), slice(_NUM_TRAIN, None)
    return Mnist(images[train], labels[train], images[test], labels[test])
