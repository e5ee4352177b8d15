r"""Algorithm 1 with u clipped by its norm, as the text after PK Lemma 14 proposes: not private.

Two mistakes, either of which is enough. The *average* u is clipped to norm T; a record moves the
result by $\min(2T, \cdot)$ and not by $2T/n$. And what is added is printed without a random vector,
as one number: here that number times one standard normal, on every coordinate alike, so that the
differences of coordinates are released as they are.
"""

import equinox as eqx
import numpy as np

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.kernels.base import AbstractKernel
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.published.algorithm1 import Algorithm1
from jaxdp.kernels.published.learner import (
    AbstractPublishedLearner,
    classic_multiplier,
    statement,
)
from jaxdp.kernels.published.statistics import (
    Statistics,
    averaged_statistics,
    perturbed,
    ridge_solution,
)
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.privacy.mechanisms import Unproved

_WHAT = "a noisy average C, the average u clipped to a norm with one noise on all its coordinates"
_FALSE = (
    "the average is clipped, which leaves a record an influence of up to 2T and not 2T/n, and the "
    "noise is one number for all coordinates, so that their differences are released without any"
)


class NormClippedAlgorithm1(AbstractPublishedLearner[ReleasedFunction]):
    r"""PK Algorithm 1 with the norm of u clipped, in place of the labels.

    $\tilde u = \min(1, T/|u|)\,u + 2T c(\delta/4)/(n\epsilon) \cdot e$.

    e is one standard normal for all coordinates: the print has no random variable at all. Labels
    are not truncated. Source: PK, the end of Section 4.2.

    Args:
        kernel, num_projections, ridge: as `Algorithm1`.
        norm_bound: T > 0, of u.
        num_features, input_bound: as `Algorithm1`.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the kernel unbounded.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from jaxdp.kernels.published import NormClippedAlgorithm1
        >>> learner = NormClippedAlgorithm1(Gaussian(1.0), 50, ridge=0.1, norm_bound=1.0)
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 3) for name, std in found.items()}
        {'C': 0.006, 'u': 0.001}
    """

    kernel: AbstractKernel
    num_projections: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    norm_bound: float = eqx.field(static=True, converter=plain_float)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048, kw_only=True)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_non_negative("ridge", self.ridge)
        require_positive("norm_bound", self.norm_bound)
        self._unclipped()

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviations "C", on its diagonal, and "u", of the one number added to it.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        stds = self._unclipped().noise_std(num_samples, epsilon, delta)
        multiplier = 2 * self.norm_bound * classic_multiplier(delta / 4)
        return {
            "C": stds["C"],
            "u": multiplier / (require_count("num_samples", num_samples) * epsilon),
        }

    def _release(self, request):
        features = self._unclipped().features(request.dim, request.public_seed)
        covariance, correlation = averaged_statistics(
            row_blocks(features, request.table),
            request.targets,
            num_outputs=self.num_projections,
            norm_bound=features.norm_bound,
        )
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        source = self._noise(request)
        noisy = perturbed(Statistics(covariance, correlation), {**stds, "u": 0.0}, source)
        clipped = correlation * min(1.0, self.norm_bound / max(np.linalg.norm(correlation), 1e-300))
        number = source.hiding(clipped).normals(1, "u, one number")[0]
        coefficients = ridge_solution(
            Statistics(noisy.covariance, clipped + stds["u"] * number), self.ridge
        )
        claim = statement(_WHAT, Unproved(_FALSE), source, request=request)
        return request.released(features, coefficients, claim)

    def _unclipped(self) -> Algorithm1:
        """The algorithm of which this is a variant; its label bound is not used."""
        sizes = {"num_features": self.num_features, "input_bound": self.input_bound}
        return Algorithm1(self.kernel, self.num_projections, self.ridge, 1.0, **sizes)
