"""`jaxdp reconstruct`: what it attacks, prints and writes, and how bad input ends."""

import json

import numpy as np
import pytest
from helpers import run_cli

from jaxdp import attacks
from jaxdp.cli.commands.victims import activation_named

SMALL = ["--dim", "8", "--num-samples", "3", "--num-features", "240"]


def _run(capsys, *arguments):
    return run_cli(capsys, "reconstruct", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of three rows of eight numbers, its rows, and files that are no models."""
    folder = tmp_path_factory.mktemp("reconstruct")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 8))
    rows *= np.sqrt(8) / np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.standard_normal((240, 8)) / np.sqrt(8)
    parameters = np.linalg.lstsq(np.maximum(rows @ weights.T, 0), [1.0, -1.0, 0.7])[0]
    np.savez(folder / "model.npz", weights=weights, parameters=parameters)
    np.savez(folder / "rows.npz", inputs=3 * rows)
    np.savez(folder / "nan.npz", weights=np.where(weights > 1, np.nan, weights), parameters=[1.0])
    np.savez(folder / "short.npz", weights=weights, parameters=parameters[:-1])
    np.savez(folder / "zero.npz", weights=weights, parameters=0 * parameters)
    np.savez(folder / "texts.npz", weights=weights, parameters=np.array(["a"] * 240))
    np.savez(folder / "flat.npz", inputs=np.where(np.arange(3)[:, None] == 1, 2.0, rows))
    (folder / "text.npz").write_text("a,b\n1,2\n")
    np.save(folder / "array.npy", weights)
    return folder


@pytest.mark.slow
def test_synthetic_rows_are_found_and_the_files_say_so(capsys, tmp_path):
    status, out, err = _run(capsys, *SMALL, "--out", tmp_path / "new")
    assert (status, err) == (0, "")
    assert "3 rows of 8 numbers from 240 relu features" in out
    assert "3 of 3 within .1" in out
    assert "verdict: training rows were found\n" in out
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
def test_a_model_is_attacked_from_its_file_alone(folder, capsys, tmp_path):
    given = folder / "model.npz", "--num-samples", 3, "--json", "--out", tmp_path
    status, out, _ = _run(capsys, *given)
    found = json.loads(out)
    assert status == 0
    assert found["converged"]
    assert "error" not in found
    with np.load(tmp_path / "found.npz") as arrays:
        assert arrays.files == ["inputs"]
        rows = arrays["inputs"]
    # The rows to score by lie off the sphere and change nothing but the score.
    status, out, _ = _run(capsys, *given, "--truth", folder / "rows.npz")
    scored = json.loads(out)
    assert scored["rows_found"] == 3
    assert scored["loss"] == found["loss"]
    with np.load(tmp_path / "found.npz") as arrays:
        np.testing.assert_array_equal(arrays["inputs"], rows)
    _, out, _ = _run(capsys, *given[:3], "--out", tmp_path, "--truth", folder / "rows.npz")
    assert "norms of rows over sqrt(d) are 3 to 3; scored by direction" in out


@pytest.mark.slow
def test_private_training_is_attacked_and_its_error_predicted(capsys, tmp_path):
    given = [*SMALL, "--out", tmp_path, "--json", "--max-passes", 300]
    _, out, _ = _run(capsys, *given, "--epsilon", 3000)
    weak = json.loads(out)
    _, out, _ = _run(capsys, *given, "--epsilon", 1)
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
    _, out, _ = _run(capsys, *given[:-3], "--max-passes", 50, "--epsilon", 100, "--num-steps", 3)
    assert "privacy: (100.0000, 1e-05)-DP" in out
    assert "predicted" not in out


def test_signs_are_asked_for_where_features_can_tell_them():
    from jaxdp.cli.commands.reconstruct import _is_odd_or_even

    assert _is_odd_or_even("tanh")
    assert not _is_odd_or_even("relu")
    assert not _is_odd_or_even("relu+tanh")
    assert float(activation_named("relu+tanh")(1.0)) == pytest.approx(1 + np.tanh(1))


MODEL = ["model.npz", "--num-samples", "3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-features", "10"], "expected --num-features above --num-samples, got 10 and 10"),
        (["--dim", "0"], "expected dim >= 1, got 0"),
        (["--num-samples", "0"], "expected num_samples >= 1, got 0"),
        (["--label-noise", "-1"], "label_noise >= 0"),
        (["--activation", "sine"], "invalid choice"),
        (["--delta", "1e-5"], "--delta needs --epsilon"),
        (["--epsilon", "0"], "0 < epsilon < infinity, got 0"),
        (["--epsilon", "1", "--delta", "2"], "0 < delta < 1"),
        (["--epsilon", "1", "--num-steps", "0"], "num_steps >= 1, got 0"),
        (["--truth", "rows.npz"], "--truth goes with a model"),
        (["--max-passes", "0"], "--max-passes >= 1, got 0"),
        (["--max-passes", str(10**30)], "expected --max-passes < 2^31"),
        (["--num-starts", "0"], "--num-starts >= 1, got 0"),
        (["--seed", "-1"], "expected 0 <= --seed < 2^63"),
        (["model.npz"], "expected --num-samples"),
        ([*MODEL, "--dim", "8"], "--dim does not go with a model"),
        ([*MODEL, "--epsilon", "1"], "--epsilon does not go with a model"),
        (["model.npz", "--num-samples", "240"], "expected more features than samples"),
        (["nowhere.npz", *MODEL[1:]], "nowhere.npz: no such file"),
        (["rows.npz", *MODEL[1:]], "rows.npz: expected an array 'weights', got inputs"),
        (["nan.npz", *MODEL[1:]], "nan.npz: expected finite weights"),
        (["short.npz", *MODEL[1:]], "short.npz: expected one row of parameters for each"),
        (["zero.npz", *MODEL[1:]], "zero.npz: expected parameters that training has changed"),
        (["texts.npz", *MODEL[1:]], "texts.npz: expected numbers in parameters"),
        (["text.npz", *MODEL[1:]], "text.npz: expected an .npz file of numbers"),
        (["array.npy", *MODEL[1:]], "array.npy: expected an .npz file of numbers"),
        ([*MODEL, "--truth", "model.npz"], "model.npz: expected an array 'inputs'"),
        (["model.npz", "--num-samples", "4", "--truth", "rows.npz"], "shape (4, 8), (n, d), got"),
        ([*MODEL, "--truth", "flat.npz"], "flat.npz: row 2 of inputs is constant"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(folder, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    status, out, err = _run(capsys, *arguments, "--out", folder / "out")
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
