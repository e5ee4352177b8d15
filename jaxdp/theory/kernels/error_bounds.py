r"""Bounds that hold with high probability: sample paths, truncated labels, the learner's errors.

PK Lemmas 12 to 14 and Theorem 38. Lemma 12 has its universal constants here; those of the errors
are left at 1, so that these are orders, of which each term can be looked at.
"""

import math
from typing import NamedTuple

import scipy

from jaxdp.core.checks import host_number, require_count, require_host, require_positive


def sample_path_bound(
    num_paths: int,
    dim: int,
    *,
    failure: float,
    radius: float,
    kernel_bound: float = 1.0,
    steepness: float,
) -> float:
    r"""H, which no one of M Gaussian-process paths exceeds anywhere on a ball, but for chance t.

    For kernels with $k(x, x) \le \kappa^2$ and $k(x, x) - k(x, x') \le c_k\|x - x'\|$ (PK
    Assumption 5). Two values of a path differ by $s = \sqrt{2c_k\|x - x'\|}$ at most in standard
    deviation, the ball of radius $\rho$ is covered by $(1 + 4\rho c_k/s^2)^d$ balls of that size,
    and Dudley's integral gives

    $$ E\sup|h| \le \kappa\sqrt{2/\pi}
       + 24\int_0^{\kappa}\sqrt{d\ln(1 + 4\rho c_k/s^2)}\,ds, \qquad
       H = E\sup|h| + \kappa\sqrt{2\ln(M/t)}. $$

    Source: PK Lemma 12, with Boucheron, Lugosi and Massart (2013), Corollary 13.2 and Theorem 5.8,
    for its constants K and C. Printed are $2\ln(e/\kappa)$ outside the root and $\ln(2M/t)$; the
    proof has the first inside, and one side is enough.

    Args:
        num_paths: M.
        dim: d, of the inputs.
        failure: t, in (0, 1].
        radius: $\rho$, of the ball that holds the inputs.
        kernel_bound: $\kappa$.
        steepness: $c_k$.

    Returns:
        H.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import sample_path_bound
        >>> print(f"{sample_path_bound(100, 1, failure=0.05, radius=1.0, steepness=0.5):.1f}")
        43.4
    """
    require_host("arguments", (num_paths, dim, failure, radius, kernel_bound, steepness))
    num_paths, dim = require_count("num_paths", num_paths), require_count("dim", dim)
    for name, value in (
        ("radius", radius),
        ("kernel_bound", kernel_bound),
        ("steepness", steepness),
    ):
        require_positive(name, value)
    _check_failure(failure)
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
    r"""T, a bound that no label exceeds but for chance t: a data-free rule for `label_bound`.

    $T = \kappa^{2r}R + \sqrt{2\ln(2n/t)}\,\sigma + B\ln(2n/t)$ for targets $L^rg$, $\|g\| \le R$,
    whose noise has mean 0 and $E|y - f(x)|^p \le \frac12p!B^{p-2}\sigma^2$ for p >= 2 (PK
    Assumption 2), by Bernstein's inequality from both sides and for n records. Source: PK Lemma 14,
    which prints $\kappa R$, twice the B, and $\ln(n/t)$.

    Args:
        num_samples: n.
        failure: t, in (0, 1].
        source: r in [1/2, 1].
        radius: R > 0.
        noise_std: $\sigma > 0$.
        noise_scale: B > 0; $\sigma$ serves for Gaussian noise.
        kernel_bound: $\kappa$.

    Returns:
        T.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import truncation_level
        >>> given = {"source": 0.5, "radius": 1.0, "noise_std": 0.1, "noise_scale": 0.1}
        >>> print(f"{truncation_level(1000, failure=0.05, **given):.2f}")
        2.52
    """
    require_host("arguments", (num_samples, failure, source, radius, noise_std, noise_scale))
    num_samples = require_count("num_samples", num_samples)
    _check_failure(failure)
    _check_source(source)
    for name, value in (
        ("radius", radius),
        ("noise_std", noise_std),
        ("noise_scale", noise_scale),
        ("kernel_bound", kernel_bound),
    ):
        require_positive(name, value)
    excess = math.log(2 * num_samples / failure)
    signal = kernel_bound ** (2 * source) * radius
    return signal + math.sqrt(2 * excess) * noise_std + noise_scale * excess


class ErrorOrders(NamedTuple):
    """Orders of the parts of a learner's root excess risk, whose sum bounds it.

    Attributes:
        sampling: n records in place of their law.
        projection: M paths in place of the kernel.
        bias: of the ridge.
        privacy: of the noise; 0 without.

    Example:
        >>> from jaxdp.theory import projection_error_orders
        >>> given = {"num_samples": 10_000, "num_projections": 50, "ridge": 0.01}
        >>> found = projection_error_orders(**given, effective_dimension=5.0, source=0.5)
        >>> print(f"{found.bias:.3f}, {found.total:.3f}")
        0.100, 0.155
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
    + \frac{\sqrt M}{n\varepsilon\lambda}\bigr)$, all without constants and logarithms. Source: PK
    Lemmas 13 and 14, Theorem 38. Theorem 38 prints $\sqrt{N/M}$ without $\lambda$, which its own
    lemmas (30, 32, 33) put there; at the ridge of Theorem 11 it would not vanish.

    Args:
        num_samples: n.
        num_projections: M; infinite for none of its error, which needs infinite epsilon.
        ridge: $\lambda > 0$.
        effective_dimension: $N(\lambda)$.
        source: r in [1/2, 1].
        epsilon: infinite for no privacy.
        path_bound: H.

    Returns:
        The orders of the parts.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import projection_error_orders
        >>> given = {"num_samples": 10_000, "num_projections": 50, "ridge": 0.01, "source": 0.5}
        >>> found = projection_error_orders(**given, effective_dimension=5.0, epsilon=1.0)
        >>> print(f"{found.privacy:.4f}")
        0.0092
    """
    require_host("arguments", (num_samples, num_projections, ridge, effective_dimension, epsilon))
    _check_source(source)
    for name, value in (
        ("num_samples", num_samples),
        ("ridge", ridge),
        ("effective_dimension", effective_dimension),
        ("path_bound", path_bound),
    ):
        require_positive(name, value)
    for name, value in (("num_projections", num_projections), ("epsilon", epsilon)):
        require_positive(name, value, infinite=True)
    if math.isinf(num_projections) and not math.isinf(epsilon):
        raise ValueError("expected finite num_projections where there is noise, got inf")
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


def _check_failure(failure: float) -> None:
    if not 0 < host_number("failure", failure) <= 1:
        raise ValueError(f"expected failure in (0, 1], got {failure}")


def _check_source(source: float) -> None:
    if not 0.5 <= host_number("source", source) <= 1:
        raise ValueError(f"expected source in [1/2, 1], got {source}")
