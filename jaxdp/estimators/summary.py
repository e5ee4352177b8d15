"""The coefficients of a private linear fit with their errors: intervals, p-values, a table."""

import dataclasses
import math
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.checks import host_number
from jaxdp.core.terminals import printable

_WIDEST_NAME = 34


@dataclasses.dataclass(frozen=True)
class CoefficientSummary:
    """Unbiased coefficients and their errors, which print as a table.

    Attributes:
        names: name of each coefficient; the intercept is the last.
        estimates: coefficients without the shrinkage of the released function; NaN for features
            without rows that stand out of the noise.
        noise_std: standard deviation of the noise for privacy.
        sampling_std: standard deviation by which another sample's coefficients would differ.
            Both are infinite for those features.
        level: confidence level of the printed intervals.
    """

    names: tuple[str, ...]
    estimates: Float[np.ndarray, " coefficients"]
    noise_std: Float[np.ndarray, " coefficients"]
    sampling_std: Float[np.ndarray, " coefficients"]
    level: float = 0.95

    @property
    def std(self) -> Float[np.ndarray, " coefficients"]:
        """Standard deviation of each coefficient's error, from noise and sampling."""
        return np.hypot(self.noise_std, self.sampling_std)

    @property
    def p_values(self) -> Float[np.ndarray, " coefficients"]:
        """Probability of an estimate at least as far from 0, if the coefficient is 0."""
        return 2 * scipy.special.ndtr(-np.abs(self.estimates) / self.std)

    def interval(self, level: float) -> Float[np.ndarray, "coefficients 2"]:
        """Lower and upper ends of confidence intervals."""
        level = host_number("level", level)
        if not 0 < level < 1:
            raise ValueError(f"expected 0 < level < 1, such as 0.95, got {level}")
        half = float(scipy.special.ndtri((1 + level) / 2)) * self.std
        middle = np.where(np.isfinite(half), self.estimates, 0.0)
        return np.stack([middle - half, middle + half], axis=1)

    def __str__(self):
        low, high = (f"{(1 + sign * self.level) / 2:g}" for sign in (-1, 1))
        head = ["", "coef", "noise", "sampling", "z", "P>|z|", f"[{low}", f"{high}]"]
        with np.errstate(invalid="ignore"):
            ratios = self.estimates / self.std
        parts = (self.estimates, self.noise_std, self.sampling_std, ratios, self.p_values)
        rows = [
            [_short(name), *map(_number, row[:3]), f"{row[3]:.2f}", f"{row[4]:.3f}", *ends]
            for name, row, ends in zip(
                self.names,
                np.stack(parts, axis=1).tolist(),
                ([_number(end) for end in pair] for pair in self.interval(self.level).tolist()),
                strict=True,
            )
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [
            f"{row[0]:<{widths[0]}}  "
            + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            for row in (head, *rows)
        ]
        rule = "=" * max(map(len, lines))
        return "\n".join([rule, lines[0], "-" * len(rule), *lines[1:], rule])

    __repr__ = __str__


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _WIDEST_NAME else name[: _WIDEST_NAME - 3] + "..."


def _number(value: Any) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)
