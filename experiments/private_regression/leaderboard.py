r"""Private regression and classification on six tables and on Gaussian designs: a leaderboard.

Every method has the same rows, the same public ranges and categories (`problems`), and the same
budget: $\delta = n^{-1.1}$, neighbours that differ in one record. Splits are seeded by a word that
was not used before; constants of the methods, ours too, were chosen on other splits of these
tables.
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from experiments import harness
from experiments.harness import Check, standard_error
from experiments.harness import table as markdown
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from experiments.private_regression.competitors import LINEAR, Rows, boosted_trees, standing
from experiments.private_regression.problems import (
    CLASSES,
    TABLES,
    Design,
    Split,
    generator,
    number_of,
    table_split,
)
from jaxdp.estimators import DPKernelRidge, DPLinearRegression, DPLogisticRegression
from jaxdp.kernels import ClippedFeatures, IdentityFeatures, SelectedRidge
from jaxdp.regression import (
    Automatic,
    Columns,
    FullBatch,
    NoisyStatistics,
    PlannedDPSGD,
    PrivateLinearRegression,
    Whitened,
)

FOLDERS = {
    "data": "folder with the folder uci",
    "kept": "folder for the scores of each split, from which an interrupted run resumes",
}
_OURS, _FREE, _BOOSTED, _KERNEL = "Automatic", "no privacy", "DP-EBM", "DPKernelRidge"
_SINGLE = (Whitened, FullBatch, PlannedDPSGD, NoisyStatistics)
_FEATURES = ("linear", "additive", "kernel")
# Colours of the map; a linear method has the colour of its additive twin.
_YELLOW = "#F0E442"
_GROUPS = {
    "Automatic, any features": (BLUE, (_OURS, *(f"{_OURS}, {one}" for one in _FEATURES))),
    "a single method of jaxdp": (_YELLOW, tuple(one.__name__ for one in _SINGLE)),
    "noisy statistics, (boosted) AdaSSP": (
        ORANGE,
        ("noisy statistics", "AdaSSP", "boosted AdaSSP"),
    ),
    "objective or output perturbation": (RED, ("objective perturbation", "output perturbation")),
    "DP-GD, constant settings": (PURPLE, ("DP-GD, constant",)),
    "DP-EBM": (GREEN, (_BOOSTED,)),
    "DPKernelRidge": (GREY, (_KERNEL,)),
}
_COLORS = {name: color for color, names in _GROUPS.values() for name in names}
_COLORS |= {f"{name}, additive": _COLORS[name] for name in LINEAR if name != _FREE}
_PRIVATE = list(_COLORS)
_COMPETITORS = [name for name in _PRIVATE if _COLORS[name] not in (BLUE, _YELLOW)]
# DP-EBM takes minutes on designs with more numbers than this.
_MOST_BOOSTED = 500_000
_SIGMAS = 2
# Goals for the R^2 or AUC of Automatic, by epsilon.
_GOALS = {
    "power-plant": {0.5: 0.927},
    "kin8nm": {0.5: 0.409},
    "protein-tertiary-structure": {0.5: 0.281},
    "wine-quality-red": {0.5: 0.27, 1: 0.31, 4: 0.34},
    "adult": {0.5: 0.895, 1: 0.903, 4: 0.909},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables; designs (the largest drawn fewer times); budgets; the word that seeds the splits."""

    tables: tuple[str, ...] = TABLES
    dims: tuple[int, ...] = (30, 100)
    ratios: tuple[int, ...] = (10, 100, 1000)
    kappas: tuple[float, ...] = (1, 10, 100, 1000)
    epsilons: tuple[float, ...] = (0.5, 1.0, 4.0)
    num_splits: int = 12
    num_draws: int = 8
    most_numbers: int = 5_000_000
    fewest: int = 4
    test_share: float = 0.2
    with_boosted: bool = True
    word: str = "verdict"

    smoke = harness.size(
        tables=("concrete",),
        dims=(8,),
        ratios=(40,),
        kappas=(10,),
        epsilons=(1.0, 4.0),
        num_splits=2,
        num_draws=2,
        with_boosted=False,
        word="smoke",
    )


class Part(NamedTuple):
    """One split of one problem, scored in one process."""

    config: Config
    problem: str | Design
    number: int
    data: pathlib.Path
    kept: pathlib.Path | None

    def __str__(self):
        return f"{self.problem}, {self.number}".replace("/", " over ")


def run(config: Config, data: pathlib.Path, kept: pathlib.Path | None = None) -> xarray.Dataset:
    """Scores of all learners on all splits of all problems under all budgets."""
    grid = itertools.product(config.dims, config.ratios, config.kappas)
    problems = [*config.tables, *itertools.starmap(Design, grid)]
    parts = []
    for one in problems:
        is_large = isinstance(one, Design) and one.dim**2 * one.ratio > config.most_numbers
        count = config.num_draws if isinstance(one, Design) else config.num_splits
        count = config.fewest if is_large else count
        parts += [Part(config, one, number, data, kept) for number in range(count)]
    axes = {
        "problem": list(map(str, problems)),
        "epsilon": config.epsilons,
        "split": range(config.num_splits),
        "learner": [*_PRIVATE, _FREE],
    }
    packages = ("interpret-core", "interpret.privacy"), ("diffprivlib", "diffprivlib.models")
    facts = {package: standing(package, module) for package, module in packages}
    variables = {tuple(axes): ["score"], ("problem",): ["num_samples", "num_columns"]}
    found = harness.empty(axes, variables, facts)
    for part, result in zip(parts, harness.spread(_scores, parts, str), strict=True):
        at = {"problem": str(part.problem)}
        found.num_samples.loc[at], found.num_columns.loc[at] = result["shape"]
        for epsilon, scores in zip(config.epsilons, result["scores"], strict=True):
            for learner, score in scores.items():
                where = at | {"epsilon": epsilon, "split": part.number, "learner": learner}
                found.score.loc[where] = score
    return found


def _scores(part: Part) -> dict:
    """The shape of one split's training rows, and for each budget the score of every learner."""
    path = part.kept and part.kept / f"{part}.json"
    if path and path.exists():
        return json.loads(path.read_text())
    words = part.config.word, part.problem, part.number
    random = generator(*words)
    if isinstance(part.problem, Design):
        split = part.problem.split(random)
    else:
        split = table_split(part.data, part.problem, part.config.test_share, random)
    scores = []
    for epsilon in part.config.epsilons:
        with warnings.catch_warnings():
            # Warnings to the curator of values outside public ranges.
            warnings.simplefilter("ignore")
            found = dict(_linear(split, epsilon, (*words, epsilon)))
            found |= dict(_ours(split, epsilon, (*words, epsilon)))
            if part.config.with_boosted and split.train.size <= _MOST_BOOSTED:
                # Without the package there is no score.
                with contextlib.suppress(ImportError):
                    seed = number_of(*words, epsilon, _BOOSTED)
                    found[_BOOSTED] = split.score(boosted_trees(split, epsilon, seed))
        scores.append(found)
    result = {"shape": split.train.shape, "scores": scores}
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))
    return result


def _linear(split: Split, epsilon: float, words: tuple) -> Iterator[tuple[str, float]]:
    """Scores of the linear methods; if a column has categories, also on additive features (bins).

    The fit without privacy is additive if a column has categories.
    """
    low, high = split.label_range or (0.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    labels = (np.clip(split.labels, low, high) - middle) / half
    for is_additive in (False, True)[: 1 + split.has_texts]:
        train, test, bound = split.matrices(is_additive)
        for name, fit in LINEAR.items():
            if name == _FREE and is_additive != split.has_texts:
                continue
            title = f"{name}, additive" if is_additive and name != _FREE else name
            random = generator(*words, title)
            rows = Rows(train, labels, bound, epsilon, split.delta, split.is_class, random)
            yield title, split.score(middle + half * (test @ fit(rows)))


def _ours(split: Split, epsilon: float, words: tuple) -> Iterator[tuple[str, float]]:
    """Scores of jaxdp's learners: Automatic, and single methods with the competitors' features.

    Random features on adult are left out: they would take longer than everything else together.
    """
    yield _OURS, _fitted(split, epsilon, Automatic(), "automatic", words)
    for method in _SINGLE:
        if method is not NoisyStatistics or not split.is_class:
            features = "additive" if split.has_texts else "linear"
            yield method.__name__, _fitted(split, epsilon, method(), features, words)
    if split.columns is None:
        return
    for features in _FEATURES[: 2 if split.has_texts else 3]:
        yield f"{_OURS}, {features}", _fitted(split, epsilon, Automatic(), features, words)
    train, test, _ = split.matrices()
    low, high = split.label_range or (0.0, 1.0)
    older = DPKernelRidge(
        epsilon,
        split.delta,
        (high - low) / 2,
        input_range=(-1, 1),
        num_features=512,
        intercept_share=0.1,
        ridge=SelectedRidge(),
        noise_seed=_seed(*words, _KERNEL),
    )
    older.fit(train[:, :-1], split.labels - (low + high) / 2)
    yield _KERNEL, split.score(older.predict(test[:, :-1]) + (low + high) / 2)


def _seed(*words) -> int:
    """A noise seed, as long as a secure one."""
    return number_of(*words) | 1 << 255


def _fitted(split: Split, epsilon: float, method, features: str, words: tuple) -> float:
    """The score of an estimator on a table, or of the learner behind it on a design."""
    seed = _seed(*words, type(method).__name__, features)
    if split.columns is None:
        _, test, bound = split.matrices()
        bounded = ClippedFeatures(IdentityFeatures(test.shape[1]), bound)
        learner = PrivateLinearRegression(
            features=bounded, label_range=split.label_range, method=method
        )
        budget = {"epsilon": epsilon, "delta": split.delta, "noise_seed": seed}
        release = learner.fit(split.train, split.labels, **budget).release
        return split.score(test @ np.asarray(release.coefficients, float))
    options = {"method": method, "noise_seed": seed, "features": features}
    if split.has_texts:
        options["columns"] = Columns(split.columns)
    else:
        options["input_range"] = tuple(np.array([*split.columns.values()], float).T)
    if split.is_class:
        estimator = DPLogisticRegression(epsilon, split.delta, classes=CLASSES, **options)
        estimator.fit(split.train, np.array(CLASSES)[split.labels.astype(int)])
        return split.score(estimator.decision_function(split.test))
    estimator = DPLinearRegression(epsilon, split.delta, label_range=split.label_range, **options)
    return split.score(estimator.fit(split.train, split.labels).predict(split.test))


class Verdict(NamedTuple):
    """Automatic against the best competitor of a cell.

    Attributes:
        winner: private learner of highest mean score.
        best: competitor of highest mean score.
        gap: mean over splits of Automatic's score minus that of `best`.
        error: standard error of the gap.
    """

    winner: str
    best: str
    gap: float
    error: float

    @property
    def z(self) -> float:
        """The gap in standard errors."""
        return self.gap / max(self.error, 1e-12)


def verdicts(dataset: xarray.Dataset, is_table: bool) -> dict[tuple[str, float], Verdict]:
    """Verdicts by table or design and epsilon; scores are compared split by split."""
    found = {}
    for name, epsilon in itertools.product(dataset.problem.values, dataset.epsilon.values):
        if (name in TABLES) == is_table:
            score = dataset.score.sel(problem=name, epsilon=epsilon)
            winner, best = (
                str(score.sel(learner=names).mean("split").idxmax("learner").item())
                for names in (_PRIVATE, _COMPETITORS)
            )
            gaps = score.sel(learner=_OURS) - score.sel(learner=best)
            found[str(name), float(epsilon)] = Verdict(
                winner, best, float(gaps.mean()), float(standard_error(gaps, "split"))
            )
    return found


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals: no competitor clearly ahead, and the scores that an earlier trial reached."""
    found = []
    for is_table, what in ((True, "tables"), (False, "designs")):
        cells = verdicts(dataset, is_table)
        behind = [f"{name} at {at:g}" for (name, at), one in cells.items() if one.z < -_SIGMAS]
        ahead = sum(one.z > _SIGMAS for one in cells.values())
        obtained = (
            f"ahead of the best of them in {ahead}, level in {len(cells) - ahead - len(behind)}, "
            f"behind in {len(behind)} of {len(cells)}{': ' if behind else ''}{'; '.join(behind)}"
        )
        claim = (
            f"{what}: no competitor is ahead of Automatic by more than {_SIGMAS} standard errors "
            "under any budget"
        )
        found.append(Check(claim, obtained, not behind))
    reached = dataset.score.sel(learner=_OURS).mean("split")
    for name, goals in _GOALS.items():
        if name in dataset.problem:
            for epsilon, least in goals.items():
                score = float(reached.sel(problem=name, epsilon=epsilon))
                claim = f"{name}: Automatic scores {least:g} or more at epsilon {epsilon:g}"
                found.append(Check(claim, f"{score:.4f}", score >= least))
    return found


def plot(dataset: xarray.Dataset) -> Figure:
    """A map of winners: a cell for each problem and epsilon, in the colour of its best learner.

    The text is Automatic's gap to the best competitor with its standard error, bold if the gap
    exceeds two standard errors.
    """
    kinds = [name.split(",")[0] if name not in TABLES else "" for name in dataset.problem.values]
    groups = [
        dataset.isel(problem=[place for place, one in enumerate(kinds) if one == kind])
        for kind in dict.fromkeys(kinds)
    ]
    height = 0.34 * max(group.sizes["problem"] for group in groups) + 1.5
    figure = Figure(figsize=(max(4.1 * len(groups), 9), height), layout="constrained")
    for axes, group in zip(np.atleast_1d(figure.subplots(1, len(groups))), groups, strict=True):
        _map(axes, group)
    words = "score of Automatic less the best competitor's; in colour the best of all private ones"
    figure.suptitle(words, fontsize="medium")
    handles = [Patch(color=_pale(color), label=name) for name, (color, _) in _GROUPS.items()]
    style = {"ncols": 4, "frameon": False, "fontsize": "small"}
    figure.legend(handles=handles, loc="outside lower center", **style)
    return figure


def _map(axes: Axes, group: xarray.Dataset) -> None:
    names = [str(name) for name in group.problem.values]
    is_table, width = names[0] in TABLES, group.sizes["epsilon"]
    for place, one in enumerate(verdicts(group, is_table).values()):
        row, column = divmod(place, width)
        color = _pale(_COLORS[one.winner])
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white"))
        digits = 3 if one.error >= 5e-4 else 4
        style = {"ha": "center", "va": "center", "fontsize": 7.5}
        style["fontweight"] = "bold" if abs(one.z) > _SIGMAS else "normal"
        words = f"{one.gap:+.{digits}f} ± {one.error:.{digits}f}".replace("0.", ".")
        axes.text(column + 0.5, row + 0.5, words, **style)
    axes.set(xlim=(0, width), ylim=(len(names), 0), xlabel=r"$\epsilon$")
    axes.set_xticks(np.arange(width) + 0.5, [f"{value:g}" for value in group.epsilon.values])
    short = [name.split("-tert")[0].split("-qual")[0] for name in names]
    if not is_table:
        short = [name.partition(", ")[2].replace("kappa", "κ") for name in names]
    axes.set_yticks(np.arange(len(names)) + 0.5, short)
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
    title = "tables" if is_table else f"designs, {names[0].partition(',')[0]}"
    axes.set_title(title, fontsize="medium", loc="left")


def _pale(color: str) -> tuple[float, float, float]:
    """Light enough for black letters on it."""
    red, green, blue = (0.45 * part + 0.55 for part in to_rgb(color))
    return red, green, blue


_SETTING = """\
Scores are R^2 on test rows (for designs the explained share of the signal; at least -1), for adult
the area under the curve. ± is a standard error over splits, with four fifths of the rows for
training; δ = n^-1.1; neighbours differ in one record. Rows, public ranges and categories are the
same for all (`problems.py`). The splits were used for nothing else, but constants of all methods,
ours too, were chosen on other splits of these tables. Automatic chooses its features by n, the
columns and the budget (`features="automatic"`), and each kind has its own row; single methods are
additive if a column has categories, else linear. If a competitor needs the size of labels or
slopes, a twentieth of its budget buys it, as in our methods. It has our linear features, on adult
the additive ones too. DP-EBM, whose neighbours have one record more or less, gets the epsilon at
which replacing a record costs the same as for us. "no privacy" is least squares or logistic
regression, with the features of single methods. The best competitor of a cell has the best mean on
the same splits, which favours it. Tables are split {num_splits} times, designs drawn {num_draws}
times, the largest {fewest}. DP-EBM is not run on designs of more than half a million numbers, and
DPKernelRidge not on any design."""


def summary(dataset: xarray.Dataset) -> str:
    """Every mean score on tables, and Automatic against the best competitor of each cell."""
    facts = dataset.attrs
    parts = [
        _SETTING.format_map(json.loads(facts["config"])),
        f"DP-EBM: {facts['interpret-core']}. Not run: {facts['diffprivlib']}; OpenDP, whose linear "
        "regression takes one column.",
    ]
    score = dataset.score.mean("split")
    errors = standard_error(dataset.score, "split")
    for name in [str(name) for name in dataset.problem.values if name in TABLES]:
        means, at = score.sel(problem=name), dataset.sel(problem=name)
        learners = means.dropna("learner", how="all").learner.values
        rows = []
        for learner in learners:
            where = {"problem": name, "learner": learner}
            pairs = zip(means.sel(learner=learner).values, errors.sel(where).values, strict=True)
            rows.append([learner, *(f"{mean:.4f} ± {error:.4f}" for mean, error in pairs)])
        head = ["learner", *(f"ε = {value:g}" for value in dataset.epsilon.values)]
        title = f"**{name}** ({int(at.num_samples)} rows, {int(at.num_columns)} columns)"
        parts.append(f"{title}\n\n{markdown(head, rows)}")
    head = ["problem", "ε", "Automatic", "best competitor", "difference", "z", "winner", _FREE]
    for is_table in (True, False):
        rows = []
        for (name, epsilon), one in verdicts(dataset, is_table).items():
            at = score.sel(problem=name, epsilon=epsilon)
            ours, best, free = (f"{at.sel(learner=key):.4f}" for key in (_OURS, one.best, _FREE))
            gap = f"{'**loss** ' * (one.z < -_SIGMAS)}{one.gap:+.5f} ± {one.error:.5f}"
            found = f"{one.best} {best}", gap, f"{one.z:+.1f}", one.winner, free
            rows.append([name, f"{epsilon:g}", ours, *found])
        parts.append(markdown(head, rows))
    return "\n\n".join(parts)


claims = harness.claims_of(checks)
harness.main(__name__)
