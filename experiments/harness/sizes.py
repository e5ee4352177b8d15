"""A figure's other sizes, beside the fields of its Config whose defaults are the usual one."""

from typing import Any


def size(**fields: Any) -> Any:
    """`smoke = size(...)` in the body of a Config makes `Config.smoke()` the Config of that size.

    Args:
        fields: those that differ from the defaults.
    """
    return classmethod(lambda config: config(**fields))
