"""Sums of many changes, each far below the rounding of their total."""

from jaxtyping import Array, Float


def add(
    total: Float[Array, "*shape"], excess: Float[Array, "*shape"], change: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Kahan's sum: the new total, and what rounding has added to it so far (zero at first)."""
    change = change - excess
    new = total + change
    return new, (new - total) - change
