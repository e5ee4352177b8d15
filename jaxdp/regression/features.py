"""Public features of a table's rows for linear functions."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxdp.core.arrays import plain_number
from jaxdp.kernels.base import AbstractFeatureMap, require_feature_map


class WithConstant(AbstractFeatureMap):
    """The features of a map, and a constant one: its coefficient is the intercept.

    Args:
        base: with a finite norm bound.
        constant: > 0.

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
