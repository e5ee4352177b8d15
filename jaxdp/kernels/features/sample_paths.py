"""Gaussian-process sample paths in weight space: random functions of one input each.

PK Definition 5 projects on M paths of GP(0, k). Drawn jointly at the training inputs they cost
$O(n^3)$, and each row's features depend on the other rows: with a public seed nothing is private.
Random features times Gaussian weights are functions, at $O(n L (d + M))$ (`SamplePaths`); public
landmarks put the error of the random features right there (`PathwiseFeatures`).
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
from jaxdp.kernels.features.nystrom import NystromFeatures


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


class PathwiseFeatures(AbstractFeatureMap):
    r"""Sample paths that are exact in law at public landmarks, by Matheron's rule.

    $h(x) = f(x) + A(x)(g - f(X_m))$ with $A(x) = k(x, X_m)\,k(X_m, X_m)^+$, over $\sqrt M$.

    Source: Wilson et al. (2020), "Efficiently sampling functions from Gaussian process posteriors",
    which conditions on data; here the path is conditioned on an exact draw at the landmarks.

    f is a path of random features, of kernel $k_L$, and g an independent draw of
    $N(0, k(X_m, X_m))$. Given the features, h is a Gaussian process, of mean 0 and covariance

    $k(x, y) + E(x, y) - A(x)E(X_m, y) - E(x, X_m)A(y)^\top + A(x)E(X_m, X_m)A(y)^\top$,
    $E = k_L - k$.

    The error E of the features is gone wherever x or y is a landmark: at the landmarks the law is
    GP(0, k). All this up to eigenvalues of $k(X_m, X_m)$ below rounding, along which h stays f.

    A random function, of one input at a time; nothing bounds it, so wrap it in `ClippedFeatures`.

    Attributes:
        paths: f.
        nystrom: z, the features with $A(x) v = z(x) \cdot \Lambda^{-1/2} U^\top v$.
        weights: what z is multiplied with, (outputs of z, M).

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.kernels import Gaussian, PathwiseFeatures
        >>> landmarks = np.array([[0.0], [1.0], [2.0]])
        >>> paths = PathwiseFeatures.sample(Gaussian(1.0), landmarks, 4, 8, key=jax.random.key(0))
        >>> paths(landmarks).shape
        (3, 4)
    """

    paths: SamplePaths
    nystrom: NystromFeatures
    weights: Float[Array, "inner outputs"]

    @classmethod
    def sample(
        cls,
        kernel: AbstractKernel,
        landmarks: Float[Array, "landmarks dim"],
        num_projections: int,
        num_features: int,
        *,
        key: Key[Array, ""],
    ) -> "PathwiseFeatures":
        """Paths of the kernel's own random features, corrected.

        Args:
            kernel: k.
            landmarks: $X_m$, (m, d), public, as in `NystromFeatures`.
            num_projections: M >= 1.
            num_features: L >= 1, as in `kernel.features`.
            key: of the features and both draws.

        Raises:
            NotCoveredError: the kernel has no random features.
        """
        nystrom = NystromFeatures(kernel, landmarks)
        paths_key, exact_key = jr.split(key)
        paths = SamplePaths.sample(
            kernel, num_projections, num_features, nystrom.dim, key=paths_key
        )
        # In this basis g is standard normal: no root of the Gram matrix, and no inverse, is left.
        exact = jr.normal(exact_key, (num_projections, nystrom.num_outputs), jnp.float32).T
        known = jnp.matmul(
            nystrom.projection.T, paths(nystrom.landmarks), precision=Precision.HIGHEST
        )
        return cls(
            paths,
            nystrom,
            (exact / math.sqrt(num_projections) - known).astype(nystrom.projection.dtype),
        )

    @eqx.filter_jit
    def __call__(self, inputs):
        correction = jnp.matmul(self.nystrom(inputs), self.weights, precision=Precision.HIGHEST)
        return self.paths(inputs) + correction

    @property
    def dim(self):
        return self.nystrom.dim

    @property
    def num_outputs(self):
        return self.paths.num_outputs
