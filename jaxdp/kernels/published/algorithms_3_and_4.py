r"""PK Algorithms 3 and 4: ridge regression and objective perturbation on random Fourier features.

Algorithm 3 makes two Gaussian releases. The printed sensitivities $\Delta_1 = 2$ and
$\Delta_2 = \sqrt2\,T$ are those of records that are left out; a record that is replaced moves nC by
$2\sqrt2$ and nu by $2\sqrt2\,T$, and both claims "is $(\epsilon/2, \delta/2)$-DP" of its proof are
false. The two worst cases exclude one another and the multiplier is loose, so the release as a
whole is what Theorem 16 says it is up to $\epsilon = 16$: it is one Gaussian mechanism of
$\mu = \frac{3\sqrt2}4\epsilon/c(\delta/2)$, exactly, for whatever features. With the exact
multiplier in place of c it would not be private.

What is wrong with Algorithm 4 is told in `perturbed_minimiser`.
"""

import math

import equinox as eqx
import jax.random as jr

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, require_kernel
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.functions.bounded import ClippedFeatures
from jaxdp.kernels.functions.fourier import CosineFeatures
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.kernels.published.learner import (
    AbstractPublishedLearner,
    classic_multiplier,
    statement,
)
from jaxdp.kernels.published.perturbed_minimiser import (
    AbstractPublishedMinimiser,
    check_learner,
    published_perturbation,
)
from jaxdp.kernels.published.statistics import (
    averaged_statistics,
    joint_mu,
    perturbed,
    ridge_solution,
)
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.mechanisms import GaussianMechanism

_WHAT = "noisy averages C and u of random Fourier features, and the function made of them"
_FALSE_PARTS = (
    "PK's proof is wrong, C and u alone are not (epsilon/2, delta/2)-DP; proved here is the exact "
    "Gaussian mechanism of both, which is worse than PK Theorem 16 states from epsilon 16 on"
)
_FALSE_THEOREM = (
    "PK Theorem 20 is false as stated (by a factor 15 of delta at epsilon 10, delta 1e-9); proved "
    "here is a curve for these features' norm"
)


def cosine_features(
    kernel: AbstractKernel, num_features: int, dim: int, *, public_seed: int
) -> AbstractFeatureMap:
    r"""$\sqrt{2/M}\cos(\omega_j \cdot x + b_j)$ of a public seed, $|z| \le \sqrt2$.

    Clipped at that norm, which changes nothing but what rounding does.

    Raises:
        NotCoveredError: the kernel is not shift-invariant.
    """
    key = purpose_key(jr.key(public_seed), "init")
    features = CosineFeatures.sample(kernel, num_features, dim, key=key)
    return ClippedFeatures(features, features.norm_bound)


class Algorithm3(AbstractPublishedLearner[ReleasedFunction]):
    r"""PK Algorithm 3 as printed: $\Delta_1 = 2$, $\Delta_2 = \sqrt2$, $c(\delta/2)$.

    Noise of $2\Delta_1 c/(n\epsilon)$ on C, symmetrised, and $2\Delta_2 T c/(n\epsilon)$ on u,
    $c = 1 + \sqrt{2\log(2/\delta)}$; the noisy matrix is not projected on the cone. Printed for
    kernels with k(x, x) = 1. Source: PK Algorithm 3, Theorem 16.

    Args:
        kernel: k, shift-invariant.
        num_features: M, single cosines with a random phase.
        ridge: $\lambda \ge 0$, on the averages.
        label_bound: T > 0, to which labels are truncated.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from jaxdp.kernels.published import Algorithm3
        >>> learner = Algorithm3(Gaussian(1.0), num_features=50, ridge=0.1, label_bound=1.0)
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 4) for name, std in found.items()}
        {'C': 0.0024, 'u': 0.0017}
    """

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    label_bound: float = eqx.field(static=True, converter=plain_float)

    def __check_init__(self):
        require_kernel(self.kernel)
        require_count("num_features", self.num_features)
        require_non_negative("ridge", self.ridge)
        require_positive("label_bound", self.label_bound)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviations "C", on its diagonal, and "u" of the noise on the averages.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        check_budget(epsilon, delta)
        scale = (
            2
            * classic_multiplier(delta / 2)
            / (require_count("num_samples", num_samples) * epsilon)
        )
        return {"C": scale * 2, "u": scale * 2**0.5 * self.label_bound}

    def _release(self, request):
        request = request.truncated(self.label_bound)
        features = self.features(request.dim, request.public_seed)
        bound, num_samples = features.norm_bound, request.num_samples
        statistics = averaged_statistics(
            row_blocks(features, request.table),
            request.targets,
            num_outputs=self.num_features,
            norm_bound=bound,
        )
        stds = self.noise_std(num_samples, request.epsilon, request.delta)
        source = self._noise(request)
        mu = joint_mu(stds, norm_bound=bound, label_bound=self.label_bound, num_samples=num_samples)
        claim = statement(_WHAT, GaussianMechanism(mu), source, _FALSE_PARTS, request=request)
        coefficients = ridge_solution(perturbed(statistics, stds, source), self.ridge)
        return request.released(features, coefficients, claim)

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)


class Algorithm4(AbstractPublishedMinimiser):
    r"""PK Algorithm 4 as printed: $\Delta = \sqrt2$ and $\log(2/\delta)$.

    Every entry of b has the standard deviation
    $2c_1\Delta\sqrt{2\log(2/\delta) + \epsilon}/\epsilon$. The penalty is printed as
    $\max(\lambda/2, c_2/(n(e^{\epsilon/4} - 1)))\,|\beta|^2$, which is $\frac{\lambda_0}2|\beta|^2$
    with Algorithm 2's floor. Source: PK Algorithm 4, Theorem 20.

    Args:
        kernel: k, shift-invariant.
        num_features: M, single cosines with a random phase.
        ridge: $\lambda \ge 0$, in $\frac\lambda2|\beta|^2$.
        loss: of the margin, for labels -1 and +1.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from jaxdp.kernels.published import Algorithm4
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm4(Gaussian(1.0), num_features=50, ridge=0.1, loss=Logistic())
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 1) for name, std in found.items()}
        {'b': 14.3}
    """

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss = eqx.field(converter=on_host)

    def __check_init__(self):
        require_kernel(self.kernel)
        require_count("num_features", self.num_features)
        check_learner(self.loss, self.ridge)

    def perturbation(self, num_samples, epsilon, delta):
        check_budget(epsilon, delta)
        return published_perturbation(
            self.loss,
            norm=math.sqrt(2),
            log_inverse=math.log(2 / delta),
            ridge=self.ridge,
            num_samples=require_count("num_samples", num_samples),
            epsilon=epsilon,
        )

    def features(self, dim, public_seed):
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)

    def _release(self, request):
        return self._minimiser(request, self.loss, _FALSE_THEOREM)
