"""Files of features: what is read from them, and that everything else is refused unread."""

import numpy as np
import pytest

import jaxdp
from jaxdp.explorer import open_features

RANDOM = np.random.default_rng(0)


def _arrays(classes):
    labels = np.resize(classes, 12)
    return {
        "train_features": RANDOM.normal(size=(12, 3)),
        "train_labels": labels,
        "test_features": RANDOM.normal(size=(12, 3)),
        "test_labels": labels,
    }


def test_labels_say_which_loss_the_problem_has(tmp_path):
    for classes, loss in (([-1, 1], jaxdp.losses.Logistic()), ([0, 1, 2], jaxdp.losses.Softmax(3))):
        arrays = _arrays(classes)
        np.savez(tmp_path / "features.npz", **arrays)
        found = open_features(tmp_path / "features.npz")
        assert found.loss == loss
        np.testing.assert_allclose(found.train_inputs, arrays["train_features"], rtol=1e-6)
        np.testing.assert_array_equal(found.test_labels, arrays["test_labels"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"test_labels": None}, "got none of the name test_labels"),
        ({"train_labels": np.full(12, "cat")}, "train_labels"),
        ({"train_labels": np.resize([0.0, 0.5], 12)}, "expected train_labels -1 and 1"),
        ({"train_features": np.zeros((11, 3))}, "11"),
        ({"test_features": np.full((12, 3), np.nan)}, "finite"),
    ],
)
def test_other_arrays_are_refused_with_one_line(tmp_path, changes, words):
    path = tmp_path / "features.npz"
    arrays = _arrays([0, 1, 2]) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=r"features\.npz") as refused:
        open_features(path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros((3, 2)))
    (tmp_path / "text.npz").write_text("a,b\n1,2\n")
    for name in ("one.npy", "text.npz", "missing.npz"):
        with pytest.raises(ValueError, match=f"{name}: expected an .npz with the arrays"):
            open_features(tmp_path / name)
