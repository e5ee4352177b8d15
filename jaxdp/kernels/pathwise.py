r"""Sample paths in weight space, put right at public landmarks by Matheron's rule.

Source: Wilson et al. (2020), "Efficiently sampling functions from Gaussian process posteriors",
which conditions on data; here an exact draw at the landmarks is what the path is conditioned on.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import require_count, require_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.nystrom import NystromFeatures
from jaxdp.kernels.sample_paths import SamplePaths


class PathwiseFeatures(AbstractFeatureMap):
    r"""$h(x) = f(x) + A(x)(g - f(X_m))$ with $A(x) = k(x, X_m)\,k(X_m, X_m)^+$, over $\sqrt M$.

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
            ValueError, TypeError: as `NystromFeatures` and `SamplePaths.sample`.
        """
        require_count("num_projections", num_projections)
        require_key(key)
        paths_key, exact_key = jr.split(key)
        nystrom = NystromFeatures(kernel, landmarks)
        paths = SamplePaths.sample(
            kernel, num_projections, num_features, nystrom.dim, key=paths_key
        )
        dtype = nystrom.projection.dtype
        # In this basis g is standard normal: no root of the Gram matrix, and no inverse, is left.
        exact = jr.normal(exact_key, (num_projections, nystrom.num_outputs), jnp.float32).T
        known = jnp.matmul(
            nystrom.projection.T, paths(nystrom.landmarks), precision=Precision.HIGHEST
        )
        return cls(paths, nystrom, (exact / math.sqrt(num_projections) - known).astype(dtype))

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

    @property
    def norm_bound(self):
        return math.inf
