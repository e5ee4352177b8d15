"""Kernel spectra and effective dimensions, on the host in float64: ridges span ten decades."""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import (
    host_array,
    host_number,
    require_count,
    require_finite,
    require_positive,
    require_shape,
)


class Dimensions(NamedTuple):
    """The effective dimensions N and N_2, and N - N_2 without cancellation."""

    first: float
    second: float
    spread: float


class KernelSpectrum(eqx.Module):
    r"""Eigenvalues of a kernel and squared coefficients of the target, with multiplicities.

    The kernel's integral operator has eigenvalues $\mu_l$ and eigenfunctions $\phi_l$, orthonormal
    in $L^2(P_X)$; the target is $\sum_l\theta_l\phi_l$. Source: PK section 2.1.

    Args:
        eigenvalues: $\mu_l \ge 0$; 0 for eigenfunctions that the features do not span.
        squared_target: $\theta_l^2$ of a single eigenfunction.
        multiplicities: number of eigenfunctions per entry, default 1. A number above 1 may also
            represent a range of indices of a smooth spectrum.

    Raises:
        ValueError: shapes differ, an entry is negative or not finite, or no eigenvalue is positive.

    Example:
        >>> from jaxdp.theory import KernelSpectrum
        >>> spectrum = KernelSpectrum([1.0, 0.25], [0.5, 0.1], multiplicities=[1, 2])
        >>> float(spectrum.trace), float(spectrum.effective_dimension(1.0))
        (1.5, 0.9)
    """

    eigenvalues: Float[np.ndarray, " modes"]
    squared_target: Float[np.ndarray, " modes"]
    multiplicities: Float[np.ndarray, " modes"]

    def __init__(
        self,
        eigenvalues: Float[ArrayLike, " modes"],
        squared_target: Float[ArrayLike, " modes"],
        multiplicities: Float[ArrayLike, " modes"] = 1.0,
    ):
        self.eigenvalues = host_array("eigenvalues", eigenvalues)
        self.squared_target = host_array("squared_target", squared_target)
        given = host_array("multiplicities", multiplicities)
        self.multiplicities = (
            np.broadcast_to(given, self.eigenvalues.shape) if given.ndim == 0 else given
        )

    def __check_init__(self):
        require_shape("eigenvalues", self.eigenvalues, (None,))
        for name in ("eigenvalues", "squared_target", "multiplicities"):
            value = getattr(self, name)
            require_shape(name, value, self.eigenvalues.shape)
            require_finite(name, value)
            if (value < 0).any():
                raise ValueError(f"expected {name} >= 0, got {value.min()}")
        if not (self.eigenvalues * self.multiplicities > 0).any():
            raise ValueError("expected a positive eigenvalue, got none")

    @classmethod
    def power_law(
        cls, capacity: float, source: float, *, num_exact: int = 1000, ranges_per_decade: int = 100
    ) -> "KernelSpectrum":
        r"""$\mu_l = l^{-1/\gamma}$, $\theta_l^2 = \mu_l^{2r}/l$, at the border of the conditions.

        PK Assumption 3 holds with the exponent gamma; Assumption 4 holds for every exponent below r
        and just fails at r: $\sum_{l>d}\theta_l^2 \approx (\gamma/2r)\,d^{-2r/\gamma}$. Indices
        beyond `num_exact` are summed in geometric ranges until 1e-15 of the trace is left.
        Source: PK Assumptions 3 and 4.

        Args:
            capacity: gamma, in (0, 0.95]; nearer 1 no range of numbers holds the trace.
            source: r > 0.
            num_exact: number of indices that are summed one by one.
            ranges_per_decade: number of ranges per decade for the other indices.

        Raises:
            ValueError: an exponent is out of range.
        """
        require_count("ranges_per_decade", ranges_per_decade)
        if not 0 < host_number("capacity", capacity) <= 0.95:
            raise ValueError(f"expected capacity in (0, 0.95], got {capacity}")
        require_positive("source", source)
        exact = np.arange(1, require_count("num_exact", num_exact) + 1.0)
        first = num_exact + 0.5
        decades = max(15 / (1 / capacity - 1) - math.log10(first), 1)
        edges = first * np.logspace(0, decades, math.ceil(decades * ranges_per_decade) + 1)
        index = np.concatenate([exact, np.sqrt(edges[1:] * edges[:-1])])
        eigenvalues = index ** (-1 / capacity)
        multiplicities = np.concatenate([np.ones(num_exact), np.diff(edges)])
        return cls(eigenvalues, eigenvalues ** (2 * source) / index, multiplicities)

    @property
    def trace(self) -> float:
        """Sum of the eigenvalues, the mean of k(x, x)."""
        return float(self.multiplicities @ self.eigenvalues)

    def effective_dimension(self, ridge: float, *, order: int = 1) -> float:
        r"""$\sum_l(\mu_l/(\mu_l + \lambda))^{\text{order}}$ for one ridge > 0."""
        filtered = self.eigenvalues / (self.eigenvalues + ridge)
        return float(self.multiplicities @ filtered**order)

    def dimensions(self, ridge: float) -> Dimensions:
        """N, N_2 and N - N_2 of one ridge > 0, in one pass over the eigenvalues."""
        mu, times = self.eigenvalues, self.multiplicities
        shifted = mu + ridge
        filtered = mu / shifted
        return Dimensions(
            float(times @ filtered),
            float(times @ filtered**2),
            float(times @ (mu * ridge / shifted**2)),
        )


def effective_dimension(
    eigenvalues: Float[ArrayLike, " modes"], ridge: Float[ArrayLike, "*ridges"]
) -> Float[np.ndarray, "*ridges"]:
    r"""The effective dimension, $N(\lambda) = \sum_l\mu_l/(\mu_l + \lambda)$.

    Source: PK Assumption 3.

    For $\mu_l = l^{-1/\gamma}$ it is $\lambda^{-\gamma}\pi\gamma/\sin(\pi\gamma) - 1/2$ as lambda
    tends to 0. Derived: Euler and Maclaurin's first two terms;
    tests/agreement/theory/kernels/test_kernel_risk.py.

    Args:
        eigenvalues: $\mu_l \ge 0$, shape (modes,).
        ridge: lambda > 0, any shape.

    Returns:
        N at each ridge.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import effective_dimension
        >>> effective_dimension(np.array([1.0, 0.25, 0.0625]), [0.01, 1.0]).round(3).tolist()
        [2.814, 0.759]
    """
    eigenvalues, ridge = host_array("eigenvalues", eigenvalues), host_array("ridge", ridge)
    require_shape("eigenvalues", eigenvalues, (None,))
    if (eigenvalues < 0).any() or not (ridge > 0).all():
        raise ValueError("expected eigenvalues >= 0 and ridge > 0")
    return np.sum(eigenvalues / (eigenvalues + ridge[..., None]), axis=-1)
