"""What is not known of a problem: a range of initial risks and one of label noises."""

from typing import Any

import numpy as np

from jaxdp.core.checks import host_array
from jaxdp.core.description import AbstractDescription

# Places along each side at which a regret is looked at.
_SIDE = 3


class Box(AbstractDescription):
    """Ranges of what a plan must be good for, in place of the problem's own numbers.

    Args:
        initial_risk: (low, high) of R(0), with 0 < low <= high.
        label_noise: (low, high) of zeta, with 0 <= low <= high.

    Raises:
        ValueError: the box is empty, or reaches out of range.

    Example:
        >>> import jaxdp
        >>> box = jaxdp.Box(initial_risk=(0.05, 5.0), label_noise=(0.1, 1.0))
        >>> len(box.places())
        9
    """

    initial_risk: tuple[float, float]
    label_noise: tuple[float, float]

    def __init__(self, initial_risk: tuple[float, float], label_noise: tuple[float, float]):
        self.initial_risk = _range("initial_risk", initial_risk)
        self.label_noise = _range("label_noise", label_noise)
        if not self.initial_risk[0] > 0:
            raise ValueError(f"expected initial_risk > 0 in the box, got {self.initial_risk[0]}")
        if not self.label_noise[0] >= 0:
            raise ValueError(f"expected label_noise >= 0 in the box, got {self.label_noise[0]}")

    def places(self) -> list[tuple[float, float]]:
        """Corners, middles of the sides and the centre, as initial risk and label noise."""
        return [
            (risk, noise)
            for risk in _side(*self.initial_risk)
            for noise in _side(*self.label_noise)
        ]


def _range(name: str, value: Any) -> tuple[float, float]:
    ends = host_array(name, value)
    if ends.shape != (2,):
        raise ValueError(f"expected {name} to be a pair (low, high), got shape {ends.shape}")
    low, high = ends.tolist()
    if not (low <= high and np.isfinite(high)):
        raise ValueError(f"expected {name} with low <= high, both finite, got ({low}, {high})")
    return low, high


def _side(low: float, high: float) -> list[float]:
    if low == high:
        return [low]
    if low > 0:
        return np.geomspace(low, high, _SIDE).tolist()
    return np.linspace(low, high, _SIDE).tolist()
