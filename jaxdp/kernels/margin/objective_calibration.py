r"""The noise under which the minimiser of a perturbed convex objective is private, with its proof.

Records are $(z_i, y_i)$ with $\|z_i\| \le B$ and $y_i = \pm 1$; $\ell$ is convex with $|\ell'| \le
c_1$ and a $c_2$-Lipschitz slope; $\lambda > 0$; $b \sim N(0, \sigma^2 I)$. The minimiser of
this objective is released:

$$ J(\beta) = \frac1n \sum_i \ell(y_i \beta \cdot z_i) + \frac\lambda2 \|\beta\|^2
              + \frac{b \cdot \beta}{n}. $$

(A residual loss has $\ell(\beta \cdot z_i - y_i)$, any loss of PK Assumption 6 $\ell(y_i, \beta
\cdot z_i)$; then $s_i$ below is its slope in the prediction, of either sign.)

**Distribution of the minimiser.** $\nabla J(\beta) = 0$ reads $b = g(\beta) := -\sum_i s_i(\beta)
z_i - n\lambda\beta$ with $s_i = y_i \ell'(y_i \beta \cdot z_i)$. $-g$ is the gradient of an
$n\lambda$-strongly convex function and Lipschitz: g is one-to-one and onto, and g and its inverse
are Lipschitz. By Rademacher's theorem and the area formula the minimiser has the density
$\varphi(g(\beta)) \, |\det Dg(\beta)|$, with $\varphi$ the density of b. The loss needs second
derivatives almost everywhere only: kinks of the slope affect the null set of $\beta$ whose margin,
for some $z_i \ne 0$, is in the null set where $\ell'$ has no derivative. Elsewhere $-Dg = n\lambda
I + \sum_i \ell''_i z_i z_i^\top$ with $0 \le \ell''_i \le c_2$.

**Two neighbours.** One record (z, y) becomes (z', y'). Let A be the part of $-Dg$ that they share;
$A \succeq n\lambda I$. The ratio of determinants is that of $\det(A + c zz^\top)$ to $\det(A + c'
z'z'^\top)$, at most $1 + c\,z^\top A^{-1} z \le e^r$ with $r = \ln(1 + c_2 B^2/(n\lambda))$: one
factor, because $\det(A + c'z'z'^\top) \ge \det A$. And $g' = g + v$ with $v = sz - s'z'$, so at $b
= g(\beta)$ the privacy loss is at most

$$ r + \frac{2 b \cdot v + \|v\|^2}{2\sigma^2}. $$

**The shift depends on the noise**, because the slopes s and s' are taken at the minimiser, so the
second term is not Gaussian. But it is convex in v, and v lies in $\{az - a'z' : |a|, |a'| \le
c_1\}$ for every b; so it is at most its maximum over the four vertices $\pm c_1 z \pm c_1 z'$,
which do not depend on b. They are $\pm p$ and $\pm q$ with $\|p\|^2 + \|q\|^2 = 2c_1^2(\|z\|^2 +
\|z'\|^2) \le (2c_1B)^2$. If the loss decreases, as margin losses do, $s \in -y[0, c_1]$: for any
two records, flipped labels included, v lies in $\{-uyz + u'y'z' : 0 \le u, u' \le c_1\}$, with the
vertices 0, $-c_1 yz$, $c_1 y'z'$ and their sum, of norms at most $c_1B$, $c_1B$ and $2c_1B$. The
resulting bound is in `jaxdp.privacy.ObjectivePerturbationMechanism`, with $R = 2c_1B/\sigma$.

**Only an approximate minimiser can be computed.** Let $\hat\beta$ be any point, however found, with
$\|\nabla J(\hat\beta)\| \le \tau$, and release $\hat\beta + N(0, t^2 I)$. By strong convexity
$\|\hat\beta - \beta\| \le \tau/\lambda$. Given $\beta$, and so b, the data choose between two
centres at most $2\tau/\lambda$ apart: a Gaussian mechanism $\mu_2 = 2\tau/(\lambda t)$ after the
release of $\beta$, and the published point is a function of the two. With L the loss of $\beta$,
the two together have the hockey-stick divergence $E[H_{\epsilon - L}(\mu_2)]$ at most, H increasing
in L. L is at most r plus a maximum over v; the maximum of increasing functions is at most their
sum; and for one v the expectation is the divergence of two Gaussian mechanisms, $\|v\|/\sigma$ and
$\mu_2$, equal to that of $\sqrt{\|v\|^2/\sigma^2 + \mu_2^2}$. If $\mu_2 > 0$, v = 0 counts too.

Papers: Kifer, Smith and Thakurta (2012); PK Algorithms 2 and 4, Theorems 9 and 20, whose proof has
half the shift in $\sigma$, the exponent $\epsilon/2$ in place of $\epsilon$, and v independent of
b. Their floor of the ridge is kept. Derived: test_objective_calibration checks every inequality,
and the whole by exact quadrature.

**Softmax.** The proof for k outputs is similar: records $(z_i, y_i)$ with $\|z_i\| \le B$ and
labels 1, ..., k; $\beta$ and b have M k entries each, and

$$ J(\beta) = \frac1n \sum_i \Bigl(\ln \sum_j e^{f_{ij}} - f_{iy_i}\Bigr)
              + \frac\lambda2 \|\beta\|^2 + \frac{b \cdot \beta}{n}, \qquad f_i = \beta^\top z_i. $$

One release covers all classes, so k enters by a logarithm; k one-against-rest classifiers would
cost $\sqrt k$ times the noise. The distribution of the minimiser is as before, with $b = g(\beta) =
-\sum_i z_i s_i^\top - n\lambda\beta$, $s_i = p_i - e_{y_i}$ and p the softmax of $f_i$; the loss is
smooth. An approximate minimiser is hidden as before: that step does not need one output.

**The Jacobian.** One record adds $zz^\top \otimes H$ with $H = \operatorname{diag}(p) - pp^\top$ to
$A \succeq n\lambda I$. Its determinant over that of A is at most $\det(I + zz^\top \otimes
H/(n\lambda)) = \prod_j (1 + h_j \|z\|^2/(n\lambda))$. H has an eigenvalue 0, as $H\mathbf 1 = 0$,
and k - 1 others with the sum $1 - \|p\|^2 \le 1 - 1/k$, so that, the logarithm being concave, the
product is at most $e^r$ with

$$ r = (k - 1) \ln\Bigl(1 + \frac{B^2}{kn\lambda}\Bigr). $$

**The shift.** $g' = g + v$, $v = z s^\top - z' s'^\top$, and the privacy loss is at most r plus a
convex function of v. p lies in the simplex, so s is a mean of the points $e_j - e_y$, and v one of
the $k^2$ vertices of `SoftmaxPerturbation`, which do not depend on b and have norms of at most
$2\sqrt2 B$. The rest of the bound is there, with $R = 2\sqrt2 B/\sigma$.

Derived: test_softmax_calibration.py checks every inequality, and the whole by exact quadrature. For
k = 2 the calibration is that of the logistic loss with features $\sqrt2$ times as large.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxdp.core.checks import host_number, require_count, require_non_negative, require_positive
from jaxdp.privacy.arguments import check_delta
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.objective_perturbation import (
    AbstractObjectivePerturbation,
    ObjectivePerturbationMechanism,
    SoftmaxPerturbation,
)

# The share of epsilon that the Jacobian takes at the smallest ridge. Source: PK Algorithm 2.
_JACOBIAN_SHARE = 0.25
# Covers the rounding of the calibration and of the account that follows it.
_MARGIN = 1e-10
_LARGEST_EXPONENT = 700.0


class ObjectiveCalibration(NamedTuple):
    r"""An objective perturbation that keeps a budget.

    Attributes:
        noise_std: $\sigma$, the standard deviation of every entry of b.
        ridge: $\lambda$, the requested ridge or `ridge_floor`, whichever is larger.
        log_jacobian: r, at most $\epsilon/4$.
        mechanism: the proved guarantee of the release.
    """

    noise_std: float
    ridge: float
    ridge_floor: float
    log_jacobian: float
    mechanism: AbstractObjectivePerturbation

    def coefficient_std(self, gradient_norm: float) -> float:
        r"""The std of the noise on the coefficients, $t = 2\tau/(\lambda\mu_2)$.

        `gradient_norm` is the bound $\tau$ on $\|\nabla J\|$; infinite $\tau$ needs infinite t.
        """
        mu = self.mechanism.approximation_mu
        if mu == 0:
            return 0.0 if gradient_norm == 0 else math.inf
        return 2 * gradient_norm / (self.ridge * mu) * (1 + _MARGIN)


def objective_perturbation_std(
    epsilon: float,
    delta: float,
    *,
    input_bound: float,
    lipschitz: float,
    smoothness: float,
    num_samples: int,
    ridge: float = 0.0,
    margin_loss: bool = False,
    approximation_share: float = 0.0,
) -> ObjectiveCalibration:
    r"""The least noise for which the bound of this module keeps (epsilon, delta), replace-one.

    `lipschitz` is $c_1$, `smoothness` $c_2$. The ridge is raised to the floor $c_2
    B^2/(n(e^{\epsilon/4} - 1))$, if it is smaller. `margin_loss` says that the loss decreases in
    the margin; then less noise is enough. `approximation_share` is $\mu_2/R$ >= 0; 0 is valid for
    the exact minimiser only. `jaxdp.account` reads the resulting mechanism inside a `Release`.
    """
    check_delta(delta)
    for name, value in (
        ("epsilon", epsilon),
        ("input_bound", input_bound),
        ("lipschitz", lipschitz),
        ("smoothness", smoothness),
    ):
        require_positive(name, value)
    curvature = smoothness * input_bound**2 / require_count("num_samples", num_samples)
    return calibrated(
        functools.partial(ObjectivePerturbationMechanism, has_signed_slopes=margin_loss),
        epsilon,
        delta,
        twice_gradient=2 * lipschitz * input_bound,
        curvature=curvature,
        ridge=ridge,
        approximation_share=approximation_share,
    )


def calibrated(
    mechanism: Callable[[float, float, float], AbstractObjectivePerturbation],
    epsilon: float,
    delta: float,
    *,
    twice_gradient: float,
    curvature: float,
    num_factors: int = 1,
    ridge: float,
    approximation_share: float,
) -> ObjectiveCalibration:
    r"""The least noise for which a mechanism keeps a checked budget.

    `mechanism` maps R, r and $\mu_2$ to the proved guarantee of the release. `twice_gradient` is
    $R\sigma$, twice the largest norm of a record's gradient; `curvature` is C, a record's part in
    the averaged curvature in each of m = `num_factors` directions: $r = m\ln(1 + C/\lambda)$.
    """
    require_non_negative("ridge", ridge)
    require_non_negative("approximation_share", approximation_share)
    # The rounding that is allowed for is that of float64.
    epsilon, delta = host_number("epsilon", epsilon), host_number("delta", delta)
    growth = math.expm1(min(_JACOBIAN_SHARE * epsilon / num_factors, _LARGEST_EXPONENT))
    floor = curvature / growth if growth > 0 else math.inf
    if math.isinf(floor):
        raise ValueError(f"expected an epsilon that some ridge is enough for, got {epsilon}")
    ridge = max(float(ridge), floor)
    log_jacobian = num_factors * math.log1p(curvature / ridge) * (1 + _MARGIN)

    def with_shift(shift: float) -> Any:
        return mechanism(shift, log_jacobian, approximation_share * shift)

    largest = largest_within(
        lambda shift: log_excess(with_shift(shift).delta(epsilon), delta), 1e-305
    )
    if math.isinf(largest):
        raise ValueError(f"expected an epsilon that some noise is calibrated to, got {epsilon}")
    noise_std = twice_gradient / largest * (1 + _MARGIN)
    # Above the shift that this noise leaves, below the one that was seen to keep the budget.
    proved = with_shift(largest * (1 - _MARGIN / 2))
    return ObjectiveCalibration(noise_std, ridge, floor, log_jacobian, proved)


def softmax_perturbation_std(
    epsilon: float,
    delta: float,
    *,
    input_bound: float,
    num_classes: int,
    num_samples: int,
    ridge: float = 0.0,
    approximation_share: float = 0.0,
) -> ObjectiveCalibration:
    r"""The least noise that keeps (epsilon, delta) for the softmax loss of k >= 2 classes.

    The other arguments and the result are those of `objective_perturbation_std`; the floor is
    $B^2/(kn(e^{\epsilon/(4(k - 1))} - 1))$.
    """
    check_delta(delta)
    require_positive("epsilon", epsilon)
    require_positive("input_bound", input_bound)
    num_classes = require_count("num_classes", num_classes, least=2)
    num_samples = require_count("num_samples", num_samples)
    return calibrated(
        functools.partial(SoftmaxPerturbation, num_classes=num_classes),
        epsilon,
        delta,
        twice_gradient=2 * math.sqrt(2) * input_bound,
        curvature=input_bound**2 / (num_classes * num_samples),
        num_factors=num_classes - 1,
        ridge=ridge,
        approximation_share=approximation_share,
    )
