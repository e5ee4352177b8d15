"""PK Figures 1 to 12: whose runs they draw, and the paper's size."""

import pathlib

import numpy as np
import pytest

import experiments
from experiments import harness
from experiments.private_kernel_learning import (
    fig01_synthetic,
    fig02_projection_dimension,
    fig03_year_prediction,
    fig08_year_projection_dimension,
)

RESULTS = pathlib.Path(experiments.__file__).parent / "results" / "private_kernel_learning"
FIGURES = [
    fig01_synthetic,
    fig02_projection_dimension,
    fig03_year_prediction,
    fig08_year_projection_dimension,
]


@pytest.fixture(scope="module")
def saved():
    return {
        figure: harness.read(RESULTS / f"{figure.__name__.rpartition('.')[2]}.nc")
        for figure in FIGURES
    }


def test_figures_of_one_run_show_the_same_errors(saved):
    for first, second in ((FIGURES[0], FIGURES[1]), (FIGURES[2], FIGURES[3])):
        run, drawn = saved[first], saved[second]
        np.testing.assert_array_equal(run.error, drawn.error)
        assert drawn.attrs["runs_seconds"] == run.attrs["seconds"]


def test_runs_of_another_size_are_not_drawn():
    with pytest.raises(ValueError, match="another configuration"):
        fig02_projection_dimension.run(fig02_projection_dimension.Config.smoke(), RESULTS)
    with pytest.raises(ValueError, match="another configuration"):
        fig08_year_projection_dimension.run(
            fig08_year_projection_dimension.Config.smoke(), year=RESULTS
        )


def test_the_papers_size_is_run_or_offered():
    synthetic, songs = fig01_synthetic.Config(), fig03_year_prediction.Config.paper()
    for config in (synthetic, songs):
        assert config.repetitions == 100
        assert max(config.num_projections) == 1000
    assert synthetic.dims == (10, 20, 30)
    assert songs.num_songs == 2000
