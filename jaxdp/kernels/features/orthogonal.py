r"""Fourier features whose frequencies are orthogonal to each other, d at a time.

Source: Yu et al. (2016), "Orthogonal random features", equation (5). Each frequency has the law
that it has alone, so the kernel's estimate stays unbiased; their directions repel each other, which
lowers its variance.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import require_count, require_key
from jaxdp.core.errors import NotCoveredError
from jaxdp.core.numerics.one_at_a_time import one_at_a_time
from jaxdp.kernels.base import AbstractFeatureMap, require_kernel
from jaxdp.kernels.functions.fourier import FourierFeatures
from jaxdp.kernels.functions.stationary import AbstractRadialKernel


class OrthogonalFeatures(AbstractFeatureMap):
    """Fourier features whose frequencies are orthogonal to each other in blocks.

    Attributes:
        waves: the features themselves.

    Example:
        >>> import jax
        >>> from jaxdp.kernels import Gaussian, OrthogonalFeatures
        >>> features = OrthogonalFeatures.sample(Gaussian(1.0), 8, dim=3, key=jax.random.key(0))
        >>> features.num_outputs, features.norm_bound
        (16, 1.0)
    """

    waves: FourierFeatures

    @classmethod
    def sample(
        cls, kernel: Any, num_frequencies: int, dim: int, *, key: Key[Array, ""]
    ) -> "OrthogonalFeatures":
        r"""2 `num_frequencies` outputs.

        Blocks of d directions are the rows of independent Haar matrices; lengths are independent,
        $\tau$ times $\chi_d$, as those of the kernel's own frequencies.

        Args:
            kernel: Gaussian, Laplace or Matern.
            num_frequencies: L >= 1; it need not be a multiple of d.
            dim: d, of the inputs.
            key: of the frequencies.

        Raises:
            NotCoveredError: the kernel's frequencies are not isotropic.
            ValueError, TypeError: a size is not a whole number >= 1, or the key is not one.
        """
        require_count("num_frequencies", num_frequencies)
        require_count("dim", dim)
        require_key(key)
        require_kernel(kernel)
        if not isinstance(kernel, AbstractRadialKernel):
            raise NotCoveredError(
                f"{cls.__name__} needs a kernel of the distance, {type(kernel).__name__} is not: "
                "use its own kernel.features or NystromFeatures"
            )
        direction_key, length_key, scale_key = jr.split(key, 3)
        num_blocks = -(-num_frequencies // dim)
        directions = _haar(num_blocks, dim, key=direction_key).reshape(-1, dim)[:num_frequencies]
        normals = jr.normal(length_key, (num_frequencies, dim), jnp.float32)
        lengths = jnp.linalg.norm(normals, axis=1)
        lengths *= kernel.frequency_scales(num_frequencies, key=scale_key) / kernel.scale
        return cls(FourierFeatures(directions * lengths[:, None], jnp.sqrt(kernel.variance)))

    def __call__(self, inputs):
        return self.waves(inputs)

    @property
    def dim(self):
        return self.waves.dim

    @property
    def num_outputs(self):
        return self.waves.num_outputs

    @property
    def norm_bound(self):
        return self.waves.norm_bound


def _haar(num: int, dim: int, *, key: Key[Array, ""]) -> Float[Array, "num dim dim"]:
    """Independent orthogonal matrices, uniform on the group."""
    normals = jr.normal(key, (num, dim, dim), jnp.float32)
    basis, upper = jax.vmap(one_at_a_time(jnp.linalg.qr))(normals)
    # QR fixes signs by a rule of its own: without them the law is not invariant.
    signs = jnp.sign(jax.vmap(jnp.diagonal)(upper))
    return basis * jnp.where(signs == 0, 1, signs)[:, None, :]
