"""What PK's figures read from the errors of their repetitions."""

from typing import NamedTuple

import xarray

from experiments.harness import over_runs, table


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


def best_noiseless(dataset: xarray.Dataset) -> tuple[str, float]:
    """The least error without privacy, and what it is in words."""
    # In results of earlier code no learner without privacy has an intercept.
    has_intercept = any("intercept" in str(name) for name in dataset.features.values)
    words = "no privacy" if has_intercept else "no privacy, no intercept"
    return words, float(dataset.noiseless.min("num_projections").mean("repetition").min())


def section(title: str, dataset: xarray.Dataset) -> str:
    """A table of all errors at one setting, under a line of what needs no budget."""
    constant = float(dataset.constant.mean())
    words, best = best_noiseless(dataset)
    line = f"{title}: mean label {constant:.4g}; at best, with {words}, {best:.4g}."
    return f"{line}\n\n{_errors(dataset)}"


def _errors(dataset: xarray.Dataset) -> str:
    """By epsilon: every learner's oracle, and the data-free releases."""
    errors, free = oracle(dataset).drop_vars("form"), dataset.data_free
    found = {name: errors.sel(learner=name) for name in dataset.learner.values}
    found |= {f"data-free: {name}": free.sel(procedure=name) for name in free.procedure.values}
    rows = []
    for name, runs in found.items():
        pairs = zip(*(values.values for values in mean_and_error(runs)), strict=True)
        rows.append([name, *(f"{mean:.3g} ± {float(f'{error:.2g}'):g}" for mean, error in pairs)])
    return table(["", *(f"ε = {epsilon:.3g}" for epsilon in dataset.epsilon.values)], rows)
