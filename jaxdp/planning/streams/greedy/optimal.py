"""The best of all non-increasing learning rates.

For equal eigenvalues a theorem, proved here, leaves two numbers to be searched for: the clip scale
and the first learning rate.
"""

from typing import Any

from jaxdp.core.description import AbstractDescription


class Optimal(AbstractDescription):
    r"""The best of all non-increasing schedules: what `jaxdp.plan` uses where none is named.

    **The problem.** For equal eigenvalues the risk obeys, with $e = \min(\tilde\eta, 2/\gamma)$,
    $m(R) = \mu R$, $N(R) = \nu P$, $P = R + \zeta^2/2$ and $K = 2c^2\gamma^2/\rho^2$,

        R' = -2 e m(R) + e^2 gamma N(R) - K d(eta~^2)/dt,

    and the noise of the last step adds $K\tilde\eta(1)^2$ at the end. Wanted are the clip scale c
    and the non-increasing $\tilde\eta \ge 0$ with the least risk of what is released.

    **One state.** $Z = R + K\tilde\eta^2$ obeys $Z' = F(Z, \tilde\eta) = -2 e m + e^2 \gamma N$ at
    $R = Z - K\tilde\eta^2$, without a derivative of the schedule, and begins at $Z(0) = R(0) +
    K\tilde\eta(0)^2$. The risk of what is released is Z(1): all of the noise to come has come.

    **Theorem.** Let c and $\tilde\eta(0)$ be given, and let $\eta^*(Z)$ be where $F(Z, \cdot)$ is
    least on $[0, \min(\tilde\eta(0), 2/\gamma)]$. No schedule with $\tilde\eta \le \tilde\eta(0)$,
    increasing or not, ends below the state that follows $Z' = F(Z, \eta^*(Z)) = f(Z)$.

    *Proof.* For any other schedule $Z' = F(Z, \tilde\eta(t)) \ge f(Z)$ at its own Z, from the same
    start. The two are scalar, so that where the other touches the greedy one from above it is not
    steeper downward: by the comparison of scalar differential equations (f is Lipschitz as a
    minimum of functions that are, uniformly, on a compact range) it stays above, and so does its
    end. Rates beyond $2/\gamma$ change nothing: there e is the cap, and F falls with R because $m'
    \ge N'$, so that a larger rate, which lowers R, only raises F. $\blacksquare$

    **The arc.** Inside the range the least F has $\partial F/\partial\tilde\eta = 0$, that is

        m = gamma N eta + 2 K m' eta^2 - K gamma N' eta^3,  the smallest positive root.

    As Z falls $\eta^*$ falls, so that the schedule is flat at $\tilde\eta(0)$ (or the cap) and then
    follows the arc: it is non-increasing by itself, hence the best of all that begin at or below
    $\tilde\eta(0)$. The two numbers c and $\tilde\eta(0)$ are found by descent from the best point
    of a grid.

    **What is checked and not proved.** That F has one minimum in $\tilde\eta$, so that the smallest
    root is it, and that $\eta^*$ increases with R: no violation is found at random settings in
    test_the_fall_has_one_minimum_and_the_arc_rises. That the search over two numbers finds their
    global minimum: `FreeForm` from a cold start reaches the same risk and nothing below.

    The clip scale is one number: one that falls with time is not looked at.

    With next to no label noise the search does not resolve risks below 1e-6 R(0): a plan then has
    the status UNSTABLE, because `CoupledODE` does not confirm what the search saw.

    For unequal eigenvalues there is a state per eigenvalue and the theorem does not hold. There
    the plan is the best `FreeForm` that descends through all modes from the isotropic plan.
    Nor is there a theorem for inputs of random scale, Huber's loss or logistic regression. There it
    is the best `FreeForm` that descends from the best hyperbola, or from a cold start.

    Derived: test_the_optimum_is_that_of_the_references,
    test_no_free_form_is_better_than_the_greedy_arc.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0, schedule=jaxdp.Optimal)
        >>> print(f"{plan.predicted.final_risk:.4f}")
        0.0565
    """


def is_optimal(schedule: Any) -> bool:
    """Whether a schedule is named as the best of all, by the class or an object of it."""
    return schedule is Optimal or isinstance(schedule, Optimal)
