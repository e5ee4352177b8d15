r"""PK Figures 3 and 7 to 12: test error on the year-prediction data, five bandwidths.

Figure 3 is the bandwidth $2^4$ and one curve against M; Figure 7 has all five, and Figures 8 to 12
the curves against M, a row for each bandwidth; of these the picture has the least, the middle and
the largest epsilon, the result all. The published algorithms use the paper's units, those of the
training rows, which no proof covers; the certified ones use public units. Curves are an
oracle's, as in `fig01_synthetic.py`, next to data-free releases.

Source: PK Figures 3 and 7 to 12.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check, listed, span
from experiments.private_kernel_learning import projection_dimension
from experiments.private_kernel_learning.error_curves import (
    CERTIFIED,
    INTERCEPT,
    PUBLISHED,
    RP_CERTIFIED,
    against_epsilon,
    against_projections,
    all_repetitions,
    difference,
    legend,
    oracle,
    over_the_mean_label,
    section,
)
from experiments.private_kernel_learning.ridge_grid import Grid, data_free, oracle_errors
from experiments.private_kernel_learning.ridge_methods import METHODS
from experiments.private_kernel_learning.year_prediction import (
    BOUNDS,
    Songs,
    draw,
    publicly_scaled,
    read_year_prediction,
    scaled_by_training_rows,
)
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import Gaussian

FOLDERS = {
    "data": "folder whose folder yearmsd has YearPredictionMSD.txt or rows of it; without it "
    "scikit-learn fetches them"
}
# PK's Figure 3 (b).
_PANEL_EPSILON = 10**-0.5
_PRIVATE = ["error", "fixed_error"]
_SIGMAS = 2
# Songs of the whole set; a file with fewer holds the first of them.
_WHOLE = 515_345
_SETTING = """\
A file of {num_songs} songs, the first 176 of them public. {num_train} to train on, as many to test
on, {repetitions} repetitions, each with a random half of {split}. The
paper has 1000 of 515,345, and its draw is not known. {prefix}Years are centred in the middle of
their range, 1966.5, and most songs are from after 1990: without an intercept a learner first has to
learn 30 years of offset. Published rows: the paper's units, those of the training rows, in which
nothing is private; certified rows: units from the public songs. Otherwise as Figure 1."""
_PREFIX = """\
A file of so few is no random sample of that set but its beginning, album after album, and all
repetitions split the same rows: standard errors are over splits, features and noise, and say
nothing about other songs. Claims that are not reproduced here may hold there. """
_AGAINST_M = """\
Against M, the least error over λ; bands are two standard errors. The noise does not depend on the
bandwidth, but the wider the kernel, the fewer directions there are to learn.

"""


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting; `num_songs` are drawn, or all of a file that has fewer.

    Attributes:
        together: songs that follow one another in the file and go to one side; a short file has
            few albums, and those are to be trained or tested on as a whole.
    """

    bandwidths: tuple[float, ...] = (2**4, 2**4.5, 2**5, 2**5.5, 2**6)
    num_songs: int = 2000
    together: int = 20
    epsilons: tuple[float, ...] = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
    num_projections: tuple[int, ...] = (10, 20, 40, 70, 100, 150, 250, 400, 1000)
    repetitions: int = 100
    seed: int = 7

    smoke = harness.size(
        bandwidths=(2**4, 2**6),
        num_songs=500,
        epsilons=(0.1, 1.0, 10.0),
        num_projections=(10, 40, 120),
        repetitions=4,
    )

    paper = harness.size(together=1, num_projections=(*num_projections[:-1], 600, 1000))


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Every repetition of every bandwidth; the songs of one repetition are the same for all."""
    songs = read_year_prediction(None if data is None else data / "yearmsd")
    once = functools.partial(_repetition, config, songs)
    dataset = all_repetitions(once, "bandwidth", config.bandwidths, config.repetitions)
    return dataset.assign_attrs(num_songs=len(songs.years), together=config.together)


def _repetition(config: Config, songs: Songs, cell: tuple[float, int]) -> xarray.Dataset:
    bandwidth, number = cell
    key = jr.fold_in(jr.key(config.seed), number)
    kernel, grid = Gaussian(bandwidth), Grid(config.epsilons, config.num_projections)
    split = draw(songs, config.num_songs, together=config.together, key=purpose_key(key, "data"))
    leaky, public = (
        oracle_errors(
            kernel,
            units(split),
            BOUNDS,
            grid,
            {name: METHODS[name] for name in METHODS if noise in name},
            key=key,
        )
        for noise, units in (("published", scaled_by_training_rows), ("certified", publicly_scaled))
    )
    both = xarray.concat([leaky[_PRIVATE], public[_PRIVATE]], "learner")
    both = both.assign({name: public[name] for name in ("noiseless", "constant")})
    both["leaky_noiseless"] = leaky.noiseless
    both["data_free"] = data_free(
        kernel, publicly_scaled(split), BOUNDS, config.epsilons, number=number
    )
    both["num_train"] = split.num_train
    return both.assign_coords(bandwidth=bandwidth, repetition=number)


def plot(dataset: xarray.Dataset) -> Figure:
    """Figure 7's panels, one for each bandwidth, and Figure 3 (b); below them Figures 8 to 12."""
    titles = {width: rf"$\sigma = 2^{{{np.log2(width):g}}}$" for width in dataset.bandwidth.values}
    count, columns = len(titles) + 1, 3
    rows = -(-count // columns)
    heights = 3.0 * rows, 2.3 * len(titles)
    figure = Figure(figsize=(11.6, sum(heights) + 0.8), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    panels = parts[0].subplots(rows, columns, squeeze=False).ravel()
    for axes, (bandwidth, title) in zip(panels, titles.items(), strict=False):
        against_epsilon(axes, dataset.sel(bandwidth=bandwidth), title)
    last = panels[count - 1]
    at = dataset.isel(bandwidth=0).sel(epsilon=_PANEL_EPSILON, method="nearest")
    title = titles[at.bandwidth.item()]
    against_projections(last, at, rf"{title}, $\varepsilon$ = {at.epsilon.item():.3g}")
    last.set_xlabel("$M$")
    for axes in panels[::columns]:
        axes.set_ylabel("mean squared test error (years²)")
    for axes in panels[count:]:
        axes.set_axis_off()
    middle = (dataset.sizes["epsilon"] - 1) // 2
    chosen = dataset.isel(epsilon=[0, middle, -1])
    projection_dimension.draw(parts[1], chosen, "bandwidth", titles, sharey=False)
    legend(figure, panels[0])
    return figure


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The order of the methods, the mean label, the units, and what a large M costs."""
    found = [*_order(dataset), *_noise(dataset), *_beside_the_mean_label(dataset), _units(dataset)]
    return found + projection_dimension.checks_of_songs(dataset)


def _order(dataset: xarray.Dataset) -> list[Check]:
    gap, certified = (difference(dataset, noise) for noise in ("published", "certified"))
    ahead, behind = (int((sign * gap.sigmas > _SIGMAS).sum()) for sign in (1, -1))
    errors = oracle(dataset).sel(learner=RP_CERTIFIED, drop=True)
    share = certified.mean / errors.mean("repetition")
    return [
        Check(
            "PK's claim is not reproduced on these rows: with the published noise random "
            "projection is not ahead of RFF in most cells, by 2 paired standard errors over their "
            "splits",
            f"random projection is ahead by that in {ahead} of {gap.mean.size} cells, RFF in "
            f"{behind}",
            ahead < gap.mean.size / 2,
        ),
        Check(
            "with the certified noise, the same for both, their mean errors are within 5% of each "
            "other in every cell, and 3 paired standard errors (the 5% were chosen with these "
            "numbers known)",
            f"RFF's error differs by {span(share, '+.1%')}, {span(certified.sigmas, '+.1f')} "
            "standard errors",
            bool((abs(share) < 0.05 + 3 * abs(share / certified.sigmas)).all()),
        ),
    ]


def _noise(dataset: xarray.Dataset) -> list[Check]:
    means = oracle(dataset).mean("repetition")
    published = (means / dataset.constant.mean("repetition")).sel(learner=PUBLISHED)
    first = published.isel(epsilon=0)
    ratios = np.array(
        [
            means.sel(learner=one) / means.sel(learner=other)
            for one, other in zip(PUBLISHED, CERTIFIED, strict=True)
        ]
    )
    narrow = ratios[:, 0]
    return [
        Check(
            "as published, and with an oracle's choice, both lose to the mean label at the "
            "smallest epsilon for every bandwidth",
            f"{span(first)} times its error; {float(published.min()):.2f} at best over all epsilon",
            float(first.min()) > 1,
        ),
        Check(
            "the certified noise, in public units, has a smaller mean error at every epsilon for "
            "the first bandwidth",
            f"published errors are {span(narrow)} times as large; {span(ratios)} times over all "
            "bandwidths",
            bool(narrow.min() > 1),
        ),
    ]


def _beside_the_mean_label(dataset: xarray.Dataset) -> list[Check]:
    """The mean label has none of their budget."""
    means = oracle(dataset).mean("repetition") / dataset.constant.mean("repetition")
    centred, plain = (means.isel(bandwidth=0).sel(learner=n) for n in (INTERCEPT, RP_CERTIFIED))
    free = over_the_mean_label(dataset)
    return [
        Check(
            "for the first bandwidth an intercept makes the certified error smaller at the largest "
            "epsilon, and smaller than the mean label's",
            f"{listed(centred)} times the mean label's error; without it {listed(plain)}",
            bool(centred[-1] < min(float(plain[-1]), 1)),
        ),
        Check(
            "chosen without data it loses at most half to the mean label, and nothing at the "
            "largest epsilon for the first bandwidth",
            f"{float(free.isel(epsilon=0).max()):.2f} times its error at worst; for that bandwidth "
            + listed(free.isel(bandwidth=0)),
            float(free.max()) < 1.5 and float(free[0, -1]) < 1,
        ),
    ]


def _units(dataset: xarray.Dataset) -> Check:
    """The gain from standardising on the training rows if nothing has to be private."""
    public, leaky = (
        dataset[name].min(("num_projections", "features")).mean("repetition")
        for name in ("noiseless", "leaky_noiseless")
    )
    ratio = public / leaky
    return Check(
        "public units cost little: without noise the best error is within a tenth of that in the "
        "units of the training rows, at every bandwidth",
        listed(ratio, "{:.3f} times"),
        bool((abs(np.log(ratio)) < np.log(1.1)).all()),
    )


def summary(dataset: xarray.Dataset) -> str:
    """The tables of means and of the best M for each bandwidth, and how to read them."""
    count, together = (int(dataset.attrs[name]) for name in ("num_songs", "together"))
    parts = [
        _SETTING.format(
            num_songs=count,
            num_train=int(dataset.num_train.values.flat[0]),
            repetitions=dataset.sizes["repetition"],
            split="the songs" if together == 1 else f"all stretches of {together} songs in a row",
            prefix=_PREFIX if count < _WHOLE else "",
        )
    ]
    for bandwidth in dataset.bandwidth.values:
        title = f"σ = 2^{np.log2(bandwidth):g} (errors in years²)"
        parts.append(section(title, dataset.sel(bandwidth=bandwidth)))
    parts.append(_AGAINST_M + projection_dimension.table_of_best(dataset, "bandwidth", "σ"))
    return "\n\n".join(parts)


claims = harness.claims_of(checks)
harness.main(__name__)
