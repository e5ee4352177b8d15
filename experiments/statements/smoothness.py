"""Jumps and growth of an activation, as far as finitely many points show them.

A function is examined up to 13 standard deviations of a Gaussian, and not beyond.
"""

import numpy as np

from jaxdp.core.numerics.hermite import HostFunction, smooth_panels

# A modulus that grows by half from here to the end of the examined range is called unbounded.
_NEAR, _FAR = 6.5, 13.0
_JUMP = 1e-4
# Near a place, and much nearer: a steep change falls from one to the other, a jump does not.
_BESIDE, _NEARER = 1e-7, 1e-9
_STEP = 1e-4


def largest_modulus(function: HostFunction, *, within: float = _NEAR) -> float:
    """The largest modulus on a grid of 2001 points within an interval about 0."""
    return float(np.abs(function(np.linspace(-within, within, 2001))).max())


def is_bounded(function: HostFunction) -> bool:
    """Whether the modulus grows by less than a half from 6.5 to 13 standard deviations."""
    return largest_modulus(function, within=_FAR) <= 1.5 * largest_modulus(function)


def largest_jump(function: HostFunction) -> float:
    """0 if the function is continuous; a jump below 1e-4 of its largest modulus is not seen.

    Raises:
        ValueError: from `smooth_panels`.
    """
    kinks = smooth_panels(function, 1.0).kinks
    if not len(kinks):
        return 0.0
    gaps, nearer = (
        np.abs(function(kinks + far) - function(kinks - far)) for far in (_BESIDE, _NEARER)
    )
    jump = float(np.max(np.where(nearer > gaps / 2, gaps, 0.0)))
    return jump if jump > _JUMP * max(largest_modulus(function), 1e-300) else 0.0


def difference_quotient(function: HostFunction) -> HostFunction:
    """The derivative, by a central difference of a ten-thousandth on either side."""
    return lambda values: (function(values + _STEP) - function(values - _STEP)) / (2 * _STEP)
