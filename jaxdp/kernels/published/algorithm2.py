"""PK Algorithm 2: objective perturbation on a random projection."""

import math

import equinox as eqx

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count
from jaxdp.kernels.base import AbstractKernel
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.kernels.published.perturbed_minimiser import (
    AbstractPublishedMinimiser,
    check_learner,
    published_perturbation,
)
from jaxdp.kernels.published.projection import kernel_size, projection, projection_factor
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy.arguments import check_budget

_FALSE = (
    "PK Theorem 9 is false as stated (by a factor 9.7 of delta at epsilon 10, delta 1e-9), and "
    "false for a published projection; proved here is a curve for the largest norm that this "
    "projection has anywhere"
)


class Algorithm2(AbstractPublishedMinimiser):
    r"""PK Algorithm 2 as printed, with the scope of the root that Lemma 7 has.

    $\Delta_3 = \kappa\sqrt q$ with $L = \log(4/\delta)$; every entry of b has the standard
    deviation $2c_1\Delta_3\sqrt{2\log(4/\delta) + \epsilon}/\epsilon$; the ridge is
    $\lambda_0 = \max(\lambda, c_2\Delta_3^2/(n(e^{\epsilon/4} - 1)))$. The projection is one of a
    public seed, in weight space. Source: PK Algorithm 2, Theorem 9.

    Args:
        kernel: k.
        num_projections: M.
        ridge: $\lambda \ge 0$, in $\frac\lambda2|\beta|^2$.
        loss: of the margin, for labels -1 and +1.
        num_features: L, of the random features behind the paths.
        input_bound: rows are scaled down to this norm first; needed where the kernel is bounded
            nowhere else.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the kernel unbounded.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from jaxdp.kernels.published import Algorithm2
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm2(Gaussian(1.0), num_projections=50, ridge=0.1, loss=Logistic())
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 1) for name, std in found.items()}
        {'b': 16.5}
    """

    kernel: AbstractKernel
    num_projections: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss = eqx.field(converter=on_host)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048, kw_only=True)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        check_learner(self.loss, self.ridge)
        kernel_size(self.kernel, self.input_bound)

    def perturbation(self, num_samples, epsilon, delta):
        check_budget(epsilon, delta)
        log_inverse = math.log(4 / delta)
        factor = projection_factor(self.num_projections, log_inverse)
        return published_perturbation(
            self.loss,
            norm=kernel_size(self.kernel, self.input_bound) * math.sqrt(factor),
            log_inverse=log_inverse,
            ridge=self.ridge,
            num_samples=require_count("num_samples", num_samples),
            epsilon=epsilon,
        )

    def features(self, dim, public_seed):
        sizes = self.num_projections, self.num_features, dim
        seed, bound = public_seed, self.input_bound
        return projection(self.kernel, *sizes, public_seed=seed, input_bound=bound)

    def _release(self, request):
        return self._minimiser(request, self.loss, _FALSE)
