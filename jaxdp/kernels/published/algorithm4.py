"""PK Algorithm 4: objective perturbation on random Fourier features."""

import math
from typing import Any

import equinox as eqx
from jaxtyping import Float

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.fit_arguments import (
    check_budget,
)
from jaxdp.kernels.losses import AbstractMarginLoss
from jaxdp.kernels.published.algorithm3 import cosine_features
from jaxdp.kernels.published.perturbed_minimiser import (
    Perturbation,
    check_learner,
    fitted,
    published_perturbation,
)
from jaxdp.kernels.released import ReleasedFunction

_FALSE = (
    "PK Theorem 20 is false as stated (by a factor 15 of delta at epsilon 10, delta 1e-9); proved "
    "here is a curve for these features' norm"
)


class Algorithm4(eqx.Module):
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
    """

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss

    def __check_init__(self):
        require_count("num_features", self.num_features)
        check_learner(self.loss, self.ridge)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviation "b" of every entry of the linear term, in the units of the sum.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        return {"b": self.perturbation(num_samples, epsilon, delta).noise_std}

    def perturbation(self, num_samples: int, epsilon: float, delta: float) -> Perturbation:
        """The noise and the ridge as used; errors as `noise_std`."""
        check_budget(epsilon, delta)
        return published_perturbation(
            self.loss,
            norm=math.sqrt(2),
            log_inverse=math.log(2 / delta),
            ridge=self.ridge,
            num_samples=require_count("num_samples", num_samples),
            epsilon=epsilon,
        )

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)

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
        """Learn from a table; the released function's values are scores.

        Arguments and errors as those of `Algorithm2.fit`, and NotCoveredError for a kernel that is
        not shift-invariant.
        """
        budget: Any = {"epsilon": epsilon, "delta": delta}
        seeds: Any = {"public_seed": public_seed, "noise_seed": noise_seed}
        return fitted(self, inputs, labels, **budget, **seeds, remark=_FALSE)
