r"""What no private kernel learner can beat: the targets of PK Theorem 10's proof, with constants.

Targets $f_v = a\sum_{l \le d} v_l\phi_l$, one for each $v \in \{-1, 1\}^d$, obey the source
condition if $a^2\sum_{l \le d}\mu_l^{-2r} \le R^2$. Labels $\pm S$ with the mean $f_v(x)$ differ,
between two targets that differ in $v_i$, for $D = na\lVert\phi_i\rVert_1/S$ of n records on
average. A private learner cannot tell such tables apart: its guess of $v_i$ is wrong with a
probability of at least $\frac12(0.9e^{-10\varepsilon D} - 10D\delta)$ (PK Proposition 44; Acharya,
Sun and Zhang 2021), and a wrong guess costs $a^2$. So the excess risk is at least

$$ \frac{a^2}2\sum_{l \le d}\Bigl(0.9e^{-10\varepsilon D_l} - 10D_l\delta\Bigr)_+, $$

for any d and a. The smaller $\lVert\phi_l\rVert_1$ is, the better is its coefficient hidden: a
function that is nearly 0 but for a few places needs few labels changed.

PK Theorem 10 replaces $1/\lVert\phi_l\rVert_1^2$, which the separation of its targets is
proportional to, by the upper bound $1/(c_3\mu_l^\beta)$ of Assumption 7, where a lower bound is
needed. Its rate $(n\varepsilon)^{-4r/(2r+\gamma+\beta)}$ follows where $\lVert\phi_l\rVert_1^2$ is
of the order of $\mu_l^\beta$, from both sides. Under Assumption 7 alone it is false: on the torus,
where $\lVert\phi_l\rVert_1$ is constant, Assumption 7 holds with $\beta = 1$, and the canonical
estimator is faster than the rate for it.

Derived: tests/theory/kernels/test_lower_bounds.py draws the tables, and puts the bound beside the
canonical estimator's risk.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import (
    host_array,
    host_number,
    require_host,
    require_non_negative,
    require_positive,
    require_shape,
)

# Amplitudes that are tried, from the largest down in steps of an eighth of an octave.
_STEPS = 400
_MOST_LOGARITHM = 200.0


class PrivateLowerBound(NamedTuple):
    """A number that no private learner's worst excess risk lies below, and how it is reached.

    Attributes:
        risk: the bound.
        num_terms: d, of the targets.
        amplitude: a, of each of their coefficients.
        changed_labels: D, by how many records two of them differ on average, at most.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import private_lower_bound
        >>> eigenvalues = np.arange(1.0, 101.0) ** -2 / 2
        >>> given = {"source": 0.5, "num_samples": 10_000, "epsilon": 0.1, "delta": 1e-6}
        >>> found = private_lower_bound(eigenvalues, np.full(100, 0.9), **given)
        >>> print(f"{found.risk:.1e} with {found.num_terms} terms")
        3.0e-07 with 100 terms
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
) -> PrivateLowerBound:
    r"""A lower bound on the worst excess risk of any private learner under the squared loss.

    Over the targets $L^rg$ with $\lVert g\rVert \le R$, with labels $\pm\kappa^{2r}R$ and a fixed
    law of the inputs. Source: the proof of PK Theorem 10, with the separation of the targets as it
    is; the module says what that changes. What n records cost without privacy is left out.

    Args:
        eigenvalues: $\mu_l > 0$, from the largest down; their sum is $E k(X, X) \le \kappa^2$.
        modulus_means: $\lVert\phi_l\rVert_1 = E|\phi_l(X)|$, in (0, 1].
        source: r in [1/2, 1].
        num_samples: n.
        epsilon: > 0.
        delta: in [0, 1).
        radius: R > 0.
        kernel_bound: $\kappa > 0$, at least $\sqrt{k(x, x)}$ everywhere.

    Returns:
        The largest of the bounds over d and the amplitude.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import private_lower_bound
        >>> eigenvalues = np.arange(1.0, 101.0) ** -2 / 2
        >>> given = {"source": 0.5, "num_samples": 10_000, "delta": 1e-6}
        >>> flat = np.full(100, 0.9)
        >>> [f"{private_lower_bound(eigenvalues, flat, epsilon=e, **given).risk:.1e}"
        ...  for e in (0.001, 0.01)]
        ['4.7e-04', '2.3e-05']
    """
    budget = _checked_budget(num_samples, epsilon, delta)
    targets = _checked_targets(eigenvalues, modulus_means, source, radius, kernel_bound)
    return _largest(targets, targets.reach, budget)


def private_lipschitz_lower_bound(
    eigenvalues: Float[ArrayLike, " modes"],
    modulus_means: Float[ArrayLike, " modes"],
    *,
    source: float,
    num_samples: float,
    epsilon: float,
    delta: float,
    radius: float = 1.0,
    kernel_bound: float = 1.0,
) -> PrivateLowerBound:
    r"""The same for a Lipschitz loss: the logistic one.

    Labels are +1 with probability $\operatorname{sigmoid}(f_v(x))$, so that $f_v$ minimises the
    risk, and two targets differ in $D \le na\lVert\phi_i\rVert_1/2$ labels. A learner loses nothing
    by clipping to $|f| \le F = \kappa^{2r}R$, where the loss has a curvature of at least
    $\operatorname{sigmoid}'(F)$: its excess risk is at least half of that times the squared
    distance (PK Assumption 10). Source: PK Theorem 23, whose proof is one line.

    Args:
        eigenvalues, modulus_means, source, num_samples, epsilon, delta: as `private_lower_bound`.
        radius: R > 0.
        kernel_bound: $\kappa > 0$.

    Returns:
        The largest of the bounds over d and the amplitude.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import private_lipschitz_lower_bound
        >>> eigenvalues = np.arange(1.0, 101.0) ** -2 / 2
        >>> given = {"source": 0.5, "num_samples": 10_000, "epsilon": 0.001, "delta": 1e-6}
        >>> found = private_lipschitz_lower_bound(eigenvalues, np.full(100, 0.9), **given)
        >>> print(f"{found.risk:.1e}")
        1.2e-04
    """
    budget = _checked_budget(num_samples, epsilon, delta)
    targets = _checked_targets(eigenvalues, modulus_means, source, radius, kernel_bound)
    # The sigmoid is Lipschitz with 1/4, as half of 1/S is of labels +-S for S = 2.
    found = _largest(targets, 2.0, budget)
    # Of the sigmoid; it underflows where a cosh would overflow.
    curvature = math.exp(-targets.reach) / (1 + math.exp(-targets.reach)) ** 2
    return found._replace(risk=float(found.risk * curvature / 2))


def fluctuation_constants(
    eigenvalues: Float[ArrayLike, " modes"],
    modulus_means: Float[ArrayLike, " modes"],
    embedding: float,
) -> tuple[float, float]:
    r"""The least and the largest of $\lVert\phi_l\rVert_1^2/\mu_l^\beta$ over the given l.

    The first is $c_3$ of PK Assumption 7; it is at least $1/c_\beta$ where the kernel with the
    eigenvalues $\mu_l^\beta$ is bounded by $c_\beta$ (PK Appendix G, which prints $\le$ for $\ge$).
    The rate of PK Theorem 10 needs the second to be finite too, for all l.

    Args:
        eigenvalues: $\mu_l > 0$.
        modulus_means: $\lVert\phi_l\rVert_1$, in (0, 1].
        embedding: $\beta \ge 0$.

    Returns:
        Both.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import fluctuation_constants
        >>> fluctuation_constants([1.0, 0.25], [1.0, 0.5], embedding=1.0)
        (1.0, 1.0)
    """
    require_non_negative("embedding", host_number("embedding", embedding))
    values, means = _checked_spectrum(eigenvalues, modulus_means, np.inf)
    ratios = means**2 / values ** host_number("embedding", embedding)
    return float(ratios.min()), float(ratios.max())


class _Budget(NamedTuple):
    num_samples: float
    epsilon: float
    delta: float


class _Targets(NamedTuple):
    """What the targets are made of; `most` by their number, `reach` the largest modulus of one."""

    modulus_means: Float[np.ndarray, " modes"]
    most: Float[np.ndarray, " modes"]
    reach: float


def _largest(targets: _Targets, labels: float, budget: _Budget) -> PrivateLowerBound:
    """The largest bound over d and a, for labels of the size S."""
    num_samples, epsilon, delta = budget
    most = targets.most
    best = PrivateLowerBound(0.0, 1, float(most[0]), 0.0)
    for amplitude in most[0] * 2.0 ** (-np.arange(_STEPS) / 8):
        # As many terms as the source condition allows; those that are told apart add nothing.
        num_terms = int(np.count_nonzero(most >= amplitude))
        changed = num_samples * targets.modulus_means[:num_terms] * amplitude / labels
        wrong = 0.9 * np.exp(-10 * epsilon * changed) - 10 * delta * changed
        risk = float(amplitude**2 / 2 * np.sum(np.maximum(wrong, 0)))
        if risk > best.risk:
            best = PrivateLowerBound(risk, num_terms, float(amplitude), float(changed.max()))
    return best


def _checked_targets(eigenvalues, modulus_means, source, radius, kernel_bound) -> _Targets:
    if not 0.5 <= host_number("source", source) <= 1:
        raise ValueError(f"expected source in [1/2, 1], got {source}")
    require_positive("radius", radius)
    require_positive("kernel_bound", kernel_bound)
    size = 2 * source * math.log(kernel_bound) + math.log(radius)
    if max(abs(size), abs(math.log(kernel_bound)), abs(math.log(radius))) > _MOST_LOGARITHM:
        raise ValueError(
            "expected a radius and a kernel_bound of which float64 holds the squares, got "
            f"{radius} and {kernel_bound}"
        )
    values, means = _checked_spectrum(eigenvalues, modulus_means, kernel_bound)
    if np.any(np.diff(values) > 0):
        raise ValueError("expected eigenvalues from the largest down, got a larger one behind")
    most = radius / np.sqrt(np.cumsum(values ** (-2 * source)))
    return _Targets(means, most, kernel_bound ** (2 * source) * radius)


def _checked_spectrum(eigenvalues, modulus_means, kernel_bound):
    values = host_array("eigenvalues", eigenvalues)
    means = host_array("modulus_means", modulus_means)
    require_shape("eigenvalues", values, (None,))
    require_shape("modulus_means", means, values.shape)
    if not (values.size and (values > 0).all() and np.isfinite(values).all()):
        raise ValueError(f"expected finite eigenvalues > 0, got {values}")
    if not ((means > 0) & (means <= 1 + 1e-9)).all():
        raise ValueError(f"expected modulus_means in (0, 1], got {means}")
    if values.sum() > kernel_bound**2 * (1 + 1e-9):
        raise ValueError(
            f"expected eigenvalues with a sum of at most kernel_bound^2 = {kernel_bound**2:g}, as "
            f"that of E k(x, x) is, got {values.sum():g}"
        )
    return values, means


def _checked_budget(num_samples, epsilon, delta) -> _Budget:
    require_host("arguments", (num_samples, epsilon, delta))
    if not num_samples >= 1:
        raise ValueError(f"expected num_samples >= 1, got {num_samples}")
    require_positive("num_samples", num_samples)
    require_positive("epsilon", epsilon)
    if not 0 <= delta < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")
    return _Budget(float(num_samples), float(epsilon), float(delta))
