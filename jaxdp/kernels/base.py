"""Kernels, and the feature maps that stand for them; calls are compiled whole, to save memory."""

import abc
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_count, require_key, require_kind, require_shape
from jaxdp.core.description import AbstractDescription


class AbstractFeatureMap(AbstractDescription):
    r"""A map $z: R^d \to R^M$, one input at a time: row i of the result depends on row i alone.

    The map depends on only its fields, which are public: privacy rests on that and on `norm_bound`.
    """

    @abc.abstractmethod
    def __call__(self, inputs: Float[Array, "n dim"]) -> Float[Array, "n outputs"]:
        """Features of every row, (n, M); a ValueError unless the rows have `dim` numbers."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Number of columns of the inputs, d."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int:
        """Number of features, M."""

    @property
    def norm_bound(self) -> float:
        """A bound on |z(x)| for every x, up to rounding; infinite if none is proved."""
        return math.inf

    @property
    def reader(self) -> Any:
        """The object whose `read` and `codes` turn tables into numbers, as in `base`; or None."""
        base = getattr(self, "base", None)
        return None if base is None else base.reader


class AbstractWrappedMap(AbstractFeatureMap):
    """A map made from another map, `base`, with its inputs and its number of outputs."""

    base: AbstractFeatureMap

    @property
    def dim(self):
        return self.base.dim

    @property
    def num_outputs(self):
        return self.base.num_outputs


class AbstractInputScaling(AbstractWrappedMap):
    """A map $z(s(x))$ whose inputs are first brought into a public set; `base` is z."""

    @property
    def norm_bound(self):
        return self.base.norm_bound


class AbstractKernel(AbstractDescription):
    """A positive semi-definite function of two inputs."""

    def __repr__(self):
        # With its numbers: two kernels that are compared may differ in nothing else.
        fields = (f"{f.name}={_shown(getattr(self, f.name))}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(fields)})"

    @abc.abstractmethod
    def __call__(
        self, first: Float[Array, "n dim"], second: Float[Array, "m dim"]
    ) -> Float[Array, "n m"]:
        """The Gram matrix $k(x_i, y_j)$, (n, m); a ValueError unless row lengths agree."""

    @abc.abstractmethod
    def diagonal(self, inputs: Float[Array, "n dim"]) -> Float[Array, " n"]:
        """The values k(x, x) for every row."""

    @abc.abstractmethod
    def bound(self, radius: float = math.inf) -> float:
        r"""$\kappa$, the largest $\sqrt{k(x, x)}$ over $|x| \le$ `radius`; it may be infinite."""

    @abc.abstractmethod
    def features(self, num_features: int, dim: int, *, key: Key[Array, ""]) -> AbstractFeatureMap:
        r"""A random map with $E[z(x) \cdot z(y)] = k(x, y)$ on d inputs; always drawn in float32.

        `num_features` is the number of independent random draws; exact maps ignore it. Raises
        NotCoveredError if the kernel has no such map.
        """


class AbstractStationaryKernel(AbstractKernel):
    r"""A kernel $k(x, y) = k_0(x - y) = k_0(0)\,E\cos(\omega \cdot (x - y))$ (Bochner)."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[Array, ""]:
        """The kernel at distance zero, $k_0(0)$."""

    @abc.abstractmethod
    def frequencies(
        self, num_frequencies: int, dim: int, *, key: Key[Array, ""]
    ) -> Float[Array, "frequencies dim"]:
        r"""Independent draws of $\omega$; the first draws are the same for any number of them."""


def require_kernel(kernel: Any) -> None:
    require_kind("kernel", kernel, AbstractKernel, "a kernel, such as jaxdp.kernels.Gaussian(1.0)")


def require_feature_map(name: str, features: Any) -> None:
    expected = "a feature map, such as jaxdp.kernels.FourierFeatures.sample(...)"
    require_kind(name, features, AbstractFeatureMap, expected)


def check_draws(num_features: Any, dim: Any, key: Any) -> None:
    require_count("num_features", num_features)
    require_count("dim", dim)
    require_key(key)


def as_rows(name: str, value: Any, dim: int | None = None) -> Float[Array, "n dim"]:
    """The value as a floating-point matrix, one input a row, in float32 or wider."""
    rows = as_wide_float(value, name)
    require_shape(name, rows, (None, dim))
    return rows


def row_pair(first: Any, second: Any) -> tuple[Float[Array, "n dim"], Float[Array, "m dim"]]:
    first = as_rows("first", first)
    second = as_rows("second", second, first.shape[1])
    dtype = jnp.promote_types(first.dtype, second.dtype)
    return first.astype(dtype), second.astype(dtype)


# Compiled, or the differences would all be held at once, (n, m, d).
@jax.jit
def squared_distances(
    first: Float[Array, "n dim"], second: Float[Array, "m dim"]
) -> Float[Array, "n m"]:
    """$|x_i - y_j|^2$ by differences: exactly 0 for equal rows, without cancellation."""
    return jnp.sum((first[:, None, :] - second[None, :, :]) ** 2, axis=-1)


def _shown(value: Any) -> str:
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return repr(value)
    return np.array2string(np.asarray(value), separator=", ", threshold=6)
