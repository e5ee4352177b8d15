r"""PK Algorithm 3: ridge regression on random Fourier features, from two Gaussian releases.

The printed sensitivities $\Delta_1 = 2$ and $\Delta_2 = \sqrt2\,T$ are those of records that are
left out; a record that is replaced moves nC by $2\sqrt2$ and nu by $2\sqrt2\,T$, and both claims
"is $(\epsilon/2, \delta/2)$-DP" of its proof are false. The two worst cases exclude one another
and the multiplier is loose, so the release as a whole is what Theorem 16 says it is up to
$\epsilon = 16$: it is one Gaussian mechanism of $\mu = \frac{3\sqrt2}4\epsilon/c(\delta/2)$,
exactly, for whatever features. With the exact multiplier in place of c it would not be private.
"""

from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.blocks import row_blocks
from jaxdp.kernels.bounded import ClippedFeatures
from jaxdp.kernels.fit_arguments import (
    check_budget,
    check_seeds,
    training_table,
)
from jaxdp.kernels.fourier import CosineFeatures
from jaxdp.kernels.published.calibration import classic_multiplier
from jaxdp.kernels.published.noise_source import noise_of_learner
from jaxdp.kernels.published.statements import statement
from jaxdp.kernels.published.statistics import (
    averaged_statistics,
    joint_mu,
    perturbed,
    ridge_solution,
)
from jaxdp.kernels.released import ReleasedFunction
from jaxdp.privacy.mechanisms import Gaussian

_WHAT = "noisy averages C and u of random Fourier features, and the function made of them"
_FALSE_PARTS = (
    "PK's proof is wrong, C and u alone are not (epsilon/2, delta/2)-DP; proved here is the exact "
    "Gaussian mechanism of both, which is worse than PK Theorem 16 states from epsilon 16 on"
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


class Algorithm3(eqx.Module):
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
    """

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    label_bound: float = eqx.field(static=True, converter=plain_float)

    def __check_init__(self):
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
            labels: one for each, truncated to the label bound without a word.
            epsilon: > 0 and finite.
            delta: in (0, 1).
            public_seed: of the features.
            noise_seed: None for the operating system's entropy; else as secret as the data.

        Raises:
            NotCoveredError: the kernel is not shift-invariant.
            ValueError, TypeError: an argument is out of its range, or not finite.
        """
        check_budget(epsilon, delta)
        check_seeds(public_seed, noise_seed)
        table, targets = training_table(inputs, labels)
        targets = np.clip(targets, -self.label_bound, self.label_bound)
        features = self.features(table.shape[1], int(public_seed))
        bound = features.norm_bound
        statistics = averaged_statistics(
            row_blocks(features, table), targets, num_outputs=self.num_features, norm_bound=bound
        )
        stds = self.noise_std(len(table), epsilon, delta)
        budget = float(epsilon), float(delta)
        source = noise_of_learner(self, table, targets, (public_seed, noise_seed), budget)
        mu = joint_mu(stds, norm_bound=bound, label_bound=self.label_bound, num_samples=len(table))
        claim = statement(_WHAT, Gaussian(mu), source, _FALSE_PARTS, epsilon=epsilon, delta=delta)
        return ReleasedFunction(
            features=features,
            coefficients=ridge_solution(perturbed(statistics, stds, source), self.ridge),
            public_seed=int(public_seed),
            statement=claim,
            delta=float(delta),
        )

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)
