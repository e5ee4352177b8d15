"""Lemmas of the papers that need nothing of jaxdp: their sides in NumPy, and their limits.

Each function of `judged` is one statement. It yields numbers with the limits within which they lie
if the statement holds; some of them show that the same numbers refute what is printed wrongly, or a
bound without slack. The result is saved like a figure's, and a test reads it.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check
from experiments.harness.drawing import BLUE, GREY, ORANGE, tidy
from experiments.statements.judged import (
    concentration,
    gaussian_weights,
    projection,
    random_features,
)
from experiments.statements.judged.sides import Side

_MODULES = (gaussian_weights, random_features, concentration, projection)
STATEMENTS = tuple(one for module in _MODULES for one in module.STATEMENTS)


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        dims: d of PF's lemmas on random features, in growing order.
    """

    dims: tuple[int, ...] = (10, 20, 40)

    smoke = harness.size(dims=(10, 30))


def run(config: Config) -> xarray.Dataset:
    """Every side of every statement, one a row."""
    rows = [
        (_named(statement), side)
        for statement in harness.track(STATEMENTS, lambda one: one.__name__)
        for side in _sides_of(statement, config)()
    ]
    names, sides = zip(*rows, strict=True)
    columns = {"statement": names} | dict(zip(Side._fields, zip(*sides, strict=True), strict=True))
    return harness.dataset({}, {"side": {name: np.asarray(one) for name, one in columns.items()}})


def _sides_of(statement: Callable, config: Config) -> Callable[[], Iterator[Side]]:
    is_sized = statement is random_features.orders
    return functools.partial(statement, config.dims) if is_sized else statement


def _named(statement: Callable) -> str:
    """The statement in words, with its place in the paper."""
    says, _, source = (inspect.getdoc(statement) or "").partition("\n\nSource: ")
    return f"{' '.join(source.split()).removesuffix('.')}: {' '.join(says.split())}"


def checks(dataset: xarray.Dataset) -> list[Check]:
    """A statement holds if each of its sides lies within its limits, and none is missing."""
    names = dataset.statement.values
    value, low, high = _numbers(dataset)
    holds, near = (low <= value) & (value <= high), _nearness(dataset)
    found = []
    for statement in map(_named, STATEMENTS):
        (rows,) = np.nonzero(names == statement)
        if not len(rows):
            found.append(Check(statement, "nothing", False))
            continue
        nearest = rows[np.argmax(np.where(holds[rows], near[rows], np.inf))]
        limits = f"{low[nearest]:.3g} to {high[nearest]:.3g}"
        obtained = (
            f"{holds[rows].sum()} of {len(rows)} within their limits; nearest to one: "
            f"{dataset.words.values[nearest]}, {value[nearest]:.3g} in {limits}"
        )
        found.append(Check(statement, obtained, bool(holds[rows].all())))
    return found


def _numbers(dataset: xarray.Dataset) -> tuple[np.ndarray, ...]:
    return tuple(dataset[name].values for name in ("value", "low", "high"))


def _nearness(dataset: xarray.Dataset) -> np.ndarray:
    """How near each number is to a limit, at most 1 within them; a limit of 0 is not compared."""
    value, low, high = _numbers(dataset)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(np.isfinite(high), value / high, 0), np.where(low > 0, low / value, 0)
    return np.nan_to_num(np.maximum(*shares), nan=0.0, posinf=np.inf)


def summary(dataset: xarray.Dataset) -> str:
    """How many numbers of how many statements were compared."""
    return (
        f"{dataset.sizes['side']} numbers of {len(set(dataset.statement.values))} statements or "
        "groups of them, computed in NumPy with nothing of jaxdp. A limit is the statement's own, "
        "with its constants, or an order that may not grow; some numbers are limited from the "
        "other side, because they refute what is misprinted or a bound without slack."
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """How near each number is to its limit; a statement is false if one lies beyond 1."""
    names = list(dict.fromkeys(dataset.statement.values.tolist()))
    places = [names.index(name) for name in dataset.statement.values.tolist()]
    near = _nearness(dataset)
    figure = Figure(figsize=(9.6, 0.24 * len(names) + 1), layout="constrained")
    axes = figure.subplots()
    colors = np.where(near > 1, ORANGE, BLUE)
    axes.scatter(np.maximum(near, 1e-3), places, s=12, c=colors, alpha=0.7)
    axes.axvline(1, color=GREY, linewidth=0.8)
    tidy(axes, "")
    axes.set_xlabel("number as a share of its limit")
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), [name.partition(":")[0] for name in names], fontsize=7)
    axes.invert_yaxis()
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
