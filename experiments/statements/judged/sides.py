"""The sides of a statement: numbers, and the limits within which they lie if it holds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

# A mean of a right statement is further off by chance in one of a few million.
_SIGMAS = 5.0


class Side(NamedTuple):
    """A number that a statement bounds.

    Attributes:
        words: the number in words.
        value: the number as computed.
        low, high: its limits.
    """

    words: str
    value: float
    low: float = -np.inf
    high: float = np.inf


def at_most(words: str, left: Any, right: Any) -> Side:
    """The left side nearest to its right side, or furthest above it, as a share of it.

    Args:
        words: the left side in words.
        left: one or more numbers.
        right: upper bounds, positive.
    """
    found, bound = map(np.ravel, np.broadcast_arrays(np.asarray(left, float), right))
    worst = np.argmax(found / bound)
    return Side(words, float(found[worst]), high=float(bound[worst]))


def at_least(words: str, left: Any, right: Any) -> Side:
    """The left side nearest to its right side, or furthest below it, as a share of it.

    Args:
        words: the left side in words.
        left: one or more numbers.
        right: lower bounds, positive.
    """
    found, bound = map(np.ravel, np.broadcast_arrays(np.asarray(left, float), right))
    worst = np.argmin(found / bound)
    return Side(words, float(found[worst]), low=float(bound[worst]))


def between(words: str, values: Any, low: float, high: float) -> Iterator[Side]:
    """The least and the largest of some numbers, above one limit and below another."""
    yield Side(words, float(np.min(values)), low, high)
    if np.size(values) > 1:
        yield Side(f"{words}, largest", float(np.max(values)), low, high)


def mean(
    words: str, samples: Any, expected: float, wrong: tuple[float, ...] = ()
) -> Iterator[Side]:
    """A sample mean within five standard errors of its expectation, and further from wrong values.

    Args:
        words: the mean in words.
        samples: independent samples of one distribution.
        expected: mean of the distribution.
        wrong: values that the same samples have to reject.
    """
    samples = np.asarray(samples, float)
    found, count = samples.mean(), len(samples)
    # Few samples know their own spread badly: the level is that of Student's t.
    allowed = t.isf(norm.sf(_SIGMAS), count - 1) * samples.std(ddof=1) / np.sqrt(count)
    yield Side(words, float(found), expected - allowed, expected + allowed)
    for other in wrong:
        yield Side(f"{words}, away from {other:.3g}", abs(float(found) - other), low=allowed)


def order(
    words: str, ratios: Any, sizes: tuple[int, ...], power: float, room: float = 1.25
) -> Iterator[Side]:
    """Numbers over their order do not grow with the size; over a smaller order all of them do.

    Args:
        words: the numbers in words.
        ratios: one row for each size.
        sizes: the sizes, in growing order.
        power: the smaller order is the order times size^-power.
        room: factor from which on a ratio counts as grown.
    """
    rows = np.reshape(ratios, (len(sizes), -1))
    yield at_most(f"{words}, growth over the order", rows.max(axis=0) / rows[0], room)
    rows = rows * np.asarray(sizes, float)[:, None] ** power
    words = f"{words}, growth over the order times size^-{power:g}"
    yield at_least(words, rows.max(axis=0) / rows[0], room)


def sphere_rows(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Rows uniform on the sphere of radius sqrt(d)."""
    rows = rng.standard_normal((count, dim))
    return rows * np.sqrt(dim) / np.linalg.norm(rows, axis=1, keepdims=True)


def gaussian_mean(function: Any) -> float:
    """E f(g) of a smooth function, by 80 nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return float(weights @ function(nodes) / weights.sum())
