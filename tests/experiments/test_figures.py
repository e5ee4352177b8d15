"""Each figure's smoke version ends well, and each of its claims can be false."""

import gzip
import json

import numpy as np
import pytest

from experiments import command, report
from experiments.aggressive_clipping import (
    fig01_clipped_moments,
    fig02_risk_curves,
    real_tables,
)

# `make test` has one smoke figure, in test_smoke.py.
pytestmark = pytest.mark.slow

_ROWS, _COLUMNS = 600, 9


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder like the real one: a Gaussian table, and images with one pixel always dark."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(5)
    inputs = random.normal(size=(_ROWS, _COLUMNS))
    labels = inputs.sum(axis=1) + random.normal(size=_ROWS)
    (folder / "uci").mkdir()
    np.savetxt(folder / "uci" / "concrete.txt", np.column_stack([inputs, labels]), fmt="%.5f")
    pixels = np.clip(128 + 30 * random.normal(size=(_ROWS, _COLUMNS)), 0, 255).astype(np.uint8)
    digits = np.clip(pixels.mean(axis=1) // 10 - 8, 0, 9).astype(np.uint8)
    images = np.insert(pixels, 4, 0, axis=1).reshape(_ROWS, 2, 5)
    (folder / "mnist").mkdir()
    for kind, values in (("images-idx3", images), ("labels-idx1", digits)):
        head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
        path = folder / "mnist" / f"train-{kind}-ubyte.gz"
        path.write_bytes(gzip.compress(head + values.tobytes()))
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory, data):
    """The files of all smoke runs, and each command's exit status."""
    folder = tmp_path_factory.mktemp("experiments") / "results"
    common = ["--smoke", "--out", str(folder)]
    table = {"folders": {"data": "folder"}}
    statuses = [
        command.main(fig01_clipped_moments, common),
        command.main(fig02_risk_curves, common),
        command.main(real_tables, [*common, "--data", str(data)], **table),
    ]
    return folder, statuses


def _dataset(results, figure):
    return command.read(results[0] / f"{figure.__name__.rpartition('.')[2]}.nc")


FIGURES = [fig01_clipped_moments, fig02_risk_curves, real_tables]


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_of_the_smoke_version_holds(results, figure):
    claims = figure.claims(_dataset(results, figure))
    assert claims
    assert all(claims.values()), claims


def test_commands_write_data_and_picture_and_end_well(results):
    folder, statuses = results
    assert statuses == [0, 0, 0]
    names = sorted(path.name for path in folder.iterdir())
    stems = ["fig01_clipped_moments", "fig02_risk_curves", "real_tables"]
    assert names == [f"{stem}{suffix}" for stem in stems for suffix in (".nc", ".png")]
    assert all(path.stat().st_size < 300_000 for path in folder.iterdir())


@pytest.mark.parametrize("figure", FIGURES)
def test_saved_data_say_how_they_were_made_and_not_where(results, data, figure):
    attrs = _dataset(results, figure).attrs
    assert attrs["command"].startswith(f"python -m {figure.__name__} --smoke")
    assert json.loads(attrs["config"])
    assert attrs["seconds"] > 0
    assert {"jaxdp", "jax", "device", "platform"} <= set(attrs)
    assert str(data) not in str(attrs)


def test_report_has_a_row_for_every_claim(results, tmp_path):
    folder, _ = results
    saved = {path.stem: command.read(path) for path in sorted(folder.glob("*.nc"))}
    text, holds = report.page(saved, folder.name)
    assert holds
    for figure in FIGURES:
        for check in figure.checks(_dataset(results, figure)):
            assert check.claim.replace("|", "\\|") in text


def _scaled(name, factor):
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def _backwards(dataset):
    return dataset.assign(mu=dataset.mu.copy(data=dataset.mu[::-1].values))


def _constant_band(dataset):
    return dataset.assign(final_std=dataset.final_std * dataset.dim**0.5)


def _upside_down(dataset):
    return dataset.assign(bounds=dataset.bounds.copy(data=dataset.bounds[::-1].values))


def _apart_at_the_largest(dataset):
    largest = dataset.dim == dataset.dim[-1]
    return dataset.assign(mean=dataset["mean"] * (1 + 0.2 * largest))


def _called_isotropic(dataset):
    return dataset.assign_coords(condition_number=[1])


def _slow_in_spite_of_steep_descent(dataset):
    steep = {"descent_ratio": dataset.descent_ratio + 1, "mean": dataset["mean"] * 1.5}
    return dataset.assign(steep)


_CHANGES = [
    (fig01_clipped_moments, "quadrature", _scaled("mu", 1 + 1e-4)),
    (fig01_clipped_moments, "increase", _backwards),
    (fig01_clipped_moments, "decrease", _scaled("nu", 1.1)),
    (fig01_clipped_moments, "peaks", _scaled("nu", 1.01)),
    (fig01_clipped_moments, "AC (41)", _scaled("nu", 0.99)),
    (fig01_clipped_moments, "AC (34)", _scaled("nu", 0.9)),
    (fig02_risk_curves, "d = 10:", _scaled("predicted", 1.1)),
    (fig02_risk_curves, "d = 100:", _scaled("final_predicted", 1.1)),
    (fig02_risk_curves, "largest gap", _scaled("predicted", 1.1)),
    (fig02_risk_curves, "largest gap", _apart_at_the_largest),
    (fig02_risk_curves, "1/sqrt(d)", _constant_band),
    (fig02_risk_curves, "lower <=", _upside_down),
    (fig02_risk_curves, "isotropic", _called_isotropic),
    (fig02_risk_curves, "released risks are", _called_isotropic),
    (fig02_risk_curves, "last noise", _scaled("jump_predicted", 1.1)),
    (fig02_risk_curves, "last noise", _scaled("jump_mean", 1.1)),
    (fig02_risk_curves, "NumPy", _scaled("final_mean", 1.1)),
    (real_tables, "Gaussian rows", _scaled("predicted", 1.5)),
    (real_tables, "early risk", _slow_in_spite_of_steep_descent),
    (real_tables, "factor 1.5", _scaled("final_predicted", 3)),
]


@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(results, figure, claim, change):
    claims = figure.claims(change(_dataset(results, figure)))
    (name,) = [name for name in claims if claim in name]
    assert not claims[name]
