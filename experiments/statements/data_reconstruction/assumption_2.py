r"""DR's Assumption 2 on the activation: a check of it, and an activation that meets it.

The assumption asks for a Lipschitz function with a Lipschitz derivative, Hermite coefficients
$\mu_0 = \mu_2 = 0$ and $\mu_1 \ne 0$, and two coefficients of order 3 or more, one odd and one
even, that are not zero. DR's figures show no activation that has all of it: ReLU and ReLU + tanh
have $\mu_0$, $\mu_2$ and a jump in the slope, tanh is odd. `mixed_parity` has it.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from experiments.statements.smoothness import difference_quotient, is_bounded, largest_jump
from jaxdp.core.numerics.hermite import host_function, scaled_coefficients
from jaxdp.theory.reconstruction.error import Activation, slope_of

# Coefficients below this share of the activation's root mean square are zero to quadrature.
_ZERO = 1e-9
_CURVE_COEFFICIENT = math.exp(1.5) / 4


def mixed_parity(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""An activation that meets Assumption 2; no activation in DR's figures does.

    $\tanh z + \tfrac14(\cos z - \tfrac14e^{3/2}\cos 2z - \tfrac34e^{-1/2})$: tanh is its odd part;
    the even part is smooth, bounded and has no Hermite coefficient of order 0 or 2, because
    $E\cos(ag)\,h_k(g) = (-1)^{k/2}a^ke^{-a^2/2}/\sqrt{k!}$ for even k. Its fourth coefficient is
    $-\tfrac34e^{-1/2}/\sqrt{24} = -0.093$. Any share of the even part would do; attacks find rows
    more easily if it is small.

    Source: DR Assumption 2, of which it is an example.
    """
    even = jnp.cos(values) - _CURVE_COEFFICIENT * jnp.cos(2 * values) - 0.75 * math.exp(-0.5)
    return jnp.tanh(values) + even / 4


class ActivationReport(NamedTuple):
    r"""Quantities of an activation that Assumption 2 asks about.

    Attributes:
        mean, linear, quadratic: the Hermite coefficients $\mu_0$, $\mu_1$, $\mu_2$.
        odd, even: the largest ones of order 3 or more, by parity.
        has_bounded_slope: whether the slope stops growing within the examined range.
        slope_jump: the largest jump of the slope; 0 if it is continuous.
        jump: the largest jump of the function itself.
        has_bounded_curvature: whether the slope's own derivative stops growing too.
        scale: root mean square of $\phi(g)$, the scale for what counts as zero.
    """

    mean: float
    linear: float
    quadratic: float
    odd: float
    even: float
    has_bounded_slope: bool
    slope_jump: float
    jump: float
    has_bounded_curvature: bool
    scale: float

    @property
    def failures(self) -> tuple[str, ...]:
        """The clauses that do not hold, in words; none if the assumption does."""

        def is_zero(coefficient):
            return abs(coefficient) <= _ZERO * self.scale

        clauses = {
            f"mu_0 is {self.mean:.3g}, not 0": not is_zero(self.mean),
            "mu_1 is 0": is_zero(self.linear),
            f"mu_2 is {self.quadratic:.3g}, not 0": not is_zero(self.quadratic),
            "no odd coefficient of order 3 or more": is_zero(self.odd),
            "no even coefficient of order 3 or more": is_zero(self.even),
            "the slope is not bounded": not self.has_bounded_slope,
            f"the activation jumps by {self.jump:.3g}": self.jump > 0,
            f"the slope jumps by {self.slope_jump:.3g}": self.slope_jump > 0,
            "the slope's derivative is not bounded": not self.has_bounded_curvature,
        }
        return tuple(words for words, fails in clauses.items() if fails)


def assumption_2(activation: Activation, *, max_order: int = 24) -> ActivationReport:
    r"""Check of an activation against Assumption 2; its report names the clauses that do not hold.

    Coefficients are quadrature, to about $10^{-13}$, up to `max_order`. Values
    beyond 13 standard deviations are not seen: a function that grows by less than a half from 6.5
    to 13 of them counts as bounded.

    Source: DR Assumption 2.
    """
    function, slope = host_function(activation), host_function(slope_of(activation))
    found, square = scaled_coefficients(function, np.ones(1), max_order + 1)
    coefficients = found[0]
    higher = np.abs(coefficients[3:])
    return ActivationReport(
        *(float(value) for value in coefficients[:3]),
        odd=float(coefficients[3::2][np.argmax(higher[::2])]),
        even=float(coefficients[4::2][np.argmax(higher[1::2])]),
        has_bounded_slope=is_bounded(slope),
        slope_jump=largest_jump(slope),
        jump=largest_jump(function),
        has_bounded_curvature=is_bounded(difference_quotient(slope)),
        scale=math.sqrt(float(square[0])),
    )
