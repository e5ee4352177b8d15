"""Kernels, and the feature maps that stand for them.

The private learners add noise to sums of features over the records, so their guarantee rests on two
promises of a map: a record's features depend on no other record, and their norm has a public bound.
Calls of kernels and maps are compiled as a whole, so that no array of all pairwise differences or
all phases is ever held in memory.
"""

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
    r"""$z: R^d \to R^M$, one input at a time: row i of the result depends on row i alone.

    Arrays and numbers in its fields are all that it depends on; none of them comes from private
    data.
    """

    @abc.abstractmethod
    def __call__(self, inputs: Float[Array, "n dim"]) -> Float[Array, "n outputs"]:
        """z of every row; a ValueError unless these are rows of `dim` numbers."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """d, how many numbers an input has."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int:
        """M, how many features there are."""

    @property
    def norm_bound(self) -> float:
        """What |z(x)| never exceeds but by rounding, for any x at all; infinite where unproved."""
        return math.inf

    @property
    def reader(self) -> Any:
        """What makes numbers of a user's table, by `codes(table)`; None where it holds them.

        A map that wraps another one, its `base`, has that one's.
        """
        base = getattr(self, "base", None)
        return None if base is None else base.reader


class AbstractWrappedMap(AbstractFeatureMap):
    """A map made of another one, `base`, with its inputs and as many outputs."""

    base: AbstractFeatureMap

    @property
    def dim(self):
        return self.base.dim

    @property
    def num_outputs(self):
        return self.base.num_outputs


class AbstractInputScaling(AbstractWrappedMap):
    """$z(s(x))$: a map of inputs that are brought into a public set first; `base` is z."""

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
        """The Gram matrix $k(x_i, y_j)$; a ValueError unless both have rows of as many numbers."""

    @abc.abstractmethod
    def diagonal(self, inputs: Float[Array, "n dim"]) -> Float[Array, " n"]:
        """k(x, x) of every row."""

    @abc.abstractmethod
    def bound(self, radius: float = math.inf) -> float:
        r"""$\kappa$, the largest $\sqrt{k(x, x)}$ over $|x| \le$ `radius`; it may be infinite."""

    @abc.abstractmethod
    def features(self, num_features: int, dim: int, *, key: Key[Array, ""]) -> AbstractFeatureMap:
        r"""A random map with $E[z(x) \cdot z(y)] = k(x, y)$.

        Args:
            num_features: how many independent random draws it is made of; maps that are exact
                need none and ignore it.
            dim: d, of the inputs.
            key: of the draws, in float32 whatever the configuration: one key, one map.

        Raises:
            NotCoveredError: the kernel has none.
        """


class AbstractStationaryKernel(AbstractKernel):
    r"""A kernel $k(x, y) = k_0(x - y) = k_0(0)\,E\cos(\omega \cdot (x - y))$ (Bochner)."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[Array, ""]:
        """$k_0(0)$."""

    @abc.abstractmethod
    def frequencies(
        self, num_frequencies: int, dim: int, *, key: Key[Array, ""]
    ) -> Float[Array, "frequencies dim"]:
        r"""Independent draws of $\omega$; the first ones do not depend on how many there are."""


def require_kernel(kernel: Any) -> None:
    """Raise TypeError unless it is a kernel; a class of kernels is none."""
    require_kind("kernel", kernel, AbstractKernel, "a kernel, such as jaxdp.kernels.Gaussian(1.0)")


def require_feature_map(name: str, features: Any) -> None:
    """Raise TypeError unless the argument is a feature map, made already."""
    expected = "a feature map, such as jaxdp.kernels.FourierFeatures.sample(...)"
    require_kind(name, features, AbstractFeatureMap, expected)


def check_draws(num_features: Any, dim: Any, key: Any) -> None:
    """Raise ValueError or TypeError unless random features can be drawn from these."""
    require_count("num_features", num_features)
    require_count("dim", dim)
    require_key(key)


def as_rows(name: str, value: Any, dim: int | None = None) -> Float[Array, "n dim"]:
    """The value as a floating-point matrix of one input a row, in float32 at least."""
    rows = as_wide_float(value, name)
    require_shape(name, rows, (None, dim))
    return rows


def row_pair(first: Any, second: Any) -> tuple[Float[Array, "n dim"], Float[Array, "m dim"]]:
    """The two arguments of a kernel as matrices of one type."""
    first = as_rows("first", first)
    second = as_rows("second", second, first.shape[1])
    dtype = jnp.promote_types(first.dtype, second.dtype)
    return first.astype(dtype), second.astype(dtype)


# Compiled, or the differences would all be held at once, (n, m, d).
@jax.jit
def squared_distances(
    first: Float[Array, "n dim"], second: Float[Array, "m dim"]
) -> Float[Array, "n m"]:
    r"""$|x_i - y_j|^2$ by differences: exactly 0 where the rows agree.

    The expansion $|x|^2 + |y|^2 - 2 x \cdot y$ would leave errors of $|x|^2$ units of rounding.
    """
    return jnp.sum((first[:, None, :] - second[None, :, :]) ** 2, axis=-1)


def _shown(value: Any) -> str:
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return repr(value)
    return np.array2string(np.asarray(value), separator=", ", threshold=6)
