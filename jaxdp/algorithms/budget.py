"""The privacy parameter rho of the one-pass algorithms.

`OnePassDPSGD` and `CorrelatedDPSGD` are both rho-GDP: here stand the rho that a budget of epsilon
and delta allows, and the size of the noise that a rho asks for.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.conversions.gaussian import gaussian_mu

# Share of rho that covers the rounding of a traced calibration, by bytes of its type.
_TRACED_MARGIN = {4: 2e-3, 8: 1e-6}


def largest_rho(epsilon: Any, delta: Any) -> Any:
    """The largest rho for which rho-GDP is (epsilon, delta)-DP, rounded toward more privacy.

    Traced, it is .2 % smaller for that (1e-6 in float64).

    Raises:
        TypeError: an argument is no real number.
        ValueError: one is out of its range, or no noise reaches epsilon.
    """
    check_budget(epsilon, delta)
    rho = gaussian_mu(epsilon, delta)
    known = concrete(rho)
    if known is None:
        return rho * (1 - _TRACED_MARGIN[rho.dtype.itemsize])
    if known == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon}")
    array = np.asarray(as_wide_float(rho))
    return np.nextafter(array, np.zeros_like(array)) if array > known else array


def require_enough_noise(clip_scale: Any, rho: Any) -> None:
    """Raise ValueError where nothing is clipped and rho is finite."""
    scale, strength = concrete(clip_scale), concrete(rho)
    if scale is not None and strength is not None and np.isinf(scale) > np.isinf(strength):
        raise ValueError(
            f"expected a finite clip_scale with rho = {strength}: without clipping no finite "
            "noise is private; use rho = inf for no noise"
        )


def noise_ratio(clip_scale: Float[Array, ""], rho: Float[Array, ""]) -> Float[Array, ""]:
    """c / rho, the scale of the private noise; 0 where rho is infinite, whatever c."""
    noiseless = jnp.isinf(rho)
    return jnp.where(noiseless, 0, jnp.where(noiseless, 1, clip_scale) / rho)
