"""Grids of values as they are typed: 0.3; 0,0.5,1; 0.1:10:40; 0.1:10:40:log."""

import numpy as np

# Of a sweep, and so of each grid: more would fill a disk, and take weeks.
MOST_CELLS = 1_000_000
_FORMS = "a number, numbers with commas between, first:last:count or first:last:count:log"


class TooManyError(ValueError):
    """A grid of more values than a sweep may have cells."""


def grid(text: str, option: str) -> np.ndarray:
    """The values that an option's text describes; each must be named once.

    Raises:
        ValueError: it describes none; names the option.
    """
    parts = text.split(":")
    try:
        if len(parts) == 1:
            values = np.array([float(part) for part in text.split(",")])
        elif len(parts) == 3 or (len(parts) == 4 and parts[3] == "log"):
            spaced = np.linspace if len(parts) == 3 else np.geomspace
            first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
            if count > MOST_CELLS:
                raise TooManyError(
                    f"expected at most {MOST_CELLS} values of {option}, got {text!r}"
                )
            # Ends that are infinite, or too far apart, are told by the values.
            with np.errstate(all="ignore"):
                values = spaced(first, last, count)
        else:
            raise ValueError("too many colons")
    except TooManyError:
        raise
    except ValueError as error:
        raise ValueError(f"expected {option} to be {_FORMS}, got {text!r}") from error
    if not len(values) or len(np.unique(values)) != len(values) or not np.isfinite(values).all():
        raise ValueError(
            f"expected finite values of {option} that differ, at least one, got {text!r}"
        )
    return values
