"""The command line: what it prints and writes, and how bad input ends."""

import json

import numpy as np
import pytest
from helpers import run_cli

SMALL = ["--dim", "20", "--num-runs", "4", "--seed", "1"]


def _run(capsys, *arguments):
    return run_cli(capsys, "compare", *arguments)


@pytest.mark.slow
def test_compare_prints_a_table_and_writes_its_files(capsys, tmp_path):
    status, out, err = _run(capsys, *SMALL, "--out", str(tmp_path / "new"))
    assert (status, err) == (0, "")
    for word in ("simulated", "ODE", "lower bound", "upper bound", "SDE", "final", "privacy:"):
        assert word in out
    assert (tmp_path / "new" / "compare.png").stat().st_size > 10_000
    numbers = json.loads((tmp_path / "new" / "compare.json").read_text())
    assert numbers["num_steps"] == 200
    assert f"picture: {tmp_path / 'new' / 'compare.png'}" in out


@pytest.mark.slow
def test_json_is_one_object_that_says_the_same(capsys, tmp_path):
    status, out, _ = _run(
        capsys, *SMALL, "--condition-number", "2", "--json", "--out", str(tmp_path)
    )
    found = json.loads(out)
    assert status == 0
    assert found["gap"] == pytest.approx(
        abs(found["simulated"]["final_risk"] - found["predicted"]["final_risk"])
    )
    assert found["simulated"]["standard_error"] > 0
    assert found["cost"]["epsilon"] == pytest.approx(4.3772, abs=1e-3)
    assert found["beside"]["lower bound"]["final_risk"] < found["predicted"]["final_risk"]
    assert [path.endswith((".png", ".json")) for path in found["files"]] == [True, True]
    assert set(found["beside"]) == {"lower bound", "upper bound", "SDE"}


@pytest.mark.slow
def test_options_reach_the_algorithm(capsys, tmp_path):
    _, out, _ = _run(
        capsys,
        *SMALL,
        "--rho",
        "2",
        "--power",
        "0",
        "--num-steps",
        "50",
        "--delta",
        "1e-6",
        "--label-noise",
        "0.1",
        "--peak",
        "1",
        "--clip-scale",
        "0.5",
        "--json",
        "--out",
        str(tmp_path),
    )
    found = json.loads(out)
    assert found["num_steps"] == 50
    assert found["cost"]["mu"] == 2
    assert found["cost"]["delta"] == 1e-6
    assert (found["options"]["peak"], found["options"]["clip_scale"]) == (1, 0.5)
    # AC Proposition 5: the jump of a constant schedule, 2 (c eta gamma / rho)^2.
    jump = found["predicted"]["final_risk"] - found["predicted"]["risk"][-1]
    assert jump == pytest.approx(2 * (0.5 * 1 * 0.4 / 2) ** 2, rel=1e-3)


@pytest.mark.slow
def test_a_table_is_compared_with_its_surrogate(capsys, tmp_path):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 3)) * [1, 100, 0.01]
    labels = inputs @ [1, 0.01, 100] + 0.3 * rng.normal(size=300)
    path = tmp_path / "table.csv"
    rows = "\n".join(
        ",".join(f"{v:.6g}" for v in [*x, y]) for x, y in zip(inputs, labels, strict=True)
    )
    path.write_text("a,b,c,price\n" + rows)
    status, out, err = _run(
        capsys, "--data", str(path), "--target", "price", "--num-runs", "4", "--out", str(tmp_path)
    )
    assert (status, err) == (0, "")
    assert "surrogate" in out
    assert "non-privately" in out
    assert "centring and scaling the data by itself, is not included" in out
    found = json.loads((tmp_path / "compare.json").read_text())
    assert (found["dim"], found["num_steps"]) == (3, 150)
    assert (found["target"], found["inputs"]) == ("price", ["a", "b", "c"])
    assert "target: price; inputs: a, b, c" in out
    # The columns' units do not matter: the surrogate explains most of the label.
    assert found["predicted"]["risk"][0] > 0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dim", "0"], "expected dim >= 1, got 0"),
        (["--dim", "two"], "--dim: expected a whole number in digits, such as 20000, got 'two'"),
        (["--dim", "20,000"], "--dim: expected a whole number in digits"),
        (["--dim", "2e4"], "--dim: expected a whole number in digits"),
        (["--rho", "1,5"], "--rho: expected a number, such as 0.5 or 1e-5, got '1,5'"),
        (["--colour", "red"], "unrecognized arguments: --colour red"),
        (["--rho", "-1"], "rho > 0, got -1.0"),
        (["--delta", "2"], "0 < delta < 1"),
        (["--num-runs", "0"], "num_runs >= 1, got 0"),
        (["--condition-number", "0.5"], "condition_number >= 1, got 0.5"),
        (["--data", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--data", "nowhere.csv", "--dim", "3"], "--dim describes synthetic data"),
        (["--target", "y"], "--target needs --data"),
        (["--seed", "-1"], "expected 0 <= --seed < 2^63, got -1"),
        (["--seed", str(10**30)], "expected 0 <= --seed < 2^63"),
        (["--num-steps", "3000000000"], "--num-steps < 2^31"),
        pytest.param([*SMALL, "--peak", "1e30"], "solver stopped", marks=pytest.mark.slow),
        (["--epsilon", "2"], "--epsilon needs --num-features"),
        (["--num-features", "9", "--rho", "2"], "--rho does not go with --num-features"),
        (["--num-features", "0"], "num_features >= 1, got 0"),
        (["--num-features", "many"], "invalid _whole_or_inf value: 'many'"),
        (["--num-features", "9", "--num-train", "0"], "num_train >= 1, got 0"),
        (["--num-features", "9", "--epsilon", "0"], "0 < epsilon < infinity, got 0"),
        (["--num-features", "9", "--delta", "1"], "0 < delta < 1"),
        (["--delta", "5e-324"], "delta of at least 1e-300"),
        (["--num-features", "9", "--delta", "1e-310"], "delta of at least 1e-300"),
        (["--dim", "1000000000000"], "fewer than 2^31 numbers in all runs"),
        (["--num-runs", "1000000000000"], "fewer than 2^31 numbers in all runs"),
        (["--num-features", "1000000000000"], "fewer than 2^31 numbers in the weights"),
        (["--num-features", "9", "--num-train", "1000000000000"], "numbers in the rows"),
        (["--num-features", "9", "--num-steps", "1000000000000"], "--num-steps < 2^31"),
        (["--num-features", "9", "--num-runs", "1000000000000"], "numbers in all runs"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(capsys, tmp_path, arguments, message):
    status, out, err = _run(capsys, *arguments, "--out", str(tmp_path))
    assert status == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


FEATURES = ["--num-train", "40", "--num-test", "20", "--dim", "5", "--num-steps", "6"]


@pytest.mark.slow
@pytest.mark.parametrize("width", ["60", "inf"])
def test_random_features_show_the_algorithm_the_diffusions_and_the_theories(
    capsys, tmp_path, width
):
    arguments = ["--num-features", width, *FEATURES, "--num-runs", "5", "--out", str(tmp_path)]
    status, out, err = _run(capsys, *arguments)
    assert (status, err) == (0, "")
    # Heads are broken where the table is wide.
    for word in ("Gaussian", "closure", "OU", "recursion", "gradient", "flow", "clipped", "SDE"):
        assert word in out.split()
    assert max(map(len, out.partition("final")[0].splitlines()[-15:])) <= 80
    assert "leaves clipping out" in out
    found = json.loads((tmp_path / "compare.json").read_text())
    assert {"OU", "gradient flow", "clipped SDE", "OU SDE"} <= set(found["beside"])
    assert found["num_features"] == (60 if width == "60" else "inf")
    assert found["cost"]["epsilon"] == pytest.approx(4.0, abs=1e-4)
    assert found["gap"] < 0.1
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_a_folder_that_cannot_be_made_is_said_before_the_work(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = _run(capsys, *SMALL, "--out", str(tmp_path / "file"))
    assert status == 2
    assert "expected --out to be a folder" in err


def test_help_is_there(capsys):
    status, out, _ = _run(capsys, "--help")
    assert status == 0
    for option in (
        "--dim",
        "--label-noise",
        "--condition-number",
        "--peak",
        "--power",
        "--data",
        "--clip-scale",
        "--rho",
        "--num-steps",
        "--num-runs",
        "--seed",
        "--json",
    ):
        assert option in out
