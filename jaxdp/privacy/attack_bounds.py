r"""Bounds on the success of any attack that infers membership or reconstructs a record.

**Membership.** `jaxdp.privacy.tradeoffs` has the trade-off functions of all mechanisms.

**Reconstruction.** *Statement.* A record X is drawn from a prior and joins records that the
attacker knows; the mechanism's output distributions $P_x$ are, for every x, $\mu$-GDP away from one
reference Q: every event has $P_x(E) \le g(Q(E))$, $g(a) = \Phi(\Phi^{-1}(a) + \mu)$. Let $\kappa$
be the largest probability that a guess made without the output is within a given error. Then no
attack is within that error with probability above $g(\kappa)$.

*Proof.* An attack's own randomness is made part of the output, so that it is a function R of it.
Let $E_x$ be the outputs for which R is close enough to x. The probability of success is
$E\,P_X(E_X) \le E\,g(Q(E_X)) \le g(E\,Q(E_X))$, since g is concave: its slope
$e^{-\mu\Phi^{-1}(a) - \mu^2/2}$ falls. And $E\,Q(E_X)$, X and the output now independent, is the
success of a guess that does not depend on X: at most $\kappa$, and g increases.

*Reference.* The output distribution on a data set with another record in X's place has the $\mu$ of
replace-one. A mechanism that adds Gaussian noise to sums of vectors clipped to a norm may take the
run in which X counts for zero: the distribution of each step is at half the distance that two
records can be apart, and so are all steps together. `DPGD` may therefore be bounded at `DPGD.mu` /
2; a mechanism that is only known to be $\mu$-GDP may not. Sampled batches need their own proof.

Source: reconstruction robustness is from Balle, Cherubin and Hayes (2022); the bound in terms of
the blind guess from Hayes, Mahloujifar and Balle (2023), and from Kaissis, Hayes, Ziller and
Rueckert (2023) by trade-off functions. Proved here as stated. Derived:
tests/unit/privacy/test_reconstruction_bounds.py runs the best attacks against it.
"""

import math
from typing import Any

import numpy as np
import scipy
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import host_array, require_count, require_scalar
from jaxdp.privacy.arguments import check_delta, check_non_negative, false_positive_rates
from jaxdp.privacy.tradeoffs import best_area, best_rate, mechanism_of

_PANELS = 20_000
_UNDERFLOW = 1e-250


def largest_true_positive_rate(
    thing: Any, false_positive_rate: ArrayLike, *, adjacency: str | None = None
) -> Float[np.ndarray, "..."]:
    r"""The largest true-positive rate of any membership test with a given false-positive rate.

    The test may know all other records, and the record; it holds in the worse order of the
    neighbours.

    Args:
        thing: an algorithm, a `Release`, or a mechanism.
        false_positive_rate: $\alpha$ in [0, 1], any shape.
        adjacency: definition of neighbours for a mechanism with several; default its only one.

    Returns:
        $\beta$, of the shape of `false_positive_rate`: exact for $\mu$-GDP; for Poisson batches by
        their privacy loss distribution, mostly 1e-6 too large at most; else from some pairs of
        epsilon and delta.

    Raises:
        TypeError: `thing` does not state what it releases.
        ValueError: a rate is out of range, or the adjacency is missing or wrong.
        ImportError: a subsampled mechanism needs dp_accounting, which is not installed.

    Example:
        >>> from jaxdp.privacy import GaussianMechanism, largest_true_positive_rate
        >>> largest_true_positive_rate(GaussianMechanism(1.0), [0.001, 0.01]).round(3).tolist()
        [0.018, 0.092]
    """
    return best_rate(*mechanism_of(thing, adjacency), false_positive_rates(false_positive_rate))


def largest_membership_auc(thing: Any, *, adjacency: str | None = None) -> float:
    r"""The largest area under the ROC curve of any membership test.

    It is $\Phi(\mu/\sqrt2)$ for $\mu$-GDP, and else the area under the concave bound on the
    true-positive rate in one order of the neighbours.

    Args:
        thing, adjacency: see `largest_true_positive_rate`, whose errors this has.

    Returns:
        A number from 0.5 (guessing) to 1; never below the area of the bound.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import largest_membership_auc
        >>> algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=1.0)
        >>> print(f"mu {algorithm.mu:.1f}, area {largest_membership_auc(algorithm):.3f}")
        mu 1.0, area 0.760
    """
    return best_area(*mechanism_of(thing, adjacency))


def reconstruction_bound(mu: ArrayLike, baseline: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""The largest probability that an attack on a mu-GDP mechanism succeeds.

    It is $\Phi(\Phi^{-1}(\kappa) + \mu)$.

    Args:
        mu: Gaussian DP between the mechanism and its reference, >= 0: the `mu` of `account` under
            replace-one, or half of it for `DPGD`.
        baseline: kappa in [0, 1], the largest probability of success without the output.

    Returns:
        The probability, of the arguments' common shape.

    Example:
        >>> from jaxdp.privacy import reconstruction_bound
        >>> print(f"{float(reconstruction_bound(mu=1.0, baseline=0.01)):.3f}")
        0.092
    """
    check_non_negative("mu", mu)
    with np.errstate(divide="ignore"):
        return np.exp(_log_bound(mu, np.log(_probabilities(baseline))))


def approximate_reconstruction_bound(
    epsilon: ArrayLike, delta: float, baseline: ArrayLike
) -> Float[np.ndarray, "..."]:
    r"""An upper bound on the probability that an attack on a private mechanism succeeds.

    For an $(\epsilon, \delta)$-DP mechanism it is $e^\epsilon\kappa + \delta$, at most 1, by the
    proof of `reconstruction_bound` with $g(a) = \min(1, e^\epsilon a + \delta)$. It is weaker than
    `reconstruction_bound` if $\mu$ is known.

    Args:
        epsilon: number >= 0, between the mechanism and its reference.
        delta: number in (0, 1).
        baseline: kappa, as in `reconstruction_bound`.

    Returns:
        The probability, of the arguments' common shape.

    Example:
        >>> from jaxdp.privacy import approximate_reconstruction_bound
        >>> print(f"{float(approximate_reconstruction_bound(1.0, 1e-5, baseline=0.01)):.4f}")
        0.0272
    """
    check_non_negative("epsilon", epsilon)
    check_delta(delta)
    known = _probabilities(baseline)
    with np.errstate(divide="ignore"):
        logarithm = np.asarray(epsilon, np.float64) + np.log(known)
    return np.minimum(1.0, np.exp(np.minimum(logarithm, 0.0)) + delta)


def sphere_log_baseline(
    error: ArrayLike, dim: int, *, num_guesses: int = 1, is_on_sphere: bool = True
) -> Float[np.ndarray, "..."]:
    r"""The logarithm of the chance $\kappa$ that a blind guess comes close to a uniform record.

    $\kappa$ is the largest share of the sphere that a cap of this radius covers.

    Args:
        error: $\rho = |x - \hat x|/\sqrt d$ on the sphere of radius $\sqrt d$, >= 0.
        dim: d >= 2.
        num_guesses: number of guesses, of which the closest counts, as in the assignment of DR
            (12); it multiplies the share. Default 1.
        is_on_sphere: True (default) if guesses lie on the sphere, as those of `attacks.reconstruct`
            do; False allows points inside it, which reach a larger cap.

    Returns:
        The natural logarithm of the chance, of the shape of `error`.

    Example:
        >>> from jaxdp.privacy import sphere_log_baseline
        >>> print(f"{float(sphere_log_baseline(error=0.5, dim=10)):.2f}")
        -8.47
    """
    check_non_negative("error", error)
    if require_count("dim", dim) < 2:
        raise ValueError(f"expected dim >= 2, got {dim}")
    known = np.asarray(error, np.float64)
    if is_on_sphere:
        known = np.minimum(known, 2.0)
        cosine = 1 - known**2 / 2
        square_sine = known**2 * (1 - known**2 / 4)
    else:
        # A ball of this radius covers the largest cap with the cap's rim as its equator; one of
        # the sphere's radius covers all.
        square_sine = np.minimum(known, 1.0) ** 2
        cosine = np.where(known < 1, np.sqrt(1 - square_sine), -1.0)
        square_sine = np.where(known < 1, square_sine, 0.0)
    guesses = math.log(require_count("num_guesses", num_guesses))
    return np.minimum(_log_cap(square_sine, cosine, dim) + guesses, 0.0)


def error_lower_bound(
    mu: float, dim: int, *, num_guesses: int = 1, is_on_sphere: bool = True
) -> float:
    r"""A lower bound on the expected error of any attack on a uniform row.

    It is $\int (1 - g(\kappa(r)))\,dr$, about $e^{-\mu^2/2d}$ in high dimensions: it shows which
    $\mu$ make reconstruction impossible, $\mu^2$ of order d, and is loose for small errors, which
    fall as $\sqrt d/\mu$ for features as for any fixed smooth mechanism.

    Args:
        mu: Gaussian DP, as in `reconstruction_bound`.
        dim, num_guesses, is_on_sphere: see `sphere_log_baseline`.

    Returns:
        A lower bound on the mean of $|x - \hat x|/\sqrt d$; 0 for an infinite mu.

    Example:
        >>> from jaxdp.privacy import error_lower_bound
        >>> print([round(error_lower_bound(mu, dim=100), 3) for mu in (0.0, 5.0, 20.0)])
        [1.412, 1.026, 0.134]
    """
    check_non_negative("mu", mu)
    require_scalar("mu", mu)
    if math.isinf(mu):
        return 0.0
    options = {"num_guesses": num_guesses, "is_on_sphere": is_on_sphere}

    def failing(errors):
        return -np.expm1(_log_bound(mu, sphere_log_baseline(errors, dim, **options)))

    # The integrand falls, so right ends of the panels give a lower bound.
    coarse = np.geomspace(1e-12, 2.0, 2000)
    last = coarse[min(np.searchsorted(-failing(coarse), -1e-9) + 1, len(coarse) - 1)]
    ends = np.linspace(0.0, last, _PANELS + 1)[1:]
    return float(failing(ends).mean() * last)


def _log_bound(mu, log_baseline):
    """log g(kappa) from log kappa: caps in high dimensions underflow."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = scipy.special.ndtri_exp(np.asarray(log_baseline, np.float64))
        shifted = place + np.asarray(mu, np.float64)
    return scipy.special.log_ndtr(np.where(np.isposinf(mu), np.inf, shifted))


def _log_cap(square_sine, cosine, dim):
    """Log of the share of the unit sphere within an angle of a point."""
    half = (dim - 1) / 2
    share = scipy.special.betainc(half, 0.5, square_sine) / 2
    with np.errstate(divide="ignore"):
        plain = np.log(np.where(cosine >= 0, share, 1 - share))
    is_tiny = (share < _UNDERFLOW) & (cosine > 0) & (square_sine > 0)
    inside = np.where(is_tiny, square_sine, 0.1)
    # The incomplete beta function's series in positive terms, its power taken out.
    logarithm = half * np.log(inside) + 0.5 * np.log1p(-inside) - math.log(2 * half)
    logarithm += (
        scipy.special.gammaln(half + 0.5) - scipy.special.gammaln(half) - scipy.special.gammaln(0.5)
    )
    logarithm += np.log(scipy.special.hyp2f1(half + 0.5, 1.0, half + 1.0, inside))
    return np.where(is_tiny, logarithm, plain)


def _probabilities(baseline):
    known = host_array("baseline", baseline)
    if not np.all((known >= 0) & (known <= 1)):
        raise ValueError(f"expected baseline in [0, 1], got {baseline}")
    return known
