"""Which sweep a store belongs to: the programs that it runs, its axes, its key, and the versions.

What is no part of a traced program, a function on the host, `version=` has to stand for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxdp.core.digests import digest, versions_of_results


def identity_of(
    axes: Mapping[str, Any], key: Any, version: str | None, programs: Sequence[str]
) -> dict[str, Any]:
    """The facts that must agree for a store to be resumed, as JSON.

    `axes` has kind, length and digest of each. `version` stands for the function; None where the
    digests of its programs do.
    """
    return {
        # Results depend on these beside the program, and where a version stands for it.
        **versions_of_results(),
        # A list: their order decides the cells' keys.
        "axes": [*axes],
        **{f"axis {name}": [*axis] for name, axis in axes.items()},
        "key": digest(key),
        "version": version,
        "programs": digest(tuple(programs)),
    }


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first thing in which two sweeps differ, in words."""
    part = next(part for part in {**wanted, **found} if found.get(part) != wanted.get(part))
    there, here = (
        ", ".join(map(str, each)) if isinstance(each, list) else each
        for each in (found.get(part), wanted.get(part))
    )
    if part == "programs":
        return "its function computes something else (give version= to decide that yourself)"
    return f"its {part} {'are' if part == 'axes' else 'is'} {there}, not {here}"
