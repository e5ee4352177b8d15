"""The features of a private learner: public, computed from one record at a time, and bounded.

A kernel compares inputs at one scale, so raw columns (years, incomes) need public ranges; scaling
by the table's own means would make each record's features depend on all others.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float, Key

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_count, require_function, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractInputScaling,
    AbstractKernel,
    as_rows,
    check_draws,
    require_feature_map,
    require_kernel,
)
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling, RangeScaling, in_order
from jaxdp.kernels.functions.dot_product import IdentityFeatures
from jaxdp.kernels.functions.torus import MercerFeatures, TorusKernel
from jaxdp.kernels.release.joint_release import unit_rows
from jaxdp.kernels.release.private_learner import AbstractPrivateLearner
from jaxdp.kernels.release.released_function import ReleasedFunction, check_seeds


class SamplePaths(AbstractFeatureMap):
    r"""Random projections of a kernel: M paths of a Gaussian process, over $\sqrt M$.

    $h_M(x) = V^\top z(x) / \sqrt M$. Over the weights, given the features: mean 0, $E[h_M(x) \cdot
    h_M(y)] = z(x) \cdot z(y)$ and $Var|h_M(x)|^2 = 2 |z(x)|^4 / M$. Over the features too, the
    inner product has mean k(x, y). The norm is unbounded: wrap the map in `ClippedFeatures`.
    Source: PK Definition 5, which draws the paths jointly at the training inputs; that costs
    $O(n^3)$ instead of $O(n L (d + M))$, and with a public seed is not private.

    Attributes:
        base: z, of any norm.
        weights: V, (outputs of z, M), independent N(0, 1).

    Example:
        >>> import jax
        >>> from jaxdp.kernels import Gaussian, SamplePaths
        >>> SamplePaths.sample(Gaussian(1.0), 4, 8, dim=3, key=jax.random.key(0)).num_outputs
        4
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
        """Paths of the kernel's own random features; a NotCoveredError if it has none.

        Args:
            kernel: the kernel k.
            num_projections: M >= 1; path j is the same for every M, up to its factor.
            num_features, dim: L >= 1 random features in `kernel.features`, of d columns.
            key: random key of features and weights.
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


class FunctionFeatures(AbstractFeatureMap):
    """Any function of one row as a feature map; its release cannot be saved to a file.

    Args:
        function: public function from one row, (d,), to its features, a vector (M,); traceable by
            JAX, chosen without the data. `ClippedFeatures` gives it a bound.
        num_inputs: number of columns, d.

    Raises:
        TypeError: the function is not callable.
        ValueError: its value is not a vector.

    Example:
        >>> from jaxdp.kernels import FunctionFeatures
        >>> FunctionFeatures(lambda row: row**2, num_inputs=2)([[2.0, 3.0]]).tolist()
        [[4.0, 9.0]]
    """

    function: Callable[[Float[Array, " dim"]], Float[Array, " outputs"]]
    num_inputs: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_function("function", self.function, _A_FUNCTION)
        require_count("num_inputs", self.num_inputs)
        _ = self.num_outputs

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.num_inputs)
        return jnp.asarray(jax.vmap(self.function)(rows), rows.dtype)

    @property
    def dim(self):
        return self.num_inputs

    @property
    def num_outputs(self):
        row = jax.ShapeDtypeStruct((self.num_inputs,), jnp.float32)
        shape = getattr(eqx.filter_eval_shape(self.function, row), "shape", None)
        if shape is None or len(shape) != 1 or shape[0] < 1:
            raise ValueError(
                f"expected a function of one row, of shape ({self.num_inputs},), to a vector of "
                f"features, got one to {'no array' if shape is None else f'shape {shape}'}"
            )
        return shape[0]


_A_FUNCTION = "a feature map or a function of one row"
# Features are float32.
_LARGEST_BOUND = 1e38
# The norm to which the features of a function are clipped.
_FUNCTION_BOUND = 1.0
# Kernels and maps whose definition says where their inputs lie.
_PLACED = (AbstractInputScaling, FunctionFeatures, MercerFeatures, TorusKernel)
_UNPLACED = (
    "no public range of the inputs is given, and on columns whose scale is not the kernel's what "
    "is released is noise: give an input_range, an input_bound, or input_bound=math.inf where "
    "public numbers have scaled them already"
)


def _range_ends(given: Any) -> tuple[Float[Array, " dim"], Float[Array, " dim"]] | None:
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError("expected input_range to be (low, high), one number a column in each")
    return in_order(given[0]), in_order(given[1])


class AbstractFeatureLearner(AbstractPrivateLearner[ReleasedFunction]):
    """A private learner on clipped features, either drawn from the public seed or given."""

    kernel: AbstractKernel | None
    num_projections: int = eqx.field(static=True, converter=plain_number, default=200)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    input_range: tuple[Float[Array, " dim"], Float[Array, " dim"]] | None = eqx.field(
        converter=_range_ends, default=None, kw_only=True
    )
    feature_map: Callable[[Any], Any] | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        if self.input_bound is not None:
            require_positive(
                "input_bound", host_number("input_bound", self.input_bound), infinite=True
            )
        if self.input_range is not None:
            if self.input_bound is not None:
                raise ValueError("expected input_bound or input_range, got both")
            RangeScaling(IdentityFeatures(self.input_range[0].size), *self.input_range)
        if self.kernel is None and self.feature_map is None:
            raise TypeError("expected a kernel or a feature_map, got neither")
        if self.kernel is not None:
            require_kernel(self.kernel)
        if self.feature_map is not None:
            require_function("feature_map", self.feature_map, _A_FUNCTION)
        # Raises if there is no public bound.
        _ = self.feature_bound

    @property
    def feature_bound(self) -> float:
        """The bound B on the features: the map's own, else the kernel's on its inputs, else 1."""
        kernel, feature_map = self.kernel, self.feature_map
        if feature_map is not None:
            is_map = isinstance(feature_map, AbstractFeatureMap)
            bound = feature_map.norm_bound if is_map else _FUNCTION_BOUND
            if math.isfinite(bound):
                return bound
        radius = math.inf if self.input_bound is None else self.input_bound
        if self.input_range is not None:
            radius = math.sqrt(self.input_range[0].size)
        bound = math.inf if kernel is None else kernel.bound(radius)
        if bound <= _LARGEST_BOUND:
            return bound
        if kernel is None:
            raise ValueError(
                "expected a feature_map with a bound of its own: wrap it in ClippedFeatures(map, "
                "bound)"
            )
        if math.isinf(radius):
            raise ValueError(
                "expected a finite input_bound or an input_range: the features of this kernel are "
                "bounded only on a ball"
            )
        raise ValueError(
            f"expected a kernel that is bounded on |x| <= {radius:g}, got one that overflows there "
            "or states no bound"
        )

    def features(self, dim: int, public_seed: int) -> ClippedFeatures:
        """The clipped map of a fit with this seed; ValueError if it has other than `dim` inputs."""
        check_seeds(public_seed, None)
        found = self.feature_map
        if found is None:
            assert self.kernel is not None
            key, sizes = purpose_key(jr.key(public_seed), "init"), (self.num_features, dim)
            found = SamplePaths.sample(self.kernel, self.num_projections, *sizes, key=key)
        elif not isinstance(found, AbstractFeatureMap):
            found = FunctionFeatures(found, dim)
        if found.dim != dim:
            raise ValueError(f"expected inputs of {found.dim} numbers, got {dim}")
        if self.input_range is not None:
            found = RangeScaling(found, *self.input_range)
        if self.input_bound is not None and math.isfinite(self.input_bound):
            found = NormScaling(found, self.input_bound)
        return ClippedFeatures(found, self.feature_bound)

    @property
    def _warning(self):
        is_stated = self.input_bound is not None or self.input_range is not None
        return None if is_stated or is_placed(self.kernel, self.feature_map) else _UNPLACED


def is_placed(kernel: Any, feature_map: Any) -> bool:
    """Whether some part of a kernel or map, such as a user's function, says where inputs lie."""
    if feature_map is not None and not isinstance(feature_map, AbstractFeatureMap):
        return True
    parts = jax.tree.leaves((kernel, feature_map), is_leaf=lambda part: isinstance(part, _PLACED))
    return any(isinstance(part, _PLACED) for part in parts)


def whole_features(
    features: AbstractFeatureMap, table: Float[np.ndarray, "n dim"], bound: float, bits: int
) -> Float[np.ndarray, "n outputs"]:
    """Features of all rows by `unit_rows`: whole numbers in float32, norms at most 2^bits."""
    found = np.empty((len(table), features.num_outputs), np.float32)
    start = 0
    for block in row_blocks(features, table):
        found[start : start + len(block)] = unit_rows(block, bound, bits)
        start += len(block)
    return found
