"""PK Figures 1 to 12: smoke versions, and claims that can be false."""

import json

import numpy as np
import pytest
from figure_changes import (
    RESULTS,
    assert_claims_hold,
    assert_false,
    assert_reported,
    name_of,
    read_saved,
    scaled,
    turned,
)

from experiments import command
from experiments.private_kernel_learning import (
    fig01_synthetic,
    fig02_projection_dimension,
    fig03_year_prediction,
    fig08_year_projection_dimension,
)
from experiments.private_kernel_learning.year_splits import CENTRES, SCALES

FIGURES = [
    fig01_synthetic,
    fig02_projection_dimension,
    fig03_year_prediction,
    fig08_year_projection_dimension,
]


@pytest.fixture(scope="module")
def saved():
    return read_saved(FIGURES)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_holds_of_the_saved_results(saved, figure):
    assert_claims_hold(figure, saved[name_of(figure)])


def test_report_has_a_row_for_every_claim(saved):
    assert_reported(FIGURES, saved)


def test_figures_of_one_run_show_the_same_errors(saved):
    for first, second in ((FIGURES[0], FIGURES[1]), (FIGURES[2], FIGURES[3])):
        run, drawn = saved[name_of(first)], saved[name_of(second)]
        np.testing.assert_array_equal(run.error, drawn.error)
        assert drawn.attrs["runs_seconds"] == run.attrs["seconds"]


def _constant(name, axis):
    return lambda dataset: dataset.assign(
        {
            name: dataset[name]
            .mean(axis)
            .broadcast_like(dataset[name])
            .transpose(*dataset[name].dims)
        }
    )


_RP, _RFF = "RP, certified", "RFF, certified"
_CENTRED = "RP, certified with intercept"
_CHANGES = [
    (fig01_synthetic, "not borne out", scaled("error", 0.1, learner=["RP, published"])),
    (fig01_synthetic, "they tie", scaled("error", 1.2, learner=[_RFF])),
    (fig01_synthetic, "two thirds", scaled("error", 3, learner=[_RP])),
    (fig01_synthetic, "negative eigenvalues", turned("error", "form")),
    (fig01_synthetic, "private intercept", scaled("error", 10, learner=[_CENTRED])),
    (fig01_synthetic, "loses at most a quarter", scaled("data_free", 2)),
    (fig01_synthetic, "is better than the mean", scaled("constant", 0.5)),
    (fig01_synthetic, "without noise", scaled("noiseless", 0.4)),
    (fig01_synthetic, "without noise", scaled("noiseless", 3)),
    (fig01_synthetic, "nowhere worse", scaled("error", 1.3, learner=[_RFF])),
    (fig01_synthetic, "agrees with", scaled("error", 2)),
    (fig01_synthetic, "does not beat", scaled("constant", 30)),
    (fig02_projection_dimension, "the best M is smaller", turned("error", "epsilon")),
    (fig02_projection_dimension, "half as much", _constant("error", "num_projections")),
    (
        fig02_projection_dimension,
        "pays little",
        scaled("error", 3, learner=[_RP], num_projections=[1000]),
    ),
    (
        fig02_projection_dimension,
        "steepest rise",
        scaled("error", 9, learner=["RP, published"], num_projections=[100]),
    ),
    (fig02_projection_dimension, "resonances", turned("fixed_error", "form")),
    (fig03_year_prediction, "not borne out", scaled("error", 0.1, learner=["RP, published"])),
    (fig03_year_prediction, "lose to the mean label at", scaled("constant", 100)),
    (fig03_year_prediction, "smaller mean error", scaled("error", 9, learner=[_RFF])),
    (fig03_year_prediction, "an intercept makes", scaled("error", 3, learner=[_CENTRED])),
    (fig03_year_prediction, "loses at most half", scaled("data_free", 3)),
    (fig03_year_prediction, "public units cost", scaled("noiseless", 1.5)),
    (fig08_year_projection_dimension, "a fifth", _constant("error", "num_projections")),
    (
        fig08_year_projection_dimension,
        "pays less",
        scaled("error", 5, learner=[_RP], num_projections=[400]),
    ),
    (fig08_year_projection_dimension, "resonances", turned("fixed_error", "form")),
]


@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(saved, figure, claim, change):
    assert_false(figure, change(saved[name_of(figure)]), claim)


def test_runs_of_another_size_are_not_drawn():
    with pytest.raises(ValueError, match="another configuration"):
        fig02_projection_dimension.run(fig02_projection_dimension.Config.smoke(), RESULTS)
    with pytest.raises(ValueError, match="another configuration"):
        fig08_year_projection_dimension.run(
            fig08_year_projection_dimension.Config.smoke(), year=RESULTS
        )


def test_the_papers_size_is_offered_and_is_the_papers():
    for figure in FIGURES:
        config = figure.Config.paper()
        assert config.repetitions == 100
        assert max(config.num_projections) == 1000
    assert fig01_synthetic.Config.paper().dims == (10, 20, 30)
    assert fig03_year_prediction.Config.paper().num_songs == 2000


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder like the real one, of made-up songs whose year depends on their timbre."""
    folder = tmp_path_factory.mktemp("data") / "yearmsd"
    folder.mkdir()
    random = np.random.default_rng(8)
    moods, loads = random.normal(size=(700, 3)), random.normal(size=(3, 90))
    units = moods @ (loads * np.sqrt(0.7 / np.sum(loads**2, axis=0)))
    units += np.sqrt(0.3) * random.normal(size=(700, 90))
    years = 1996 + 14 * moods[:, 0] + 3 * random.normal(size=700)
    years = np.clip(np.round(years), 1922, 2011)
    table = np.column_stack([years, CENTRES + SCALES * units])
    np.savetxt(folder / "songs.csv", table, delimiter=",")
    return folder.parent


@pytest.mark.slow
def test_smoke_versions_write_their_files_and_their_claims_hold(tmp_path, data):
    folder = str(tmp_path)
    arguments = {
        fig01_synthetic: {},
        fig02_projection_dimension: {"synthetic": folder},
        fig03_year_prediction: {"data": str(data)},
        fig08_year_projection_dimension: {"year": folder},
    }
    for figure, given in arguments.items():
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        options = getattr(figure, "FOLDER", None)
        command.main(figure, ["--smoke", "--out", folder, *words], optional_folders=options)
        dataset = command.read(tmp_path / f"{name_of(figure)}.nc")
        claims = figure.claims(dataset)
        assert claims
        assert all(claims.values()), claims
        shown = "".join(f" --{name} {name.upper()}" for name in given)
        assert dataset.attrs["command"] == f"python -m {figure.__name__} --smoke{shown}"
        assert json.loads(dataset.attrs["config"])
        assert folder not in str(dataset.attrs)
        assert figure.summary(dataset).count("\n|") > 3
        assert (tmp_path / f"{name_of(figure)}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_without_songs_there_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        fig03_year_prediction.run(fig03_year_prediction.Config.smoke(), tmp_path)
