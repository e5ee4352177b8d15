r"""The privacy of a softmax objective perturbed by a Gaussian linear term, as a curve.

Why a minimiser is no less private than this stands with its calibration, in
`jaxdp.kernels.margin.softmax_calibration`: as in `objective_perturbation`, with the $k^2$ vertices

$$ v_{jl} = (e_j - e_y) z^\top - (e_l - e_{y'}) z'^\top, \qquad j, l = 1, \ldots, k, $$

for records (z, y) and (z', y') with $\|z\|, \|z'\| \le B$, and $R\sigma = 2\sqrt2 B$. One vertex is
0; those with j = y or l = y' alone, 2(k - 1) of them, have norms of at most $\sqrt2 B = R\sigma/2$.
Of the $(k - 1)^2$ others the square is at most $4B^2 - 2gc$, $|c| \le B^2$ being $z \cdot z'$ and
$g = (e_j - e_y) \cdot (e_l - e_{y'})$.

*One label* ($y' = y$): g = 2 for j = l, k - 1 times, and 1 otherwise. All grow towards $c = -B^2$,
where the norms are $R\sigma$ and $\sqrt{3/4}\,R\sigma$.

*Two labels*: g = -2 once, -1 for 2(k - 2) vertices, 1 for k - 2, 0 for the (k - 2)(k - 3) others.
Each at its own worst c: one of norm $R\sigma$, 3(k - 2) of $\sqrt{3/4}\,R\sigma$, the others of
$R\sigma/\sqrt2$. Their sum is no larger than that of one label: the difference is k - 2 times
$H(R) + (k - 4)H(\sqrt{3/4}R) - (k - 3)H(R/\sqrt2) \ge 0$, as H increases. So

$$ \delta(r + e) \le H_0 + 2(k - 1)H_{R/2} + (k - 1)H_R + (k - 1)(k - 2)H_{\sqrt{3/4}R}, $$

$H_x$ being $H(\sqrt{x^2 + \mu_2^2}, e)$. For k = 2 that is the bound of a decreasing margin loss.

Derived: tests/privacy/test_softmax_perturbation.py takes the supremum over pairs of records by
brute force.
"""

import math

import equinox as eqx

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count
from jaxdp.privacy.objective_perturbation import AbstractObjectivePerturbation


class SoftmaxPerturbation(AbstractObjectivePerturbation):
    r"""A minimiser of a softmax objective with a Gaussian linear term, proved (epsilon, delta)-DP.

    Args:
        shift: R, twice the largest norm of a record's gradient over the standard deviation of the
            linear term, >= 0; infinite for no noise.
        log_jacobian: r >= 0, the largest logarithm of the ratio of two neighbours' Jacobians.
        approximation_mu: $\mu_2$ >= 0, of the Gaussian noise that hides how far the minimiser is
            from the exact one; 0 for the exact one.
        num_classes: k >= 2.

    Raises:
        ValueError: a number is negative or not a number, or there are fewer than two classes.

    Example:
        >>> from jaxdp.privacy import SoftmaxPerturbation
        >>> mechanism = SoftmaxPerturbation(0.5, 0.1, num_classes=10)
        >>> print(f"epsilon = {mechanism.epsilon(1e-5, 'replace-one'):.2f}")
        epsilon = 2.36
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
