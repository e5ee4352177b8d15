"""Factors and spectra of kernel matrices, in float64 on the host, and non-private solutions.

Solutions use the features themselves if they are explicit: a Gram matrix would square the condition
number, which is unbounded at p = n.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.checks import is_on_accelerator
from jaxdp.core.numerics.batching import one_at_a_time
from jaxdp.core.numerics.precision import product
from jaxdp.losses import Squared

# Error of the entries of a kernel of infinite width, relative to the largest.
KERNEL_ACCURACY = 1e-11
_LANCZOS_STEPS = 100


def split_factor(factor: Any, num_train: int) -> tuple[Any, Any, Any]:
    """L, M and N from a lower-triangular root of the kernel of all rows, (rows, columns)."""
    seen = min(num_train, factor.shape[1])
    train, test = factor[:num_train], factor[num_train:]
    return train[:, :seen], test[:, :seen], test[:, seen:]


def triangular_root(kernel: np.ndarray, accuracy: float) -> np.ndarray:
    """A lower-triangular R with R R^T = kernel, also for singular kernels.

    Directions in which the kernel is not above its own rounding (duplicate rows, zero rows) are
    left out: their root would be 10^4 to 10^8 times that rounding. `accuracy` is that of the
    kernel's entries, relative to the largest one.
    """
    size = max(len(kernel), 1)
    floor = 4 * accuracy * math.sqrt(size) * kernel.diagonal().max(initial=0)
    try:
        root = np.linalg.cholesky(kernel)
        if root.diagonal().min() ** 2 > floor:
            return root
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(kernel)
    if values[0] < -max(floor, 1e-5 * np.abs(values).max()):
        came = f"an eigenvalue {values[0]:.3g}, the largest being {values[-1]:.3g}"
        raise ValueError(f"expected a positive semi-definite kernel, got {came}")
    values = np.where(values > floor, values, 0)
    upper: Any = np.linalg.qr((vectors * np.sqrt(values)).T, mode="r")
    return upper.T


def kernel_accuracy(kernel: Any) -> float:
    """Accuracy of a kernel's entries: its type's rounding, or that of the infinite-width series."""
    dtype = getattr(kernel, "dtype", np.dtype(np.float64))
    return max(float(jnp.finfo(dtype).eps) if dtype.kind == "f" else 0.0, KERNEL_ACCURACY)


def largest_eigenvalue(features: Any) -> float:
    r"""The largest eigenvalue of $\Phi\Phi^\top$, by Lanczos iterations.

    Features on an accelerator stay there, with a result up to 1 % too small (`lanczos_eigenvalue`);
    on the CPU iterations in float64 continue until the relative residual is below 1e-5.
    """
    if is_on_accelerator(features):
        return float(lanczos_eigenvalue(features))
    return _host_eigenvalue(np.asarray(features, np.float64))


def _host_eigenvalue(features: np.ndarray) -> float:
    from scipy.sparse.linalg import svds

    if min(features.shape) < 3 or not features.any():
        return float(np.linalg.norm(features, 2) ** 2)
    start = np.random.default_rng(0).standard_normal(min(features.shape))
    solve: Any = svds
    found = solve(features, k=1, tol=1e-5, v0=start, return_singular_vectors=False)
    return float(found[0]) ** 2


@jax.jit
def lanczos_eigenvalue(features: Float[Array, "rows columns"]) -> Float[Array, ""]:
    r"""The largest eigenvalue of $\Phi\Phi^\top$ by Lanczos's recursion, on the features' device.

    The result is exact up to rounding for at most 100 rows or columns. Otherwise, 100 steps find a
    number that is not above the largest eigenvalue. Let b be the component of the start, of norm 1,
    along that eigenvalue's vector. For any spectrum the result is more than a share e too small
    only if $|b| < 1 / \cosh(199\,\mathrm{artanh}\sqrt e)$, and some spectra reach this. A start
    drawn independently of n rows has so small a component with probability at most $\sqrt{2n/\pi} /
    \cosh(199\,\mathrm{artanh}\sqrt e)$: 1.1e-6 for e = 0.01 and $n = 10^5$. Spectra that crowd at
    their upper end come close to e = 1e-4 already at n = 1500; with a gap of 1 % below the largest
    eigenvalue all digits are right. Every vector is made orthogonal to all before it, twice: in
    float32 the recursion alone loses that.

    Derived: let $x_i$ be the eigenvalues over the largest, $x_1 = 1$, $b_i$ the start's components
    and m = 1 - e. The share m is found if a polynomial p of degree 99 has $\sum_i b_i^2 (x_i - m)
    p(x_i)^2 \ge 0$. Take $p(m(1 - y^2)) = T_{199}(y)/y$ with Chebyshev's polynomial. Then $(m - x)
    p(x)^2 = m T_{199}(y)^2 \le m$ for x in [0, m], and $e\,p(1)^2 = m
    \sinh^2(199\,\mathrm{artanh}\sqrt e)$, so it suffices that $b_1^2 \sinh^2(\cdot) \ge 1 - b_1^2$.
    For a uniform direction, the density of $b_1$ is at most $\sqrt{n/2\pi}$. Tests:
    test_the_spectrum_that_is_hardest_for_the_start_reaches_the_bound,
    test_small_components_of_the_start_are_as_rare_as_stated and
    test_a_hundred_steps_find_the_top_of_crowded_spectra. The rate is that of Kuczynski and
    Wozniakowski (1992), "Estimating the largest eigenvalue by the power and Lanczos algorithms with
    a random start": $\sqrt n\,e^{-(2k - 1)\sqrt e}$ after k steps.
    """
    features = features.astype(jnp.promote_types(features.dtype, jnp.float32))
    factor = features if features.shape[0] <= features.shape[1] else features.T
    # Its square must not overflow.
    size = jnp.max(jnp.abs(factor))
    factor = factor / jnp.where(size > 0, size, 1)
    num_rows = factor.shape[0]
    steps = min(num_rows, _LANCZOS_STEPS)
    start = np.random.default_rng(0).standard_normal(num_rows)
    start = jnp.asarray(start / np.linalg.norm(start), factor.dtype)

    def step(index, state):
        basis, image, direction = state
        basis = basis.at[index].set(direction)
        moved = product(factor, product(direction, factor))
        image = image.at[index].set(moved)
        for _ in range(2):
            moved = moved - product(product(basis, moved), basis)
        length = jnp.linalg.norm(moved)
        # Once the space is exhausted, the remainder is rounding.
        is_new = length > 4 * jnp.finfo(factor.dtype).eps * jnp.linalg.norm(image[index])
        return basis, image, jnp.where(is_new, moved / jnp.where(is_new, length, 1), 0)

    empty = jnp.zeros((steps, num_rows), factor.dtype)
    basis, image, _ = jax.lax.fori_loop(0, steps, step, (empty, empty, start))
    projected = product(basis, image.T)
    return one_at_a_time(jnp.linalg.eigvalsh)((projected + projected.T) / 2)[-1] * size**2


class SpectralGap(NamedTuple):
    r"""Two neighbouring eigenvalues of the kernel, and the ridge and stopping times between them.

    A ridge between the two keeps the modes above the gap and damps those below. So does gradient
    flow, which learns a mode at the rate $\kappa\lambda/n$, if stopped between the two times.
    Source: PF (6.116) and the text around it, Lemma C.5.

    Attributes:
        rank: number of eigenvalues above the gap.
        above, below: eigenvalues number `rank` and `rank + 1`.
        num_train: n.
        curvature: $\kappa$ of the loss: 2 for `Squared` (PF), 1 for `HalfSquared`.
    """

    rank: int
    above: float
    below: float
    num_train: int
    curvature: float = Squared().curvature_bound

    @property
    def ridge(self) -> float:
        """The geometric mean of the two eigenvalues: a ridge between them."""
        return float(np.sqrt(self.above * self.below))

    @property
    def stopping_times(self) -> tuple[float, float]:
        r"""Times $n/(\kappa\lambda)$ at which the modes above, and those below, are learnt."""
        values = [self.curvature * value for value in (self.above, self.below)]
        above, below = (self.num_train / value if value > 0 else np.inf for value in values)
        return above, below


def ridge_coefficients(
    features: np.ndarray, labels: np.ndarray, ridge: float, accuracy: float
) -> np.ndarray:
    r"""$(\Phi^\top\Phi + \lambda I)^{-1}\Phi^\top Y$; at $\lambda = 0$ the limit $\Phi^+ Y$.

    Singular values below the accuracy of the features, relative to their norm, count as 0.
    """
    left, values, right = np.linalg.svd(features, full_matrices=False)
    rounding = max(max(features.shape) * np.finfo(np.float64).eps, 4 * accuracy)
    kept = values > (rounding * values.max(initial=0) if ridge == 0 else 0)
    values = np.where(kept, values, 1)
    factors = np.where(kept, values / (values**2 + ridge), 0)
    return right.T @ (factors * (left.T @ labels))
