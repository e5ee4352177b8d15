"""Smoke versions of reconstruction under privacy: each claim holds, and each can be false."""

import numpy as np
import pytest

from experiments import command
from experiments.data_reconstruction import private_images, under_privacy
from experiments.data_reconstruction.natural_images import FOLDER

# Some minutes of attacks.
pytestmark = pytest.mark.slow

FIGURES = {under_privacy: {}, private_images: {"optional_folders": FOLDER}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private_reconstruction")
    statuses = [
        command.main(figure, ["--smoke", "--out", str(folder)], **options)
        for figure, options in FIGURES.items()
    ]
    return folder, statuses


def _dataset(results, figure):
    return command.read(results[0] / f"{figure.__name__.rpartition('.')[2]}.nc")


def test_commands_end_well_and_leave_pictures(results):
    folder, statuses = results
    assert statuses == [0, 0]
    for name in ("under_privacy", "private_images"):
        assert (folder / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("figure", FIGURES)
def test_summary_has_a_line_for_every_budget(results, figure):
    dataset = _dataset(results, figure)
    budgets = dataset.sizes["epsilon" if "epsilon" in dataset.sizes else "error"]
    lines = [line for line in figure.summary(dataset).splitlines() if line.startswith("|")]
    assert len(lines) == budgets + 2


def _scaled(name, factor):
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def _leaky(dataset):
    runs = dataset.last_iterate.copy(data=np.full(dataset.last_iterate.shape, 0.01))
    return dataset.assign(last_iterate=runs)


def _all_alike(dataset):
    return dataset.assign(all_iterates=dataset.last_iterate + 0.01)


def _flat(dataset):
    first = dataset.error_by_clip.isel(clip_share=0, drop=True)
    return dataset.assign(error_by_clip=first.broadcast_like(dataset.error_by_clip))


_CHANGES = [
    (under_privacy, "linearised problem", _scaled("near_by_epsilon", 1.6)),
    (under_privacy, "free constant", _scaled("near_by_law", 2.5)),
    (under_privacy, "no attack is below", _scaled("bound", 10)),
    (under_privacy, "other rows", _scaled("informed_by_epsilon", 2)),
    (under_privacy, "chance", _scaled("error_by_epsilon", 0.5)),
    (under_privacy, "early stopping", _scaled("last_iterate", 1e5)),
    (under_privacy, "longest training leaks less", _leaky),
    (under_privacy, "principal component", _all_alike),
    (under_privacy, "below p = d n", _scaled("error_by_width", 0.1)),
    (under_privacy, "above every gradient", _flat),
    (private_images, "without noise", _scaled("row_error", 1e6)),
    (private_images, "smallest error", _scaled("row_error", 2)),
    (private_images, "errors grow", _scaled("row_error", 0.1)),
    (private_images, "the others helps", _scaled("informed_row_error", 10)),
]


@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(results, figure, claim, change):
    claims = figure.claims(change(_dataset(results, figure)))
    (name,) = [name for name in claims if claim in name]
    assert not claims[name]
