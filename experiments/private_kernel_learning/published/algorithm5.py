r"""PK Algorithm 5: a kernel machine with a Gaussian process added to it (Hall et al. 2013).

The minimiser f of $\frac1n\sum \ell(y_i f(x_i)) + \frac\lambda2\|f\|^2$ over the kernel's space
moves by at most $2c_1\kappa/(n\lambda)$ when a record is replaced: the objective is strongly convex
with constant $\lambda$, and its gradient moves by $2c_1\kappa/n$. A flipped label attains it.
Printed is half of that, which would be right for the penalty $\lambda\|f\|^2$.

*Proof.* Values of a function of the kernel's space at finitely many points, with the covariance of
the added process there, have a Mahalanobis distance of at most its norm; so every finite set of
values is one Gaussian mechanism of $\mu$ = sensitivity over noise (Hall, Rinaldo and Wasserman
2013, Proposition 8), and adaptive queries are read off one path. The released function is the
one whose coefficients are the slopes at the solver's point: within $2\tau/\lambda$ of the minimiser
if that point's gradient has norm $\tau$ at most, which is added to the sensitivity twice.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.published.algorithms_2_and_4 import (
    check_learner,
    least_tolerance,
)
from experiments.private_kernel_learning.published.curated import (
    AbstractJointPathLearner,
    CuratedFunction,
    SecretPaths,
)
from experiments.private_kernel_learning.published.learner import (
    ROUNDING,
    check_noise_arguments,
    classic_multiplier,
    host_rows,
    scaled_down,
    statement,
)
from experiments.private_kernel_learning.published.projection import kernel_size
from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import require_positive
from jaxdp.kernels.base import AbstractKernel
from jaxdp.kernels.evaluation import host_gram
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.kernels.release.tables import in_order
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy.mechanisms import GaussianMechanism

_WHAT = "values of a kernel machine with a secret Gaussian process added to it"
_FALSE = (
    "the published sensitivity is half the true one, and the published guarantee false; proved "
    "here is the Gaussian mechanism of the true sensitivity, for any number of queries"
)


class Algorithm5(AbstractJointPathLearner[CuratedFunction]):
    r"""PK Algorithm 5 as printed: $\tilde f = f + \sigma h$, h a path of GP(0, k).

    $\sigma = c_1\kappa(1 + \sqrt{2\log(1/\delta)})/(n\lambda\epsilon)$. The function
    cannot be published as a whole: the result answers queries. Source: PK Algorithm 5, in A.11.

    Args:
        kernel: k.
        ridge: $\lambda > 0$.
        loss: a function of the margin, for labels -1 and +1.
        input_bound: rows are scaled down to this norm first; needed if nothing else bounds
            the kernel.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm5
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm5(Gaussian(1.0), ridge=0.1, loss=Logistic())
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 5) for name, std in found.items()}
        {'f': 0.0058}
    """

    kernel: AbstractKernel
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss = eqx.field(converter=on_host)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_positive("ridge", self.ridge)
        check_learner(self.loss, self.ridge)
        kernel_size(self.kernel, self.input_bound)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        r"""Factor "f" of the sample path: values get noise of "f" times $\sqrt{k(x, x)}$."""
        check_noise_arguments(num_samples, epsilon, delta)
        step = self._sensitivity(num_samples) / 2
        return {"f": step * classic_multiplier(delta) / epsilon}

    def _release_read_at(self, request, test_inputs):
        self.loss.require_labels("labels", request.targets, are_private=True)
        rows = scaled_down(host_rows("inputs", request.table), self.input_bound)
        weights, gap = self._machine(rows, request.targets)
        std = self.noise_std(len(rows), request.epsilon, request.delta)["f"]
        source = self._noise(request).hiding(rows, weights)
        paths = SecretPaths(self.kernel, 1, source, input_bound=self.input_bound)
        if test_inputs is not None:
            paths.at(in_order(test_inputs, request.columns))

        def mean(points):
            return host_gram(self.kernel, scaled_down(points, self.input_bound), rows) @ weights

        mu = (self._sensitivity(len(rows)) + 2 * gap) / std * (1 + ROUNDING)
        return CuratedFunction(
            paths,
            np.asarray([std]),
            statement(_WHAT, GaussianMechanism(mu), source, _FALSE, request=request),
            request.delta,
            mean=mean,
            columns=request.columns,
        )

    def _sensitivity(self, num_samples: int) -> float:
        r"""$2c_1\kappa/(n\lambda)$, in the norm of the kernel's space."""
        size = kernel_size(self.kernel, self.input_bound)
        return 2 * self.loss.slope_bound * size / (num_samples * self.ridge)

    def _machine(self, rows, labels) -> tuple[Float[np.ndarray, " n"], float]:
        """Coefficients of $k(x_i, x)$, and how far from the minimiser they may be."""
        values, vectors = np.linalg.eigh(host_gram(self.kernel, rows, rows))
        # A root of the Gram matrix: f = G beta has the norm of beta.
        root = vectors * np.sqrt(np.maximum(values, 0))
        nothing = np.zeros(len(rows))
        # Independent of the inputs: the tolerance is part of the stated cost.
        largest = kernel_size(self.kernel, self.input_bound) * (1 + ROUNDING)
        objective = PerturbedObjective(root, labels, self.loss, self.ridge, nothing, largest)
        tolerance = least_tolerance(objective)
        found = minimise(objective, tolerance=tolerance)
        slopes = self.loss.slope(root @ found.coefficients, labels, xp=np)
        return -slopes / (len(rows) * self.ridge), 2 * tolerance / self.ridge
