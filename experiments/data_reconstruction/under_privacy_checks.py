"""What attacks on private training must show."""

import numpy as np
import xarray

from experiments.harness import Check, over_runs, table

_SIGMAS = 3
# Where the law is linear, and where a guess is as good as none.
_SMALL, _CHANCE = 0.12, 0.9


def averages(runs: xarray.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the runs and its standard error."""
    found = over_runs(runs.transpose("run", ...).values)
    return found["mean"], found["standard_error"]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The law, the bound, and what each setting does."""
    return [
        _law(dataset),
        _law_of_others(dataset),
        _bound(dataset),
        _informed(dataset),
        _protected(dataset),
        _early_stopping(dataset),
        _steps(dataset),
        _all_iterates(dataset),
        _width(dataset),
        _clip(dataset),
    ]


def _law(dataset: xarray.Dataset) -> Check:
    ratio = dataset.near_by_epsilon / dataset.local_by_epsilon
    mean, error = averages(ratio.where(dataset.law <= _SMALL, drop=True))
    return Check(
        f"where the law predicts at most {_SMALL}, the minimum near the truth has the error of the "
        f"linearised problem, within {_SIGMAS} standard errors and 5%",
        ", ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)),
        bool(len(mean) and np.all(np.abs(mean - 1) <= 0.05 + _SIGMAS * error)),
    )


def _law_of_others(dataset: xarray.Dataset) -> Check:
    ratio = dataset.near_by_law.isel(law_error=0) / float(dataset.law_error[0])
    mean, error = averages(ratio)
    cases = dataset.case.values
    # d and n of "d = 10, n = 5": random rows are correlated by as much.
    shares = [int(case.split()[-1]) / int(case.split()[2].rstrip(",")) for case in cases]
    return Check(
        f"at a predicted error of {float(dataset.law_error[0]):g} the law without a free constant "
        f"is right to n/d, within {_SIGMAS} standard errors, for every d and n",
        "; ".join(f"{c}: {m:.3f} ± {e:.3f}" for c, m, e in zip(cases, mean, error, strict=True)),
        bool(np.all(np.abs(mean - 1) <= np.array(shares) + _SIGMAS * error)),
    )


def _bound(dataset: xarray.Dataset) -> Check:
    pairs = [(dataset.error_by_epsilon, dataset.bound)]
    pairs += [(dataset.informed_by_epsilon, dataset.informed_bound)]
    gaps = []
    for runs, bound in pairs:
        mean, error = averages(runs)
        gaps.append((mean - bound.values) / error)
    least = float(np.min(gaps))
    return Check(
        "no attack is below the bound that holds for any attack, by 2 standard errors",
        f"the nearest is {least:+.1f} standard errors from it",
        least > -2,
    )


def _informed(dataset: xarray.Dataset) -> Check:
    gap = dataset.error_by_epsilon - dataset.informed_by_epsilon
    mean, error = averages(gap.where((dataset.law > 0.01) & (dataset.law < 1), drop=True))
    total = mean.mean() / (np.sqrt((error**2).sum()) / len(error))
    return Check(
        "to know the other rows and their labels makes the error of one row smaller",
        f"by {', '.join(f'{m:.2f} ± {e:.2f}' for m, e in zip(mean, error, strict=True))}",
        bool(total > _SIGMAS),
    )


def _protected(dataset: xarray.Dataset) -> Check:
    at = dataset.where(dataset.epsilon <= 10, drop=True)
    mean, _ = averages(at.error_by_epsilon)
    informed, _ = averages(at.informed_by_epsilon)
    return Check(
        f"at epsilon up to 10 the attack is near chance: its mean error is above {_CHANCE}",
        f"errors {', '.join(f'{m:.2f}' for m in mean)}; informed "
        + ", ".join(f"{m:.2f}" for m in informed),
        bool(len(mean) and mean.min() > _CHANCE),
    )


def _early_stopping(dataset: xarray.Dataset) -> Check:
    mean, _ = averages(dataset.last_iterate.sel(step_epsilon=np.inf))
    return Check(
        "early stopping alone protects nothing: without noise every T, one step included, gives "
        "the rows away",
        ", ".join(f"T = {t}: {m:.1e}" for t, m in zip(dataset.num_steps.values, mean, strict=True)),
        bool(np.all(mean < 0.01)),
    )


def _steps(dataset: xarray.Dataset) -> Check:
    runs = dataset.last_iterate.sel(step_epsilon=np.isfinite(dataset.step_epsilon))
    mean, error = averages(runs.isel(num_steps=-1) - runs.isel(num_steps=0))
    return Check(
        "at one epsilon the last iterate of the longest training leaks less than that of one step",
        f"larger by {', '.join(f'{m:.2f} ± {e:.2f}' for m, e in zip(mean, error, strict=True))}",
        bool(np.all(mean > _SIGMAS * error)),
    )


def _all_iterates(dataset: xarray.Dataset) -> Check:
    gap = dataset.last_iterate - dataset.all_iterates
    mean, error = averages(gap.isel(step_epsilon=-2, num_steps=-1))
    return Check(
        "but the budget is of all iterates: a principal component of their increments leaks more "
        "than the last one",
        f"smaller by {mean:.2f} ± {error:.2f} at the larger epsilon, after the longest training",
        bool(mean > _SIGMAS * error),
    )


def _width(dataset: xarray.Dataset) -> Check:
    mean, _ = averages(dataset.error_by_width)
    narrow = mean[:, dataset.width.values < 1]
    wide, error = averages(dataset.error_by_width.isel(width=-1, width_epsilon=0))
    law = float(dataset.law_by_width.isel(width=-1, width_epsilon=0))
    return Check(
        "below p = d n nothing is found, with noise or without; far above, the error is the law's "
        "and no longer depends on the width (to n/d)",
        f"{narrow.min():.2f} or more below; {wide:.3f} ± {error:.3f} at the widest, law {law:.3f}",
        bool(
            narrow.min() > 0.7
            and abs(wide / law - 1)
            <= dataset.attrs["num_samples"] / dataset.attrs["dim"] + _SIGMAS * error / law
        ),
    )


def _clip(dataset: xarray.Dataset) -> Check:
    gap = dataset.error_by_clip.isel(clip_share=-1) - dataset.error_by_clip.isel(clip_share=0)
    mean, error = averages(gap)
    return Check(
        "a clip norm above every gradient adds noise and no signal: it leaks less",
        f"larger by {mean:.2f} ± {error:.2f} at {float(dataset.clip_share[-1]):g} sqrt(p/2) than "
        f"at {float(dataset.clip_share[0]):g}",
        bool(mean > _SIGMAS * error),
    )


def summary(dataset: xarray.Dataset) -> str:
    """The table that a reader who sets a budget looks for."""
    attrs = dataset.attrs
    head = ["ε", "μ", "attack", "law", "all other rows known", "law", "no attack below"]
    head, rows = [*head, "training error, 1 step", "and the longest"], []
    means = {name: averages(dataset[name])[0] for name in _TABLE}
    for row, epsilon in enumerate(dataset.epsilon.values):
        at = dataset.isel(epsilon=row)
        attacked, informed, short, long = (means[name][row] for name in _TABLE)
        errors = attacked, at.law, informed, at.informed_law, at.bound
        cells = [f"{epsilon:g}", f"{float(at.mu):.3g}", *(f"{float(one):.3f}" for one in errors)]
        rows.append([*cells, f"{short:.2f}", f"{long:.3g}"])
    return (
        f"d = {attrs['dim']}, n = {attrs['num_samples']}, p = {attrs['width']} d n, "
        f"{dataset.sizes['run']} runs; ε at δ = {attrs['delta']:g} for replacing one row, of all "
        f"iterates together. Choices free of the data: {attrs['choices']}. The law is of the "
        "minimum of the loss near the true rows; an attack without a start fails in whole rows "
        "from errors of about .2 on, and then no longer finds that minimum: other rows fit the "
        "noise better. The attack that sees all iterates has them at a dozen steps. Near "
        "chance an error is below √2 by what the assignment gains, and so is the bound, which "
        "gives the attack n guesses at a row. The bound is at μ/2 (a run in which the row counts "
        "for zero is its reference); it is far from the attacks where errors are small. Test "
        "errors stay at 1: so few rows teach nothing of so many inputs.\n\n" + table(head, rows)
    )


_TABLE = ("error_by_epsilon", "informed_by_epsilon", "train_error_by_epsilon", "long_train_error")
