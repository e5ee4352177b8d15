r"""Strategies of correlated noise with the least predicted noise, for training in several epochs.

Noise $C^{-1}Z$ with Z standard normal has the covariance $(C^\top C)^{-1}$ over the steps. What it
adds to the risk is, to first order, $\mathrm{tr}(W(C^\top C)^{-1})$ with a matrix of weights W that
the optimiser and the problem determine. If a record is in every b-th batch and C has at most b
bands, the account depends on C through the sum of the columns' squared norms over each class
t = g, g + b, ... alone. This module has the weights W of a linear optimiser and the best such C.

Weights of the final risk alone are not enough: the best C then has noise that grows without limit
between the steps and cancels at the end, and which a nonlinear run clips away. Hence weights also
contain a price for the variance before every step.

Derived: with b bands $X = C^\top C$ is any positive definite matrix with 2b - 1 diagonals,
$\mathrm{tr}(WX^{-1})$ is convex in X, and the constraints are linear in X. So a stationary point
is the global optimum; test_strategies_reach_the_costs_of_an_independent_optimiser.
"""

import functools
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.checks import given_array, require_count, require_finite, require_shape

_LEAST = 1e-3  # least entry of the diagonal, relative to a column of norm 1
_MOST_STEPS, _PAIRS = 3000, 30  # of L-BFGS: most steps, and pairs it remembers


def weights_of_strategy(
    transitions: Any, injections: Any, prices: Any, final: Any, output: int = 0
) -> Float[np.ndarray, "steps steps"]:
    r"""The weights W of the noise's covariance over the steps in the risk of a linear optimiser.

    Each mode j has J numbers $u$, with $u_{t+1} = L_{t,j}u_t + v_t n_t$ and n the noise. Then
    $\mathrm{tr}(W\,\mathrm{cov}(n))$ is $\sum_j(\sum_t p_{t,j}\,\mathrm{var}(u_{t,j})_0 +
    h_j\,\mathrm{var}(u_{T,j})_o)$, with o the output. The cost is $O(T^2J^2)$ for each mode. The
    arguments are L (T, modes, J, J), v (T, J), p >= 0 (T, modes), h >= 0 (modes,), and o.

    Example:
        >>> import numpy as np
        >>> from jaxdp.planning.features.strategies import weights_of_strategy
        >>> halves = np.full((2, 1, 1, 1), 0.5)  # w <- w / 2 + n
        >>> weights_of_strategy(halves, np.ones((2, 1)), np.zeros((2, 1)), np.ones(1)).tolist()
        [[0.25, 0.5], [0.5, 1.0]]
    """
    transitions, injections = np.asarray(transitions, float), np.asarray(injections, float)
    prices, final = np.asarray(prices, float), np.asarray(final, float)
    steps, modes, size = transitions.shape[:3]
    # Backward: the price of u_{t+1} u_{t+1}' with all that follows from it, times v_t.
    later = np.zeros((modes, size, size))
    later[:, output, output] = final
    pulls = np.empty((steps, modes, size))
    for t in range(steps - 1, -1, -1):
        pulls[t] = later @ injections[t]
        later = np.swapaxes(transitions[t], 1, 2) @ later @ transitions[t]
        later[:, 0, 0] += prices[t]
    # Forward: the responses of u_{t+1} to the noise of each step. Nothing is divided by a gain.
    weights = np.zeros((steps, steps))
    responses = np.zeros((modes, size, steps))
    for t in range(steps):
        responses[:, :, :t] = transitions[t] @ responses[:, :, :t]
        responses[:, :, t] = injections[t]
        weights[t, : t + 1] = np.tensordot(pulls[t], responses[:, :, : t + 1], 2)
    return weights + np.tril(weights, -1).T


def rows_of(weights: Any, tolerance: float = 1e-10) -> Float[np.ndarray, "steps steps"]:
    """A matrix A with A'A = W, in which no eigenvalue is below a share of the largest.

    Small eigenvalues are raised, not left out: the best strategy would move all its noise into
    directions that are left out. So the cost of A is never below that of W.
    """
    values, vectors = np.linalg.eigh(weights)
    raised = np.maximum(values, tolerance * max(values[-1], 0.0))
    return np.sqrt(raised)[:, None] * vectors.T


def least_noise_strategy(
    rows: Any, num_bands: int, cycle: int, tolerance: float = 1e-7
) -> Float[np.ndarray, "steps steps"]:
    r"""The banded strategy C with the least $\mathrm{tr}(A(C^\top C)^{-1}A^\top)$.

    The squared norms of the columns of each class t = g, g + cycle, ... sum to the number of these
    columns. With one band the shares of the budget are $x_t\propto\sqrt{(A^\top A)_{tt}}$ in each
    class; for full batches (a cycle of 1) no other strategy is better. More bands take a search,
    with $O(T^2r)$ operations for each of its steps, r the number of rows.

    Args:
        rows: matrix A, (r, T).
        num_bands: largest number of diagonals of C that are not zero; at most the cycle and T.
        cycle: number of batches in an epoch.
        tolerance: relative fall of the cost in one step of the search that ends it.

    Returns:
        Lower triangular matrix with a positive diagonal, (T, T), in float64.

    Raises:
        ValueError: there are more bands than batches or steps, or the rows are not finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.planning.features.strategies import least_noise_strategy
        >>> least_noise_strategy(np.diag([3.0, 1.0]), 1, 1).diagonal().round(6).tolist()
        [1.224745, 0.707107]
    """
    rows = given_array("rows", rows).astype(float)
    require_shape("rows", rows, (None, None))
    require_finite("rows", rows)
    count = rows.shape[1]
    most = min(require_count("cycle", cycle), count)
    if require_count("num_bands", num_bands) > most:
        raise ValueError(
            f"expected at most {most} bands for {count} steps and {cycle} batches in an epoch, "
            f"got {num_bands}: a record's columns would overlap; use fewer bands"
        )
    group = np.arange(count) % cycle
    sizes = np.bincount(group)

    def mean(squares):
        return (np.bincount(group, squares) / sizes)[group]

    shares = np.linalg.norm(rows, axis=0)
    # A step whose noise has no effect keeps a small share, so that its noise is finite.
    shares = np.maximum(shares, _LEAST**2 * shares.max()) if shares.any() else np.ones(count)
    shares = shares / mean(shares)
    lag = np.subtract.outer(np.arange(count), np.arange(count))
    inside = (lag >= 0) & (lag < num_bands)
    # The start: the square root of the matrix of prefix sums, with the best norms of one band.
    root = np.concatenate([[1.0], np.cumprod(1 - 0.5 / np.arange(1, num_bands))])
    start = np.where(inside, root[np.clip(lag, 0, num_bands - 1)], 0.0)
    start *= np.sqrt(shares / (start**2).sum(axis=0))
    if num_bands == 1:
        return start

    def strategy_of(free):
        strategy = np.zeros((count, count))
        strategy[inside] = free
        norms = np.sqrt(mean((strategy**2).sum(axis=0)))
        return strategy / norms, norms

    def cost_and_slope(free):
        strategy, norms = strategy_of(free)
        solve = functools.partial(
            scipy.linalg.solve_triangular, strategy, lower=True, check_finite=False
        )
        back = solve(rows.T, trans=1)
        there = solve(back)
        slope = np.where(inside, -2 * back @ there.T, 0.0)
        along = mean((slope * strategy).sum(axis=0))
        return (back**2).sum(), ((slope - along * strategy) / norms)[inside]

    scale = cost_and_slope(start[inside])[0]
    if not scale > 0:
        return start
    least = np.where(lag == 0, _LEAST, -np.inf)[inside]
    found = scipy.optimize.minimize(
        lambda free: tuple(part / scale for part in cost_and_slope(free)),
        start[inside],
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(least, np.inf),  # pyright: ignore[reportArgumentType]
        options={"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "maxcor": _PAIRS}
        | {"ftol": tolerance, "gtol": 1e-9},
    )
    return strategy_of(found.x)[0]
