"""What an algorithm costs, as the rows of a table."""

import decimal
import math
from typing import Any, NamedTuple

import jaxdp

_FOUR_DIGITS = decimal.Context(prec=4, rounding=decimal.ROUND_CEILING)


class CostTable(NamedTuple):
    """A cost in words.

    Attributes:
        rows: name and value of each number.
        assumptions: what the guarantee needs and leaves out, in sentences.
    """

    rows: tuple[tuple[str, str], ...]
    assumptions: tuple[str, ...]


def cost_table(algorithm: Any, delta: float) -> CostTable:
    """The cost of an algorithm at some delta, or why none is known at it."""
    try:
        cost = jaxdp.account(algorithm, delta=delta)
    except ValueError as error:
        return CostTable((("ε", "not known"), ("δ", _rounded_up(delta))), (str(error),))
    rows = (
        ("ε", _rounded_up(float(cost.epsilon))),
        ("δ", _rounded_up(float(cost.delta))),
        ("μ (Gaussian DP)", "not of this form" if cost.mu is None else _rounded_up(float(cost.mu))),
        ("neighbours", cost.adjacency),
        ("noise", "certified" if cost.is_certified else "simulated in floating point"),
    )
    return CostTable(rows, cost.assumptions)


def _rounded_up(value: float) -> str:
    """Four digits, never less than the number: what is shown is still a guarantee."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    # In decimal digits, which are exact: those that stand for the number and for no other.
    digits = decimal.Decimal(repr(value))
    return f"{float(_FOUR_DIGITS.create_decimal(digits)):.4g}"
