"""DR Figure 3 and the first panel of Figure 7: the thresholds p = n and p = dn on the sphere.

Besides the default optimiser the published one is run at the smaller sizes, and below dn
Levenberg-Marquardt, which finds other rows of zero loss there. Rows, labels, V and start vary with
the seed; DR's code draws V from a seed of its own. With p <= n any rows span everything: the attack
is not run, and chance is shown as its error.

Source: DR Figures 3 and 7.
"""

import dataclasses

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.sphere_rows import (
    Trained,
    attack_key,
    chance_error,
    train,
)
from experiments.harness import Check, listed, span, table
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, RED, band, threshold, tidy
from jaxdp.attacks import (
    LevenbergMarquardt,
    MomentumDescent,
    reconstruct,
    reconstruction_error,
    span_residual,
)

METHODS = ("default", "published", "Levenberg-Marquardt")
_MEASURES = ("error", "residual", "loss", "converged", "passes")
# From here on, in dn, the default optimiser is expected to succeed.
_EASY = 6.0
_ZERO = 1e-7
_FOUND = 0.05


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes, widths and effort.

    Attributes:
        sizes: (d, n).
        label_widths: p / n, around the first threshold.
        data_widths: p / (dn), around the second.
        compared_up_to: the largest dn at which the other optimisers are run, the published one
            up to p = 6 dn, Levenberg-Marquardt up to 0.75 dn.
        max_passes: the default optimiser's limit; `published_passes` is the published one's.
        matrices: normal matrices that Levenberg-Marquardt forms for each start; one counts as
            dn / 2 passes.
        starts_below: starts of Levenberg-Marquardt.
    """

    sizes: tuple[tuple[int, int], ...] = ((20, 5), (30, 10), (50, 5), (100, 20))
    label_widths: tuple[float, ...] = (0.4, 1.0, 2.0)
    data_widths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0, 20.0)
    num_seeds: int = 5
    compared_up_to: int = 300
    max_passes: int = 1500
    published_passes: int = 20_000
    matrices: int = 60
    starts_below: int = 8

    smoke = harness.size(
        sizes=((12, 4),),
        label_widths=(0.4, 3.0),
        data_widths=(0.3, 1.0, 3.0, 10.0),
        num_seeds=2,
        max_passes=600,
        published_passes=600,
    )

    paper = harness.size(num_seeds=10, max_passes=10_000)


def run(config: Config) -> xarray.Dataset:
    """Train and attack at every size and width with every seed."""
    widths = np.array([_widths(config, *size) for size in config.sizes])
    cells, trial = list(np.ndindex(*widths.shape)), ("size", "width", "seed")
    sizes = dict(zip(trial, (*widths.shape, config.num_seeds), strict=True))
    dataset = harness.empty(
        {**sizes, "optimiser": METHODS},
        {(*trial, "optimiser"): _MEASURES, trial: ["train_loss"]},
        {"max_passes": config.max_passes, "published_passes": config.published_passes},
    )
    for size, width in harness.track(cells, lambda cell: f"{config.sizes[cell[0]]}, {cell[1]}"):
        dim, num_samples = config.sizes[size]
        num_features = int(widths[size, width])
        for seed in range(config.num_seeds):
            trained = train(num_samples, dim, num_features, seed)
            dataset.train_loss[size, width, seed] = trained.train_loss
            for number, method in enumerate(METHODS):
                if not _is_run(config, method, dim * num_samples, num_features, num_samples):
                    continue
                for name, value in _attacked(config, method, trained, seed).items():
                    dataset[name][size, width, seed, number] = value
    return dataset.assign(
        num_features=(("size", "width"), widths),
        dim=("size", [dim for dim, _ in config.sizes]),
        num_samples=("size", [count for _, count in config.sizes]),
        chance=("size", [chance_error(count, dim) for dim, count in config.sizes]),
    )


def _widths(config: Config, dim: int, num_samples: int) -> list[int]:
    widths = [max(1, round(ratio * num_samples)) for ratio in config.label_widths]
    return widths + [round(ratio * dim * num_samples) for ratio in config.data_widths]


def _is_run(config: Config, method: str, unknowns: int, width: int, num_samples: int) -> bool:
    if width <= num_samples:
        return False
    if method == METHODS[0]:
        return True
    most = {METHODS[1]: 6 * unknowns, METHODS[2]: 0.75 * unknowns}[method]
    return unknowns <= config.compared_up_to and 2 * num_samples < width <= most


def _attacked(config: Config, method: str, trained: Trained, seed: int) -> dict[str, float]:
    matrices = config.matrices * trained.inputs.size / 2
    optimiser, passes, starts = {
        "default": (None, config.max_passes, 1),
        "published": (MomentumDescent(), config.published_passes, 1),
        "Levenberg-Marquardt": (LevenbergMarquardt(), matrices, config.starts_below),
    }[method]
    options = {"optimiser": optimiser, "max_passes": passes, "num_starts": starts}
    found = reconstruct(trained.target, len(trained.inputs), key=attack_key(seed), **options)
    return {
        "error": reconstruction_error(trained.inputs, found.inputs),
        "residual": span_residual(trained.inputs, found.inputs, trained.target),
        "loss": found.loss,
        "converged": found.converged,
        "passes": found.num_passes,
    }


def plot(dataset: xarray.Dataset) -> Figure:
    """A column for each size: errors, the span residual, and the share that converges."""
    count = dataset.sizes["size"]
    figure = Figure(figsize=(2.9 * count + 0.6, 6.4), layout="constrained")
    rows = figure.subplots(3, count, sharey="row", squeeze=False, height_ratios=(1.4, 1, 0.8))
    for column in range(count):
        at = dataset.isel(size=column)
        _errors(rows[0, column], at)
        _residuals(rows[1, column], at)
        _converged(rows[2, column], at)
        for axes in rows[:, column]:
            _mark(axes, at)
            axes.sharex(rows[0, column])
        rows[2, column].set_xlabel("number of features $p$")
    for axes, label in zip(rows[:, 0], ("error", "residual, error", "converged"), strict=True):
        axes.set_ylabel(label)
    handles, labels = rows[0, 0].get_legend_handles_labels()
    residual = rows[1, 0].get_lines()[1]
    labels, style = [*labels, residual.get_label()], {"ncols": len(handles) + 1, "frameon": False}
    figure.legend([*handles, residual], labels, loc="outside upper center", **style)
    return figure


def _errors(axes: Axes, at: xarray.Dataset) -> None:
    _curve(axes, at, at.train_loss, "training error", BLACK, "s")
    # With p <= n nothing was run: any rows span everything, so the attack is a guess.
    degenerate = (at.num_features <= at.num_samples) & (at.optimiser == "default")
    errors = at.error.where(~degenerate, at.chance)
    _curve(axes, at, errors.sel(optimiser="default"), r"reconstruction error $\rho$", RED, "o")
    _curve(axes, at, at.error.sel(optimiser="published"), "published optimiser", ORANGE, "^", 0.08)
    below = at.error.sel(optimiser="Levenberg-Marquardt").where(
        at.converged.sel(optimiser="Levenberg-Marquardt") == 1
    )
    width = at.num_features.broadcast_like(below)
    style = {"linestyle": "", "marker": "x", "markersize": 5, "color": GREEN, "zorder": 3}
    label = "zero loss, Levenberg-Marquardt"
    axes.plot(width.values.ravel(), below.values.ravel(), label=label, **style)
    axes.axhline(at.chance.item(), color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    tidy(axes, f"$d$ = {at.dim.item()}, $n$ = {at.num_samples.item()}")


def _residuals(axes: Axes, at: xarray.Dataset) -> None:
    default = at.sel(optimiser="default")
    _curve(axes, at, default.error, r"reconstruction error $\rho$", RED, "o")
    _curve(axes, at, default.residual, r"span residual $r(\hat\Phi)$", BLUE, "v")
    axes.set_yscale("log")
    tidy(axes)


def _converged(axes: Axes, at: xarray.Dataset) -> None:
    for method, color, marker in zip(at.optimiser.values, (RED, ORANGE, GREEN), "o^x", strict=True):
        share = at.converged.sel(optimiser=method).mean("seed", skipna=False)
        style = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.2}
        axes.plot(at.num_features, share, **style)
    axes.set_ylim(-0.06, 1.06)
    tidy(axes)


def _curve(axes: Axes, at, runs: xarray.DataArray, label: str, color, marker, shade=0.15) -> None:
    """Mean over seeds, and a band of one standard deviation."""
    mean, std = runs.mean("seed", skipna=False), runs.std("seed", ddof=1, skipna=False)
    low = np.maximum(mean - std, runs.min("seed"))
    band(axes, at.num_features, low, mean + std, color, shade)
    style = {"color": color, "marker": marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(at.num_features, mean, label=label, **style)


def _mark(axes: Axes, at: xarray.Dataset) -> None:
    """Both thresholds."""
    axes.set_xscale("log")
    threshold(axes, at.num_samples.item(), "$n$")
    threshold(axes, at.dim.item() * at.num_samples.item(), "$dn$")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Both thresholds at every size, the range between them, and the meaning of zero loss."""
    return [
        *_below(dataset),
        _other_zeros(dataset),
        *_beyond(dataset),
        _scale(dataset),
        *_beside(dataset),
    ]


def _ratio(dataset: xarray.Dataset) -> xarray.DataArray:
    """p / (dn)."""
    return dataset.num_features / (dataset.dim * dataset.num_samples)


def _below(dataset: xarray.Dataset) -> list[Check]:
    per_row = dataset.num_features / dataset.num_samples
    before = dataset.train_loss.where(per_row < 0.75).mean("seed").min().item()
    after = dataset.train_loss.where(per_row >= 2).max().item()
    share = (dataset.error.sel(optimiser="default") / dataset.chance).mean("seed")
    below = share.where(_ratio(dataset) <= 0.5)
    return [
        Check(
            "labels are fitted once p > n: the mean training error is above 0.01 below p = 0.75 n, "
            "and below 1e-8 in every run from 2 n on",
            f"at least {before:.3f}; at most {after:.1e}",
            before > 0.01 and after < 1e-8,
        ),
        Check(
            "between n and dn / 2 nothing is found though labels are fitted: the mean error is "
            "above 0.75 of chance at every size",
            f"{span(below)} of chance",
            below.min().item() > 0.75,
        ),
    ]


def _other_zeros(dataset: xarray.Dataset) -> Check:
    """Fewer equations than unknowns: other rows fit the parameters as well."""
    runs = dataset.sel(optimiser="Levenberg-Marquardt")
    errors = runs.error.where(_ratio(dataset) <= 0.5)
    totals = errors.count(("width", "seed"))
    zero = errors.where(runs.converged == 1)
    counts = zero.count(("width", "seed"))
    shares = (zero.mean(("width", "seed")) / dataset.chance).where(totals > 0)
    columns = (one.values[totals > 0] for one in (counts, totals, dataset.dim, dataset.num_samples))
    shown = listed(zip(*columns, strict=True), "{:.0f} of {:.0f} runs at d = {:g}, n = {:g}")
    return Check(
        "up to dn / 2 the parameters do not determine the rows: at every size compared "
        "Levenberg-Marquardt finds some of loss zero, at a mean error above 0.75 of chance",
        f"{shown}; {shares.min().item():.2f} of chance at least",
        bool(((counts > 0) | (totals == 0)).all() and shares.min() > 0.75),
    )


def _beyond(dataset: xarray.Dataset) -> list[Check]:
    errors = dataset.error.sel(optimiser="default").where(_ratio(dataset) >= _EASY)
    mean = errors.mean("seed")
    runs = dataset.where(_ratio(dataset) >= 1.5)
    zero = runs.error.where(runs.loss <= _ZERO)
    return [
        Check(
            f"from {_EASY:g} dn on the rows are found: mean error below {_FOUND} at every size",
            f"at most {listed(mean.max('width'), '{:.1e}')} by size; worst run "
            f"{errors.max().item():.3f}",
            mean.max().item() < _FOUND,
        ),
        Check(
            "from 1.5 dn on a loss of zero is the data's, with every optimiser: no error of such a "
            "run is above 0.2",
            f"{int(zero.count())} runs, errors of at most {zero.max().item():.3f}, median "
            f"{zero.median().item():.1e}",
            bool(zero.count() and zero.max() < 0.2),
        ),
    ]


def _scale(dataset: xarray.Dataset) -> Check:
    """Where the mean error falls below half of chance, in dn, by interpolation in log p."""
    share = (dataset.error.sel(optimiser="default") / dataset.chance).mean("seed")
    places = []
    for values, at in zip(share.values, np.log(_ratio(dataset).values), strict=True):
        below = np.flatnonzero(values < 0.5)
        if below.size:
            pair = slice(below[0] - 1, below[0] + 1)
            places.append(float(np.exp(np.interp(-0.5, -values[pair], at[pair]))))
        else:
            places.append(np.inf)
    return Check(
        "the error passes half of chance between dn and 3 dn at every size",
        listed(places, "{:.2f} dn"),
        all(1 <= place <= 3 for place in places),
    )


def _beside(dataset: xarray.Dataset) -> list[Check]:
    wide = (_ratio(dataset) > 1) & (_ratio(dataset) <= _EASY)
    both = dataset.where(wide & dataset.error.sel(optimiser="published").notnull())
    default, published = (
        float(both.converged.sel(optimiser=name).mean()) for name in ("default", "published")
    )
    runs = dataset.sel(optimiser="default").where(_ratio(dataset) >= 0.25)
    found = runs.residual.where(runs.error < _FOUND).max().item()
    missed = runs.residual.where(runs.error > 0.5).min().item()
    return [
        Check(
            f"for dn < p <= {_EASY:g} dn the default converges in more of the runs than the "
            f"published optimiser does in {dataset.attrs['published_passes']} steps",
            f"{default:.2f} and {published:.2f}",
            default > published,
        ),
        Check(
            "the span residual of found rows is a tenth or less of that of rows that are not found",
            f"at most {found:.1e}, and at least {missed:.1e}",
            found < 0.1 * missed,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Errors and convergence of every optimiser, size by size."""
    text = (
        "Rows uniform on the sphere, labels x.g + noise of variance 0.25, ReLU, theta* in closed "
        f"form; {dataset.sizes['seed']} seeds, each with its own rows, labels, V and start; bands "
        "are one standard deviation. The default optimiser has "
        f"{dataset.attrs['max_passes']} passes over the features, the published one "
        f"{dataset.attrs['published_passes']} steps; Levenberg-Marquardt is run up to 0.75 dn, "
        "with several starts; if d is ten times n it mostly stalls. At p <= n every n rows span "
        "everything (DR calls this case non-degenerate): there the attack is a guess, not run."
    )
    return "\n\n".join(
        [text, *(_table(dataset.isel(size=s)) for s in range(dataset.sizes["size"]))]
    )


def _table(at: xarray.Dataset) -> str:
    dim, count = at.dim.item(), at.num_samples.item()
    title = f"**d = {dim}, n = {count}**, chance {at.chance.item():.2f}"
    head, rows = ["p", "p / (dn)", "training error"], []
    head += [f"{name}: error (sd), converged, passes" for name in at.optimiser.values]
    for width in range(at.sizes["width"]):
        here = at.isel(width=width)
        features = here.num_features.item()
        cells = [f"{features}", f"{features / (dim * count):.3g}"]
        cells.append(f"{here.train_loss.mean().item():.1e}")
        for method in at.optimiser.values:
            runs = here.sel(optimiser=method)
            mean, std = runs.error.mean().item(), runs.error.std(ddof=1).item()
            share, passes = runs.converged.mean().item(), runs.passes.mean().item()
            text = f"{mean:.3g} ({std:.2g}), {share:.1f}, {passes:.0f}"
            cells.append(text if runs.error.count() else "-")
        rows.append(cells)
    return f"{title}\n\n{table(head, rows)}"


claims = harness.claims_of(checks)
harness.main(__name__)
