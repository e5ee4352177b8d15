r"""The assumptions of PF Theorem 1, checked on a problem and a budget.

The theorem says how the excess risk of private random features vanishes as n, d and p grow. Some
assumptions are properties of the problem and are decided here; the rest order sizes up to constants
($n = \omega(d\log^2d)$) and can only be compared with the constant 1, or concern a distribution
(sub-Gaussian rows) that no sample decides.
"""

import math
from typing import NamedTuple

import numpy as np

from experiments.statements.smoothness import difference_quotient, is_bounded, largest_jump
from jaxdp.core.numerics.hermite import host_function, scaled_coefficients
from jaxdp.problems.rows.random_features import RandomFeatures

# A coefficient below this share of the activation's root mean square is zero to quadrature.
_ZERO = 1e-9
# Relative: float32 rows of one length differ by this.
_SAME = 1e-5
# The finding about a statement, and whether it holds.
_Verdicts = dict[str, tuple[str, bool | None]]


class Assumption(NamedTuple):
    """One assumption of a theorem, and whether a problem meets it.

    Attributes:
        name: its name in the paper.
        statement: the assumption in words.
        found: the finding, in words with numbers.
        holds: True if it holds; None if no sample can decide it.
    """

    name: str
    statement: str
    found: str
    holds: bool | None

    def __str__(self) -> str:
        verdict = {True: "holds", False: "fails", None: "is open"}[self.holds]
        return f"{self.name} {verdict}: {self.statement}; {self.found}"


def excess_risk_assumptions(
    problem: RandomFeatures, *, epsilon: float | None = None, delta: float | None = None
) -> tuple[Assumption, ...]:
    r"""The assumptions of PF Theorem 1 on a problem, and on a budget if one is given.

    Orders of sizes are compared with constants of one. So read, the two conditions
    $d\log^2d < n < d^{3/2}/\log^3d$ contradict each other for every $4 \le d < e^{35.7}$: the
    theorem is about a limit that no computer reaches.

    Source: PF Assumptions 1, 2, 3 and 4.
    """
    parts = [_of_rows(problem), _of_activation(problem), _of_sizes(problem)]
    if epsilon is not None and delta is not None:
        parts.append(_of_budget(problem, float(epsilon), float(delta)))
    return tuple(
        Assumption(f"Assumption {number}", statement, found, holds)
        for number, verdicts in enumerate(parts, 1)
        for statement, (found, holds) in verdicts.items()
    )


def _of_rows(problem: RandomFeatures) -> _Verdicts:
    rows = np.asarray(problem.train_inputs, np.float64)
    off = float(np.abs(np.linalg.norm(rows, axis=1) / math.sqrt(problem.dim) - 1).max())
    moments = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    is_full = problem.num_train >= problem.dim
    least = f"{moments[0]:.3g} on these rows"
    if not is_full:
        least += f", fewer than d = {problem.dim}, which leaves it open"
    size = np.abs(np.asarray(problem.train_labels, np.float64)).max()
    return {
        "rows are sub-Gaussian, with a norm that does not grow with d": (
            f"no sample decides it; E(u.x)^2 <= {moments[-1]:.3g} on these rows",
            None,
        ),
        "|x| = sqrt(d)": (f"lengths are up to {off:.2g} of it off", off < _SAME),
        "the least eigenvalue of E x x^T is above a constant": (
            least,
            bool(moments[0] > 0) if is_full else None,
        ),
        "labels are bounded": (f"by {size:.3g} here", True),
    }


def _of_activation(problem: RandomFeatures) -> _Verdicts:
    function = host_function(problem.activation)
    coefficients, squares = scaled_coefficients(function, np.ones(1), 3)
    mu, square = coefficients[0], float(squares[0])
    zero, rest = _ZERO * math.sqrt(square), square - float(mu @ mu)
    jump = largest_jump(function)
    stops = is_bounded(difference_quotient(function))
    slope = f"its slope {'stops' if stops else 'does not stop'} growing within 13 deviations"
    return {
        "mu_0 = mu_2 = 0": (
            f"mu_0 = {mu[0]:.3g}, mu_2 = {mu[2]:.3g}",
            bool(max(abs(mu[[0, 2]])) < zero),
        ),
        "mu_1 is not zero": (f"mu_1 = {mu[1]:.3g}", bool(abs(mu[1]) > zero)),
        "the activation is not linear": (
            f"the orders above two have a square of {max(rest, 0.0):.3g}",
            rest > _ZERO * square,
        ),
        "the activation is Lipschitz": (
            f"it jumps by {jump:.3g}" if jump else slope,
            not jump and stops,
        ),
    }


def _of_sizes(problem: RandomFeatures) -> _Verdicts:
    n, d, p = problem.num_train, problem.dim, problem.num_features
    width = "p is infinite" if p is None else f"n/sqrt(p) = {n / math.sqrt(p):.3g}"
    least, most = least_samples(d), most_samples(d)
    over = f"n is {n / least:.3g} times that" if least else "that is zero"
    return {
        "n = O(sqrt p)": (width, p is None or n <= math.sqrt(p)),
        "n = omega(d log^2 d)": (over, n > least),
        "n = o(d^1.5 / log^3 d)": (f"n is {n / most:.3g} times that", n < most),
    }


def _of_budget(problem: RandomFeatures, epsilon: float, delta: float) -> _Verdicts:
    n, d, logarithm = problem.num_train, problem.dim, -math.log(delta)
    needed, reached = d * math.log(n) ** 5 / n, epsilon / math.sqrt(logarithm)
    return {
        "epsilon < 8 log(1/delta)": (
            f"{epsilon:.3g} and {8 * logarithm:.3g}",
            epsilon < 8 * logarithm,
        ),
        "epsilon / sqrt(log(1/delta)) = omega(d log^5 n / n)": (
            f"it is {reached / needed:.3g} times that" if needed else "that is zero",
            reached > needed,
        ),
    }


def least_samples(dim: int) -> float:
    r"""$d\log^2d$, which n exceeds in PF Assumption 3."""
    return dim * math.log(dim) ** 2


def most_samples(dim: int) -> float:
    r"""$d^{3/2}/\log^3d$, which n stays below; infinite for d = 1."""
    return dim**1.5 / math.log(dim) ** 3 if dim > 1 else math.inf
