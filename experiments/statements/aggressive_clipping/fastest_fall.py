r"""How fast the risk of one pass can fall at most, over all clips and learning rates.

In $Z = R + K\tilde\eta^2$, $K = 2c^2\gamma^2/\rho^2$, no derivative of the schedule is left:

$$ -Z' = 2\tilde\eta\lambda\,m(R) - \tilde\eta^2\gamma N(R), \quad m = \mu R, \quad
   N = \nu(R + \zeta^2/2), $$

where $\lambda$ is the largest eigenvalue (AC (5), lower line; isotropic data have equality).
Its largest value is bounded on boxes of choices, not sampled. Three facts make that easy.

1. At $\tilde\eta \le 2/\gamma$ the fall grows with R: its derivative is $\tilde\eta(2\lambda m' -
   \tilde\eta\gamma N')$, with $N' = \mathrm{erf}(c'/\sqrt2) - \sqrt{2/\pi}\,c'e^{-c'^2/2}$, no
   more than $m' \ge \mathrm{erf}(c'/\sqrt2) - \sqrt{2/\pi}\,c'e^{-c'^2/2}/2$. Hence it grows with
   Z; and beyond the cap, where the gradient's rate stays at $2/\gamma$ and the noise does not,
   nothing falls faster.
2. In $\tau = c\tilde\eta$ the clip is gone from $R = Z - 2(\gamma\tau/\rho)^2$, and $\mu/c$ and
   $\nu/c^2$ fall with c (AC Lemma 12): the ends of a range of clips bound all of it.
3. At fixed R the fall is a quadratic in $\tau$.

Source: AC (5), Lemma 12. Derived: the bound; test_certificate.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

# Clips from this share of the label noise up to this many of the first residuals' deviations.
_LEAST_CLIP, _MOST_CLIP = 0.02, 8.0


class Law(NamedTuple):
    """Parameters of the fall besides state, clip and rate; K = strength c^2."""

    gamma: float
    strength: float
    half_variance: float
    largest: float


def first_boxes(law: Law, risk: float, clip: float | None) -> np.ndarray:
    """Boxes (4, count) that hold every choice: a range of clips, one of K eta^2 over Z."""
    shares = np.linspace(0, 1, 2 if law.strength == 0 else 9) ** 2
    if clip is None:
        noise, most = 2 * law.half_variance, _MOST_CLIP * math.sqrt(2 * (risk + law.half_variance))
        clips = np.geomspace(_LEAST_CLIP * math.sqrt(noise), most, 13)
        clips = np.concatenate([[0.0], clips, [np.inf]])
        ranges = np.stack([clips[:-1], clips[1:]])
    else:
        ranges = np.full((2, 1), float(clip))
    pairs = np.stack([shares[:-1], shares[1:]])
    count = pairs.shape[1]
    return np.concatenate(
        [np.repeat(ranges, count, axis=1), np.tile(pairs, (1, ranges.shape[1]))], axis=0
    )


def fastest_fall(
    risk: float, boxes: np.ndarray, law: Law, most: float, tolerance: float
) -> tuple[float, float]:
    """An upper bound of -Z' at Z = risk within the tolerance, by branch and bound; at what rate."""
    best, fastest = 0.0, 0.0
    while True:
        with np.errstate(all="ignore"):
            bounds, falls, rates = _bounds(risk, boxes, law, most)
        # No box would ever be left out.
        if not (np.all(bounds < np.inf) and np.all(falls < np.inf)):
            raise ValueError(
                "expected gamma, label_noise, initial_risk, rho and largest of which float64 holds "
                f"products and quotients, got {law} at a risk of {risk}"
            )
        if falls.max() > best:
            best, fastest = float(falls.max()), float(rates[np.argmax(falls)])
        boxes = boxes[:, bounds > best * (1 + tolerance)]
        if boxes.size == 0:
            return best * (1 + tolerance), fastest
        boxes = _halved(_halved(boxes, 0, _middle_clip), 2, _middle_share)


def _bounds(
    risk: float, boxes: np.ndarray, law: Law, fastest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each box an upper bound of the fall in it, and the fall at one of its points."""
    least, most, first, _ = boxes
    is_last = np.isinf(most)
    ends = np.where(is_last, least, most)
    high = risk * (1 - first)
    with np.errstate(divide="ignore"):
        low, up = np.sqrt(risk * boxes[2:] / law.strength) if law.strength else (0 * first, np.inf)
    # `low` belongs to tau, which in the last range is larger than the rate that replaces it.
    low = np.where(is_last, 0.0, low)
    cap = np.minimum(2 * ends / law.gamma, fastest)
    # In the last range of clips the rate times the least clip replaces tau, and mu is one.
    pull = np.where(is_last, high / np.where(is_last, least, 1), _pull(least, high, law))
    spread = _spread(ends, high, law)
    rate = np.clip(law.largest * pull / (law.gamma * spread), low, np.minimum(up, cap))
    bounds = rate * (2 * law.largest * pull - rate * law.gamma * spread)
    clip = np.where(is_last | (least == 0), ends, np.sqrt(np.where(is_last, 1, least) * ends))
    rate = np.minimum(rate, 2 * clip / law.gamma)
    inside = np.maximum(risk - law.strength * rate**2, 0)
    falls = rate * (2 * law.largest * _pull(clip, inside, law))
    falls -= rate**2 * law.gamma * _spread(clip, inside, law)
    return np.where(low <= cap, bounds, -np.inf), falls, rate


def _pull(clip: np.ndarray, risk: np.ndarray, law: Law) -> np.ndarray:
    """mu R / c, also at c = 0."""
    deviation = np.sqrt(2 * (risk + law.half_variance))
    safe = np.where(clip > 0, clip, 1)
    ratio = scipy.special.erf(safe / deviation / math.sqrt(2)) / safe
    return risk * np.where(clip > 0, ratio, math.sqrt(2 / math.pi) / deviation)


def _spread(clip: np.ndarray, risk: np.ndarray, law: Law) -> np.ndarray:
    """nu P / c^2."""
    power = risk + law.half_variance
    ratio = clip / np.sqrt(2 * power)
    inside = scipy.special.erf(ratio / math.sqrt(2)) - math.sqrt(2 / math.pi) * ratio * np.exp(
        -(ratio**2) / 2
    )
    return scipy.special.erfc(ratio / math.sqrt(2)) / 2 + inside * power / clip**2


def _middle_clip(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A clip between two, even if one is zero or infinite."""
    inner = np.sqrt(np.where(np.isinf(high), 4 * low, high) * np.where(low == 0, high / 4, low))
    return np.where(low == high, low, inner)


def _middle_share(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (low + high) / 2


def _halved(boxes: np.ndarray, row: int, middle) -> np.ndarray:
    """Boxes halved along a side, those of no width left whole."""
    low, high = boxes[row], boxes[row + 1]
    between = middle(low, high)
    left, right = boxes.copy(), boxes[:, low < high].copy()
    left[row + 1] = np.where(low < high, between, high)
    right[row] = between[low < high]
    return np.concatenate([left, right], axis=1)
