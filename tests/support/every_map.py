"""Every kernel and every kind of feature map, for the contracts that all of them keep."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from helpers import MadeWhenAsked

from jaxdp import kernels
from jaxdp.kernels.functions.bounded import RangeScaling

DIM = 3
INPUTS = np.random.default_rng(0).uniform(-1.0, 1.0, (6, DIM)).astype(np.float32)

KERNELS = {
    "gaussian": kernels.Gaussian(0.75),
    "laplace": kernels.Laplace(0.75),
    "matern 1.5": kernels.Matern(0.75, 1.5),
    "matern 2.5": kernels.Matern(0.75, 2.5),
    "matern 5.5": kernels.Matern(0.75, 5.5),
    "inner product": kernels.InnerProduct(),
}
RADIAL = {name: KERNELS[name] for name in ("gaussian", "laplace", "matern 2.5")}
_GAUSSIAN = KERNELS["gaussian"]
# Of capacity 1/2, as `power_law` makes it.
TORUS = kernels.TorusKernel(np.array([1, 2, 2, 4, 4, 6, 6], np.float32) ** -2)


# Each map is looked at alone, so that one key may do for all.
MAPS = MadeWhenAsked(
    {
        "paired": lambda: kernels.FourierFeatures.sample(_GAUSSIAN, 16, DIM, key=jr.key(0)),
        "cosine": lambda: kernels.CosineFeatures.sample(_GAUSSIAN, 16, DIM, key=jr.key(0)),
        "heavy tails": lambda: kernels.FourierFeatures.sample(
            KERNELS["laplace"], 16, DIM, key=jr.key(0)
        ),
        "identity": lambda: KERNELS["inner product"].features(1, DIM, key=jr.key(0)),
        "function": lambda: kernels.FunctionFeatures(
            lambda row: jnp.append(row, jnp.exp(row @ row)), DIM
        ),
        "paths": lambda: kernels.SamplePaths.sample(_GAUSSIAN, 4, 16, DIM, key=jr.key(0)),
        "clipped": lambda: kernels.ClippedFeatures(MAPS["paths"], 1.2),
        "ranges": lambda: RangeScaling(MAPS["paths"], -np.ones(DIM), np.full(DIM, 2.0)),
    }
)


@eqx.filter_jit
def values(feature_map, rows):
    """Compiled once for all tests that look at the same map and shape."""
    return feature_map(rows)
