r"""The privacy curve of minimising an objective perturbed by a Gaussian linear term.

`jaxdp.kernels.margin.objective_calibration` proves that for every pair of neighbours the privacy
loss of a minimiser is at most

$$ r + \max_v \frac{2 b \cdot v + \|v\|^2}{2\sigma^2}, \qquad b \sim N(0, \sigma^2 I), $$

over the vertices v of a parallelogram that depends on the pair alone, plus the loss of a Gaussian
mechanism $\mu_2$ if the minimiser is approximate. Given v, both losses together are those of a
Gaussian mechanism $\sqrt{\|v\|^2/\sigma^2 + \mu_2^2}$, and a maximum of increasing functions is at
most their sum: with $H(\mu, e)$ the hockey-stick divergence of `gaussian_delta`,

$$ \delta(r + e) \le \sum_v H\bigl(\sqrt{\|v\|^2/\sigma^2 + \mu_2^2},\, e\bigr), \qquad e \ge 0. $$

*Slopes of any sign.* The vertices are $\pm p, \pm q$ with $\|p\|^2 + \|q\|^2 \le R^2\sigma^2$. Let
$G(x) = H(\sqrt{x + \mu_2^2}, e)$. The supremum of $2G(x) + 2G(R^2 - x)$ over x in $[0, R^2]$ is at
an end or in the middle: with $X = R^2 + 2\mu_2^2$ and $x + \mu_2^2 = X(1 - w)/2$, the sign of the
derivative in x is that of

$$ (1 - w^2)\Bigl(\frac{\operatorname{artanh} w}{w} + \frac{X}{8}\Bigr) - \frac{2e^2}{X}, $$

because $\partial H/\partial\mu = \varphi(e/\mu - \mu/2)$. It decreases in w on (0, 1), as
$(1 - w^2)\operatorname{artanh}(w)/w = 1 - \sum_{k \ge 1} 2w^{2k}/(4k^2 - 1)$ does, so that from the
end to the middle the sum first falls and then rises, or does one of the two alone.

*Slopes of known sign.* The vertices are 0, two of norm at most $R\sigma/2$, and one of at most
$R\sigma$.

*Softmax of k classes* (`jaxdp.kernels.margin.objective_calibration`). There are $k^2$ vertices

$$ v_{jl} = (e_j - e_y) z^\top - (e_l - e_{y'}) z'^\top, \qquad j, l = 1, \ldots, k, $$

for records (z, y) and (z', y') with $\|z\|, \|z'\| \le B$, and $R\sigma = 2\sqrt2 B$. One vertex is
0; the 2(k - 1) with either j = y or l = y' have norms of at most $\sqrt2 B = R\sigma/2$. The
squared norms of the $(k - 1)^2$ others are at most $4B^2 - 2gc$, with $c = z \cdot z'$,
$|c| \le B^2$ and $g = (e_j - e_y) \cdot (e_l - e_{y'})$.

One label ($y' = y$): g = 2 for j = l, k - 1 times, and 1 otherwise. All norms grow towards
$c = -B^2$, to $R\sigma$ and $\sqrt{3/4}\,R\sigma$.

Two labels: g = -2 once, -1 for 2(k - 2) vertices, 1 for k - 2, 0 for the (k - 2)(k - 3) others.
Each at its own worst c: one of norm $R\sigma$, 3(k - 2) of $\sqrt{3/4}\,R\sigma$, the others of
$R\sigma/\sqrt2$. Their sum is at most that of one label, because the difference is k - 2 times
$H(R) + (k - 4)H(\sqrt{3/4}R) - (k - 3)H(R/\sqrt2) \ge 0$, as H increases. So

$$ \delta(r + e) \le H_0 + 2(k - 1)H_{R/2} + (k - 1)H_R + (k - 1)(k - 2)H_{\sqrt{3/4}R}, $$

$H_x$ being $H(\sqrt{x^2 + \mu_2^2}, e)$. For k = 2 this is the bound of a decreasing margin loss.

Derived: tests/unit/privacy/test_objective_perturbation.py checks the first two by quadrature and on
grids, and takes the supremum over pairs of records by brute force for the third.
"""

import abc
import math

import equinox as eqx
import jax
import numpy as np

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import concrete, require_count
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import check_non_negative, host_scalar
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.conversions.gaussian import host_delta
from jaxdp.privacy.mechanisms import AbstractMechanism

# Above the rounding of square roots, of sums and of the search for a bound's argument.
_ROUNDING = 1e-12
# Number of proved pairs for bounds on tests, and their least delta.
_NUM_PAIRS, _LEAST_DELTA = 101, 1e-9


class AbstractObjectivePerturbation(AbstractMechanism):
    """A minimiser of an objective with a Gaussian linear term."""

    shift: float = eqx.field(converter=lambda value: host_scalar("shift", value))
    log_jacobian: float = eqx.field(converter=lambda value: host_scalar("log_jacobian", value))
    approximation_mu: float = eqx.field(
        default=0.0, converter=lambda value: host_scalar("approximation_mu", value)
    )

    def __check_init__(self):
        # Files and copies can set numbers without the converters.
        for name in ("shift", "log_jacobian", "approximation_mu"):
            host_scalar(name, getattr(self, name))

    @property
    def adjacencies(self):
        return (REPLACE_ONE,)

    @property
    def assumptions(self):
        return ()

    @abc.abstractmethod
    def _sum_over_vertices(self, excess: float) -> float:
        """A bound on delta at the worst pair, at the epsilon `excess` that the Jacobian leaves."""

    def delta(self, epsilon: float) -> float:
        """A bound on delta at epsilon >= 0; 1 if epsilon is below the Jacobian's part."""
        check_non_negative("epsilon", epsilon)
        # The margins cover rounding in float64.
        epsilon = float(epsilon)
        excess = (epsilon - self.log_jacobian) * (1 - _ROUNDING) if epsilon < math.inf else math.inf
        return self._delta_beyond(excess) if excess >= 0 else 1.0

    def epsilon(self, delta, adjacency):
        if any(concrete(value) is None for value in (delta, *jax.tree.leaves(self))):
            raise TypeError(
                "expected concrete arguments, got traced ones: objective perturbation is accounted "
                "for on the host, outside jit, vmap and grad"
            )
        AbstractObjectivePerturbation.__check_init__(self)
        delta = float(delta)
        if self._delta_beyond(0.0) <= delta:
            return self.log_jacobian
        excess = largest_within(
            lambda excess: -log_excess(self._delta_beyond(excess), delta), strictly=True
        )
        # One margin for the search, one for `delta`, which subtracts the Jacobian's part again.
        return (self.log_jacobian + max(excess, 1e-150) * (1 + _ROUNDING)) * (1 + _ROUNDING)

    def pairs(self, adjacency):
        farthest = self.epsilon(_LEAST_DELTA, adjacency)
        if math.isinf(farthest):
            return super().pairs(adjacency)
        epsilons = np.linspace(self.log_jacobian, farthest, _NUM_PAIRS)
        return epsilons, np.array([self.delta(float(one)) for one in epsilons])

    def _delta_beyond(self, excess: float) -> float:
        return min(1.0, self._sum_over_vertices(excess) * (1 + _ROUNDING))

    def _vertex_delta(self, share: float, excess: float) -> float:
        """The delta, rounded up, of a vertex with `share` of the largest norm, R sigma."""
        # Without noise R is infinite; the vertex at 0 stays there.
        shift = share * self.shift if share else 0.0
        return host_delta(math.hypot(shift, self.approximation_mu) * (1 + _ROUNDING), excess)


class ObjectivePerturbationMechanism(AbstractObjectivePerturbation):
    r"""A minimiser of a convex objective with a Gaussian linear term, proved (epsilon, delta)-DP.

    Args:
        shift: R >= 0, twice the largest norm of a record's gradient over the standard deviation of
            the linear term; infinite for no noise.
        log_jacobian: r >= 0, the largest logarithm of the ratio of two neighbours' Jacobians.
        approximation_mu: $\mu_2$ >= 0, Gaussian DP of the noise that hides the distance from the
            exact minimiser; 0 (default) for the exact one.
        has_signed_slopes: True if a record's label gives the sign of its slope, as for decreasing
            margin losses, which makes the bound smaller; default False.

    Example:
        >>> from jaxdp.privacy import ObjectivePerturbationMechanism
        >>> mechanism = ObjectivePerturbationMechanism(shift=0.5, log_jacobian=0.1)
        >>> print(f"epsilon = {mechanism.epsilon(1e-5, 'replace-one'):.2f}")
        epsilon = 2.17
    """

    has_signed_slopes: bool = eqx.field(static=True, default=False)

    def _sum_over_vertices(self, excess):
        zero, half, middle, largest = (
            self._vertex_delta(share, excess) for share in (0.0, 0.5, math.sqrt(0.5), 1.0)
        )
        if self.has_signed_slopes:
            return largest + 2 * half + zero
        return 2 * max(largest + zero, 2 * middle)


class SoftmaxPerturbation(AbstractObjectivePerturbation):
    r"""A minimiser of a softmax objective with a Gaussian linear term, proved (epsilon, delta)-DP.

    Args:
        shift, log_jacobian, approximation_mu: R, r and $\mu_2$, as in
            `ObjectivePerturbationMechanism`.
        num_classes: k >= 2.
    """

    num_classes: int = eqx.field(static=True, converter=plain_number, kw_only=True)

    def __check_init__(self):
        require_count("num_classes", self.num_classes, least=2)

    def _sum_over_vertices(self, excess):
        zero, half, middle, largest = (
            self._vertex_delta(share, excess) for share in (0.0, 0.5, math.sqrt(0.75), 1.0)
        )
        others = self.num_classes - 1
        return zero + others * (2 * half + largest + (others - 1) * middle)
