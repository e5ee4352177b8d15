"""What every figure and benchmark of the registry promises, asked of each of them."""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import pathlib
import re

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import experiments
from experiments import made_up, registry, report, smoke
from experiments.data_reconstruction.natural_images import Images
from experiments.harness import fingerprint, read
from experiments.staleness import as_saved, changed_numbers, fingerprint_in, problems, sizes

_FOLDER = pathlib.Path(experiments.__file__).parent
_LAST_LINE = "\nharness.main(__name__)\n"


_EVERY = pytest.mark.parametrize("entry", registry.ENTRIES, ids=lambda entry: entry.name)


@functools.cache
def _saved(name):
    """The result that the report shows."""
    return read(_FOLDER / "results" / registry.entry(name).file)


@functools.cache
def _checks(name):
    return registry.entry(name).load().checks(_saved(name))


def test_the_registry_has_every_module_that_is_a_command():
    modules = {path for path in _FOLDER.glob("*/*.py") if path.read_text().endswith(_LAST_LINE)}
    found = {(path.parent.name, path.stem) for path in modules}
    listed = [(entry.paper, entry.name) for entry in registry.ENTRIES]
    assert found == set(listed)
    # A page and its links know results by name.
    assert len({name for _, name in listed}) == len(listed)
    with pytest.raises(ValueError, match="got 'fig99'"):
        registry.entry("fig99")


@_EVERY
def test_a_module_has_its_config_run_claims_and_plot(entry):
    figure = entry.load()
    assert dataclasses.is_dataclass(figure.Config)
    for size in (figure.Config(), figure.Config.smoke()):
        json.dumps(dataclasses.asdict(size))
    assert figure.Config.smoke() != figure.Config()
    assert ("paper" in vars(figure.Config)) == (entry.paper_size is not None)
    if entry.paper_size:
        assert figure.Config.paper() != figure.Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        figure.Config().seed = 1
    for name in ("run", "claims", "plot", "checks", "summary"):
        assert inspect.getdoc(getattr(figure, name))
    _, *folders = inspect.signature(figure.run).parameters
    assert all(figure.FOLDERS[folder] for folder in folders)
    assert ("data" in folders) == (entry.name in _READ)


@pytest.mark.parametrize(
    ("name", "of", "expected"),
    [
        ("fig01_synthetic", lambda c: (c.dims, c.repetitions), ((10, 20, 30), 100)),
        ("fig03_year_prediction", lambda c: (c.num_songs, c.repetitions), (2000, 100)),
        ("fig01_cifar_thresholds", lambda c: (c.images, c.control_width), (Images(100, 32), 10)),
        ("fig04_signs", lambda c: c.images, Images(100, 32)),
        ("fig03_sphere_thresholds", lambda c: c.num_seeds, 10),
        ("fig05_networks", lambda c: (c.two_layer.num_samples, c.two_layer.dim), (10, 3072)),
        ("fig06_multiclass_images", lambda c: (c.images.num_samples, c.width), (100, 4)),
    ],
)
def test_the_papers_size_is_run_or_offered(name, of, expected):
    assert of(sizes(registry.entry(name).load())[-1]) == expected


@_EVERY
def test_claims_are_those_of_the_checks_and_hold_of_a_figures_saved_result(entry):
    checks, claims = _checks(entry.name), entry.load().claims(_saved(entry.name))
    assert claims == {check.claim: check.holds for check in checks}
    assert claims
    assert all(type(holds) is bool for holds in claims.values())
    assert all(check.obtained for check in checks)
    # What a benchmark measured may miss its goals.
    assert all(claims.values()) or entry in registry.BENCHMARKS, claims


def _other_data(dataset):
    """The dataset with one fact or one variable changed: what refutes most claims first."""
    for name, value in dataset.attrs.items():
        if isinstance(value, (int, float, np.number)):
            yield from (dataset.assign_attrs({name: factor * value}) for factor in (0, 10, 100))
    numbers = [name for name, one in dataset.data_vars.items() if one.dtype.kind in "fiub"]
    axes = [(dataset[name], axis) for name in numbers for axis in dataset[name].dims]

    def changed(one, values):
        return dataset.assign({one.name: one.copy(data=np.broadcast_to(values, one.shape))})

    def along(axis, factors):
        return xarray.DataArray(factors, dims=axis)

    for factor, name in itertools.product((0.5, 2), numbers):
        yield dataset.assign({name: factor * dataset[name]})
    for one, axis in axes:
        yield changed(one, np.flip(one.values, one.get_axis_num(axis)))
    for one, axis in axes:
        rising = along(axis, np.geomspace(1, 10, one.sizes[axis]))
        yield changed(one, (one * rising).transpose(*one.dims))
    for one, axis in axes:
        yield changed(one, one.values.mean(one.get_axis_num(axis), keepdims=True))
    for value, name in itertools.product((0.0, 1.0), numbers):
        yield dataset.assign({name: dataset[name].where(dataset[name].isnull(), value)})
    for factor, (one, axis) in itertools.product((0.1, 10), axes):
        for place in range(min(8, one.sizes[axis])):
            here = along(axis, np.where(np.arange(one.sizes[axis]) == place, factor, 1))
            yield changed(one, (one * here).transpose(*one.dims))


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.slow
@_EVERY
def test_every_claim_is_false_of_some_other_data(entry):
    figure, dataset = entry.load(), _saved(entry.name)
    open_claims = {check.claim for check in _checks(entry.name) if check.holds}
    for other in _other_data(dataset):
        # What cannot be judged says nothing.
        with contextlib.suppress(Exception):
            found = figure.claims(other)
            open_claims -= {claim for claim in open_claims if found.get(claim) is False}
        if not open_claims:
            return
    raise AssertionError(f"nothing that was tried makes these false: {open_claims}")


def test_the_report_has_a_row_for_every_claim_and_names_a_device_that_is_no_processor():
    chosen = ("fig01_clipped_moments", "known_rows", "fig01_mnist_width", "simulators")
    device = "1 x NVIDIA H100 80GB HBM3 (gpu)"
    saved = {name: _saved(name) for name in chosen}
    saved["known_rows"] = saved["known_rows"].assign_attrs(device=device)
    pages, holds = report.pages(saved)
    assert holds
    for name in chosen:
        paper = registry.entry(name).paper
        text = pages[f"{paper}/README.md"]
        assert f"]({paper}/README.md)" in pages["README.md"]
        assert f"![{name}](../results/{paper}/{name}.png)" in text
        (row,) = (line for line in text.splitlines() if line.startswith(f"| [{name}](#{name}) |"))
        assert (f" on {device} |" in row) == (name == "known_rows")
        for check in _checks(name):
            assert check.claim.replace("|", "\\|") in text
    pages, holds = report.pages({"ode_grid": _saved("ode_grid")})
    assert not holds
    assert "**false**" in pages["benchmarks/README.md"]


@pytest.mark.slow
def test_the_report_is_the_one_that_the_saved_results_give():
    paths = sorted((_FOLDER / "results").glob("*/*.nc"))
    assert {path.relative_to(_FOLDER / "results") for path in paths} == {
        entry.file for entry in registry.ENTRIES
    }
    saved = {path.stem: _saved(path.stem) for path in paths}
    pages, _ = report.pages(saved)
    assert pages == {name: (_FOLDER / name).read_text() for name in pages}


@pytest.mark.slow
@_EVERY
def test_a_saved_result_is_drawn_and_put_into_words(entry, tmp_path):
    figure, dataset = entry.load(), _saved(entry.name)
    drawn = figure.plot(dataset)
    assert isinstance(drawn, Figure)
    drawn.savefig(tmp_path / "drawn.png", dpi=60)
    assert (tmp_path / "drawn.png").stat().st_size > 10_000
    assert "nan" not in figure.summary(dataset).split()


# The file that is missed first where the folder of the data is empty. What makes up its own data in
# its smoke version asks for a folder at its usual size.
_DIGITS, _IMAGES = "train-images-idx3-ubyte", "data_batch_1.bin"
_READ = {name: _DIGITS for name, make in made_up.DATA.items() if make is made_up.digits} | {
    "real_tables": "concrete.txt",
    "uci_tables": "concrete.txt",
    "leaderboard": "concrete.txt",
    "fig03_year_prediction": "yearmsd",
    **dict.fromkeys(
        (
            "fig01_cifar_thresholds",
            "fig04_signs",
            "fig05_networks",
            "fig06_multiclass_images",
            "private_images",
        ),
        _IMAGES,
    ),
}
# Noise is calibrated before the images are read.
_CALIBRATED = {"private_images"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in _CALIBRATED else name for name in _READ],
)
def test_without_its_data_a_figure_ends_with_one_clear_error(name, tmp_path):
    figure = registry.entry(name).load()
    config = figure.Config.smoke() if name in made_up.DATA else figure.Config()
    with pytest.raises(ValueError, match=f"{re.escape(_READ[name])}.*: no such file"):
        figure.run(config, data=tmp_path)


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The folder with a smoke version's files, and its command's exit status; each is run once."""
    out, statuses = tmp_path_factory.mktemp("smoke"), {}

    def run(entry):
        if entry.name not in statuses:
            statuses[entry.name] = smoke.run(entry, out)
        return out, statuses[entry.name]

    return run


def _marked(entries, quick, long_runs=()):
    """All of them, marked slow but for those of the first names, and long those of the others."""
    marks = {entry.name: [] if entry.name in quick else [pytest.mark.slow] for entry in entries}
    for name in long_runs:
        marks[name].append(pytest.mark.long_runs)
    return [pytest.param(entry, marks=marks[entry.name], id=entry.name) for entry in entries]


# Smoke versions that run longer than they compile are named last.
_EVERY_SMOKE_VERSION = pytest.mark.parametrize(
    "entry",
    _marked(
        registry.FIGURES,
        {"fig01_clipped_moments"},
        (
            *("fig02_risk_curves", "power_law_spectra", "fig04_schedules", "fig01_synthetic"),
            *("fig03_year_prediction", "fig04_mnist_hyperparameters", "correlated_noise"),
        ),
    ),
)


@_EVERY_SMOKE_VERSION
def test_a_smoke_version_writes_its_files_and_its_claims_hold(tried, entry):
    (folder, status), figure = tried(entry), entry.load()
    picture = folder / f"{entry.name}.png"
    dataset = read(picture.with_suffix(".nc"))
    claims = figure.claims(dataset)
    assert claims
    assert all(claims.values()), claims
    assert status == 0
    most = 400_000
    assert picture.with_suffix(".nc").stat().st_size < most
    assert 10_000 < picture.stat().st_size < most
    attrs = dataset.attrs
    assert attrs["module"] == entry.module
    shown = attrs["command"].removeprefix(f"python -m {entry.module} --smoke").split()
    assert all(word.startswith("--") or word.isupper() for word in shown)
    assert json.loads(attrs["config"]) == as_saved(figure.Config.smoke())
    assert attrs["seconds"] > 0
    assert {"jaxdp", "jax", "device", "platform"} <= set(attrs)
    assert str(folder.parent) not in str(attrs)


def test_every_saved_result_is_of_todays_code():
    assert problems({entry.name: _saved(entry.name) for entry in registry.ENTRIES}) == []


@_EVERY_SMOKE_VERSION
def test_a_smoke_version_gives_the_numbers_stored_with_the_result(tried, entry, request):
    if request.config.getoption("seed_offset"):
        pytest.skip("other seeds give other numbers")
    saved = _saved(entry.name)
    folder, _ = tried(entry)
    found = fingerprint(read(folder / f"{entry.name}.nc"))
    changed = changed_numbers(fingerprint_in(saved), found)
    if changed is None:
        pytest.skip("the fingerprint is of other packages")
    assert not changed, f"{entry.name} is stale: run `{saved.attrs['command']}`"


def test_a_number_of_every_figure_is_compared():
    for entry in registry.FIGURES:
        saved = _saved(entry.name)
        stored = fingerprint_in(saved)["variables"]
        # Of what was computed, not of its axes.
        compared = [name for name, one in stored.items() if "mean" in one]
        assert set(compared) & set(saved.data_vars), f"nothing of {entry.name} is compared"
