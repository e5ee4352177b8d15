"""Up to which learning rate the closure of a linear optimiser can be trusted.

`jaxdp.theory.features.stability` says whether one algorithm is beyond a limit. A search has to know
the limits before it starts: here the growth of the top mode is read off a grid of learning rates.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.planning.features.closure_risk import Draw, LinearRisk
from jaxdp.theory.features.modes import KernelModes
from jaxdp.theory.features.stability import growth

# Decades around the limit of gradient descent that are looked at, and in how many rates, twice.
_BELOW, _ABOVE, _RATES = -6.0, 3.0, 64
# Of a limit that is found: the closure is at its worst next to it.
_MARGIN = 0.98


class StableRates(NamedTuple):
    """The largest learning rates, and 0 where none is stable.

    Attributes:
        clipped: where most rows are clipped, which holds the draw of the batches back.
        unclipped: where they are not.
    """

    clipped: float
    unclipped: float


def rate_scale(modes: KernelModes) -> float:
    """The limit of plain gradient descent, or 1 where there is none."""
    limit = modes.stability_limit()
    return limit if np.isfinite(limit) else 1.0


def stable_rates(risk: LinearRisk, draw: Draw) -> StableRates:
    """The limits of a linear optimiser, with the draw of one cell."""
    first = np.geomspace(10.0**_BELOW, 10.0**_ABOVE, _RATES) * rate_scale(risk.modes)
    found = []
    for which in range(2):
        rates = first
        for _ in range(2):
            stable = np.asarray(_are_stable(risk, draw, jnp.asarray(rates)))[which]
            # The first that is not ends what is stable: beyond it nothing is claimed.
            count = len(rates) if stable.all() else int(np.argmin(stable))
            if count in (0, len(rates)):
                break
            rates = np.geomspace(rates[count - 1], rates[count], _RATES)
        found.append(_MARGIN * float(rates[count - 1]) if count else 0.0)
    return StableRates(*found)


@eqx.filter_jit
def _are_stable(risk: LinearRisk, draw: Draw, rates: Float[Array, " rates"]) -> tuple[Array, Array]:
    """Whether each rate is, where all rows are clipped and where none is."""

    def one(rate):
        # The limits do not depend on the clip norm.
        found = growth(risk.modes, risk.recursion(rate, jnp.ones_like(rate), draw))
        clipped, unclipped = (found.is_unstable(jnp.asarray(share)) for share in (1.0, 0.0))
        return ~clipped, ~unclipped

    return jax.vmap(one)(rates)
