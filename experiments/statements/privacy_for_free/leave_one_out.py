r"""Movement of the interpolator when one row is left out.

With $K = \Phi\Phi^\top$ invertible, leaving out row i moves $\theta^* = \Phi^+Y$ along the part of
$\varphi_i$ that the other rows' features do not span, whose squared length is $1/(K^{-1})_{ii}$, by
the others' interpolation error at $y_i$, which is $(K^{-1}Y)_i/(K^{-1})_{ii}$. So all n
distances come from one inverse.

Source: PF (6.13), and Derived: the two closed forms; test_leave_one_out solves each system.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.problems.rows.features import AbstractFeatureProblem


class LeaveOneOut(NamedTuple):
    r"""Changes of the interpolator when each row is left out.

    Attributes:
        shift: $\|\Phi^+Y - \Phi_{-i}^+Y_{-i}\|$, (num_train,).
        residual: $y_i - \varphi_i^\top\Phi_{-i}^+Y_{-i}$, the others' error on the row.
        bound: on the shifts, $|\text{residual}|/\sqrt{\lambda_{min}(K)}$ (PF (6.26)).
    """

    shift: Float[np.ndarray, " train"]
    residual: Float[np.ndarray, " train"]
    bound: Float[np.ndarray, " train"]


def leave_one_out(problem: AbstractFeatureProblem) -> LeaveOneOut:
    r"""Dependence of the interpolator $\theta^* = \Phi^+Y$ on each training row.

    Source: PF Lemma 6.5, (6.12), (6.13) and (6.26): the shifts are $O(\log n/\sqrt p)$, and at
    infinite width in units of $1/\sqrt p$. For the squared loss and an invertible kernel, in
    float64 on the host.
    """
    features, _ = problem.host_features()
    labels = np.asarray(problem.train_labels, np.float64)
    left, values, _ = np.linalg.svd(features, full_matrices=False)
    squares = values**2
    diagonal = np.sum(left**2 / squares, axis=1)
    pulled = left @ ((left.T @ labels) / squares)
    residual = pulled / diagonal
    return LeaveOneOut(np.abs(pulled) / np.sqrt(diagonal), residual, np.abs(residual) / values[-1])
