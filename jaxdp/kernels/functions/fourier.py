r"""Stationary kernels (Gaussian, Laplace, Matern), and random Fourier features of such kernels.

Frequencies of these three kernels are scale mixtures of Gaussians, $\omega = \tau g$ with
$g \sim N(0, I)$, in every dimension; only the distribution of $\tau$ differs. Source: Rahimi and
Recht (2007).
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.arrays import as_float, plain_float
from jaxdp.core.checks import NotCoveredError, require_positive
from jaxdp.core.numerics.precision import safe_sqrt
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractStationaryKernel,
    as_rows,
    check_draws,
    require_kernel,
    row_pair,
    squared_distances,
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


class AbstractRadialKernel(AbstractStationaryKernel):
    """A kernel $k_0(|x - y| / s)$ with $k_0(0) = 1$; its features are `FourierFeatures`."""

    scale: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_positive("scale", self.scale)

    @abc.abstractmethod
    def profile(self, squares: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The kernel as a function of $|x - y|^2 / s^2$."""

    @abc.abstractmethod
    def _frequency_scales(self, num: int, *, key: Key[Array, ""]) -> Float[Array, " num"]:
        r"""Independent draws of $\tau$, for s = 1."""

    @eqx.filter_jit
    def __call__(self, first, second):
        first, second = row_pair(first, second)
        scale = self.scale.astype(first.dtype)
        # Scaled first: squares of large inputs would overflow sooner.
        return self.profile(squared_distances(first / scale, second / scale))

    def diagonal(self, inputs):
        rows = as_rows("inputs", inputs)
        return jnp.ones(len(rows), rows.dtype)

    def bound(self, radius=math.inf):
        return 1.0

    def features(self, num_features, dim, *, key):
        return FourierFeatures.sample(self, num_features, dim, key=key)

    @property
    def variance(self):
        return jnp.ones((), jnp.float32)

    def frequencies(self, num_frequencies, dim, *, key):
        check_draws(num_frequencies, dim, key)
        normal_key, scale_key = jr.split(key)
        normals = jr.normal(normal_key, (num_frequencies, dim), jnp.float32)
        scales = self._frequency_scales(num_frequencies, key=scale_key)
        return normals * (scales / self.scale.astype(scales.dtype))[:, None]


class Gaussian(AbstractRadialKernel):
    r"""The Gaussian kernel, $k(x, y) = \exp(-|x - y|^2 / (2 s^2))$; $\tau = 1$.

    Args:
        scale: s > 0 and finite, in units of the inputs; 1 in PK Section 5.

    Raises:
        ValueError: the scale is not a positive finite number.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> print(f"{Gaussian(scale=1.0)([[0.0]], [[2.0]]).item():.3f}")
        0.135
    """

    def profile(self, squares):
        return jnp.exp(-squares / 2)

    def _frequency_scales(self, num, *, key):
        return jnp.ones(num, jnp.float32)


class Laplace(AbstractRadialKernel):
    r"""The Laplace kernel, $k(x, y) = \exp(-|x - y| / s)$; $\tau = 1 / |g|$, g ~ N(0, 1).

    The norm is Euclidean; $\exp(-|x - y|_1 / s)$, a product of Laplace kernels, is another kernel.

    Args:
        scale: s > 0 and finite, in the units of the inputs.

    Raises:
        ValueError: the scale is not a positive finite number.

    Example:
        >>> from jaxdp.kernels import Laplace
        >>> print(f"{Laplace(scale=1.0)([[0.0]], [[2.0]]).item():.3f}")
        0.135
    """

    def profile(self, squares):
        return jnp.exp(-safe_sqrt(squares))

    def _frequency_scales(self, num, *, key):
        return _student_scales(num, 1, key=key)


class Matern(AbstractRadialKernel):
    r"""The Matern kernel of half-integer smoothness.

    $k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} r^\nu K_\nu(r)$, $r = \sqrt{2\nu}|x - y| / s$. For $\nu
    = p + 1/2$ this is $e^{-r}$ times a polynomial of degree p in r; $\nu = 1/2$ is `Laplace`. $\tau
    = (2\nu / \chi^2_{2\nu})^{1/2}$: frequencies are multivariate t with $2\nu$ degrees of freedom.
    Source: Rasmussen and Williams (2006), (4.14) to (4.16).

    Args:
        scale: s > 0, in the units of the inputs.
        smoothness: $\nu$, one of 0.5, 1.5, ..., 9.5, else ValueError (no Bessel functions in JAX).

    Raises:
        ValueError: the smoothness is another one; it would need Bessel functions, which JAX lacks.

    Example:
        >>> from jaxdp.kernels import Matern
        >>> print(f"{Matern(scale=1.0, smoothness=1.5)([[0.0]], [[2.0]]).item():.3f}")
        0.140
    """

    smoothness: float = eqx.field(static=True, converter=plain_float)

    def __check_init__(self):
        require_positive("smoothness", self.smoothness)
        if self.smoothness not in _SMOOTHNESS:
            raise ValueError(
                f"expected smoothness 0.5, 1.5, 2.5, ... up to {_SMOOTHNESS[-1]}, got "
                f"{self.smoothness}: between these JAX has no Bessel function, beyond them use "
                "Gaussian"
            )

    def profile(self, squares):
        degree = round(self.smoothness - 0.5)
        radii = math.sqrt(2 * self.smoothness) * safe_sqrt(squares)
        total = jnp.zeros_like(radii)
        for power in range(degree, -1, -1):
            total = total * radii + _matern_coefficient(degree, power)
        return total * jnp.exp(-radii)

    def _frequency_scales(self, num, *, key):
        return _student_scales(num, round(2 * self.smoothness), key=key)


_SMOOTHNESS = tuple(order + 0.5 for order in range(10))


def _matern_coefficient(degree: int, power: int) -> float:
    """The coefficient of r^power in the polynomial of Rasmussen and Williams (4.16)."""
    ways = math.factorial(2 * degree - power) / (
        math.factorial(degree - power) * math.factorial(power)
    )
    return ways * 2**power * math.factorial(degree) / math.factorial(2 * degree)


def _student_scales(num: int, freedom: int, *, key: Key[Array, ""]) -> Float[Array, " num"]:
    r"""Draws of $\tau$ that turn normals into a multivariate t with these degrees of freedom."""
    squares = jnp.sum(jr.normal(key, (num, freedom), jnp.float32) ** 2, axis=1)
    # An exact zero, possible at one degree of freedom, would make the frequency infinite.
    return jnp.sqrt(freedom / jnp.maximum(squares, 1e-14))
