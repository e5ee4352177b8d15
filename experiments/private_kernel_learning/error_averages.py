"""What PK's figures read from the errors of their repetitions."""

from typing import NamedTuple

import numpy as np
import xarray

from experiments.averages import over_runs


class Estimate(NamedTuple):
    """A mean over repetitions, and its standard error."""

    mean: xarray.DataArray
    standard_error: xarray.DataArray

    @property
    def sigmas(self) -> xarray.DataArray:
        """How many standard errors the mean is above 0."""
        return self.mean / self.standard_error


def shown(dataset: xarray.Dataset, variable: str = "error") -> xarray.DataArray:
    """Each method in its own form: published ones as printed, certified ones repaired."""
    errors = dataset[variable]
    names = dataset.learner.values
    forms = ["as printed" if name.endswith("published") else "repaired" for name in names]
    return errors.sel(form=xarray.DataArray(forms, dims="learner", coords={"learner": names}))


def oracle(dataset: xarray.Dataset) -> xarray.DataArray:
    """The least error over M and lambda, of each repetition."""
    return shown(dataset).min("num_projections")


def mean_and_error(runs: xarray.DataArray) -> Estimate:
    """Mean over the repetitions and its standard error."""
    found = over_runs(runs.transpose("repetition", ...).values)
    like = runs.isel(repetition=0, drop=True)
    return Estimate(*(like.copy(data=found[name]) for name in Estimate._fields))


def difference(dataset: xarray.Dataset, noise: str) -> Estimate:
    """RFF less RP under one kind of noise, paired: they share data and unit noise."""
    errors = oracle(dataset).drop_vars("form")
    return mean_and_error(
        errors.sel(learner=f"RFF, {noise}", drop=True)
        - errors.sel(learner=f"RP, {noise}", drop=True)
    )


def table(rows: dict[str, Estimate], epsilons: np.ndarray) -> list[str]:
    """Lines of a markdown table: a row for each name, a column for each epsilon."""
    head = " | ".join(f"ε = {epsilon:.3g}" for epsilon in epsilons)
    lines = [f"| | {head} |", "|---" * (len(epsilons) + 1) + "|"]
    for name, row in rows.items():
        pairs = zip(row.mean.values, row.standard_error.values, strict=True)
        cells = " | ".join(f"{mean:.3g} ± {error:.1g}" for mean, error in pairs)
        lines.append(f"| {name} | {cells} |")
    return lines
