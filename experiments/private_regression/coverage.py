"""Coverage of the intervals of `coef_interval` on tables of known coefficients.

The coefficients are those of the population, in the units of `coef_`. An estimator of a column of
categories gives differences from the column's mean over the rows; so does the truth.
"""

import dataclasses
import itertools
import json
import warnings
from typing import NamedTuple

import numpy as np
import xarray
from matplotlib.figure import Figure
from scipy.special import ndtri

from experiments import harness
from experiments.harness import Check
from experiments.harness import table as markdown
from experiments.harness.drawing import BLUE, GREY, ORANGE, errorbars, tidy
from experiments.harness.marks import legend
from experiments.private_regression.problems import generator, number_of
from experiments.private_regression.simulated_tables import Setting, draw

_LEVEL = 0.95
# Coverage at this level that counts as right, and the share of the settings that have it.
_LOW, _HIGH = 0.92, 0.975
_SHARE = 2 / 3
# Labels or slopes of such tables are clipped on one side more than on the other, which moves the
# intercept.
_SKEWED = ("skewed noise", "skewed label")
_LINEAR = (
    Setting("independent", 2000, 5, 1.0),
    Setting("independent", 5000, 10, 1.0),
    Setting("independent", 5000, 10, 4.0),
    Setting("independent", 20_000, 20, 0.5),
    Setting("correlated", 5000, 10, 1.0),
    Setting("correlated", 20_000, 20, 0.5),
    Setting("concentrated", 5000, 10, 1.0),
    Setting("skewed noise", 5000, 10, 1.0),
    Setting("skewed label", 5000, 10, 1.0),
    Setting("skewed label", 5000, 10, 4.0),
    Setting("categories", 5000, 5, 1.0),
    Setting("categories", 20_000, 5, 0.5),
    Setting("empty cells", 5000, 5, 1.0),
)
_LOGISTIC = (
    Setting("independent", 5000, 10, 1.0, True),
    Setting("correlated", 5000, 10, 1.0, True),
    Setting("rare", 20_000, 10, 1.0, True),
    Setting("strong", 5000, 10, 4.0, True),
    Setting("categories", 5000, 5, 4.0, True),
)


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings, tables of each, levels, and the word that seeds the tables and the noise."""

    settings: tuple[Setting, ...] = _LINEAR + _LOGISTIC
    num_tables: int = 500
    num_parts: int = 5
    levels: tuple[float, ...] = (0.5, 0.9, _LEVEL)
    word: str = "coverage"

    smoke = harness.size(
        settings=(
            Setting("independent", 2000, 4, 1.0),
            Setting("skewed label", 2000, 4, 4.0),
            Setting("categories", 4000, 4, 4.0),
            Setting("strong", 2000, 4, 4.0, True),
        ),
        num_tables=20,
        num_parts=2,
        word="smoke",
    )


class Part(NamedTuple):
    """Some tables of one setting, fitted in one process."""

    setting: Setting
    tables: range
    word: str

    def __str__(self):
        return f"{self.setting}, tables {self.tables.start} to {self.tables.stop - 1}"


def run(config: Config) -> xarray.Dataset:
    """Coverage, widths and bias of every coefficient in all settings."""
    count = -(-config.num_tables // config.num_parts)
    parts = [
        Part(setting, range(config.num_tables)[start : start + count], config.word)
        for setting, start in itertools.product(config.settings, range(0, config.num_tables, count))
    ]
    axes = {
        "setting": list(map(str, config.settings)),
        "coefficient": max(len(setting.names) for setting in config.settings),
        "level": config.levels,
    }
    variables = {
        ("setting", "coefficient", "level"): ["covered"],
        ("setting", "level"): ["error", "intercept", "without_privacy"],
        ("setting", "coefficient"): ["bias", "std", "width", "infinite"],
    }
    found = harness.empty(axes, variables)
    results = harness.spread(_errors, parts, str)
    for place, setting in enumerate(config.settings):
        own = zip(parts, results, strict=True)
        errors = np.concatenate([result for part, result in own if part.setting == setting])
        for name, values in _judged(errors, config.levels).items():
            # Coefficients are the second axis, if they are one.
            own_axis = (slice(len(setting.names)),) * ("coefficient" in found[name].dims)
            found[name][(place, *own_axis)] = values
        if setting.kind in _SKEWED:
            found.intercept[place] = np.nan
    return found


def _errors(part: Part) -> np.ndarray:
    """Errors of the estimates and their deviations, then those without privacy, of each table.

    The shape is (tables, 4, coefficients), the intercept last.
    """
    found = []
    for number in part.tables:
        words = part.word, part.setting, number
        table = draw(part.setting, generator(*words))
        with warnings.catch_warnings():
            # The curator's warnings of a known seed.
            warnings.simplefilter("ignore")
            estimator = part.setting.estimator(number_of(*words, "noise") % 2**32)
            told = estimator.fit(table.inputs, table.labels).summary()
        places = [told.names.index(name) for name in (*part.setting.names, "intercept")]
        estimates, stds = table.without_privacy(part.setting.is_class)
        ours = told.estimates[places] - table.truth, told.std[places]
        found.append([*ours, estimates - table.truth, stds])
    return np.array(found)


def _judged(errors: np.ndarray, levels: tuple[float, ...]) -> dict[str, np.ndarray]:
    """The errors in tables of a setting; infinite intervals are counted, and else left out."""
    error, std, free_error, free_std = np.moveaxis(errors, 1, 0)
    is_finite = np.isfinite(std)
    std, error = (np.where(is_finite, one, np.nan) for one in (std, error))
    width = ndtri((1 + np.array(levels)) / 2)
    covered = np.abs(error / std)[..., None] <= width
    covered = np.where(is_finite[..., None], covered, np.nan)
    by_table = np.nanmean(covered[:, :-1], axis=1)
    free = np.abs(free_error / free_std)[..., None] <= width
    found = {
        "covered": np.nanmean(covered, axis=0)[:-1],
        "intercept": np.nanmean(covered[:, -1], axis=0),
        "error": by_table.std(axis=0, ddof=1) / len(errors) ** 0.5,
        "without_privacy": free[:, :-1].mean(axis=(0, 1)),
    }
    observed = np.nanstd(error, axis=0, ddof=1)
    each = {
        "bias": np.nanmean(error, axis=0) / observed,
        "std": np.nanmean(std, axis=0) / observed,
        "width": np.nanmean(std, axis=0) / free_std.mean(axis=0),
        "infinite": 1 - is_finite.mean(axis=0),
    }
    return found | {name: values[:-1] for name, values in each.items()}


def _coverage(dataset: xarray.Dataset) -> xarray.DataArray:
    """Mean coverage over coefficients at the main level, by setting."""
    return dataset.covered.sel(level=_LEVEL).mean("coefficient")


def _outside(dataset: xarray.Dataset) -> list[str]:
    """Settings whose coverage is not right, with the coverage."""
    found = _coverage(dataset)
    pairs = zip(found.setting.values, found.values, strict=True)
    return [f"{name}: {value:.3f}" for name, value in pairs if not _LOW <= value <= _HIGH]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Coverage of the intervals, and of those without privacy as a control."""
    control = dataset.without_privacy.sel(level=_LEVEL)
    outside, count = _outside(dataset), dataset.sizes["setting"]
    least = int(np.ceil(_SHARE * count))
    return [
        Check(
            f"{_LEVEL:.0%} intervals cover a coefficient, in the mean over coefficients, with a "
            f"probability of {_LOW} to {_HIGH} in at least {least} of {count} settings",
            f"in {count - len(outside)}{'; not in ' * bool(outside)}{'; '.join(outside)}",
            count - len(outside) >= least,
        ),
        Check(
            f"a control: those without privacy do so in each of {count} settings",
            harness.span(control, ".3f"),
            bool(((control >= _LOW) & (control <= _HIGH)).all()),
        ),
    ]


def plot(dataset: xarray.Dataset) -> Figure:
    """Coverage by setting: mean over coefficients with two standard errors, and the least."""
    names = [str(name) for name in dataset.setting.values]
    covered, error = dataset.covered.sel(level=_LEVEL), dataset.error.sel(level=_LEVEL)
    places = np.arange(len(names))
    figure = Figure(figsize=(8.2, 0.3 * len(names) + 1.4), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(_LOW, _HIGH, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(_LEVEL, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
    for model, color in (("linear", BLUE), ("logistic", ORANGE)):
        here = np.array([name.startswith(model) for name in names])
        mean = _coverage(dataset).values[here]
        style = {"xerr": 2 * error.values[here], "capsize": 2, "label": f"{model}, mean"}
        errorbars(axes, mean, places[here], None, color, **style)
        least = covered.min("coefficient").values[here]
        label = f"{model}, least coefficient"
        axes.plot(least, places[here], linestyle="none", marker="|", color=color, label=label)
    axes.set_yticks(places, [name.partition(", ")[2] for name in names])
    axes.set(xlabel=f"coverage of {_LEVEL:.0%} intervals", ylim=(len(names) - 0.5, -0.5))
    tidy(axes)
    legend(figure, ncols=4, loc="outside lower center")
    return figure


_SETTING = """\
{num_tables} tables a setting, δ = n^-1.1, `features="linear"`, no `label_range`. Mean and least
coverage are over the coefficients that have rows, ± is one standard error of the mean over tables;
that of a single coefficient at 95 % is {error:.3f}. "std" is the mean stated deviation over the
observed one, the mean over coefficients; "bias" the largest mean error of a coefficient over the
observed deviation, to which chance adds about {chance:.2f}. "width" is the mean width over that of
least squares or logistic regression without privacy, whose coverage is the last column. Infinite
intervals are left out of all but their own column.

Columns are uniform on their range; correlated ones are ranks of normal numbers with correlations
0.6^|i - j|. "concentrated": the first column has its rows in a tenth of its range. "skewed noise"
is exponential. "skewed label": the mean is the exponential of a linear function, the noise is
Student's t with 5 degrees of freedom, and the coefficients are those of the best linear function.
There and under skewed noise the intercept is left out: slopes are clipped more on one side than on
the other, which moves it. "rare": one row in twenty is of the second class. "strong": log odds have
the deviation 3, else 1. "categories": two columns of 4 and 6 categories with shares of 40 to 5 %,
and numbers. The truth of a category is its difference from the column's mean over the rows, by
their true counts; that of the estimator goes by noisy ones. "empty cells" are the same tables with
a cell for missing values in each column and one for unlisted categories, which no row has."""


def summary(dataset: xarray.Dataset) -> str:
    """Coverage at all levels, widths and bias in each setting."""
    config = json.loads(dataset.attrs["config"])
    count = config["num_tables"]
    chance = count**-0.5
    text = _SETTING.format(
        num_tables=count, error=(_LEVEL * (1 - _LEVEL)) ** 0.5 * chance, chance=2 * chance
    )
    outside = _outside(dataset)
    if outside:
        text += f"\n\nOutside of {_LOW} to {_HIGH}: {'; '.join(outside)}."
    rows = []
    for name in map(str, dataset.setting.values):
        at = dataset.sel(setting=name)
        main = at.sel(level=_LEVEL)
        intercept = float(main.intercept)
        rows.append(
            [
                name,
                f"{main.covered.mean():.3f} ± {main.error:.3f}",
                f"{main.covered.min():.3f}",
                *(f"{at.covered.sel(level=one).mean():.3f}" for one in _others(dataset)),
                "" if np.isnan(intercept) else f"{intercept:.3f}",
                f"{at['std'].mean():.2f}",
                f"{abs(at.bias).max():.2f}",
                f"{at.width.mean():.2f}",
                f"{at.infinite.mean():.1%}",
                f"{main.without_privacy:.3f}",
            ]
        )
    head = ["setting", f"{_LEVEL:.0%}, mean", "least", *(f"{one:.0%}" for one in _others(dataset))]
    head += ["intercept", "std", "bias", "width", "infinite", "without privacy"]
    return f"{text}\n\n{markdown(head, rows)}"


def _others(dataset: xarray.Dataset) -> list[float]:
    """Levels beside the main one, the highest first."""
    return sorted((float(one) for one in dataset.level.values if one != _LEVEL), reverse=True)


claims = harness.claims_of(checks)
harness.main(__name__)
