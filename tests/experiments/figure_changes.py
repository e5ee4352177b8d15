"""What tests of figures share: saved results, what is asked of them, and data that are wrong."""

import pathlib

import experiments
from experiments import command, report

RESULTS = pathlib.Path(experiments.__file__).parent / "results"


def name_of(figure):
    return figure.__name__.rpartition(".")[2]


def read_saved(figures):
    """The results that the report shows, by name."""
    return {name_of(figure): command.read(RESULTS / f"{name_of(figure)}.nc") for figure in figures}


def assert_claims_hold(figure, dataset):
    claims = figure.claims(dataset)
    assert claims
    assert all(claims.values()), claims


def assert_false(figure, dataset, claim):
    """Assert that the one claim with these words does not hold."""
    claims = figure.claims(dataset)
    (name,) = [name for name in claims if claim in name]
    assert not claims[name]


def assert_reported(figures, saved):
    """Assert that the report's page has a row for every claim."""
    text, holds = report.page(saved, "results")
    assert holds
    for figure in figures:
        for check in figure.checks(saved[name_of(figure)]):
            assert check.claim.replace("|", "\\|") in text


def scaled(name, factor, **where):
    """The variable times a factor, where the coordinates have these values."""

    def change(dataset):
        here = True
        for axis, values in where.items():
            here = here & dataset[axis].isin(values)
        changed = dataset[name] * (here * (factor - 1) + 1)
        return dataset.assign({name: changed.transpose(*dataset[name].dims)})

    return change


def turned(name, axis):
    """The variable in the other order along an axis."""
    return lambda dataset: dataset.assign(
        {name: dataset[name].copy(data=dataset[name].isel({axis: slice(None, None, -1)}).values)}
    )
