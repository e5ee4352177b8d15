r"""How far the interpolator moves when one row is left out.

With $K = \Phi\Phi^\top$ invertible, leaving out row i moves $\theta^* = \Phi^+Y$ along the part of
$\varphi_i$ that the other rows' features do not span, whose squared length is $1/(K^{-1})_{ii}$, by
what the others' interpolator misses of $y_i$, which is $(K^{-1}Y)_i/(K^{-1})_{ii}$. So all n
distances come from one inverse.

Source: PF (6.13), and Derived: the two closed forms; test_leave_one_out solves each system.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import require_kind
from jaxdp.core.errors import NotCoveredError
from jaxdp.problems.rows.feature_arguments import reason_not_squared
from jaxdp.problems.rows.features import AbstractFeatureProblem

# Of the least eigenvalue over the largest, below which its inverse has no digits.
_ROUNDING = 1e-13


class LeaveOneOut(NamedTuple):
    r"""What leaving out each row does to the interpolator.

    Attributes:
        shift: $\|\Phi^+Y - \Phi_{-i}^+Y_{-i}\|$, (num_train,).
        residual: $y_i - \varphi_i^\top\Phi_{-i}^+Y_{-i}$, the others' error on the row.
        bound: on the shifts, $|\text{residual}|/\sqrt{\lambda_{min}(K)}$ (PF (6.26)).

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import LeaveOneOut
        >>> found = LeaveOneOut(np.asarray([0.1]), np.asarray([-1.0]), np.asarray([0.2]))
        >>> bool((found.shift <= found.bound).all())
        True
    """

    shift: Float[np.ndarray, " train"]
    residual: Float[np.ndarray, " train"]
    bound: Float[np.ndarray, " train"]


def leave_one_out(problem: AbstractFeatureProblem) -> LeaveOneOut:
    r"""How much the interpolator $\theta^* = \Phi^+Y$ depends on each training row.

    Source: PF Lemma 6.5, (6.12), (6.13) and (6.26): the shifts are $O(\log n/\sqrt p)$. In float64
    on the host.

    Args:
        problem: with at least as many features as rows. Of infinite width shifts are in units of
            $1/\sqrt p$.

    Returns:
        Shifts, residuals and bounds, row by row.

    Raises:
        NotCoveredError: the loss is not the squared one, or the kernel is singular.

    Example:
        >>> import jax, jaxdp
        >>> from jaxdp.theory import leave_one_out
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 1600, key=jax.random.key(0))
        >>> found = leave_one_out(problem)
        >>> found.shift.shape, bool((found.shift <= found.bound).all())
        ((40,), True)
    """
    require_kind("problem", problem, AbstractFeatureProblem, "features on fixed rows")
    reason = reason_not_squared(problem)
    if reason is not None:
        raise NotCoveredError(f"PF Lemma 6.5 is about least squares: {reason}")
    features, _ = problem.host_features()
    labels = np.asarray(problem.train_labels, np.float64)
    left, values, _ = np.linalg.svd(features, full_matrices=False)
    squares = values**2
    rounding = max(_ROUNDING, problem.host_accuracy)
    if len(squares) < len(labels) or not squares[-1] > rounding * squares[0]:
        raise NotCoveredError(
            f"PF (6.13) needs an invertible kernel of the {len(labels)} training rows, got "
            f"{features.shape[1]} features; take more features, or rows that are not repeated"
        )
    diagonal = np.sum(left**2 / squares, axis=1)
    pulled = left @ ((left.T @ labels) / squares)
    residual = pulled / diagonal
    return LeaveOneOut(np.abs(pulled) / np.sqrt(diagonal), residual, np.abs(residual) / values[-1])
