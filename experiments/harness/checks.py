"""Checks: what a figure claims, what was obtained, and whether that bears the claim out."""

from collections.abc import Callable
from typing import NamedTuple

import xarray


class Check(NamedTuple):
    """One claim of a figure, what was obtained, and whether that bears it out."""

    claim: str
    obtained: str
    holds: bool


def claims_of(
    checks: Callable[[xarray.Dataset], list[Check]],
) -> Callable[[xarray.Dataset], dict[str, bool]]:
    """A figure's `claims`, made of its `checks`.

    Raises:
        ValueError: when called, if two checks have the same words.
    """

    def claims(dataset: xarray.Dataset) -> dict[str, bool]:
        """Each claim and whether the dataset bears it out."""
        found = checks(dataset)
        holds = {check.claim: bool(check.holds) for check in found}
        if len(holds) < len(found):
            raise ValueError(f"expected claims in different words, got {[c.claim for c in found]}")
        return holds

    return claims
