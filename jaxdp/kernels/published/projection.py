"""The published random projection in weight space, and what bounds it once it is known."""

import math

import jax.random as jr
import numpy as np

from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.bounded import ClippedFeatures
from jaxdp.kernels.norm_scaling import NormScaling
from jaxdp.kernels.sample_paths import SamplePaths

# Above the rounding of an operator norm, and of the features that it bounds, in float32.
_ROUNDING = 1e-5


def projection(
    kernel: AbstractKernel,
    num_projections: int,
    num_features: int,
    dim: int,
    *,
    public_seed: int,
    input_bound: float | None,
) -> AbstractFeatureMap:
    r"""$h_M$ of a public seed, with a norm bound where its base features have one.

    $|V^\top z(x)|/\sqrt M \le \|V\| \sup|z|/\sqrt M$ for every x: about $\sqrt{2L/M}$ for paths
    made of L pairs of waves, where Lemma 7 has a number near 1 for one x that does not know V.
    The projection is clipped at that bound, which changes nothing but what rounding does.

    Args:
        kernel: k.
        num_projections: M.
        num_features: L, of the paths' random features.
        dim: d, of the inputs.
        public_seed: of features and weights.
        input_bound: rows are scaled down to this norm first; None leaves them.
    """
    key = purpose_key(jr.key(public_seed), "init")
    paths = SamplePaths.sample(kernel, num_projections, num_features, dim, key=key)
    weights = np.asarray(paths.weights, np.float64)
    stretch = math.sqrt(np.linalg.eigvalsh(weights.T @ weights)[-1] / num_projections)
    features = paths if input_bound is None else NormScaling(paths, input_bound)
    bound = stretch * paths.base.norm_bound * (1 + _ROUNDING)
    return ClippedFeatures(features, bound) if math.isfinite(bound) else features
