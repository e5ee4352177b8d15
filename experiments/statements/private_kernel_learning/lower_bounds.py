r"""Lower bounds on private kernel learning: the targets of PK Theorem 10's proof, with constants.

Targets $f_v = a\sum_{l \le d} v_l\phi_l$, one for each $v \in \{-1, 1\}^d$, obey the source
condition if $a^2\sum_{l \le d}\mu_l^{-2r} \le R^2$. Labels $\pm S$ with the mean $f_v(x)$ differ,
between two targets that differ in $v_i$, for $D = na\lVert\phi_i\rVert_1/S$ of n records on
average. A private learner cannot tell such tables apart: its guess of $v_i$ is wrong with a
probability of at least $\frac12(0.9e^{-10\varepsilon D} - 10D\delta)$ (PK Proposition 44; Acharya,
Sun and Zhang 2021), and a wrong guess costs $a^2$. So the excess risk is at least

$$ \frac{a^2}2\sum_{l \le d}\Bigl(0.9e^{-10\varepsilon D_l} - 10D_l\delta\Bigr)_+, $$

for any d and a. The smaller $\lVert\phi_l\rVert_1$ is, the better is its coefficient hidden: a
function that is nearly 0 except in a few places needs few labels changed.

PK Theorem 10 replaces $1/\lVert\phi_l\rVert_1^2$, which the separation of its targets is
proportional to, by the upper bound $1/(c_3\mu_l^\beta)$ of Assumption 7, where a lower bound is
needed. Its rate $(n\varepsilon)^{-4r/(2r+\gamma+\beta)}$ follows if $\lVert\phi_l\rVert_1^2$ is
of the order of $\mu_l^\beta$, from both sides. Under Assumption 7 alone it is false: on the torus,
where $\lVert\phi_l\rVert_1$ is constant, Assumption 7 holds with $\beta = 1$, and the canonical
estimator is faster than the rate for it.

Derived: test_lower_bounds.py draws the tables, and compares the bound with the risk of the
canonical estimator, which reaches the rate.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.theory import ExcessRisk, KernelSpectrum

# Amplitudes that are tried, from the largest down in steps of an eighth of an octave.
_STEPS = 400


class PrivateLowerBound(NamedTuple):
    """A number that no private learner's worst excess risk lies below, and how it is reached.

    Attributes:
        risk: the bound.
        num_terms: d, of the targets.
        amplitude: a, of each of their coefficients.
        changed_labels: D, by how many records two of them differ on average, at most.
    """

    risk: float
    num_terms: int
    amplitude: float
    changed_labels: float


def private_lower_bound(
    eigenvalues: Float[ArrayLike, " modes"],
    modulus_means: Float[ArrayLike, " modes"],
    *,
    source: float,
    num_samples: float,
    epsilon: float,
    delta: float,
    radius: float = 1.0,
    kernel_bound: float = 1.0,
    label_size: float | None = None,
) -> PrivateLowerBound:
    r"""A lower bound on the worst excess risk of any private learner under the squared loss.

    Over the targets $L^rg$ with $\lVert g\rVert \le R$, with labels $\pm\kappa^{2r}R$ and a fixed
    distribution of the inputs; the largest of the bounds over d and the amplitude. Source: the
    proof of PK Theorem 10, with the separation of the targets as it is; the module gives the
    consequences. The cost of n records without privacy is left out.

    Args:
        eigenvalues: $\mu_l > 0$, from the largest down; their sum is $E k(X, X) \le \kappa^2$.
        modulus_means: $\lVert\phi_l\rVert_1 = E|\phi_l(X)|$, in (0, 1].
        source: r in [1/2, 1].
        num_samples: n.
        epsilon: > 0.
        delta: in [0, 1).
        radius: R > 0.
        kernel_bound: $\kappa > 0$, at least $\sqrt{k(x, x)}$ everywhere.
        label_size: S, of other labels than $\kappa^{2r}R$.
    """
    means = np.asarray(modulus_means)
    # The largest amplitudes of targets of the source condition, by their number of terms.
    most = radius / np.sqrt(np.cumsum(np.asarray(eigenvalues) ** (-2.0 * source)))
    size = kernel_bound ** (2 * source) * radius if label_size is None else label_size
    best = PrivateLowerBound(0.0, 1, float(most[0]), 0.0)
    for amplitude in most[0] * 2.0 ** (-np.arange(_STEPS) / 8):
        # As many terms as the source condition allows; distinguishable ones add nothing.
        num_terms = int(np.count_nonzero(most >= amplitude))
        changed = num_samples * means[:num_terms] * amplitude / size
        wrong = 0.9 * np.exp(-10 * epsilon * changed) - 10 * delta * changed
        risk = float(amplitude**2 / 2 * np.sum(np.maximum(wrong, 0)))
        if risk > best.risk:
            best = PrivateLowerBound(risk, num_terms, float(amplitude), float(changed.max()))
    return best


def private_lipschitz_lower_bound(
    eigenvalues: Float[ArrayLike, " modes"],
    modulus_means: Float[ArrayLike, " modes"],
    *,
    source: float,
    radius: float = 1.0,
    kernel_bound: float = 1.0,
    **given: float,
) -> PrivateLowerBound:
    r"""A lower bound on the worst excess risk of any private learner under the logistic loss.

    Labels are +1 with probability $\operatorname{sigmoid}(f_v(x))$, so that $f_v$ minimises the
    risk, and two targets differ in $D \le na\lVert\phi_i\rVert_1/2$ labels. A learner loses nothing
    by clipping to $|f| \le F = \kappa^{2r}R$, where the loss has a curvature of at least
    $\operatorname{sigmoid}'(F)$: its excess risk is at least half of that times the squared
    distance (PK Assumption 10). Source: PK Theorem 23, whose proof is one line.

    Args:
        eigenvalues, modulus_means, source, radius, kernel_bound: the same as there.
        given: num_samples, epsilon and delta.
    """
    reach = kernel_bound ** (2 * source) * radius
    # The sigmoid is Lipschitz with 1/4, as half of 1/S is of labels +-S for S = 2.
    found = private_lower_bound(
        eigenvalues, modulus_means, source=source, radius=radius, label_size=2.0, **given
    )
    # The slope of the sigmoid; this form underflows where a cosh would overflow.
    curvature = math.exp(-reach) / (1 + math.exp(-reach)) ** 2
    return found._replace(risk=float(found.risk * curvature / 2))


def fluctuation_constants(
    eigenvalues: Float[ArrayLike, " modes"],
    modulus_means: Float[ArrayLike, " modes"],
    embedding: float,
) -> tuple[float, float]:
    r"""The least and the largest of $\lVert\phi_l\rVert_1^2/\mu_l^\beta$ over the given l.

    The first is $c_3$ of PK Assumption 7; it is at least $1/c_\beta$ if the kernel with the
    eigenvalues $\mu_l^\beta$ is bounded by $c_\beta$ (PK Appendix G, which prints $\le$ for $\ge$).
    The rate of PK Theorem 10 needs the second to be finite too, for all l.
    """
    ratios = np.asarray(modulus_means) ** 2 / np.asarray(eigenvalues) ** embedding
    return float(ratios.min()), float(ratios.max())


def canonical_excess_risk(
    spectrum: KernelSpectrum,
    *,
    num_terms: int,
    num_samples: float,
    label_noise: float,
    noise: float,
) -> ExcessRisk:
    r"""Risk of the canonical estimator of PK section 4.1 on the first d eigenfunctions.

    The others' part of the target (the bias), the variances of d averages of $y\phi_l(x)$, and d
    noises; exact if $\sum_{l\le d}\phi_l^2 = d$ everywhere, as on the torus.

    Args:
        spectrum: without multiplicities, its eigenvalues from the largest down.
        num_terms: d, at least 1.
        num_samples: n; infinite for the population.
        label_noise: standard deviation of y - f(x).
        noise: standard deviation of the noise added to each coefficient. PK prints the sensitivity
            $2c_\beta d^{\beta/2}/n$ for labels within 1; the correct one is
            $2\sqrt{c_\beta}\mu_d^{-\beta/2}/n$, which is $2\sqrt d/n$ on the torus.
    """
    target = spectrum.squared_target * spectrum.multiplicities
    kept = target[:num_terms].sum()
    variance = (num_terms * (target.sum() + label_noise**2) - kept) / num_samples
    return ExcessRisk(target[num_terms:].sum(), 0.0, variance, num_terms * noise**2)
