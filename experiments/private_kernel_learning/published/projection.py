"""The published feature maps: the random projection $h_M$ with its bounds, and random cosines.

PK Lemma 7 bounds $|h_M(x)|$ for one input x that is fixed before the projection is drawn, except
on an event of small probability; a guarantee that rests on it is a `GaussianUnlessFailure`. A known
projection is bounded at every input by its operator norm, which is far larger.
"""

import math

import equinox as eqx
import jax.random as jr
import numpy as np

from jaxdp.core.checks import concrete, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, require_kernel
from jaxdp.kernels.features.public_features import SamplePaths
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling
from jaxdp.kernels.functions.fourier import CosineFeatures
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon
from jaxdp.privacy.mechanisms import AbstractMechanism

# Above the rounding of an operator norm, and of the features that it bounds, in float32.
_ROUNDING = 1e-5


def projection_factor(num_projections: int, log_inverse: float) -> float:
    r"""$q = 1 + 2\sqrt{L/M} + 2L/M$, with $P(|h_M(x)|^2 > \kappa^2 q) \le e^{-L}$ for each x.

    $|h_M(x)|^2$ is k(x, x) times a chi-square variable over its M degrees of freedom. PK's
    Algorithms 1 and 2 print the root over both terms, $1 + 2\sqrt{L/M + 2L/M}$, which is below
    the lemma for $M < 1.866 L$; their proofs use the lemma, and so does this.

    Source: PK Lemma 7.
    """
    ratio = log_inverse / num_projections
    return 1 + 2 * math.sqrt(ratio) + 2 * ratio


def kernel_size(kernel: AbstractKernel, input_bound: float | None) -> float:
    r"""$\kappa$, the largest $\sqrt{k(x, x)}$ over inputs of that norm; ValueError if infinite."""
    require_kernel(kernel)
    if input_bound is not None:
        require_positive("input_bound", input_bound)
    size = kernel.bound(math.inf if input_bound is None else input_bound)
    if not math.isfinite(size):
        raise ValueError(
            f"expected a bounded kernel, got {type(kernel).__name__}: give input_bound, a public "
            "norm that inputs are scaled down to"
        )
    return size


def projection(
    kernel: AbstractKernel,
    num_projections: int,
    num_features: int,
    dim: int,
    *,
    public_seed: int,
    input_bound: float | None,
) -> AbstractFeatureMap:
    r"""$h_M$ of a public seed, with a norm bound if its base features have one.

    $|V^\top z(x)|/\sqrt M \le \|V\| \sup|z|/\sqrt M$ for every x: about $\sqrt{2L/M}$ for paths
    made of L pairs of waves. Lemma 7 has a number near 1 for one x that is independent of V.
    The projection is clipped at that bound, which changes only rounding errors.
    """
    key = purpose_key(jr.key(public_seed), "init")
    paths = SamplePaths.sample(kernel, num_projections, num_features, dim, key=key)
    weights = np.asarray(paths.weights, np.float64)
    stretch = math.sqrt(np.linalg.eigvalsh(weights.T @ weights)[-1] / num_projections)
    features = paths if input_bound is None else NormScaling(paths, input_bound)
    bound = stretch * paths.base.norm_bound * (1 + _ROUNDING)
    return ClippedFeatures(features, bound) if math.isfinite(bound) else features


def cosine_features(
    kernel: AbstractKernel, num_features: int, dim: int, *, public_seed: int
) -> AbstractFeatureMap:
    r"""$\sqrt{2/M}\cos(\omega_j \cdot x + b_j)$ of a public seed, clipped at its norm $\sqrt2$."""
    key = purpose_key(jr.key(public_seed), "init")
    features = CosineFeatures.sample(kernel, num_features, dim, key=key)
    return ClippedFeatures(features, features.norm_bound)


class GaussianUnlessFailure(AbstractMechanism):
    r"""mu-GDP given an event whose complement, of probability p, depends on no noise.

    If the projection of a random map keeps two given records within a bound, the release is a
    Gaussian mechanism; the probability of failure is paid once, for the whole release:
    $\delta(\epsilon) \le H(\mu, \epsilon) + p$, with H as `gaussian_delta`.

    PK Theorem 8 composes (epsilon, delta) statements of its parts, each with its own event;
    the parts share their projection, so its composition theorem does not apply.

    Args:
        mu: >= 0, given the event.
        failure: p, the probability for any two records that are fixed before the map is drawn.

    Example:
        >>> from experiments.private_kernel_learning.published import GaussianUnlessFailure
        >>> mechanism = GaussianUnlessFailure(mu=0.5, failure=1e-6)
        >>> [round(mechanism.epsilon(delta, "replace-one"), 3) for delta in (1e-5, 1e-7)]
        [2.006, inf]
    """

    mu: float = eqx.field(converter=lambda value: host_scalar("mu", value))
    failure: float = eqx.field(converter=lambda value: host_scalar("failure", value))

    @property
    def adjacencies(self):
        return (REPLACE_ONE,)

    @property
    def assumptions(self):
        return ("the random map is drawn afresh and seen by nobody who chooses a record",)

    def epsilon(self, delta, adjacency):
        known = concrete(delta)
        if known is None:
            raise TypeError("expected a concrete delta, got a traced one: account outside jit")
        left = float(known) - self.failure
        return gaussian_epsilon(self.mu, left) if left > 0 else float("inf")
