"""MNIST's files: what is read, and one line for what is not."""

import gzip

import numpy as np
import pytest

from experiments.harness.mnist import read_mnist


def _idx(values):
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    return head + values.tobytes()


def _random_digits(count, seed):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    return images, (np.arange(count) % 10).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Twelve digits to train on, plain, and seven to test on, gzipped."""
    for part, count in (("train", 12), ("t10k", 7)):
        images, labels = _random_digits(count, count)
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            path = tmp_path / f"{part}-{kind}-ubyte"
            if part == "train":
                path.write_bytes(_idx(values))
            else:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(_idx(values)))
    return tmp_path


def test_plain_and_gzipped_files_are_read(folder):
    digits = read_mnist(folder)
    for images, labels, count in (
        (digits.train_images, digits.train_labels, 12),
        (digits.test_images, digits.test_labels, 7),
    ):
        expected_images, expected_labels = _random_digits(count, count)
        assert images.dtype == np.float32
        np.testing.assert_allclose(images, expected_images.reshape(count, 784) / 255, rtol=1e-6)
        np.testing.assert_array_equal(labels, expected_labels)
        assert labels.dtype == np.int32


_IMAGES, _LABELS = _random_digits(12, 0)


_CUT_SHORT = gzip.compress(_idx(_LABELS), mtime=0)[:-9]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-labels-idx1-ubyte", None, "train-labels-idx1-ubyte: no such file, plain or .gz"),
        ("train-images-idx3-ubyte", _idx(_LABELS), "magic number is 00000801, not 00000803"),
        ("train-images-idx3-ubyte", _idx(_IMAGES)[:-1], "announces 9408 bytes, 9407 follow"),
        ("train-images-idx3-ubyte", _idx(_IMAGES[:, 1:]), "expected 28 x 28 pixels"),
        ("train-labels-idx1-ubyte", _idx(_LABELS[1:]), "11 labels for 12 images"),
        ("train-labels-idx1-ubyte", _idx(_LABELS + 1), "expected labels from 0 to 9, got 10"),
        ("t10k-labels-idx1-ubyte.gz", b"\x1f\x8b not gzip", "damaged gzip file"),
        ("t10k-labels-idx1-ubyte.gz", _CUT_SHORT, "damaged gzip file"),
    ],
    # Bytes make no names, and the workers must agree on them.
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_broken_files_end_with_one_line_that_names_them(folder, name, content, message):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_mnist(folder)
    assert str(folder / name) in str(caught.value)
    assert "\n" not in str(caught.value)
