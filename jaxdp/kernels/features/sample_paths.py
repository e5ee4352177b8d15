"""Gaussian-process sample paths in weight space: random functions of one input each.

PK Definition 5 projects on M paths of GP(0, k). Drawn jointly at the training inputs they cost
$O(n^3)$, and each row's features depend on the other rows: with a public seed nothing is private.
Random features times Gaussian weights are functions, at $O(n L (d + M))$.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import require_count
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractKernel,
    check_draws,
    require_feature_map,
    require_kernel,
)


class SamplePaths(AbstractFeatureMap):
    r"""Random projections of a kernel: M paths of a Gaussian process, over $\sqrt M$.

    $h_M(x) = V^\top z(x) / \sqrt M$.

    Given the features, over the weights: mean 0, $E[h_M(x) \cdot h_M(y)] = z(x) \cdot z(y)$ and
    $Var|h_M(x)|^2 = 2 |z(x)|^4 / M$. Over the features too the first is k(x, y).
    Source: PK Definition 5.

    Nothing bounds $|h_M(x)|$ over all x: wrap it in `ClippedFeatures`.

    Attributes:
        base: z, of any norm.
        weights: V, (outputs of z, M), independent N(0, 1).

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.kernels import Gaussian, SamplePaths
        >>> paths = SamplePaths.sample(Gaussian(1.0), 4, 8, dim=3, key=jax.random.key(0))
        >>> paths(np.ones((5, 3))).shape, paths.norm_bound
        ((5, 4), inf)
    """

    base: AbstractFeatureMap
    weights: Float[Array, "inner outputs"]

    def __check_init__(self):
        require_feature_map("base", self.base)

    @classmethod
    def sample(
        cls,
        kernel: AbstractKernel,
        num_projections: int,
        num_features: int,
        dim: int,
        *,
        key: Key[Array, ""],
    ) -> "SamplePaths":
        """Paths of the kernel's own random features.

        Args:
            kernel: k.
            num_projections: M >= 1; path number j is the same up to its factor whatever M is.
            num_features: L >= 1, as in `kernel.features`.
            dim: d, of the inputs.
            key: of features and weights.

        Raises:
            NotCoveredError: the kernel has no random features.
        """
        require_count("num_projections", num_projections)
        check_draws(num_features, dim, key)
        require_kernel(kernel)
        base_key, weights_key = jr.split(key)
        base = kernel.features(num_features, dim, key=base_key)
        shape = (num_projections, base.num_outputs)
        return cls(base, jr.normal(weights_key, shape, jnp.float32).T)

    @eqx.filter_jit
    def __call__(self, inputs):
        inner = self.base(inputs)
        paths = jnp.matmul(inner, self.weights, precision=Precision.HIGHEST)
        return paths / math.sqrt(self.num_outputs)

    @property
    def dim(self):
        return self.base.dim

    @property
    def num_outputs(self):
        return self.weights.shape[1]
