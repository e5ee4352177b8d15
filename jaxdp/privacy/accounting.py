"""What a release costs: reads anything that can state what it makes public."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.core.checks import concrete
from jaxdp.privacy.gaussian import gaussian_epsilon
from jaxdp.privacy.release import Release
from jaxdp.privacy.zcdp import check_delta, zcdp_epsilon, zcdp_epsilon_published


class Cost(eqx.Module):
    """A privacy guarantee: (epsilon, delta), and the stronger statements it was read from.

    Floats for a concrete release, arrays for a traced one.

    Attributes:
        epsilon: the smallest epsilon at delta that follows from what is proved.
        delta: as asked.
        mu: Gaussian DP, where proved, else None.
        zcdp: zero-concentrated DP, where proved, else None.
        published_epsilon: what the paper's own conversion gives, else None.
        assumptions: what the guarantee needs and leaves out.
    """

    epsilon: float | Float[Array, "*batch"]
    delta: float | Float[Array, "*batch"]
    mu: float | Float[Array, "*batch"] | None
    zcdp: float | Float[Array, "*batch"] | None
    published_epsilon: float | Float[Array, "*batch"] | None
    assumptions: tuple[str, ...] = eqx.field(static=True)

    def __str__(self):
        if any(isinstance(value, Tracer) or np.ndim(value) for value in (self.epsilon, self.delta)):
            return repr(self)
        strong = [f"{self.mu:.4g}-GDP"] if self.mu is not None else []
        strong += [f"{self.zcdp:.4g}-zCDP"] if self.zcdp is not None else []
        text = f"privacy: ({self.epsilon:.4f}, {self.delta:g})-DP from {', '.join(strong)}"
        if self.published_epsilon is not None:
            text += f"; published conversion: epsilon {self.published_epsilon:.4f}"
        return "\n".join([text, *(f"  - {line}" for line in self.assumptions)])


def account(thing: Any, *, delta: Any) -> Cost:
    """The privacy cost of an algorithm or of anything else that has a `release()`.

    Args:
        thing: an algorithm, or a `Release`.
        delta: in (0, 1).

    Raises:
        TypeError: `thing` does not state what it releases.
        ValueError: delta is outside (0, 1).
    """
    check_delta(delta)
    if not isinstance(thing, Release):
        if not hasattr(thing, "release"):
            raise TypeError(
                "expected something that states what it releases (an algorithm or a Release), "
                f"got {type(thing).__name__}"
            )
        thing = thing.release()
    for bound in (thing.zcdp, thing.gaussian_mu):
        if bound is not None and np.ndim(bound):
            raise ValueError(
                f"expected one algorithm, got a batch of shape {np.shape(bound)}; "
                "use vmap over account"
            )
    bounds, published = [], None
    if thing.zcdp is not None:
        bounds.append(zcdp_epsilon(thing.zcdp, delta))
        published = _plain(zcdp_epsilon_published(thing.zcdp, delta))
    if thing.gaussian_mu is not None:
        bounds.append(gaussian_epsilon(thing.gaussian_mu, delta))
    if not bounds:
        raise ValueError(f"nothing is proved about this release: {thing.mechanism}")
    traced = any(isinstance(bound, Tracer) for bound in bounds)
    epsilon = jnp.stack(jnp.broadcast_arrays(*bounds)).min(0) if traced else min(bounds)
    return Cost(
        epsilon=_plain(epsilon),
        delta=_plain(delta),
        mu=_plain(thing.gaussian_mu),
        zcdp=_plain(thing.zcdp),
        published_epsilon=published,
        assumptions=(f"{thing.mechanism}; neighbours: {thing.adjacency}", *thing.assumptions),
    )


def _plain(value: Any) -> Any:
    """A concrete scalar as a Python float."""
    known = None if value is None else concrete(value)
    return float(known) if known is not None and known.shape == () else value
