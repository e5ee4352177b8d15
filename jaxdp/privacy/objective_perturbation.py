r"""The privacy of an objective perturbed by a Gaussian linear term, as a curve.

Why a minimiser is no less private than these curves stands with its calibration, in
`jaxdp.kernels.margin.objective_calibration`: for every pair of neighbours its privacy loss is at
most

$$ r + \max_v \frac{2 b \cdot v + \|v\|^2}{2\sigma^2}, \qquad b \sim N(0, \sigma^2 I), $$

over the vertices v of a parallelogram that depends on the pair alone, plus that of a Gaussian
mechanism $\mu_2$ where the minimiser is approximate. Given v, the two losses together are those of
a Gaussian mechanism $\sqrt{\|v\|^2/\sigma^2 + \mu_2^2}$, and a maximum of increasing functions is
at most their sum: with $H(\mu, e)$ the hockey-stick divergence of `gaussian_delta`,

$$ \delta(r + e) \le \sum_v H\bigl(\sqrt{\|v\|^2/\sigma^2 + \mu_2^2},\, e\bigr), \qquad e \ge 0. $$

*Slopes of any sign.* The vertices are $\pm p, \pm q$ with $\|p\|^2 + \|q\|^2 \le R^2\sigma^2$.
Let $G(x) = H(\sqrt{x + \mu_2^2}, e)$. The supremum of $2G(x) + 2G(R^2 - x)$ over x in $[0, R^2]$
lies at an end or in the middle: with $X = R^2 + 2\mu_2^2$ and $x + \mu_2^2 = X(1 - w)/2$, the sign
of its derivative in x is that of

$$ (1 - w^2)\Bigl(\frac{\operatorname{artanh} w}{w} + \frac{X}{8}\Bigr) - \frac{2e^2}{X}, $$

because $\partial H/\partial\mu = \varphi(e/\mu - \mu/2)$. This decreases in w on (0, 1), as
$(1 - w^2)\operatorname{artanh}(w)/w = 1 - \sum_{k \ge 1} 2w^{2k}/(4k^2 - 1)$ does, so that
from the end to the middle the sum first falls and then rises, or does one of the two alone.

*Slopes of known sign.* The vertices are 0, two of norm at most $R\sigma/2$, and one of at most
$R\sigma$.

Derived: tests/privacy/test_objective_perturbation.py checks both by quadrature and on grids.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from jaxdp.core.checks import concrete
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import check_non_negative, host_scalar
from jaxdp.privacy.conversions.bisection import largest_within
from jaxdp.privacy.conversions.gaussian import gaussian_delta
from jaxdp.privacy.mechanisms import AbstractMechanism, Proved

# Above the rounding of square roots, sums and of the bisection.
_ROUNDING = 1e-12


class ObjectivePerturbation(AbstractMechanism):
    r"""A minimiser of a convex objective with a Gaussian linear term, proved (epsilon, delta)-DP.

    Args:
        shift: R, twice the largest norm of a record's gradient over the standard deviation of the
            linear term, >= 0; infinite for no noise.
        log_jacobian: r >= 0, the largest logarithm of the ratio of two neighbours' Jacobians.
        approximation_mu: $\mu_2$ >= 0, of the Gaussian noise that hides how far the minimiser is
            from the exact one; 0 for the exact one.
        has_signed_slopes: whether a record's label tells the sign of its slope, as for decreasing
            margin losses. The bound is then smaller.

    Raises:
        ValueError: a number is negative or not a number.

    Example:
        >>> from jaxdp.privacy import ObjectivePerturbation
        >>> mechanism = ObjectivePerturbation(shift=0.5, log_jacobian=0.1)
        >>> print(f"epsilon = {mechanism.epsilon(1e-5, 'replace-one'):.2f}")
        epsilon = 2.17
    """

    shift: float = eqx.field(converter=lambda value: host_scalar("shift", value))
    log_jacobian: float = eqx.field(converter=lambda value: host_scalar("log_jacobian", value))
    approximation_mu: float = eqx.field(
        default=0.0, converter=lambda value: host_scalar("approximation_mu", value)
    )
    has_signed_slopes: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        # A file's numbers come without the converters.
        for name in ("shift", "log_jacobian", "approximation_mu"):
            host_scalar(name, getattr(self, name))

    @property
    def proved(self):
        return Proved(None, None)

    @property
    def adjacencies(self):
        return (REPLACE_ONE,)

    @property
    def assumptions(self):
        return ()

    def delta(self, epsilon: float) -> float:
        """A bound on the smallest delta at epsilon; 1 where epsilon is below the Jacobian's part.

        Raises:
            ValueError: epsilon is negative or not a number.
        """
        return delta_of_losses(epsilon, self.log_jacobian, self._delta_beyond)

    def epsilon(self, delta, adjacency):
        return epsilon_of_losses(delta, self, self.log_jacobian, self._delta_beyond)

    def _delta_beyond(self, excess: float) -> float:
        """The sum over the vertices, at the pair of neighbours for which it is largest."""

        def bound(shift: float) -> float:
            return vertex_delta(shift, self.approximation_mu, excess)

        if self.has_signed_slopes:
            total = bound(self.shift) + 2 * bound(self.shift / 2) + bound(0.0)
        else:
            middle = bound(self.shift / math.sqrt(2))
            total = 2 * max(bound(self.shift) + bound(0.0), 2 * middle)
        return min(1.0, total * (1 + _ROUNDING))


def vertex_delta(shift: float, approximation_mu: float, excess: float) -> float:
    """What one vertex adds to delta, rounded up."""
    mu = math.hypot(shift, approximation_mu) * (1 + _ROUNDING)
    return gaussian_delta(mu, excess)


def delta_of_losses(
    epsilon: float, log_jacobian: float, delta_beyond: Callable[[float], float]
) -> float:
    """A bound on delta at epsilon, of which the Jacobian takes its part first.

    Args:
        epsilon: >= 0.
        log_jacobian: r.
        delta_beyond: the sum over the vertices at what is left of epsilon.

    Raises:
        ValueError: epsilon is negative or not a number.
    """
    check_non_negative("epsilon", epsilon)
    excess = (epsilon - log_jacobian) * (1 - _ROUNDING) if epsilon < math.inf else math.inf
    return delta_beyond(excess) if excess >= 0 else 1.0


def epsilon_of_losses(
    delta: float, numbers: Any, log_jacobian: float, delta_beyond: Callable[[float], float]
) -> float:
    """The least epsilon whose `delta_of_losses` is at most delta; `numbers` must be known.

    Raises:
        TypeError: delta or a number is traced.
    """
    if any(concrete(value) is None for value in (delta, *jax.tree.leaves(numbers))):
        raise TypeError(
            "expected concrete arguments, got traced ones: objective perturbation is accounted "
            "for on the host, outside jit, vmap and grad"
        )
    if delta_beyond(0.0) <= delta:
        return log_jacobian
    excess = largest_within(lambda excess: delta_beyond(excess) > delta)
    # Once for the bisection, once for `delta_of_losses`, which takes the Jacobian's part off again.
    return (log_jacobian + max(excess, 1e-150) * (1 + _ROUNDING)) * (1 + _ROUNDING)
