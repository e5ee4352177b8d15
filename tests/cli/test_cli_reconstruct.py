"""`jaxdp reconstruct`: what it attacks, prints and writes."""

import json

import numpy as np
import pytest

from jaxdp import attacks
from jaxdp.cli.commands.reconstruct import activation_named

SMALL = ["--dim", "8", "--num-samples", "3", "--num-features", "240"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of three rows of eight numbers, and its rows."""
    folder = tmp_path_factory.mktemp("reconstruct")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 8))
    rows *= np.sqrt(8) / np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.standard_normal((240, 8)) / np.sqrt(8)
    parameters = np.linalg.lstsq(np.maximum(rows @ weights.T, 0), [1.0, -1.0, 0.7])[0]
    np.savez(folder / "model.npz", weights=weights, parameters=parameters)
    np.savez(folder / "rows.npz", inputs=3 * rows)
    return folder


@pytest.mark.slow
def test_synthetic_rows_are_found_and_the_files_say_so(run, tmp_path):
    status, out, err = run("reconstruct", *SMALL, "--out", tmp_path / "new")
    assert (status, err) == (0, "")
    assert "3 rows of 8 numbers from 240 relu features" in out
    assert "3 of 3 within .1" in out
    assert "verdict: 3 of 3 training rows were found\n" in out
    numbers = json.loads((tmp_path / "new" / "reconstruct.json").read_text())
    assert numbers["converged"]
    assert numbers["error"] < 1e-3
    assert numbers["ratio"] == 10
    assert (numbers["verdict"], numbers["applies"]) == ("found", True)
    assert numbers["true_loss"] < 1e-7
    assert 0.9 < numbers["chance_error"] < 1.4
    assert (tmp_path / "new" / "reconstruct.png").stat().st_size > 10_000
    with np.load(tmp_path / "new" / "found.npz") as found:
        true, rows = found["true_inputs"], found["inputs"]
    assert attacks.reconstruction_error(true, rows) == pytest.approx(numbers["error"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.sqrt(8), rtol=1e-5)


@pytest.mark.slow
def test_a_model_is_attacked_from_its_file_alone(folder, run, tmp_path):
    given = folder / "model.npz", "--num-samples", 3, "--json", "--out", tmp_path
    status, out, _ = run("reconstruct", *given)
    found = json.loads(out)
    assert status == 0
    assert found["converged"]
    assert "error" not in found
    with np.load(tmp_path / "found.npz") as arrays:
        assert arrays.files == ["inputs"]
        rows = arrays["inputs"]
    # The rows to score by lie off the sphere and change nothing but the score.
    status, out, _ = run("reconstruct", *given, "--truth", folder / "rows.npz")
    scored = json.loads(out)
    assert scored["rows_found"] == 3
    assert scored["loss"] == found["loss"]
    with np.load(tmp_path / "found.npz") as arrays:
        np.testing.assert_array_equal(arrays["inputs"], rows)
    _, out, _ = run("reconstruct", *given[:3], "--out", tmp_path, "--truth", folder / "rows.npz")
    assert "norms of rows over sqrt(d) are 3 to 3; scored by direction" in out


@pytest.mark.slow
def test_private_training_is_attacked_and_its_error_predicted(run, tmp_path):
    given = [*SMALL, "--out", tmp_path, "--json", "--max-passes", 300]
    _, out, _ = run("reconstruct", *given, "--epsilon", 3000)
    weak = json.loads(out)
    _, out, _ = run("reconstruct", *given, "--epsilon", 1)
    strong = json.loads(out)
    for found, epsilon in ((weak, 3000), (strong, 1)):
        assert found["cost"]["epsilon"] == pytest.approx(epsilon, rel=1e-5)
        assert found["cost"]["delta"] == 1e-5
        assert not found["converged"]
    assert (strong["verdict"], strong["applies"]) == ("not_in_span", False)
    assert strong["true_loss"] > 0.1
    assert weak["predicted_error"] < 0.2 < 1 < strong["predicted_error"]
    assert weak["error"] < 3 * weak["predicted_error"]
    assert strong["error"] > 0.7 * strong["chance_error"]
    _, out, _ = run(
        "reconstruct", *given[:-3], "--max-passes", 50, "--epsilon", 100, "--num-steps", 3
    )
    assert "privacy: (100.0000, 1e-05)-DP" in out
    assert "predicted" not in out


def test_signs_are_asked_for_where_features_can_tell_them():
    from jaxdp.cli.commands.reconstruct import _is_odd_or_even

    assert _is_odd_or_even("tanh")
    assert not _is_odd_or_even("relu")
    assert not _is_odd_or_even("relu+tanh")
    assert float(activation_named("relu+tanh")(1.0)) == pytest.approx(1 + np.tanh(1))
