"""What correlated noise over one pass must show, and its numbers."""

import numpy as np
import xarray

from experiments import harness
from experiments.harness import Check

_SHARE, _SIGMAS = 0.02, 3
_SMALL, _COSTLY = 0.03, 0.01
_LABEL_NOISE = 0.3
# Two searches that end at one optimum differ by less.
_SEARCH = 1e-4


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Theory and simulation, cost, and which noise is ahead."""
    best = dataset.risk.min("num_steps")
    free, smooth = (best.sel(scheme=name) for name in ("optimal, free rates", "optimal"))
    gap = dataset.simulated / dataset.predicted - 1
    error = dataset.standard_error / dataset.predicted
    costs = abs(xarray.concat([dataset.mu, dataset.mu_full], "way") / dataset.rho - 1)
    ordered = dataset.risk.sel(scheme=["optimal, free rates", "optimal", "square root"])
    saved = 1 - ordered.shift(scheme=1).isel(scheme=slice(1, None)) / ordered
    over_independent = dataset.risk.sel(scheme="square root") / dataset.risk.sel(
        scheme="independent"
    )
    ratio, is_small = free / dataset.last_iterate, dataset.gamma <= _SMALL
    family = smooth / dataset.last_iterate_hyperbolic
    full, full_error = full_batch_risk(dataset)
    one_pass = np.minimum(free, dataset.last_iterate)
    ahead, sigmas = one_pass / full, (one_pass - full) / full_error
    is_costly = dataset.gamma / dataset.rho >= _COSTLY * (1 - 1e-9)
    independent, most = (_best_steps(dataset, name) for name in ("independent", "optimal"))
    lost = dataset.toeplitz / dataset.toeplitz.sel(family="optimal") - 1
    lost = lost.drop_sel(family="optimal")
    least = lost.min("family")
    return [
        Check(
            f"the Volterra system is within {_SHARE:.0%} + {_SIGMAS} standard errors of the "
            "simulated mean in every cell",
            f"{_range(gap)}, standard errors up to {float(error.max()):.1%}",
            bool((abs(gap) <= _SHARE + _SIGMAS * error).all()),
        ),
        Check(
            "one pass with all its iterates and full batches with all theirs cost rho-GDP for "
            "replace-one by their own accounts, to 1e-6",
            f"{float(costs.max()):.0e} apart at most",
            bool((costs.fillna(0) < 1e-6).all()),
        ),
        Check(
            "at every number of batches the optimal strategy is ahead of the square root with the "
            "same family of rates, and free rates are ahead of hyperbolic ones",
            f"{_range(saved.isel(scheme=0))} by free rates, {_range(saved.isel(scheme=1))} by the "
            "optimal strategy",
            bool((saved > -_SEARCH).all()),
        ),
        Check(
            "at every number of batches the square root is no worse than independent noise",
            f"{_range(over_independent - 1)}",
            bool((over_independent < 1 + _SEARCH).all()),
        ),
        Check(
            f"at gamma <= {_SMALL:g} all iterates with the optimal noise and free rates have less "
            "predicted risk than the best last iterate, at larger gamma more",
            f"{_range(ratio.where(is_small) - 1)} at small gamma, "
            f"{_range(ratio.where(~is_small) - 1)} beyond",
            bool(((ratio < 1) == is_small).all()),
        ),
        Check(
            f"at gamma <= {_SMALL:g} they are also ahead with hyperbolic rates on both sides",
            f"{_range(family.where(is_small) - 1)}",
            bool((family.where(is_small).fillna(0) < 1).all()),
        ),
        Check(
            "in every cell few batches are best with independent noise, fewer than the most that "
            "were tried, and with the optimal strategy as many or more",
            f"{int(independent.min())} to {int(independent.max())} and {int(most.min())} to "
            f"{int(most.max())} of up to {int(dataset.num_steps.max())} that were tried",
            bool((independent < dataset.num_steps.max()).all() and (independent <= most).all()),
        ),
        Check(
            "full batches have less simulated risk than both wherever they were run, by "
            f"{_SIGMAS} standard errors where d/(n rho) >= {_COSTLY:g}",
            f"by factors of {_range(ahead, '.2f')}, at least "
            f"{float(sigmas.where(is_costly).min()):.0f} standard errors there and "
            f"{float(sigmas.min()):.1f} in all",
            bool(
                (sigmas.fillna(np.inf) > 0).all()
                and (sigmas.where(is_costly).fillna(np.inf) > _SIGMAS).all()
            ),
        ),
        Check(
            "with hyperbolic rates every Toeplitz matrix loses against the optimal strategy, the "
            "more the more batches there are",
            ", ".join(
                f"K = {int(count)}: {_range(lost.sel(toeplitz_steps=count))}"
                for count in dataset.toeplitz_steps.values
            ),
            bool((lost > 0).all() and (least.diff("toeplitz_steps") > 0).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Risks by cell, and by the number of batches for the Toeplitz matrices."""
    full, error = full_batch_risk(dataset)
    rows = []
    for place in range(dataset.sizes["cell"]):
        at = dataset.isel(cell=place)
        best = at.risk.min("num_steps").values
        where = [int(_best_steps(at, name)) for name in dataset.scheme.values]
        here = full.isel(cell=place).item()
        rows.append(
            [
                f"{at.gamma.item():g}",
                f"{at.rho.item():g}",
                f"{at.last_iterate_hyperbolic.item():.4g}",
                f"{at.last_iterate.item():.4g}",
                *(f"{risk:.4g} ({count})" for risk, count in zip(best, where, strict=True)),
                f"{at.simulated.item():.4g} ± {at.standard_error.item():.1g}",
                f"{here:.4g} ± {error.isel(cell=place).item():.1g}" if here == here else "-",
            ]
        )
    head = ["γ", "ρ", "last iterate, hyperbolic", "last iterate, best"]
    head += [*dataset.scheme.values, "that, simulated", "full batches, simulated"]
    matrices = [
        [int(count), *(f"{risk:.4g}" for risk in dataset.toeplitz.sel(toeplitz_steps=count).values)]
        for count in dataset.toeplitz_steps.values
    ]
    gamma, rho = dataset.attrs["cell_of_toeplitz"]
    text = (
        f"d = {dataset.attrs['dim']}, label noise .3, R(0) = 1/2, replace-one, isotropic inputs. "
        "Predicted risks at the best of the numbers of batches that were tried (in brackets: "
        f"{', '.join(str(int(count)) for count in dataset.num_steps.values)}), with hyperbolic "
        "rates but where free ones are named. The last iterate's best is over all non-increasing "
        "rates, and it releases nothing else; all others release every iterate. ± is one standard "
        f"error, of {int(dataset.passes.min())} to {int(dataset.passes.max())} passes over fresh "
        f"rows, and of {dataset.sizes['draw']} draws of the rows with {dataset.sizes['run']} runs "
        "each, less what least squares has on the same draw beyond its known mean. Full batches "
        "take the plans of multi_pass, of 12 or 24 steps, and were not planned at gamma = .001. "
        "All searches are local."
    )
    below = (
        f"Predicted risk of Toeplitz matrices at γ = {gamma:g}, ρ = {rho:g}, with hyperbolic rates "
        "and their own numbers planned together; columns divided by their norms, but for the one "
        "scale."
    )
    tables = harness.table(head, rows), harness.table(["K", *dataset.family.values], matrices)
    return f"{text}\n\n{tables[0]}\n\n{below}\n\n{tables[1]}"


def full_batch_risk(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    r"""Mean risk of full batches over draws of the rows, and its standard error.

    Less what least squares has on the same rows beyond its mean, which is $\zeta^2d/(2(n - d - 1))$
    exactly: most of what draws at small gamma differ by.
    """
    count, dim = (dataset.attrs["dim"] / dataset.gamma).round(), dataset.attrs["dim"]
    known = _LABEL_NOISE**2 / 2 * dim / (count - dim - 1)
    risks = dataset.full.mean("run") - (dataset.least_squares - known)
    return risks.mean("draw"), harness.standard_error(risks, "draw")


def _best_steps(dataset: xarray.Dataset, scheme: str) -> xarray.DataArray:
    return dataset.num_steps[dataset.risk.sel(scheme=scheme).argmin("num_steps")]


def _range(values: xarray.DataArray, form: str = "+.1%") -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:{form}} to {high:{form}}"
