r"""PK's bounds of a learner's errors, and the two quantities of the features and the loss in them.

Lemmas 12 to 14, Theorem 38, Assumption 9 and Lemma 77. Lemma 12 has its universal constants here;
those of the errors are left at 1, so that each term of these orders can be examined.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import ArrayLike, Float


def sample_path_bound(
    num_paths: int,
    dim: int,
    *,
    failure: float,
    radius: float,
    kernel_bound: float = 1.0,
    steepness: float,
) -> float:
    r"""Bound H on M Gaussian-process paths over a ball, exceeded with probability t at most.

    For kernels with $k(x, x) \le \kappa^2$ and $k(x, x) - k(x, x') \le c_k\|x - x'\|$ (PK
    Assumption 5). Two values of a path differ by $s = \sqrt{2c_k\|x - x'\|}$ at most in standard
    deviation, the ball of radius $\rho$ in d dimensions is covered by $(1 + 4\rho c_k/s^2)^d$
    balls of that size, and Dudley's integral gives

    $$ E\sup|h| \le \kappa\sqrt{2/\pi}
       + 24\int_0^{\kappa}\sqrt{d\ln(1 + 4\rho c_k/s^2)}\,ds, \qquad
       H = E\sup|h| + \kappa\sqrt{2\ln(M/t)}. $$

    Source: PK Lemma 12, with Boucheron, Lugosi and Massart (2013), Corollary 13.2 and Theorem 5.8,
    for its constants K and C. Printed are $2\ln(e/\kappa)$ outside the root and $\ln(2M/t)$; the
    proof has the first inside, and one side is enough.

    Args:
        num_paths, dim, failure, radius: M, d, t and $\rho$.
        kernel_bound, steepness: $\kappa$ and $c_k$.
    """
    reach = 4 * radius * steepness

    def entropy(size: float) -> float:
        return math.sqrt(dim * math.log1p(reach / size**2)) if size > 0 else 0.0

    integral = scipy.integrate.quad(entropy, 0, kernel_bound, limit=200)[0]
    expected = kernel_bound * math.sqrt(2 / math.pi) + 24 * integral
    return float(expected + kernel_bound * math.sqrt(2 * math.log(num_paths / failure)))


def truncation_level(
    num_samples: int,
    *,
    failure: float,
    source: float,
    radius: float,
    noise_std: float,
    noise_scale: float,
    kernel_bound: float = 1.0,
) -> float:
    r"""Bound T on all n labels, exceeded with probability t at most; it does not read the data.

    $T = \kappa^{2r}R + \sqrt{2\ln(2n/t)}\,\sigma + B\ln(2n/t)$ for targets $L^rg$, $\|g\| \le R$,
    whose noise has mean 0 and $E|y - f(x)|^p \le \frac12p!B^{p-2}\sigma^2$ for p >= 2 (PK
    Assumption 2), by Bernstein's inequality from both sides and for n records. Source: PK Lemma 14,
    which prints $\kappa R$, twice the B, and $\ln(n/t)$.

    Args:
        num_samples, failure, source, radius: n, t, r in [1/2, 1] and R.
        noise_std, noise_scale: $\sigma$ and B; $\sigma$ serves as B for Gaussian noise.
        kernel_bound: $\kappa$.
    """
    excess = math.log(2 * num_samples / failure)
    signal = kernel_bound ** (2 * source) * radius
    return signal + math.sqrt(2 * excess) * noise_std + noise_scale * excess


class ErrorOrders(NamedTuple):
    """Orders of the parts of a learner's root excess risk, whose sum bounds it.

    Attributes:
        sampling: n records in place of their distribution.
        projection: M paths in place of the kernel.
        bias: the part of the ridge.
        privacy: the part of the noise; 0 without.
    """

    sampling: float
    projection: float
    bias: float
    privacy: float = 0.0

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self)


def projection_error_orders(
    *,
    num_samples: float,
    num_projections: float,
    ridge: float,
    effective_dimension: float,
    source: float,
    epsilon: float = math.inf,
    path_bound: float = 1.0,
) -> ErrorOrders:
    r"""Orders of the root excess risk of kernel ridge regression on M sample paths.

    $H/(n\sqrt\lambda) + H\sqrt{N/n}$, $\sqrt{\lambda N/M}$ and $\lambda^r$, and with privacy
    $\frac{\sqrt M}{n\varepsilon\sqrt\lambda}\bigl(1 + \frac H{n\lambda} + \sqrt{\frac N{n\lambda}}
    + \frac{\sqrt M}{n\varepsilon\lambda}\bigr)$, all without constants and logarithms, with
    N(lambda) the effective dimension and H the bound of the paths. An infinite epsilon is no
    privacy; an infinite M needs one. Source: PK Lemmas 13 and 14, Theorem 38. Theorem 38 prints
    $\sqrt{N/M}$ without $\lambda$, which its own lemmas (30, 32, 33) put there; at the ridge of
    Theorem 11 it would not vanish.
    """
    n, root = num_samples, math.sqrt(ridge)
    statistical = math.sqrt(effective_dimension / n)
    privacy = 0.0
    if not math.isinf(epsilon):
        noise = math.sqrt(num_projections) / (n * epsilon)
        others = path_bound / (n * ridge) + statistical / root + noise / ridge
        privacy = noise / root * (1 + others)
    return ErrorOrders(
        path_bound * (1 / (n * root) + statistical),
        math.sqrt(ridge * effective_dimension / num_projections),
        ridge**source,
        privacy,
    )


def local_convexity(
    curvatures: tuple[float, float],
    corner: tuple[float, float],
    target: tuple[float, float],
    reach: float,
) -> float:
    r"""Local convexity $c_{lsc}$ of a loss with a curved middle, for predictions within a reach.

    For a margin loss that is $c_3$-strongly convex and $c_4$-smooth on [a, b] (the corner) and less
    curved outside, with targets in $[a', b'] \subset [a, b]$ and $|f| \le R_\infty$ (the reach):
    the loss at f exceeds its tangent at the target by $\frac12c_{lsc}(f - f^*)^2$ at least,

    $$ c_{lsc} = c_3 - c_4\max\Bigl\{\Bigl(\frac{a + R_\infty}{a' + R_\infty}\Bigr)^2,
       \Bigl(\frac{R_\infty - b}{R_\infty - b'}\Bigr)^2\Bigr\}. $$

    It is positive for the Huber hinge ($c_3 = c_4 = 1/2h$, a, b = 1 - h, 1 + h) whatever the reach,
    if a < a' and b' < b: PK Assumption 11, and where the probability of a label whose margin lies
    in [a, b] is at least $\eta$, with $\mu = \eta c_{lsc}$. A negative one says nothing. Source: PK
    Lemma 77.
    """
    (low, high), (first, last) = corner, target
    below = (low + reach) / (first + reach)
    above = (reach - high) / (reach - last)
    return float(curvatures[0] - curvatures[1] * max(below, above) ** 2)


def compatibility(
    eigenvalues: Float[ArrayLike, " modes"],
    squared_features: Float[ArrayLike, "features modes"],
    ridge: float,
) -> float:
    r"""Compatibility $F_\infty$: the largest squared norm of $L_\lambda^{-1/2}\varphi_\omega$.

    The square is $\sum_l\langle\varphi_\omega, \phi_l\rangle^2/(\mu_l + \lambda)$, of mean
    N(lambda), which $F_\infty$ is never below. For the Fourier features of a shift-invariant kernel
    on the torus, $\varphi_k = \kappa\sqrt2\cos(2\pi kx + b)$, a feature lies in the eigenspace of
    its frequency, and $F_\infty = \kappa^2/(\lambda + \inf_k\mu_k)$: the exponent alpha is 1
    whatever the spectrum, because of frequencies that are hardly ever drawn. Features with
    $\langle\varphi, \phi_l\rangle^2 = \mu_l$ for every l have $F_\infty = N$, the least. Source: PK
    Assumption 9.

    Args:
        eigenvalues: mu_l >= 0.
        squared_features: squared coefficients of each feature function, before the division by
            the number of features.
        ridge: lambda > 0.
    """
    return float(np.max(np.asarray(squared_features) @ (1 / (np.asarray(eigenvalues) + ridge))))
