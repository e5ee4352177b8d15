r"""The noise under which the minimiser of a perturbed softmax objective is private: k classes.

As `objective_calibration`, of which this is the case of k outputs: records $(z_i, y_i)$ with
$\|z_i\| \le B$ and labels 1, ..., k, coefficients $\beta$ and a linear term b of M k entries each,

$$ J(\beta) = \frac1n \sum_i \Bigl(\ln \sum_j e^{f_{ij}} - f_{iy_i}\Bigr)
              + \frac\lambda2 \|\beta\|^2 + \frac{b \cdot \beta}{n}, \qquad f_i = \beta^\top z_i. $$

One release for all classes together: nothing is composed, and k enters by a logarithm, where k
classifiers of one class each against the rest would cost $\sqrt k$ times the noise.

**Its law** is as before, with $b = g(\beta) = -\sum_i z_i s_i^\top - n\lambda\beta$,
$s_i = p_i - e_{y_i}$ and p the softmax of $f_i$; the loss is smooth.

**The Jacobian.** One record adds $zz^\top \otimes H$ with $H = \operatorname{diag}(p) - pp^\top$ to
$A \succeq n\lambda I$. Its determinant over that of A is at most
$\det(I + zz^\top \otimes H/(n\lambda)) = \prod_j (1 + h_j \|z\|^2/(n\lambda))$. H has an eigenvalue
0, as $H\mathbf 1 = 0$, and k - 1 others with the sum $1 - \|p\|^2 \le 1 - 1/k$, so that, the
logarithm being concave, the product is at most $e^r$ with

$$ r = (k - 1) \ln\Bigl(1 + \frac{B^2}{kn\lambda}\Bigr). $$

**The shift.** $g' = g + v$, $v = z s^\top - z' s'^\top$, and the privacy loss is at most r plus a
convex function of v. p lies in the simplex, so s is a mean of the points $e_j - e_y$, and v one of
the $k^2$ vertices of `jaxdp.privacy.SoftmaxPerturbation`, which do not depend on b and have norms
of at most $2\sqrt2 B$. What follows from them is there, with $R = 2\sqrt2 B/\sigma$.

**The approximate minimiser** is hidden as before: nothing there asks for one output.

Derived: test_softmax_calibration.py checks every inequality, and the whole by
exact quadrature. For k = 2 the calibration is that of the logistic loss with features
$\sqrt2$ times as large.
"""

import functools
import math

from jaxdp.core.checks import require_count, require_positive
from jaxdp.kernels.margin.objective_calibration import ObjectiveCalibration, calibrated
from jaxdp.privacy.arguments import check_delta
from jaxdp.privacy.objective_perturbation import SoftmaxPerturbation


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
    """The least noise for which the bound of this module keeps (epsilon, delta), replace-one.

    Args:
        epsilon, delta, input_bound, num_samples, ridge, approximation_share: as of
            `objective_perturbation_std`.
        num_classes: k >= 2.

    Returns:
        Noise, ridge, and the mechanism that `jaxdp.account` can read inside a `Release`.

    Example:
        >>> from jaxdp.kernels import softmax_perturbation_std
        >>> given = {"input_bound": 1.0, "num_samples": 1000, "ridge": 0.01}
        >>> stds = [softmax_perturbation_std(1.0, 1e-5, **given, num_classes=k) for k in (2, 10)]
        >>> print(" ".join(f"{found.noise_std:.2f}" for found in stds))
        11.04 13.12
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
