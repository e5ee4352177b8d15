"""Images that scikit-learn fetches: what is asked for, and one line where there is nothing."""

import sys
import types

import numpy as np
import pytest

from experiments.harness import cifar10
from experiments.harness.cifar10 import read_cifar10
from experiments.harness.mnist import read_mnist

READERS = pytest.mark.parametrize("read", [read_mnist, read_cifar10])


def _install(monkeypatch, fetch):
    """A stand-in for scikit-learn."""
    module = types.SimpleNamespace(fetch_openml=fetch)
    monkeypatch.setitem(sys.modules, "sklearn", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sklearn.datasets", module)


def _fetched(monkeypatch, read, shape, bright):
    """What is read where row `bright` is white and all others black, and what was asked for."""
    asked = {}

    def fetch(name, **options):
        asked[name] = options["version"]
        pixels = np.zeros(shape, np.uint8)
        pixels[bright] = 255
        return pixels, np.array([str(number % 10) for number in range(len(pixels))])

    _install(monkeypatch, fetch)
    return read(), asked


def test_without_a_folder_scikit_learn_fetches_mnist(monkeypatch):
    digits, asked = _fetched(monkeypatch, read_mnist, (70_000, 784), 60_000)
    assert asked == {"mnist_784": 1}
    assert digits.train_images.shape == (60_000, 784)
    assert digits.train_images.dtype == np.float32
    np.testing.assert_array_equal(digits.test_images[0], 1)
    np.testing.assert_array_equal(digits.test_labels, np.arange(10_000) % 10)


def test_without_a_folder_scikit_learn_fetches_cifar10(monkeypatch):
    # A hundredth of what OpenML has: copies of the whole take seconds.
    monkeypatch.setattr(cifar10, "_NUM_FETCHED", 600)
    monkeypatch.setattr(cifar10, "_NUM_TRAIN", 500)
    # Row 499, and of it the red pixels alone.
    found, asked = _fetched(monkeypatch, read_cifar10, (600, 3072), (499, slice(1024)))
    assert asked == {"CIFAR_10": 1}
    assert found.images.shape == (500, 32, 32, 3)
    np.testing.assert_array_equal(found.images[-1], np.broadcast_to([255, 0, 0], (32, 32, 3)))
    np.testing.assert_array_equal(found.labels, np.arange(500) % 10)


@READERS
def test_what_cannot_be_fetched_is_said_in_one_line(monkeypatch, read):
    def offline(name, **options):
        raise OSError("no network")

    _install(monkeypatch, offline)
    with pytest.raises(ValueError, match=r"could not be fetched \(no network\); give the folder"):
        read()
    _install(monkeypatch, lambda name, **options: (np.zeros((5, 784)), np.array(["1"] * 5)))
    with pytest.raises(ValueError, match="unexpected shapes"):
        read()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="extra 'data'"):
        read()
