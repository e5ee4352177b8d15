"""PK Figures 1 to 12: the paper's size."""

from experiments.private_kernel_learning import fig01_synthetic, fig03_year_prediction


def test_the_papers_size_is_run_or_offered():
    synthetic, songs = fig01_synthetic.Config(), fig03_year_prediction.Config.paper()
    for config in (synthetic, songs):
        assert config.repetitions == 100
        assert max(config.num_projections) == 1000
    assert synthetic.dims == (10, 20, 30)
    assert songs.num_songs == 2000
