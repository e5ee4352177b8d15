r"""An estimate of the weights from a private descent, with its errors, and the weights to release.

In the plan's axes the average of a descent is $\bar u_j = a_j u_j + \xi_j$: it has learnt the share
$a_j$ of the minimiser $u_j$ on the rows, and its noise has the variance $\sum_t s_t^2 r_{tj}^2$,
with $s_t$ the noise of step t and $r_{tj}$ the response to it. All are known
(`jaxdp.regression.descent_plan`). So $\bar u_j / a_j$ has no bias to first order, and

$$ V_j = \frac{\sum_t s_t^2 r_{tj}^2}{a_j^2} + \frac{q}{n\,m^2 \lambda_j} $$

is its variance about the population's minimiser: q is the mean square of the clipped slopes,
m the curvature, and $\lambda_j$ the mean square of the features along the axis.

The released weights are those of the average, which early stopping and damping shrink. Cells
of few rows are drawn to their column's mean (empirical Bayes with a known noise; Efron and Morris,
1973).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxdp.privacy import Release
from jaxdp.regression.descent import Stage
from jaxdp.regression.descent_plan import Spectrum, errors_and_echoes
from jaxdp.regression.logistic_path import LogisticPath
from jaxdp.regression.structure import Structure

_LEAST = 1e-3  # share learnt of a mode; with less an estimate is all noise
_RANK = 1e-6  # relative size of a direction of which nothing is known
_STANDS_OUT = 2.0  # a cell has rows to tell of if its noisy count is this many deviations
_SURE = 4.0  # a cell has rows if its noisy count is this many standard deviations
_HIDDEN = 1.0  # counts do not say which cells have rows if their noise is this many mean counts
_FAR = 1e-3  # weight in a curve's local mean of knots far away


class Known(NamedTuple):
    """An unbiased estimate of the weights, and the covariances of its errors."""

    weights: Float[np.ndarray, "features outputs"]
    noise: Float[np.ndarray, "features features"]
    sampling: Float[np.ndarray, "features features"]
    has_rows: Bool[np.ndarray, " features"]  # False: nothing is known of a weight

    def times(self, unit: float) -> "Known":
        """The same for weights times a number."""
        covariances = self.noise * unit**2, self.sampling * unit**2
        return Known(self.weights * unit, *covariances, self.has_rows)


class Learnt(NamedTuple):
    """The public result of a private fit."""

    weights: Float[np.ndarray, "features outputs"]  # for features divided by their bound
    noise_std: Float[np.ndarray, " features"]  # on each weight
    statement: Release | None = None  # of all releases; None for the Gaussian DP of the ledger
    offset: Float[np.ndarray, " outputs"] | float = 0.0  # added to the function
    known: Known | None = None
    is_straight: bool = False  # of linear features, in place of additive ones


def learnt_weights(
    stages: list[Stage],
    spectrum: Spectrum,
    structure: Structure,
    squares: Float[np.ndarray, "2 features"],
    num_samples: int,
    offset: Float[np.ndarray, " outputs"],
    turn: Float[np.ndarray, "features inner"] | None = None,
) -> Learnt:
    """The weights to release, and the estimate with its errors; all of public numbers.

    Args:
        stages: descents, each from the end of the one before.
        spectrum: known moments of the features in the last stage.
        structure: the features that the weights are for.
        squares: noisy mean squares of these features, and the deviations of their noise.
        num_samples: number of rows.
        offset: number added to the function.
        turn: map from weights of the features of the descent to those of `structure`, if they
            differ.
    """
    last, size = stages[-1], spectrum.base.shape[1]
    turn = np.eye(size) if turn is None else turn
    outer = _centring(structure, squares[0]) @ turn
    values = spectrum.values * last.plan.units**2
    curvatures, axes, _ = _curvatures(last, np.diag(values))
    transform = axes.T @ last.plan.transform
    left, noise = last.left_and_noise(curvatures / last.curvature)
    factors = outer @ transform.T * np.sqrt(noise)
    if last.start is not None:
        # What is left of the start, with the noise of the stage before.
        first, back = stages[-2], np.linalg.pinv(transform.T)
        _, before = first.left_and_noise(first.plan.values * first.plan.units**2)
        kept = (back @ first.plan.transform.T) * np.sqrt(before)
        factors = np.hstack([factors, outer @ transform.T @ (left[:, None] * kept)])
    noise_std = np.linalg.norm(factors, axis=1)
    used = stages if last.start is not None else stages[-1:]
    weights = _with_empty_cells(outer, noise_std, used, structure, squares)
    known = _known(stages, spectrum, structure, squares, num_samples, offset, turn)
    return Learnt(weights, noise_std, None, offset, known)


def _known(
    stages: list[Stage],
    spectrum: Spectrum,
    structure: Structure,
    squares: Float[np.ndarray, "2 features"],
    num_samples: int,
    offset: Float[np.ndarray, " outputs"],
    turn: Float[np.ndarray, "features inner"],
) -> Known:
    """The estimate, of the features that have rows.

    Rows have nothing of the other features, so the descent moves only in the span of A, the steps'
    coordinates of the known features, with the curvature m A S A'.
    """
    last, path = stages[-1], None
    if last.along != last.curvature and last.average.shape[1] == 1:
        path = LogisticPath.of(stages, float(np.ravel(offset)[0]))
        along = path.curvature * path.along * last.curvature
        last = last._replace(curvature=path.curvature * last.curvature, along=along)
        last = last._replace(square=path.square * last.square)
    has_rows = _has_rows(structure, squares)
    transform, modes = last.plan.transform @ turn.T, spectrum.values * last.plan.units**2
    back = np.linalg.pinv(transform, rcond=_RANK)[has_rows]
    known = transform[:, has_rows] @ back
    moments = (known * modes) @ known.T
    curvatures, axes, spread = _curvatures(last, moments)
    average = axes.T @ last.in_steps
    left, noise = last.left_and_noise(curvatures / last.curvature)
    learnt = np.maximum(1 - left, _LEAST)
    # How much the share learnt changes with the noise that is left in a curvature.
    std = spectrum.noise / np.sqrt(len(spectrum.values)) * last.curvature
    stds = std * np.sum((axes.T * last.plan.units) ** 2, axis=1)
    other, _ = last.left_and_noise((curvatures + stds) / last.curvature)
    start = np.zeros_like(average)
    if last.start is not None:
        start = axes.T @ np.linalg.pinv(last.plan.transform.T) @ last.start
    estimate = (average - left[:, None] * start) / learnt[:, None]
    noise = noise / learnt**2 + np.mean(estimate**2, axis=1) * ((left - other) / learnt) ** 2
    if path is not None:
        # Along the function the model of the path says how much is learnt.
        share = (axes.T @ moments @ last.in_steps)[:, 0] * average[:, 0]
        share = share / max(float(share.sum()), 1e-300)
        estimate = estimate + (1 / max(1 - path.left, _LEAST) - share @ (1 / learnt)) * average
    spread = last.square * spread
    if last.plan.is_one_pass:
        # Each step has rows of its own, whose errors its gradient shows like noise.
        _, echoes = errors_and_echoes(last.plan, curvatures)
        gains = np.sqrt(last.plan.num_steps * np.sum(echoes**2, axis=0)) / learnt
    else:
        gains = 1 / curvatures
    sampling = spread * np.outer(gains, gains) / num_samples
    maps = _centring(structure, squares[0] * has_rows)[:, has_rows]
    maps = maps @ (transform[:, has_rows].T @ axes)
    return Known(maps @ estimate, (maps * noise) @ maps.T, maps @ sampling @ maps.T, has_rows)


def _curvatures(
    stage: Stage, moments: Float[np.ndarray, "steps steps"]
) -> tuple[
    Float[np.ndarray, " modes"],
    Float[np.ndarray, "steps modes"],
    Float[np.ndarray, "modes modes"],
]:
    """The curvatures of the loss, their axes as columns, and the moments along these.

    Curvatures are m S but along the function, where they differ for classes: outputs are largest
    there.
    """
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    kept = values > _RANK * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    if stage.along == stage.curvature or stage.average.shape[1] > 1:
        return stage.curvature * values, vectors, np.diag(values)
    roots = np.sqrt(values)
    along = roots * (vectors.T @ stage.in_steps[:, 0])
    along = along / max(float(np.linalg.norm(along)), 1e-300)
    inner = stage.curvature * np.eye(len(values))
    inner += (stage.along - stage.curvature) * np.outer(along, along)
    sizes, turned = np.linalg.eigh(roots[:, None] * inner * roots)
    return sizes, vectors @ turned, (turned.T * values) @ turned


def _has_rows(
    structure: Structure, squares: Float[np.ndarray, "2 features"]
) -> Bool[np.ndarray, " features"]:
    """Which features of columns have rows that stand out of the noise in their count."""
    found = np.ones(squares.shape[1], bool)
    for group in structure.groups:
        counts, noise = squares[:, group.cells]
        found[group.cells] = (counts > _STANDS_OUT * noise) | group.is_line
    return found


def _with_empty_cells(
    turn: Float[np.ndarray, "features inner"],
    noise_std: Float[np.ndarray, " features"],
    stages: list[Stage],
    structure: Structure,
    squares: Float[np.ndarray, "2 features"],
) -> Float[np.ndarray, "features outputs"]:
    """The weights, with cells of few rows drawn to their column's mean.

    As far as the noise would carry them, that a descent leaves where it learns nothing. A column
    whose counts are mostly noise stays as it is.
    """

    def at(held):
        left, noise = np.ones_like(held), np.zeros_like(held)
        for stage in stages:
            lengths = np.linalg.norm(stage.plan.transform @ turn.T, axis=0)
            modes = np.minimum(held * lengths**2, stage.plan.largest_mode)
            own, variance = stage.left_and_noise(modes)
            left, noise = left * own, noise * own**2 + variance * lengths**2
        return left, noise

    weights = turn @ stages[-1].weights
    _, spreads = at(np.maximum(squares[0] - squares[1], 0.0))
    # Where counts are mostly noise they may be larger: then a curve stays as it is.
    shares = 1 - at(np.maximum(squares[0], 0.0) + squares[1])[0]
    shares = np.minimum(1, shares / max(float(np.median(shares)), 1e-9))
    is_known, is_sure = (squares[0] > times * squares[1] for times in (1, _SURE))
    drawn = weights.copy()
    for group in structure.groups:
        cells = group.cells
        known = is_known[cells] | group.is_line
        own = weights[cells]
        count = np.maximum(squares[0][cells], 0.0) * known
        typical = structure.unit**2 / len(cells)
        is_hidden = np.median(squares[1][cells]) > _HIDDEN * typical
        if group.is_ordered:
            places = np.arange(len(cells))
            near = np.exp(-np.abs(places[:, None] - places)) + _FAR
            near = near * np.maximum(squares[0][cells], 1e-300)
            mean = (near @ own) / near.sum(axis=1, keepdims=True)
            kept = shares[cells, None]
        elif known.any() and not (group.is_whole and is_hidden):
            # Each cell's size is that of the others: a cell of noise would vouch for itself.
            others = np.where(np.eye(len(cells), dtype=bool), 0.0, count)
            others = others / np.maximum(others.sum(axis=1, keepdims=True), 1e-300)
            mean = others @ own if group.is_whole else np.zeros_like(own)
            kept = np.ones_like(own)
            for _ in range(2):
                square = (own - mean) ** 2 - noise_std[cells, None] ** 2
                size = np.maximum(others @ (square * kept), 0.0)
                kept = size / (size + spreads[cells, None] + 1e-300)
                kept[is_sure[cells] | group.is_line] = 1.0
                if group.is_whole:
                    sure = others[:, :, None] * kept
                    mean = np.sum(sure * own, axis=1) / np.maximum(sure.sum(axis=1), 1e-300)
        else:
            continue
        drawn[cells] = mean + kept * (own - mean)
    return drawn


def _centring(
    structure: Structure, squares: Float[np.ndarray, " features"]
) -> Float[np.ndarray, "features features"]:
    """The map that moves the mean of each column's weights, by noisy counts, to the constant."""
    found = np.eye(len(squares))
    if structure.constant:
        for cells in (group.cells for group in structure.groups if group.is_whole):
            shares = np.maximum(squares[cells], 1e-300)
            shares = shares / shares.sum()
            found[np.ix_(cells, cells)] -= shares
            found[-1, cells] += shares / structure.constant
    return found
