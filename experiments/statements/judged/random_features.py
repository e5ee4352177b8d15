"""PF's lemmas on random features, measured on the sphere, and the path bound of its proof.

A lemma says that some norm is O(f), with high probability, as d, n and p grow together. Here d
doubles, n = d^(5/4) and p = n^2, and the norm over f does not grow. That a bound without slack
would have been refuted is seen by multiplying with a power of d that f may not lose: 1/2 for most
lemmas, more for those whose logarithms and further terms leave more room.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np
from scipy.stats import norm

from experiments.statements.judged.sides import (
    Side,
    at_least,
    at_most,
    between,
    gaussian_mean,
    order,
    sphere_rows,
)

LINEAR = gaussian_mean(lambda z: np.tanh(z) * z)
SECOND_MOMENT = gaussian_mean(lambda z: np.tanh(z) ** 2)
POWERS = {
    "6.1": 0.75,
    "6.2": 2.0,
    "6.3": 1.5,
    "6.4": 3.5,
    "C.2": 1.5,
    "C.4": 1.0,
    "C.6": 0.5,
    "C.7": 0.5,
    "C.8": 0.5,
    "C.9": 1.0,
    "C.10": 0.75,
    "C.11": 0.5,
    "C.12": 0.5,
    "C.13": 1.0,
    "C.14": 2.0,
    "C.15": 1.0,
    "C.16": 0.5,
}


def _norm(matrix):
    return np.linalg.norm(matrix, 2)


def _expected_kernels(rng, inputs, num_draws):
    """E K / p and E K~ / p, the second of the features without their linear part."""
    count, dim = inputs.shape
    total, rest = np.zeros((count, count)), np.zeros((count, count))
    for _ in range(num_draws // 10_000):
        before = inputs @ rng.standard_normal((dim, 10_000)) / np.sqrt(dim)
        features = np.tanh(before)
        total += features @ features.T
        features -= LINEAR * before
        rest += features @ features.T
    drawn = num_draws // 10_000 * 10_000
    return total / drawn, rest / drawn


def _measured(dim, seed):
    """For each lemma, the norm over its order."""
    rng = np.random.default_rng(seed)
    count = round(dim**1.25)
    width = count**2
    inputs, new = sphere_rows(rng, count, dim), sphere_rows(rng, 200, dim)
    weights = rng.standard_normal((width, dim)) / np.sqrt(dim)
    labels = np.sign(inputs @ rng.standard_normal(dim))
    features, test = np.tanh(inputs @ weights.T), np.tanh(new @ weights.T)
    rest, test_rest = features - LINEAR * inputs @ weights.T, test - LINEAR * new @ weights.T
    values, vectors = np.linalg.eigh(features @ features.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    top = features.T @ (vectors[:, :dim] / np.sqrt(values[:dim]))
    inverse = (vectors / values) @ (vectors.T @ features)
    coordinates = vectors.T @ labels
    interpolator = inverse.T @ labels

    def below(matrix):
        """The part outside the top d directions of the kernel."""
        return matrix - top @ (top.T @ matrix)

    log = np.log(count)
    found = {}
    of_inputs = np.linalg.svd(inputs, compute_uv=False)
    of_weights = np.linalg.svd(weights, compute_uv=False)
    found["C.2"] = [count / of_inputs[-1] ** 2, of_inputs[0] / np.sqrt(count)]
    found["C.2"] += [width / dim / of_weights[-1] ** 2, of_weights[0] ** 2 * dim / width]
    found["C.6"] = [np.sqrt(values[0] * dim / (count * width))]
    found["C.8"] = [_norm(rest) / np.sqrt(width)]
    length = np.linalg.norm(features, axis=1)
    found["C.9"] = [np.abs(length**2 / width - SECOND_MOMENT).max() * np.sqrt(width) / log]
    found["C.9"] += [np.sqrt(width) / (length - np.linalg.norm(rest, axis=1)).min()]
    pseudo = np.linalg.pinv(inputs)
    found["C.10"] = [_norm(pseudo) * np.sqrt(count), np.sqrt(width / dim) / of_weights[-1]]
    found["C.10"] += [_norm(LINEAR * weights.T - pseudo @ features) * np.sqrt(count / width)]
    found["C.10"] += [_norm(LINEAR * weights.T @ inverse.T) * np.sqrt(count)]
    found["C.11"] = [_norm(below(weights)) * np.sqrt(count / width)]
    found["C.11"] += [_norm(below(np.linalg.qr(weights)[0])) * np.sqrt(count / dim)]
    found["C.12"] = [np.sqrt(width) / np.linalg.norm(features @ top, axis=1).min()]
    found["C.13"] = [_norm(rest @ weights) / (np.sqrt(width * count / dim) * log)]
    limit = np.sqrt(dim) / count + np.sqrt(count) * np.log(dim) ** 3 / dim**1.5
    found["C.14"] = [_norm(weights.T @ below(inverse.T)) / limit]
    limit = log**4 + width * np.log(dim) ** 3 / dim**1.5
    found["C.15"] = [_norm(test_rest) ** 2 / len(new) / limit]
    found["C.16"] = [np.mean((test @ interpolator) ** 2)]
    mean, mean_rest = _expected_kernels(rng, inputs, 30_000 + 5 * width)
    lengths, directions = np.linalg.eigh(mean)
    root = directions / np.sqrt(lengths)
    apart = root.T @ (features @ features.T / width - mean) @ root
    found["C.4"] = [_norm(apart) / (np.sqrt(count / width) * log * np.log(width))]
    found["C.7"] = [_norm(mean_rest)]
    # Gradient flow and its noise at (4.3)'s time and clip norm; epsilon and delta divided out.
    stop = dim * log**2 / width
    times = np.linspace(0, 1, 60) ** 2 * stop
    left = np.exp(-2 * values[:, None] * times / count) * coordinates[:, None]
    found["6.1"] = [np.abs(vectors @ left).max() / log]
    learnt = -np.expm1(-2 * values * stop / count) / values
    early = features.T @ (vectors @ (learnt * coordinates))
    limit = dim / count + count * np.log(dim) ** 3 / dim**1.5
    found["6.4"] = [np.mean((test @ (early - interpolator)) ** 2) / limit]
    strength = (2 * np.sqrt(width) * log**2 / count) ** 2 * 8 * stop
    spread = -count / (4 * values) * np.expm1(-4 * values * stop / count)
    # The noise's path on the training rows, with epsilon where Assumption 4 has it at least.
    relaxation, gap = 2 * values / count, stop / 60
    kick = np.sqrt(-np.expm1(-2 * relaxation * gap) / (2 * relaxation) * strength)
    path, largest = np.zeros(count), 0.0
    for _ in range(60):
        path = path * np.exp(-relaxation * gap) + kick * rng.standard_normal(count)
        moved = vectors @ (np.sqrt(values) * path)
        largest = max(largest, np.abs(moved).max() * count / (dim * log**5))
    found["6.2"] = [largest / log]
    inside = (test @ features.T @ vectors) ** 2 / values
    variance = strength * np.mean(stop * np.sum(test**2, axis=1) + inside @ (spread - stop))
    found["6.3"] = [variance / (dim**2 * log**10 / count**2)]
    return found


def orders(dims: tuple[int, ...]) -> Iterator[Side]:
    """The norms of random features, of gradient flow and of its noise have their orders.

    Source: PF Lemmas 6.1 to 6.4; PF Lemmas C.2, C.4, C.6 to C.16.
    """
    drawn = [[_measured(dim, seed) for seed in range(2)] for dim in dims]
    for lemma, power in POWERS.items():
        ratios = [np.mean([one[lemma] for one in draws], axis=0) for draws in drawn]
        yield from order(lemma, ratios, dims, power, room=1.15)


_NUM_RUNS, _NUM_TIMES, _DURATION = 600, 150, 2.0


@functools.cache
def _suprema():
    """sup |phi^T Theta~| of 30 rows in units of |phi| Sigma sqrt(tau), with and without a drift."""
    rng = np.random.default_rng(5)
    features = np.tanh(rng.standard_normal((30, 6)) @ rng.standard_normal((6, 50)) / np.sqrt(6))
    _, values, basis = np.linalg.svd(features, full_matrices=False)
    projected = features @ basis.T
    units = np.linalg.norm(projected, axis=1) * np.sqrt(_DURATION)
    rng, step = np.random.default_rng(1), _DURATION / _NUM_TIMES
    found = []
    for rates in (2 * values**2 / 30, np.zeros(30)):
        decay = np.exp(-rates * step)
        safe = np.where(rates > 0, rates, 1)
        variance = np.where(rates > 0, -np.expm1(-2 * rates * step) / (2 * safe), step)
        state, largest = np.zeros((_NUM_RUNS, 30)), np.zeros((_NUM_RUNS, 30))
        for _ in range(_NUM_TIMES):
            state = state * decay + np.sqrt(variance) * rng.standard_normal(state.shape)
            np.maximum(largest, np.abs(state @ projected.T), out=largest)
        found.append(largest / units)
    return found


def mean_supremum() -> Iterator[Side]:
    """The attractive drift makes the mean supremum smaller than that of Brownian motion.

    Source: PF Lemma 6.2, (6.8), by (6.9), (6.98) and (6.99).
    """
    # E sup |B| of Brownian motion on [0, 1].
    most = np.sqrt(np.pi / 2)
    drifting, free = (each.mean(axis=0) for each in _suprema())
    error = 5 * _suprema()[1].std(axis=0, ddof=1) / np.sqrt(_NUM_RUNS)
    yield at_most("with the drift", drifting, most - error)
    # Free paths, seen at 150 times, have it but for what is missed between two of them.
    missed = 2 * 0.5826 / np.sqrt(_NUM_TIMES)
    yield at_most("gap without it", np.abs(free - most), missed + error)
    yield at_least("without it", free, most * 2 / 3)


def tails_of_the_supremum() -> Iterator[Side]:
    """The supremum has Gaussian tails, with the 2 in the exponent that (6.94) omits.

    Source: PF (6.94), with its exponent corrected, (6.100) and (6.101).
    """
    for each, words in zip(_suprema(), ("with", "without"), strict=True):
        for level in (1.0, 2.0, 3.0):
            share = (each > level).mean(axis=0)
            error = np.sqrt(share * (1 - share) / _NUM_RUNS) + 1 / _NUM_RUNS
            # Both sides of sup z >= a, P = 2 P(z(tau) >= a) each.
            limit = 4 * norm.sf(level)
            yield at_most(f"share above {level:g} {words} drift", share - 5 * error, limit)
            yield at_most(f"that law above {level:g}", limit, 4 * np.exp(-(level**2) / 2))
    # As printed, it is below what is seen, and below the truth.
    printed = 4 * np.exp(-9.0)
    yield at_least("share above 3, beside what is printed", np.mean(_suprema()[1] > 3), 2 * printed)
    yield at_least("half the law above 3, beside it", 2 * norm.sf(3), printed)


def concentration_of_the_supremum() -> Iterator[Side]:
    """It concentrates as Borell and TIS say, on average over the rows.

    Source: PF (6.101) and (6.102).
    """
    above = [each - each.mean(axis=0) for each in _suprema()]
    for each in above:
        for level in (0.5, 1.0, 1.5):
            yield at_most(f"share above {level}", (each > level).mean(), np.exp(-(level**2) / 2))
    yield at_least("share above 0.5, at a level of 1", (above[1] > 0.5).mean(), np.exp(-0.5) / 4)


_SIZES = ((10, 20), (20, 49), (40, 121))


def _kernel(num_train, dim, seed=0):
    """K of tanh features, and the labels."""
    rng = np.random.default_rng(seed)
    inputs = sphere_rows(rng, num_train, dim)
    features = np.tanh(inputs @ rng.standard_normal((dim, num_train**2)) / np.sqrt(dim))
    return features @ features.T, np.sign(inputs[:, 0])


def length_of_the_interpolator() -> Iterator[Side]:
    """The interpolator is as long as sqrt(n/p), and the loss as steep as Appendix A says.

    Source: PF Appendix A, (A.1).
    """
    lengths, steepness = [], []
    for dim, num_train in _SIZES:
        kernel, labels = _kernel(num_train, dim)
        noise = np.random.default_rng(1).choice((-1.0, 1.0), num_train)
        inverse = np.linalg.inv(kernel)
        squares = [labels @ inverse @ labels, noise @ inverse @ noise, np.trace(inverse)]
        lengths.append(np.sqrt(squares) * np.sqrt(num_train**2 / num_train))
        # The steepest gradient in the ball of theta*'s radius, at the end that a row points to.
        row, radius = np.sqrt(kernel[0, 0]), np.sqrt(squares[0])
        constant = 2 * row * (radius * row + 1)
        yield at_most(f"steepest gradient at n = {num_train}", constant, 2.8 * radius * row**2)
        steepness.append(constant * radius / num_train)
    teacher, pure_noise, frobenius = np.transpose(lengths)
    # It is level over a factor of six in n, where another half of the exponent would show 2.5.
    for words, values in (("teacher", teacher), ("pure noise", pure_noise)):
        yield at_most(f"largest length over the least, {words}", values.max(), 1.25 * values.min())
    # Labels of pure noise are those for which the upper bound, |Phi^+|_F, is tight.
    yield at_most("gap to |Phi^+|_F, pure noise", np.abs(pure_noise / frobenius - 1), 0.15)
    yield at_most("length over |Phi^+|_F, teacher", teacher / frobenius, 0.8)
    # L |theta*| is of the order n, at which the earlier bounds are vacuous.
    yield Side("L |theta*|/n", max(steepness), 1, 1.5 * min(steepness))


def _paths(num_train, dim, epsilon, num_runs=40, num_steps=200):
    """DP-GD with and without clipping, of the same noise, at time, clip norm and noise of (4.3).

    Parameters are seen in the basis of the rows' features, where theta* and all gradients lie.

    Returns:
        Whether a path left the no-clip set on its way, whether both ended in the same place, and
        the left side of (6.121) over log n, with Theta~ as in (6.6).
    """
    kernel, labels = _kernel(num_train, dim)
    log, width, delta = math.log(num_train), num_train**2, 1 / num_train
    duration, clip_norm = dim * log**2 / width, math.sqrt(width) * log**2
    noise = 2 * clip_norm * math.sqrt(duration) / num_train
    noise *= math.sqrt(8 * math.log(1 / delta)) / epsilon
    features, rate = np.linalg.cholesky(kernel), duration / num_steps
    # A slope is cut where the gradient is longer than the clip norm.
    limits = clip_norm / np.sqrt(np.diag(kernel))
    rng = np.random.default_rng(2)
    free, clipped, flow = (np.zeros((num_runs, num_train)) for _ in range(3))
    left, largest = np.zeros(num_runs, bool), np.zeros(num_runs)
    for _ in range(num_steps):
        kick = noise * math.sqrt(rate) * rng.standard_normal(free.shape)
        slopes = 2 * (free @ features.T - labels)
        cut = np.clip(2 * (clipped @ features.T - labels), -limits, limits)
        left |= np.any(np.abs(slopes) >= limits, axis=1)
        free = free - rate / num_train * slopes @ features + kick
        clipped = clipped - rate / num_train * cut @ features + kick
        flow = flow - rate / num_train * 2 * (flow @ features.T - labels) @ features
        moved = np.abs((free - flow) @ features.T) + np.abs(flow @ features.T - labels)
        np.maximum(largest, moved.max(axis=1), out=largest)
    return left, np.all(free == clipped, axis=1), largest / log


def paths_that_are_not_clipped() -> Iterator[Side]:
    """At a large epsilon no path is clipped, and at the largest that (4.2) allows every path is.

    Source: PF (6.121) to (6.123), (6.6).
    """
    bounds = []
    for dim, num_train in _SIZES[:2]:
        log, at = math.log(num_train), f"n = {num_train}"
        # Where (4.2) begins, with a constant of one.
        epsilon = dim * log**5 / num_train * math.sqrt(log)
        left, same, bound = _paths(num_train, dim, epsilon)
        yield from between(f"share that leaves the set, {at}", left.mean(), 0, 0)
        yield from between(f"share that ends in the same place, {at}", same.mean(), 1, 1)
        bounds.append(bound.mean())
        # (4.2) ends below: at the most that it allows paths leave, and the processes part.
        yield at_most(f"largest epsilon of (4.2), {at}", 8 * log, epsilon / 8)
        left, same, beyond = _paths(num_train, dim, 8 * log)
        yield from between(f"share that leaves there, {at}", left.mean(), 1, 1)
        yield from between(f"share that ends in the same place there, {at}", same.mean(), 0, 0)
        yield at_least(f"(6.121) there, {at}", beyond.mean(), 5 * bounds[-1])
    # O(log n): over it the bound falls, while the room, log^2 n / 2 and a constant, grows.
    yield at_most("(6.121) over log n", bounds, [1, bounds[0]])
    # Where it is left by some paths, the two processes part on those alone.
    left, same, _ = _paths(20, 10, 31.0)
    yield from between("share that leaves at epsilon = 31", left.mean(), 0.1, 0.9)
    yield from between("of it, share that parts", np.mean(same == ~left), 1, 1)


STATEMENTS = (
    orders,
    mean_supremum,
    tails_of_the_supremum,
    concentration_of_the_supremum,
    length_of_the_interpolator,
    paths_that_are_not_clipped,
)
