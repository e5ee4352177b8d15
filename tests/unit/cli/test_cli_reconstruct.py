"""`jaxdp reconstruct`: the models that it attacks, and what it prints and writes."""

import json

import numpy as np
import pytest

from jaxdp import attacks


@pytest.mark.slow
def test_synthetic_rows_are_found_and_the_files_say_so(run, tmp_path):
    small = ["--dim", "8", "--num-samples", "3", "--num-features", "240"]
    out = run.well("reconstruct", *small, "--out", tmp_path)
    assert "3 rows of 8 numbers from 240 relu features" in out
    assert "verdict: 3 of 3 training rows were found\n" in out
    numbers = json.loads((tmp_path / "reconstruct.json").read_text())
    assert (numbers["verdict"], numbers["converged"], numbers["rows_found"]) == ("found", True, 3)
    assert numbers["error"] < 1e-3 < 0.9 < numbers["chance_error"] < 1.4
    with np.load(tmp_path / "found.npz") as found:
        true, rows = found["true_inputs"], found["inputs"]
    error = attacks.reconstruction_error(true, rows)
    assert error == pytest.approx(numbers["error"], rel=1e-2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.sqrt(8), rtol=1e-5)


@pytest.mark.slow
def test_a_model_is_attacked_from_its_file_alone(run, tmp_path):
    rng = np.random.default_rng(0)
    true = rng.standard_normal((3, 8))
    true *= np.sqrt(8) / np.linalg.norm(true, axis=1, keepdims=True)
    weights = rng.standard_normal((240, 8)) / np.sqrt(8)
    parameters = np.linalg.lstsq(np.maximum(true @ weights.T, 0), [1.0, -1.0, 0.7])[0]
    np.savez(tmp_path / "model.npz", weights=weights, parameters=parameters)
    given = tmp_path / "model.npz", "--num-samples", 3, "--json", "--out", tmp_path
    found = json.loads(run.well("reconstruct", *given))
    assert found["converged"]
    assert "error" not in found
    with np.load(tmp_path / "found.npz") as arrays:
        assert arrays.files == ["inputs"]
        assert attacks.reconstruction_error(true, arrays["inputs"]) < 1e-2
