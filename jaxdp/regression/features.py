"""Public features of a table's rows for linear functions."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxdp.core.arrays import plain_number
from jaxdp.kernels.base import AbstractFeatureMap, require_feature_map


class WithConstant(AbstractFeatureMap):
    """The features of a map and a constant one, whose coefficient is the intercept.

    Args:
        base: feature map with a finite norm bound.
        constant: value of the constant feature, > 0.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import IdentityFeatures
        >>> from jaxdp.regression import WithConstant
        >>> WithConstant(IdentityFeatures(1), 1.0)(np.array([[3.0]])).tolist()
        [[3.0, 1.0]]
    """

    base: AbstractFeatureMap
    constant: float = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_feature_map("base", self.base)

    def __call__(self, inputs):
        found = self.base(inputs)
        return jnp.pad(found, ((0, 0), (0, 1)), constant_values=self.constant)

    @property
    def dim(self):
        return self.base.dim

    @property
    def num_outputs(self):
        return self.base.num_outputs + 1

    @property
    def norm_bound(self):
        return float(np.hypot(self.base.norm_bound, self.constant))


class ComposedFeatures(AbstractFeatureMap):
    """The features that `outer` makes of those of `inner`, such as waves of a table's columns."""

    outer: AbstractFeatureMap
    inner: AbstractFeatureMap

    def __check_init__(self):
        for name in ("outer", "inner"):
            require_feature_map(name, getattr(self, name))
        if self.outer.dim != self.inner.num_outputs:
            raise ValueError(
                f"expected outer of {self.inner.num_outputs} inputs, got one of {self.outer.dim}"
            )

    def __call__(self, inputs):
        return self.outer(self.inner(inputs))

    @property
    def reader(self):
        return self.inner.reader

    @property
    def dim(self):
        return self.inner.dim

    @property
    def num_outputs(self):
        return self.outer.num_outputs

    @property
    def norm_bound(self):
        return self.outer.norm_bound
