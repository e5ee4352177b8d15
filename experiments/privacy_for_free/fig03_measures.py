"""What PF Figure 3 reads from its runs: the best times and risks, and what is carried over."""

import functools

import xarray

from experiments.harness import standard_error

# Of a mean over data sets.
error = functools.partial(standard_error, axis="seed")


def best_time(dataset: xarray.Dataset) -> xarray.DataArray:
    r"""$\tau p/d$ of the least mean test error, the paper's choice of T."""
    return dataset.time[dataset.risk.mean("seed").argmin("time")]


def best_risk(dataset: xarray.Dataset) -> xarray.DataArray:
    """Test error of each seed at `best_time`."""
    return dataset.risk.sel(time=best_time(dataset)).drop_vars("time")


def transferred(dataset: xarray.Dataset, source: float) -> xarray.DataArray:
    r"""Test errors with the $(\tau p/d, C/\sqrt p)$ that are best at the width `source`."""
    chosen = dataset.tuned_risk.sel(tuned_width=source, drop=True)
    settings = ("tuned_time", "tuned_clip")
    where = chosen.mean("seed").argmin(settings)
    picked = dataset.tuned_risk.isel({name: where[name] for name in settings})
    return picked.drop_vars(settings).dropna("seed")


def tuned_there(dataset: xarray.Dataset) -> xarray.DataArray:
    """Test errors with the hyper-parameters that are best at each width itself."""
    widths = dataset.tuned_width.data
    own = [transferred(dataset, width).sel(tuned_width=width) for width in widths]
    return xarray.concat(own, "tuned_width")
