"""Settings of a tab, each with a range.

Any program that opens a websocket to the page can send any value, so the server checks ranges.
They keep the memory and the time of one computation small.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST_SHOWN = 40
# The name of a choice, and the values of that choice for which another setting is on the page.
Shown = tuple[str, tuple[str, ...]]
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number between two ends, both of which are allowed."""

    name: str  # name of the argument in jaxdp
    label: str  # symbol, words and unit, for the page
    low: float
    high: float
    start: float  # initial value
    group: str  # heading above the setting
    is_log: bool = False  # True for a logarithmic slider
    is_whole: bool = False
    shown: Shown | None = None  # condition for the setting to be on the page; None for always
    help: str = ""  # a sentence next to the label

    def checked(self, value: Any) -> float | int:
        """Return the value, or text, as a number; raise ValueError if it is not in the range."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not self.low <= number <= self.high or (self.is_whole and not number.is_integer()):
            kind = "a whole number" if self.is_whole else "a number"
            raise _wrong(self.label, f"{kind} from {self.low:g} to {self.high:g}", value)
        return int(number) if self.is_whole else number


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of a few words."""

    name: str  # name of the argument in jaxdp
    label: str  # words for the page
    options: Mapping[str, str]  # each value, and its name on the page
    start: str  # initial value
    group: str  # heading above the setting
    shown: Shown | None = None  # condition for the setting to be on the page; None for always

    def checked(self, value: Any) -> str:
        """Return the value; raise ValueError unless it is one of the options."""
        if not isinstance(value, str) or value not in self.options:
            raise _wrong(self.label, f"one of {', '.join(self.options)}", value)
        return value


Field = Number | Choice


def read(fields: Iterable[Field], given: Values) -> dict[str, Any]:
    """Return checked settings; a setting that is not on the page has its initial value."""
    values: dict[str, Any] = {}
    for field in fields:
        is_there = field.shown is None or given[field.shown[0]] in field.shown[1]
        values[field.name] = field.checked(given[field.name]) if is_there else field.start
    return values


def _wrong(label: str, wanted: str, value: Any) -> ValueError:
    text = " ".join(str(value).split()) or "nothing"
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return ValueError(f"expected {label} to be {wanted}, got {text}")
