"""One figure of the paper in the quick suite; test_figures.py has them all."""

from experiments import command
from experiments.aggressive_clipping import fig01_clipped_moments as figure


def test_smoke_figure_writes_its_files_and_its_claims_hold(tmp_path):
    assert command.main(figure, ["--smoke", "--out", str(tmp_path)]) == 0
    dataset = command.read(tmp_path / "fig01_clipped_moments.nc")
    assert all(figure.claims(dataset).values())
    assert (tmp_path / "fig01_clipped_moments.png").stat().st_size > 10_000


def test_claims_can_fail(tmp_path):
    dataset = figure.run(figure.Config.smoke())
    assert not all(figure.claims(dataset.assign(nu=dataset.nu * 1.1)).values())
