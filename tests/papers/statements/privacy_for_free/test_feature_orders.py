"""The orders in PF's lemmas on random features, measured: NumPy alone, nothing of jaxdp.

A lemma says that some norm is O(f), with high probability, as d, n and p grow together. Here d
doubles twice, n = d^(5/4) and p = n^2, and the norm over f must not grow. That a bound without
slack would have been refuted is seen by multiplying with a power of d that f may not lose: 1/2 for
most lemmas, more for those whose logarithms and further terms leave more room.
"""

import functools

import numpy as np
import pytest

pytestmark = pytest.mark.slow

DIMS = (10, 20, 40)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
LINEAR = float(np.sum(_WEIGHTS * np.tanh(_NODES) * _NODES))
SECOND_MOMENT = float(np.sum(_WEIGHTS * np.tanh(_NODES) ** 2))


def _norm(matrix):
    return np.linalg.norm(matrix, 2)


def _sphere(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows * np.sqrt(dim) / np.linalg.norm(rows, axis=1, keepdims=True)


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
    inputs, new = _sphere(rng, count, dim), _sphere(rng, 200, dim)
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
        """What the top d directions of the kernel do not span."""
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
    order = np.sqrt(dim) / count + np.sqrt(count) * np.log(dim) ** 3 / dim**1.5
    found["C.14"] = [_norm(weights.T @ below(inverse.T)) / order]
    order = log**4 + width * np.log(dim) ** 3 / dim**1.5
    found["C.15"] = [_norm(test_rest) ** 2 / len(new) / order]
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
    order = dim / count + count * np.log(dim) ** 3 / dim**1.5
    found["6.4"] = [np.mean((test @ (early - interpolator)) ** 2) / order]
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


@functools.cache
def _ratios(lemma):
    """Mean over two draws, (dims, statements of the lemma)."""
    return np.asarray(
        [np.mean([_all(dim, seed)[lemma] for seed in range(2)], axis=0) for dim in DIMS]
    )


@functools.cache
def _all(dim, seed):
    return _measured(dim, seed)


def _grows(ratios, power=0.0):
    """Whether some statement's ratio, times that power of d, is larger at twice the d."""
    scaled = ratios * np.asarray(DIMS)[:, None] ** power
    return scaled.max(axis=0) > 1.15 * scaled[0]


# Source: PF Lemmas 6.1 to 6.4; PF Lemmas C.2, C.4, C.6 to C.16.
@pytest.mark.parametrize(
    ("lemma", "power"),
    [
        ("6.1", 0.75),
        ("6.2", 2.0),
        ("6.3", 1.5),
        ("6.4", 3.5),
        ("C.2", 1.5),
        ("C.4", 1.0),
        ("C.6", 0.5),
        ("C.7", 0.5),
        ("C.8", 0.5),
        ("C.9", 1.0),
        ("C.10", 0.75),
        ("C.11", 0.5),
        ("C.12", 0.5),
        ("C.13", 1.0),
        ("C.14", 2.0),
        ("C.15", 1.0),
        ("C.16", 0.5),
    ],
)
def test_a_norm_grows_no_faster_than_its_lemma_says(lemma, power):
    ratios = _ratios(lemma)
    assert not _grows(ratios).any()
    assert _grows(ratios, power).all()
