"""Random Fourier features of stationary kernels. Source: Rahimi and Recht (2007)."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import NotCoveredError
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractStationaryKernel,
    as_rows,
    check_draws,
    require_kernel,
)


class FourierFeatures(AbstractFeatureMap):
    r"""Random Fourier features: a cosine and a sine for each frequency, of constant norm.

    $z(x) = a\,(\cos \omega_l \cdot x, \sin \omega_l \cdot x)_{l \le L} / \sqrt L$, so $|z(x)| = a$
    for every x, up to rounding, and no clipping is needed; large phases round at the same norm.

    Attributes:
        frequencies: $\omega$, (L, d).
        amplitude: $a = k_0(0)^{1/2}$, 1 for a Gaussian kernel.

    Example:
        >>> import jax
        >>> from jaxdp.kernels import FourierFeatures, Gaussian
        >>> FourierFeatures.sample(Gaussian(1.0), 8, dim=3, key=jax.random.key(0)).num_outputs
        16
    """

    frequencies: Float[Array, "frequencies dim"]
    amplitude: Float[Array, ""]

    @classmethod
    def sample(
        cls, kernel: Any, num_frequencies: int, dim: int, *, key: Key[Array, ""]
    ) -> "FourierFeatures":
        """Features with L = `num_frequencies` independent frequencies, 2L outputs.

        Args:
            kernel, num_frequencies, dim: a stationary kernel, L >= 1, and the number d of columns.
            key: random key of the frequencies.
        """
        known = _checked(cls, kernel, num_frequencies, dim, key)
        return cls(known.frequencies(num_frequencies, dim, key=key), jnp.sqrt(known.variance))

    @eqx.filter_jit
    def __call__(self, inputs):
        phases = _phases(inputs, self.frequencies)
        waves = jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=1)
        return waves * (self.amplitude / math.sqrt(len(self.frequencies))).astype(waves.dtype)

    @property
    def dim(self):
        return self.frequencies.shape[1]

    @property
    def num_outputs(self):
        return 2 * len(self.frequencies)

    @property
    def norm_bound(self):
        return float(self.amplitude)


class CosineFeatures(AbstractFeatureMap):
    r"""Random cosines with random phases, the map of PK's RFF-based algorithms.

    $z(x) = a\sqrt{2 / M}\,\cos(\omega_j \cdot x + b_j)_{j \le M}$, $b_j$ uniform on [0, 2 pi). Over
    the draws $E|z(x)|^2 = a^2$, but $|z(x)|$ reaches $a\sqrt 2$, which doubles the effect of one
    record on a covariance. Source: PK Definition 15.

    Attributes:
        frequencies, phases: $\omega$, (M, d), and b, (M,).
        amplitude: $a = k_0(0)^{1/2}$.

    Example:
        >>> import jax
        >>> from jaxdp.kernels import CosineFeatures, Gaussian
        >>> CosineFeatures.sample(Gaussian(1.0), 8, dim=3, key=jax.random.key(0)).num_outputs
        8
    """

    frequencies: Float[Array, "outputs dim"]
    phases: Float[Array, " outputs"]
    amplitude: Float[Array, ""]

    @classmethod
    def sample(
        cls, kernel: Any, num_features: int, dim: int, *, key: Key[Array, ""]
    ) -> "CosineFeatures":
        """Features with M = `num_features` independent frequencies and phases.

        Args:
            kernel, num_features, dim: a stationary kernel, M >= 1, and the number d of columns.
            key: random key of the frequencies and phases.
        """
        known = _checked(cls, kernel, num_features, dim, key)
        frequency_key, phase_key = jr.split(key)
        frequencies = known.frequencies(num_features, dim, key=frequency_key)
        phases = jr.uniform(phase_key, (num_features,), jnp.float32, maxval=2 * math.pi)
        return cls(frequencies, phases, jnp.sqrt(known.variance))

    @eqx.filter_jit
    def __call__(self, inputs):
        waves = jnp.cos(_phases(inputs, self.frequencies) + self.phases[None])
        return waves * (self.amplitude * math.sqrt(2 / self.num_outputs)).astype(waves.dtype)

    @property
    def dim(self):
        return self.frequencies.shape[1]

    @property
    def num_outputs(self):
        return len(self.frequencies)

    @property
    def norm_bound(self):
        return math.sqrt(2) * float(self.amplitude)


def _checked(
    cls: type, kernel: Any, num_features: Any, dim: Any, key: Any
) -> AbstractStationaryKernel:
    check_draws(num_features, dim, key)
    require_kernel(kernel)
    if not isinstance(kernel, AbstractStationaryKernel):
        raise NotCoveredError(
            f"{cls.__name__} needs a shift-invariant kernel, {type(kernel).__name__} is not: use "
            "its own kernel.features"
        )
    return kernel


def _phases(inputs: Any, frequencies: Float[Array, "features dim"]) -> Float[Array, "n features"]:
    """omega . x in full precision: a phase is as wrong as its absolute error."""
    rows = as_rows("inputs", inputs, frequencies.shape[1])
    return jnp.matmul(rows, frequencies.T, precision=Precision.HIGHEST)
