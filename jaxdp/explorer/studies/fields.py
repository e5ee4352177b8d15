"""The settings of a study: what each is called, and which values are taken.

Whatever opens a websocket to the page can send any value, so that ranges are checked here, on the
server, and not by the sliders. They are chosen such that no value costs much memory or time.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

# A slider's values have so many digits, which is what is read off it and copied.
_DIGITS = 4
_SHOWN = 40
# The name of a choice, and those of its values with which another setting is there to be set.
Shown = tuple[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number between two ends.

    Attributes:
        name: as `jaxdp` has it.
        label: symbol, words and unit, for the page.
        low, high: ends of the range, both inside, of four digits at most.
        start: before it is set.
        group: under which heading it stands.
        is_log: whether the slider is logarithmic.
        is_whole: whether it counts something.
        compiles: whether another value may compile a program: the page then waits for the slider
            to be let go.
        shown: when it is there; None for always.
    """

    name: str
    label: str
    low: float
    high: float
    start: float
    group: str
    is_log: bool = False
    is_whole: bool = False
    compiles: bool = False
    shown: Shown | None = None

    def checked(self, value: Any) -> float | int:
        """The value as a number of the range.

        Args:
            value: a number, or text that is one.

        Raises:
            ValueError: it is none of the range; says what was expected and what came.
        """
        number = _number(value)
        is_inside = number is not None and self.low <= number <= self.high
        if number is None or not is_inside or (self.is_whole and not number.is_integer()):
            kind = "a whole number" if self.is_whole else "a number"
            raise ValueError(
                f"expected {self.label} to be {kind} from {self.low:g} to {self.high:g}, got "
                f"{_in_short(value)}"
            )
        return int(number) if self.is_whole else number

    def position(self, value: float) -> float:
        """Where a value stands on the slider."""
        return math.log10(value) if self.is_log else float(value)

    def at(self, position: Any) -> float | int:
        """The value at a place of the slider, to four digits.

        Raises:
            ValueError: the slider has no such place.
        """
        place = _number(position)
        if place is None or not math.isfinite(place):
            return self.checked(place)
        # Beyond 1e300 a power would be no float, and is out of every range all the same.
        value = 10.0 ** min(place, 300.0) if self.is_log else place
        return self.checked(round(value) if self.is_whole else float(f"{value:.{_DIGITS}g}"))


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of a few words.

    Attributes:
        name: of the setting.
        label: for the page.
        options: each value, and what the page calls it.
        start: before it is set.
        group: under which heading it stands.
        shown: when it is there; None for always.
    """

    name: str
    label: str
    options: Mapping[str, str]
    start: str
    group: str
    shown: Shown | None = None

    def checked(self, value: Any) -> str:
        """The value; ValueError where it is none of the options."""
        if not isinstance(value, str) or value not in self.options:
            raise ValueError(
                f"expected {self.label} to be one of {', '.join(self.options)}, got "
                f"{_in_short(value)}"
            )
        return value


Field = Number | Choice
Values = Mapping[str, Any]


def is_shown(field: Field, values: Values) -> bool:
    """Whether a setting counts, given the others."""
    return field.shown is None or values[field.shown[0]] in field.shown[1]


def _number(value: Any) -> float | None:
    """A float, or None for what is no real number; text is read."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _in_short(value: Any) -> str:
    text = " ".join(str(value).split()) or "nothing"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
