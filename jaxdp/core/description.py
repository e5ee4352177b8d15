"""Descriptions: objects that their constructor's arguments say in full, copied by changing some.

A copy that sets fields directly (`equinox.tree_at`, `dataclasses.replace` of fields that are no
arguments) skips the constructor's checks, and what it derived from the arguments goes stale.
`replace` goes through the constructor.
"""

import functools
import inspect
from collections.abc import Iterable
from typing import Any, Self

import equinox as eqx


class AbstractDescription(eqx.Module):
    """An object whose constructor's arguments are all attributes of the same names."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # `dataclasses.replace` calls the constructor with the names of the fields.
        _require_arguments(cls, kwargs, "; to change arguments of an object, use its .replace(...)")
        return super().__new__(cls)

    def replace(self, **changes: Any) -> Self:
        """A copy with some of the constructor's arguments changed, checked again.

        What an alternative constructor chose (the noise of `calibrated`, for instance) is an
        argument like any other and stays as it is, unless it is changed too.

        Args:
            **changes: any of the constructor's arguments, by name.

        Raises:
            TypeError: the constructor has no argument of that name; says which it has.
            ValueError: as by the constructor.
        """
        _require_arguments(type(self), changes)
        kept = {
            name: self._argument(name)
            for name in constructor_arguments(type(self))
            if name not in changes
        }
        return type(self)(**kept, **changes)

    def _argument(self, name: str) -> Any:
        """What the constructor is given again for an argument that stays as it is."""
        return getattr(self, name)


@functools.cache
def constructor_arguments(kind: type) -> tuple[str, ...]:
    """The names of what a class is built from."""
    return tuple(inspect.signature(kind.__init__).parameters)[1:]


def _require_arguments(kind: type, names: Iterable[str], hint: str = "") -> None:
    known = constructor_arguments(kind)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TypeError(
            f"expected arguments of {kind.__name__}, which are {', '.join(known) or 'none'}, "
            f"got {', '.join(unknown)}{hint}"
        )
