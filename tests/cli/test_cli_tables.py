"""`jaxdp compare --data TABLE --optimiser NAME`: what it prints and writes."""

import json
import math

import numpy as np
import pytest
from cli_tables import written
from helpers import FALSE_ALARM
from scipy.stats import norm

from jaxdp.privacy.conversions.gaussian import gaussian_epsilon

RANDOM = np.random.default_rng(0)
INPUTS = np.round(RANDOM.normal(size=(60, 3)) * [1, 100, 0.01], 5)
TARGET = np.round(INPUTS @ [1, 0.01, 100] + 0.3 * RANDOM.normal(size=60), 5)
SHORT = ["--num-steps", "20", "--num-runs", "6", "--seed", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables: numbers, two classes by name, and three by number."""
    folder = tmp_path_factory.mktemp("tables")
    columns = INPUTS.T
    kinds = np.where(TARGET > 0.5, "high", "low")
    written(folder / "numbers.csv", ["a", "b", "c", "y"], *columns, TARGET)
    written(folder / "kinds.csv", ["kind", "a", "b", "c"], kinds, *columns)
    written(folder / "three.csv", ["a", "b", "c", "y"], *columns, np.arange(60) % 3 + 5)
    return folder


def test_the_issues_command_puts_adam_beside_its_prediction(run, folder, tmp_path):
    arguments = ["--target", "y", "--epsilon", "2", "--sampling-rate", ".05", "--optimiser", "adam"]
    data = ["--data", folder / "numbers.csv"]
    status, out, err = run("compare", *data, *arguments, *SHORT, "--out", tmp_path)
    assert (status, err) == (0, "")
    for words in ("DP-adam, Poisson batches of rate 0.05, 20 steps", "target: y; inputs: a, b, c"):
        assert words in out
    for words in ("48 rows trained on, 12 held out; 4 weights", "Gaussian closure", "final"):
        assert words in out
    assert "standardised by the training rows, non-privately: a study, not a release" in out
    assert "(2.0000, 1e-05)-DP; zero-out-one; simulated noise" in out
    assert (tmp_path / "compare.png").stat().st_size > 10_000
    found = json.loads((tmp_path / "compare.json").read_text())
    assert (found["adjacency"], found["cost"]["adjacency"]) == ("zero-out-one", "zero-out-one")
    assert "not private" in found["scaling"]
    assert found["cost"]["epsilon"] == pytest.approx(2, rel=1e-4)
    assert (found["num_train"], found["num_test"], found["dim"]) == (48, 12, 4)
    assert found["time"][-1] == pytest.approx(20 * 0.05)
    # Of its default rate every weight can move by 5 in all.
    assert found["options"]["learning_rate"] == pytest.approx(5 / 20)
    assert (found["options"]["optimiser"], found["options"]["loss"]) == ("adam", "squared")
    # The spread of six runs is wide; what agrees better is tested where there are many.
    sigmas = norm.isf(FALSE_ALARM / 2)
    assert found["gap"] < 0.05 + sigmas * found["simulated"]["standard_error"]


@pytest.mark.slow
def test_a_rate_of_one_is_full_batches_for_a_replaced_record(run, folder, tmp_path):
    arguments = ["--sampling-rate", "1", "--epsilon", "3", "--num-runs", "200", "--json"]
    data = ["--data", folder / "numbers.csv", "--num-steps", "20"]
    status, out, err = run("compare", *data, *arguments, "--out", tmp_path)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["cost"]["adjacency"] == "replace-one"
    # Twenty sums that move by 2C.
    mu = 2 * math.sqrt(20) / found["noise_multiplier"]
    assert found["cost"]["mu"] == pytest.approx(mu, rel=1e-6)
    assert found["cost"]["epsilon"] == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)
    assert found["time"][-1] == 20
    # Half of what is stable for rows of mean square norm 1 and a loss of curvature 2.
    assert (found["options"]["learning_rate"], found["options"]["clip_norm"]) == (0.5, 1)
    # Two per cent and six standard errors; the risk at the start is far outside.
    allowed = 0.02 * found["predicted"]["final_risk"] + 6 * found["simulated"]["standard_error"]
    assert found["gap"] < allowed
    assert abs(found["simulated"]["risk"][0] - found["predicted"]["final_risk"]) > 3 * allowed
    assert 0.7 < found["spread"]["predicted"] / found["spread"]["simulated"] < 1.4
    assert 0 < found["least_squares_risk"] < found["predicted"]["final_risk"]


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", ["momentum", "nesterov"])
def test_momentum_averages_and_other_options_reach_the_algorithm(run, folder, tmp_path, optimiser):
    arguments = ["--optimiser", optimiser, "--momentum", "0.5", "--average", ".8", "--json"]
    arguments += ["--learning-rate", "0.2", "--clip-norm", "0.7", "--delta", "1e-4"]
    arguments += ["--num-train", "40", "--num-test", "15", "--num-features", "6"]
    arguments += ["--activation", "tanh", "--epsilon", "2"]
    data = ["--data", folder / "numbers.csv"]
    status, out, err = run("compare", *data, *arguments, *SHORT, "--out", tmp_path)
    found = json.loads(out)
    assert (status, err) == (0, "")
    for name, value in {"momentum": 0.5, "learning_rate": 0.2, "clip_norm": 0.7}.items():
        assert found["options"][name] == value
    assert (found["num_train"], found["num_test"], found["dim"]) == (40, 15, 7)
    assert found["cost"]["delta"] == 1e-4
    assert any(
        "the average of the iterates included" in line for line in found["cost"]["assumptions"]
    )


@pytest.mark.slow
def test_classes_have_an_accuracy_simulated_and_predicted(run, folder, tmp_path):
    arguments = ["--target", "kind", "--loss", "logistic", "--epsilon", "8", "--delta", "1e-4"]
    arguments += ["--sampling-rate", "0.5", "--num-steps", "40", "--num-runs", "100"]
    data = ["--data", folder / "kinds.csv"]
    status, out, err = run("compare", *data, *arguments, "--out", tmp_path)
    assert (status, err) == (0, "")
    assert "classes: high, low" in out
    assert "test accuracy: " in out
    found = json.loads((tmp_path / "compare.json").read_text())
    assert (found["classes"], found["options"]["clip_norm"]) == (["high", "low"], 0.25)
    # The loss at theta = 0, where the accuracy is a half.
    assert found["predicted"]["risk"][0] == pytest.approx(math.log(2), rel=1e-5)
    accuracy = found["accuracy"]
    assert accuracy["predicted"] == pytest.approx(accuracy["simulated"], abs=0.05)
    assert accuracy["predicted"] > 0.7
    assert "least_squares_risk" not in found


@pytest.mark.slow
def test_more_classes_take_softmax(run, folder, tmp_path):
    arguments = ["--loss", "softmax", "--optimiser", "sgd", *SHORT, "--json"]
    status, out, err = run("compare", "--data", folder / "three.csv", *arguments, "--out", tmp_path)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["classes"] == ["5", "6", "7"]
    assert found["predicted"]["risk"][0] == pytest.approx(math.log(3), rel=1e-5)
    assert found["options"]["clip_norm"] == pytest.approx(math.sqrt(2 / 3) / 2)


@pytest.mark.slow
def test_a_rate_beyond_what_is_stable_is_warned_of(run, folder, tmp_path):
    arguments = ["--sampling-rate", "1", "--learning-rate", "30", *SHORT, "--out", tmp_path]
    status, _, err = run("compare", "--data", folder / "numbers.csv", *arguments)
    assert status == 0
    assert err.startswith("jaxdp: warning: ")
    assert "a smaller learning rate" in err


def test_the_split_follows_the_seed_and_no_row_is_on_both_sides(folder):
    import argparse

    import jax

    from jaxdp.cli.commands.dp_sgd import read_rows

    def read(seed, **changes):
        options = argparse.Namespace(
            data=folder / "numbers.csv",
            target=None,
            drop="",
            drop_constant=False,
            header=None,
            loss="squared",
            num_features=None,
        )
        vars(options).update(changes)
        return read_rows(options, jax.random.key(seed), jax.random.key(0))[0]

    problem, other = read(0), read(1)
    np.testing.assert_array_equal(problem.train_inputs, read(0).train_inputs)
    assert not np.array_equal(problem.train_inputs, other.train_inputs)
    rows = np.concatenate([problem.train_inputs, problem.test_inputs])
    assert len(np.unique(rows[:, 0])) == len(rows) == 60
    # Means, variances and norms are those of the training rows; the last column is the intercept.
    train = np.asarray(problem.train_inputs, np.float64) * math.sqrt(4)
    np.testing.assert_allclose(train[:, :3].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose((train**2).mean(axis=0), 1, rtol=1e-5)
    np.testing.assert_array_equal(train[:, 3], 1)
    labels = np.asarray(problem.train_labels, np.float64)
    assert (labels.mean(), labels.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1))
    # Random features have mean square 1 for normal inputs.
    for activation in ("relu", "tanh"):
        wide = read(0, num_features=2000, activation=activation)
        assert (np.asarray(wide.train_inputs) ** 2).sum(axis=1).mean() == pytest.approx(1, abs=0.2)
