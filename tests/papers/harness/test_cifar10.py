"""CIFAR-10's files: what is read, and one line for what is not."""

import numpy as np
import pytest

from experiments.harness.cifar10 import read_cifar10


def _photographs(count, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 32, 32, 3)).astype(np.uint8)
    return images, (np.arange(count) % 10).astype(np.uint8)


def _records(images, labels):
    """The label, then 1024 bytes of red, of green and of blue, row by row."""
    return b"".join(
        bytes([label]) + b"".join(image[:, :, colour].tobytes() for colour in range(3))
        for image, label in zip(images, labels, strict=True)
    )


def test_batches_are_read_in_order_with_their_colours(tmp_path):
    first, second = _photographs(12, 1), _photographs(3, 2)
    (tmp_path / "data_batch_2.bin").write_bytes(_records(*second))
    (tmp_path / "data_batch_1.bin").write_bytes(_records(*first))
    # Neither a part of a batch nor the test images are read beside whole batches.
    (tmp_path / "data_batch_1_first2.bin").write_bytes(_records(*_photographs(2)))
    (tmp_path / "test_batch.bin").write_bytes(_records(*_photographs(2)))
    found = read_cifar10(tmp_path)
    np.testing.assert_array_equal(found.images, np.concatenate([first[0], second[0]]))
    np.testing.assert_array_equal(found.labels, [*range(10), 0, 1, 0, 1, 2])
    assert (found.images.dtype, found.labels.dtype) == (np.uint8, np.int32)


def test_a_part_of_a_batch_and_an_archive_hold_the_same(tmp_path):
    images, labels = _photographs(5)
    for name in ("part", "archive"):
        (tmp_path / name).mkdir()
    (tmp_path / "part" / "data_batch_1_first5.bin").write_bytes(_records(images, labels))
    np.savez_compressed(tmp_path / "archive" / "some.npz", images=images, labels=labels)
    for name in ("part", "archive"):
        found = read_cifar10(str(tmp_path / name))
        np.testing.assert_array_equal(found.images, images)
        np.testing.assert_array_equal(found.labels, labels)


_IMAGES, _LABELS = _photographs(4)
_BATCH = _records(_IMAGES, _LABELS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected records of 3073 bytes, got 0 bytes"),
        (_BATCH[:-1], "got 12291 bytes, which is 3 records and 3072 bytes"),
        (_records(_IMAGES, _LABELS + 7), "expected labels from 0 to 9, got 10"),
    ],
    ids=["empty", "cut short", "label"],
)
def test_broken_batches_end_with_one_line_that_names_them(tmp_path, content, message):
    (tmp_path / "data_batch_3.bin").write_bytes(content)
    _refused(tmp_path, "data_batch_3.bin", message)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": _IMAGES}, "no array named labels"),
        ({"images": _IMAGES / 255, "labels": _LABELS}, "of uint8.*got float64"),
        ({"images": _IMAGES, "labels": _LABELS[1:]}, r"each of 4 images, got uint8, \(3,\)"),
        ({"images": np.array([None]), "labels": _LABELS}, "not an .npz of images and labels"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)
def test_archives_of_something_else_end_with_one_line(tmp_path, arrays, message):
    np.savez(tmp_path / "some.npz", **arrays)
    _refused(tmp_path, "some.npz", message)


def _refused(folder, name, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_cifar10(folder)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
