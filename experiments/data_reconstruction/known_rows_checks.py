"""What must be seen when all rows but one are known."""

import xarray

from experiments.harness import Check, table

_FOUND = 0.02


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Where one row is found, where all are, and that a ReLU needs more than the count."""
    found = [_one_is_found(dataset), _not_below(dataset), _others_are_not(dataset)]
    if _between(dataset).any():
        found.append(_silent_half(dataset))
    return found


def _counted(dataset: xarray.Dataset) -> int:
    """d + n - 1."""
    return dataset.attrs["dim"] + dataset.attrs["num_samples"] - 1


def _between(dataset: xarray.Dataset) -> xarray.DataArray:
    """Which widths lie between d + n - 1 and the ReLU's threshold, clear of both."""
    relu = dataset.sel(activation="relu", known="all but one").threshold.item()
    widths = dataset.num_features
    return (widths > 1.1 * _counted(dataset)) & (widths < 0.95 * relu)


def _one_is_found(dataset: xarray.Dataset) -> Check:
    one = dataset.sel(known="all but one")
    errors = one.error.where(one.num_features >= 1.5 * one.threshold)
    return Check(
        f"with n - 1 rows known the last is found from 1.5 times its threshold on (error below "
        f"{_FOUND} in every run)",
        "; ".join(
            f"{name}: at most {errors.sel(activation=name).max().item():.1e} from p = "
            f"{1.5 * one.threshold.sel(activation=name).item():.0f} on"
            for name in one.activation.values
        ),
        bool(errors.max() < _FOUND),
    )


def _not_below(dataset: xarray.Dataset) -> Check:
    one = dataset.sel(known="all but one")
    means = one.error.where(one.num_features <= 0.75 * _counted(dataset)).mean("seed")
    shares = means / one.chance
    zero = one.converged.where(one.num_features <= 0.75 * _counted(dataset))
    return Check(
        "below .75 (d + n - 1) it is not: the mean error is above half of chance",
        f"{shares.min().item():.2f} to {shares.max().item():.2f} of chance, "
        f"{zero.mean().item():.2f} of the runs at a loss of zero",
        bool(shares.min() > 0.5),
    )


def _others_are_not(dataset: xarray.Dataset) -> Check:
    unknowns = dataset.attrs["dim"] * dataset.attrs["num_samples"]
    rows = dataset.sel(known="none")
    shares = (rows.error.mean("seed") / rows.chance).where(rows.num_features <= 0.5 * unknowns)
    least = dataset.threshold.sel(known="all but one").max().item()
    return Check(
        "up to dn / 2 n unknown rows stay unknown: mean error above .75 of chance, though one "
        "among known ones is found long before",
        f"at least {shares.min().item():.2f} of chance; thresholds {least:.0f} and {unknowns}",
        bool(shares.min() > 0.75 and 1.5 * least < unknowns),
    )


def _silent_half(dataset: xarray.Dataset) -> Check:
    """Between d + n - 1 and 2d rows other than the true one have a loss of zero."""
    relu, tanh = (dataset.sel(activation=name, known="all but one") for name in ("relu", "tanh"))
    errors = [part.error.where(_between(dataset)).mean().item() for part in (relu, tanh)]
    return Check(
        "the count d + n - 1 holds for tanh, and for the ReLU 2d does: in between the mean error "
        f"is below {_FOUND} for tanh and above .1 for the ReLU",
        f"{errors[1]:.1e} and {errors[0]:.2f}",
        errors[1] < _FOUND and errors[0] > 0.1,
    )


def summary(dataset: xarray.Dataset) -> str:
    """Errors at every width."""
    thresholds = {
        str(name): [round(float(value)) for value in dataset.threshold.sel(activation=name)]
        for name in dataset.activation.values
    }
    text = (
        f"d = {dataset.attrs['dim']}, n = {dataset.attrs['num_samples']}, rows on the sphere, "
        f"theta* in closed form, {dataset.sizes['seed']} seeds; Levenberg-Marquardt from "
        f"{dataset.attrs['starts']} starts for one unknown row, the default optimiser for "
        "all. Dashed lines are the least widths at which the true rows are an isolated zero of the "
        "loss: "
        + "; ".join(f"{name} {one} and {all_}" for name, (one, all_) in thresholds.items())
        + f"; the dotted one is d + n - 1 = {_counted(dataset)}. Errors of tanh are up to sign."
    )
    rows = []
    for width in dataset.num_features.values:
        at = dataset.sel(num_features=width)
        means = at.error.mean("seed")
        cells = [
            f"{means.sel(activation=name, known=known).item():.3g}".replace("nan", "")
            for name in at.activation.values
            for known in at.known.values
        ]
        rows.append([width, *cells])
    return text + "\n\n" + table(["p", *_columns(dataset)], rows)


def _columns(dataset: xarray.Dataset) -> list[str]:
    return [
        f"{name}, {known} known"
        for name in dataset.activation.values
        for known in dataset.known.values
    ]
