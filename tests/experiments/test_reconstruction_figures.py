"""DR Figure 3 and one unknown row: ranks, smoke versions, and claims that can be false."""

import json

import numpy as np
import pytest
from figure_changes import assert_claims_hold, assert_false, assert_reported, name_of, read_saved

from experiments import command
from experiments.data_reconstruction import fig03_sphere_thresholds, known_rows
from experiments.data_reconstruction.sphere_rows import least_width

FIGURES = [fig03_sphere_thresholds, known_rows]


def _free_directions(name, dim, num_samples, num_known, num_features, seed):
    """How many directions of the unknowns leave the fit as it is: the Jacobian's null space."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((num_samples, dim))
    weights = rng.standard_normal((num_features, dim))
    arguments = weights @ rows.T
    is_relu = name == "relu"
    features = np.maximum(arguments, 0) if is_relu else np.tanh(arguments)
    slopes = arguments > 0 if is_relu else 1 - np.tanh(arguments) ** 2
    columns = [features[:, :num_known]]
    for row in range(num_known, num_samples):
        moves = slopes[:, row, None] * weights
        if not is_relu:
            # Along the row nothing moves on the sphere; of a ReLU that is its coefficient.
            basis, _ = np.linalg.qr(np.column_stack([rows[row], rng.standard_normal((dim, dim))]))
            moves = np.column_stack([moves @ basis[:, 1:dim], features[:, row]])
        columns.append(moves)
    jacobian = np.hstack(columns)
    return jacobian.shape[1] - np.linalg.matrix_rank(jacobian)


@pytest.mark.parametrize(
    ("name", "num_samples", "num_known"),
    [
        ("relu", 5, 4),
        ("relu", 40, 39),
        ("relu", 1, 0),
        ("relu", 2, 0),
        ("tanh", 5, 4),
        ("tanh", 2, 0),
    ],
)
def test_rows_are_isolated_from_the_least_width_on(name, num_samples, num_known):
    dim, has_dead_half = 24, name == "relu"
    least = least_width(dim, num_samples, num_known, has_dead_half=has_dead_half)
    # How many neurons are not silent varies from one V to the next: four standard deviations.
    margin = 4 * np.sqrt(least) / 2 if has_dead_half else 0
    below, above = int(least - margin) - 1, int(np.ceil(least + margin))
    for seed in range(3):
        sizes = (name, dim, num_samples, num_known)
        assert _free_directions(*sizes, below, seed) > 0
        assert _free_directions(*sizes, above, seed) == 0


def test_silent_neurons_matter_for_few_unknown_rows_only():
    assert least_width(100, 20, has_dead_half=True) == pytest.approx(2000, rel=1e-5)
    assert least_width(100, 20, 19, has_dead_half=True) == pytest.approx(200)
    assert least_width(100, 20, 19, has_dead_half=False) == 119
    assert least_width(20, 100, 99, has_dead_half=True) == 119


@pytest.fixture(scope="module")
def saved():
    return read_saved(FIGURES)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_holds_of_the_saved_results(saved, figure):
    assert_claims_hold(figure, saved[name_of(figure)])


def test_report_has_a_row_for_every_claim(saved):
    assert_reported(FIGURES, saved)


def _filled(name, value, **where):
    """The variable at another value where the coordinates have these."""

    def change(dataset):
        here = True
        for axis, given in where.items():
            here = here & (dataset[axis] == given)
        changed = dataset[name].where(~here & dataset[name].notnull(), value)
        return dataset.assign({name: changed.where(dataset[name].notnull())})

    return change


_DEFAULT = {"optimiser": "default"}
_SECOND_ORDER = {"optimiser": "Levenberg-Marquardt"}
_CHANGES = [
    (
        fig03_sphere_thresholds,
        "labels are fitted once",
        lambda data: data.assign(train_loss=data.train_loss + 0.1),
    ),
    (fig03_sphere_thresholds, "nothing is found though", _filled("error", 0.1, **_DEFAULT)),
    (fig03_sphere_thresholds, "do not determine", _filled("converged", 0, **_SECOND_ORDER)),
    (fig03_sphere_thresholds, "do not determine", _filled("error", 0.1, **_SECOND_ORDER)),
    (fig03_sphere_thresholds, "dn on the rows are found", _filled("error", 1.0, **_DEFAULT)),
    (fig03_sphere_thresholds, "is the data's", _filled("error", 1.0)),
    (
        fig03_sphere_thresholds,
        "passes half of chance",
        lambda data: data.assign(num_features=4 * data.num_features),
    ),
    (fig03_sphere_thresholds, "more of the runs", _filled("converged", 1, optimiser="published")),
    (fig03_sphere_thresholds, "span residual", _filled("residual", 1.0)),
    (known_rows, "the last is found", _filled("error", 0.5, known="all but one")),
    (known_rows, "it is not", _filled("error", 0.01, known="all but one")),
    (known_rows, "stay unknown", _filled("error", 0.1, known="none")),
    (known_rows, "the count d + n - 1", _filled("error", 0.001, activation="relu")),
]


@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(saved, figure, claim, change):
    assert_false(figure, change(saved[name_of(figure)]), claim)


def test_the_papers_seeds_are_offered():
    assert fig03_sphere_thresholds.Config.paper().num_seeds == 10


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_smoke_versions_write_their_files_and_their_claims_hold(tmp_path, figure):
    assert command.main(figure, ["--smoke", "--out", str(tmp_path)]) == 0
    dataset = command.read(tmp_path / f"{name_of(figure)}.nc")
    assert all(figure.claims(dataset).values())
    assert json.loads(dataset.attrs["config"])
    assert figure.summary(dataset).count("\n|") > 3
    assert (tmp_path / f"{name_of(figure)}.png").stat().st_size > 10_000
