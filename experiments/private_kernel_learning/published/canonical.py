r"""The canonical estimator of PK Theorem 10: noisy coefficients in a known eigenbasis.

$\sum_{l \le d}\varphi_l(x)^2 \le c_\beta\mu_d^{-\beta}$ where $\sum_l \mu_l^\beta\varphi_l(x)^2 \le
c_\beta$; so the sum $\sum_i y_i\varphi(x_i)$ of labels in [-1, 1] moves by at most
$2\sqrt{c_\beta}\,\mu_d^{-\beta/2}$, which grows like $d^{\beta/(2\gamma)}$. Printed is
$2c_\beta d^{\beta/2}$: a wrong root of $c_\beta$, hence a noise that depends on the units of the
kernel, and a wrong exponent.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from experiments.private_kernel_learning.published.learner import (
    ROUNDING,
    AbstractPublishedLearner,
    check_noise_arguments,
    classic_multiplier,
    scaled_down,
    statement,
)
from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import (
    require_callable,
    require_count,
    require_non_negative,
    require_positive,
    require_shape,
)
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.evaluation import blockwise
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.privacy.mechanisms import AbstractMechanism, GaussianMechanism, Unproved

_WHAT = "noisy average products of labels and eigenfunctions, and the function made of them"
_FALSE = (
    "the published sensitivity 2 c_beta d^(beta/2) is wrong, the true one is "
    "2 sqrt(c_beta) mu_d^(-beta/2)"
)


class Eigenfunctions(AbstractFeatureMap):
    """The first d of some eigenfunctions, as a feature map."""

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


class CanonicalEstimator(AbstractPublishedLearner[ReleasedFunction]):
    r"""PK's canonical estimator: averages of $y\varphi(x)$ over the records, with noise.

    $\frac1n\sum_i y_i\varphi(x_i)$ and noise of $2c_\beta d^{\beta/2}c(\delta)/(n\epsilon)$.

    As printed: it is a benchmark of the theory, for a distribution that is known. Source: PK
    Theorem 10, its proof.

    Args:
        eigenfunctions: $\varphi$, a traceable function of rows (n, dim) to at least d columns,
            that does not depend on the data. Nothing is drawn from the public seed.
        num_eigenfunctions: d.
        beta: $\beta$, in [0, 1].
        c_beta: $c_\beta$ > 0, which bounds $\sum_l \mu_l^\beta\varphi_l(x)^2$.
        least_eigenvalue: $\mu_d$, from which the true sensitivity follows; None if unknown,
            and then nothing is proved.

    Example:
        >>> from jaxdp.kernels import TorusKernel
        >>> from experiments.private_kernel_learning.published import CanonicalEstimator
        >>> kernel = TorusKernel.power_law(9, capacity=0.5)
        >>> learner = CanonicalEstimator(kernel.eigenfunctions, 9, beta=0.5, c_beta=4.0)
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 4) for name, std in found.items()}
        {'theta': 0.008}
    """

    eigenfunctions: Callable[[Array], Array]
    num_eigenfunctions: int = eqx.field(static=True, converter=plain_number)
    beta: float = eqx.field(static=True, converter=plain_float)
    c_beta: float = eqx.field(static=True, converter=plain_float)
    least_eigenvalue: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_callable("eigenfunctions", self.eigenfunctions)
        require_count("num_eigenfunctions", self.num_eigenfunctions)
        require_non_negative("beta", self.beta)
        require_positive("c_beta", self.c_beta)
        if self.least_eigenvalue is not None:
            require_positive("least_eigenvalue", self.least_eigenvalue)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviation "theta" of the noise on every average."""
        check_noise_arguments(num_samples, epsilon, delta)
        printed = 2 * self.c_beta * self.num_eigenfunctions ** (self.beta / 2)
        scale = classic_multiplier(delta) / (num_samples * epsilon)
        return {"theta": printed * scale}

    def _release(self, request):
        num_samples, size = request.num_samples, self.num_eigenfunctions
        features = Eigenfunctions(self.eigenfunctions, request.dim, size)
        rows = np.asarray(blockwise(features, request.table), np.float64)
        require_shape("eigenfunctions of the inputs", rows, (num_samples, size))
        std = self.noise_std(num_samples, request.epsilon, request.delta)["theta"]
        source = self._noise(request)
        within = scaled_down(rows, self.norm_bound)
        averages = request.truncated(1.0).targets @ within / num_samples
        source = source.hiding(averages, std)
        mechanism = self._mechanism(num_samples * std)
        remarks = () if isinstance(mechanism, Unproved) else (_FALSE,)
        coefficients = averages + std * source.normals(size, "theta")
        claim = statement(_WHAT, mechanism, source, *remarks, request=request)
        return request.released(features, coefficients, claim)

    @property
    def norm_bound(self) -> float:
        r"""$\sqrt{c_\beta}\,\mu_d^{-\beta/2}$, of the eigenfunctions together; else infinity."""
        if self.least_eigenvalue is None:
            return math.inf
        return math.sqrt(self.c_beta) * self.least_eigenvalue ** (-self.beta / 2)

    def _mechanism(self, std_of_sum: float) -> AbstractMechanism:
        if not math.isfinite(self.norm_bound):
            return Unproved(f"{_FALSE}, and mu_d is not given")
        return GaussianMechanism(2 * self.norm_bound / std_of_sum * (1 + ROUNDING))
