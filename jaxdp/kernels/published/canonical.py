r"""The canonical estimator of PK Theorem 10: noisy coefficients in a known eigenbasis.

$\sum_{l \le d}\varphi_l(x)^2 \le c_\beta\mu_d^{-\beta}$ where $\sum_l \mu_l^\beta\varphi_l(x)^2 \le
c_\beta$; so the sum $\sum_i y_i\varphi(x_i)$ of labels in [-1, 1] moves by at most
$2\sqrt{c_\beta}\,\mu_d^{-\beta/2}$, which grows like $d^{\beta/(2\gamma)}$. Printed is
$2c_\beta d^{\beta/2}$: a wrong root of $c_\beta$, hence a noise that depends on the units of the
kernel, and a wrong exponent.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive, require_shape
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.blocks import blockwise
from jaxdp.kernels.fit_arguments import (
    check_budget,
    check_seeds,
    training_table,
)
from jaxdp.kernels.published.calibration import classic_multiplier
from jaxdp.kernels.published.noise_source import noise_of_learner
from jaxdp.kernels.published.statements import statement
from jaxdp.kernels.released import ReleasedFunction
from jaxdp.privacy.mechanisms import AbstractMechanism, Gaussian, Unproved

_WHAT = "noisy average products of labels and eigenfunctions, and the function made of them"
_FALSE = (
    "the published sensitivity 2 c_beta d^(beta/2) is wrong, the true one is "
    "2 sqrt(c_beta) mu_d^(-beta/2)"
)
_ROUNDING = 1e-9


class Eigenfunctions(AbstractFeatureMap):
    """The first d of some eigenfunctions, as a feature map.

    Args:
        function: of rows (n, dim), to at least d columns.
        num_columns: of the inputs.
        count: d.
    """

    function: Callable[[Array], Array]
    num_columns: int = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __call__(self, inputs):
        values = jnp.asarray(self.function(inputs))
        if values.ndim != 2 or values.shape[1] < self.num_outputs:
            raise ValueError(
                f"expected {self.num_outputs} eigenfunctions a row, got shape {values.shape}"
            )
        return values[:, : self.num_outputs]

    @property
    def dim(self):
        return self.num_columns

    @property
    def num_outputs(self):
        return self.count

    @property
    def norm_bound(self):
        return math.inf


class CanonicalEstimator(eqx.Module):
    r"""$\frac1n\sum_i y_i\varphi(x_i)$ and noise of $2c_\beta d^{\beta/2}c(\delta)/(n\epsilon)$.

    As printed: it is a benchmark of the theory, for a distribution that is known. Source: PK
    Theorem 10, its proof.

    Args:
        eigenfunctions: $\varphi$, a traceable function of rows (n, dim) to at least d columns,
            that does not depend on the data.
        num_eigenfunctions: d.
        beta: $\beta$, in [0, 1].
        c_beta: $c_\beta$ > 0, which bounds $\sum_l \mu_l^\beta\varphi_l(x)^2$.
        least_eigenvalue: $\mu_d$, from which the true sensitivity follows; None where unknown,
            and then nothing is proved.

    Raises:
        ValueError, TypeError: an argument is out of its range.
    """

    eigenfunctions: Callable[[Array], Array]
    num_eigenfunctions: int = eqx.field(static=True, converter=plain_number)
    beta: float = eqx.field(static=True, converter=plain_float)
    c_beta: float = eqx.field(static=True, converter=plain_float)
    least_eigenvalue: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_count("num_eigenfunctions", self.num_eigenfunctions)
        require_non_negative("beta", self.beta)
        require_positive("c_beta", self.c_beta)
        if self.least_eigenvalue is not None:
            require_positive("least_eigenvalue", self.least_eigenvalue)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviation "theta" of the noise on every average.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        check_budget(epsilon, delta)
        printed = 2 * self.c_beta * self.num_eigenfunctions ** (self.beta / 2)
        scale = classic_multiplier(delta) / (require_count("num_samples", num_samples) * epsilon)
        return {"theta": printed * scale}

    def fit(
        self,
        inputs: Float[Any, "n dim"],
        labels: Float[Any, " n"],
        *,
        epsilon: float,
        delta: float,
        public_seed: int,
        noise_seed: int | None = None,
    ) -> ReleasedFunction:
        """Learn from a table.

        Args:
            inputs: one record a row.
            labels: one for each, truncated to [-1, 1], where the paper has them.
            epsilon: > 0 and finite.
            delta: in (0, 1).
            public_seed: as elsewhere; nothing is drawn from it.
            noise_seed: None for the operating system's entropy; else as secret as the data.

        Raises:
            ValueError, TypeError: an argument is out of its range, or not finite.
        """
        check_budget(epsilon, delta)
        check_seeds(public_seed, noise_seed)
        table, targets = training_table(inputs, labels)
        size = self.num_eigenfunctions
        features = Eigenfunctions(self.eigenfunctions, table.shape[1], size)
        rows = np.asarray(blockwise(features, table), np.float64)
        require_shape("eigenfunctions of the inputs", rows, (len(table), size))
        std = self.noise_std(len(table), epsilon, delta)["theta"]
        budget = float(epsilon), float(delta)
        source = noise_of_learner(self, table, targets, (public_seed, noise_seed), budget)
        averages = np.clip(targets, -1, 1) @ self._within(rows) / len(table)
        source = source.hiding(averages, std)
        mechanism = self._mechanism(len(table) * std)
        remarks = () if isinstance(mechanism, Unproved) else (_FALSE,)
        return ReleasedFunction(
            features=features,
            coefficients=averages + std * source.normals(size, "theta"),
            public_seed=int(public_seed),
            statement=statement(_WHAT, mechanism, source, *remarks, epsilon=epsilon, delta=delta),
            delta=float(delta),
        )

    @property
    def norm_bound(self) -> float:
        r"""$\sqrt{c_\beta}\,\mu_d^{-\beta/2}$, of the eigenfunctions together; else infinity."""
        if self.least_eigenvalue is None:
            return math.inf
        return math.sqrt(self.c_beta) * self.least_eigenvalue ** (-self.beta / 2)

    def _within(self, rows):
        """The rows, those beyond the bound that the arguments state scaled back to it."""
        if not math.isfinite(self.norm_bound):
            return rows
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows * (self.norm_bound / np.maximum(norms, self.norm_bound))

    def _mechanism(self, std_of_sum: float) -> AbstractMechanism:
        if not math.isfinite(self.norm_bound):
            return Unproved(f"{_FALSE}, and mu_d is not given")
        return Gaussian(2 * self.norm_bound / std_of_sum * (1 + _ROUNDING))
