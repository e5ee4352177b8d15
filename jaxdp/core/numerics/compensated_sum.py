"""Sums of many changes, each far below the rounding of their total."""

from jaxtyping import Array, Float


def add(
    total: Float[Array, "*shape"], excess: Float[Array, "*shape"], change: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Kahan's sum: the new total, and what rounding has added to it so far.

    Args:
        total: before the change.
        excess: what the last call returned beside it; zero at first.
        change: to be added.
    """
    change = change - excess
    new = total + change
    return new, (new - total) - change
