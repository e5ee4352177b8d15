"""Settings of a tab, each with a range.

Any program that opens a websocket to the page can send any value, so ranges are checked here, on
the server. They are chosen such that no value costs much memory or time.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST_SHOWN = 40
# The name of a choice, and those of its values with which another setting is there to be set.
Shown = tuple[str, tuple[str, ...]]
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number between two ends."""

    name: str  # as `jaxdp` has it
    label: str  # symbol, words and unit, for the page
    # low, high: ends of the range, both inside.
    low: float
    high: float
    start: float  # before it is set
    group: str  # under which heading it stands
    is_log: bool = False  # whether the slider is logarithmic
    is_whole: bool = False  # whether it counts something
    shown: Shown | None = None  # when it is there; None for always
    help: str = ""  # a sentence beside the label

    def checked(self, value: Any) -> float | int:
        """A number, or text that is one, in the range; ValueError for anything else."""
        try:
            number = float(value) if isinstance(value, (str, int, float)) else float("nan")
        except (ValueError, OverflowError):
            number = float("nan")
        if not self.low <= number <= self.high or (self.is_whole and not number.is_integer()):
            kind = "a whole number" if self.is_whole else "a number"
            raise ValueError(
                f"expected {self.label} to be {kind} from {self.low:g} to {self.high:g}, got "
                f"{_in_short(value)}"
            )
        return int(number) if self.is_whole else number


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of a few words."""

    name: str  # of the setting
    label: str  # for the page
    options: Mapping[str, str]  # each value, and its name on the page
    start: str  # before it is set
    group: str  # under which heading it stands
    shown: Shown | None = None  # when it is there; None for always

    def checked(self, value: Any) -> str:
        """The value; ValueError unless it is one of the options."""
        if not isinstance(value, str) or value not in self.options:
            raise ValueError(
                f"expected {self.label} to be one of {', '.join(self.options)}, got "
                f"{_in_short(value)}"
            )
        return value


Field = Number | Choice


def read(fields: Iterable[Field], given: Values) -> dict[str, Any]:
    """The settings as numbers and words; ValueError if one that is there to be set is wrong."""
    values: dict[str, Any] = {}
    for field in fields:
        is_there = field.shown is None or given[field.shown[0]] in field.shown[1]
        values[field.name] = field.checked(given[field.name]) if is_there else field.start
    return values


def _in_short(value: Any) -> str:
    text = " ".join(str(value).split()) or "nothing"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
