"""What is made public, as data that an accountant reads."""

import equinox as eqx
from jaxtyping import Array, Float


class Release(eqx.Module):
    """What an algorithm makes public, and what has been proved about it.

    Attributes:
        mechanism: what is released, in words.
        adjacency: which data sets count as neighbours, for example "replace-one".
        zcdp: the proved zero-concentrated DP parameter, or None.
        gaussian_mu: mu of a proved Gaussian-DP guarantee, or None.
        assumptions: what the guarantee needs and what it leaves out, in words.
    """

    mechanism: str = eqx.field(static=True)
    adjacency: str = eqx.field(static=True)
    zcdp: Float[Array, ""] | None
    gaussian_mu: Float[Array, ""] | None
    assumptions: tuple[str, ...] = eqx.field(static=True)
