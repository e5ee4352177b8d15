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


@dataclasses.dataclass(frozen=True)
class Shown:
    """When a setting is there to be set.

    Attributes:
        name: of the choice that decides it.
        values: of that choice.
    """

    name: str
    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number between two ends.

    Attributes:
        name: as `jaxdp` has it.
        label: symbol, words and unit, for the page.
        low, high: ends of the range, both inside.
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
        if number is None or not self.low <= number <= self.high:
            kind = "a whole number" if self.is_whole else "a number"
            raise ValueError(
                f"expected {self.label} to be {kind} from {self.low:g} to {self.high:g}, got "
                f"{_shown(value)}"
            )
        if not self.is_whole:
            return number
        if not number.is_integer():
            raise ValueError(f"expected {self.label} to be a whole number, got {_shown(value)}")
        return int(number)

    def position(self, value: float) -> float:
        """Where a value stands on the slider."""
        return math.log10(value) if self.is_log else float(value)

    def at(self, position: Any) -> float | int:
        """The value at a place of the slider, to four digits.

        Raises:
            ValueError: the slider has no such place.
        """
        place = _number(position)
        ends = self.position(self.low), self.position(self.high)
        # Beyond the ends by rounding alone.
        if place is None or not ends[0] - 1e-9 <= place <= ends[1] + 1e-9:
            raise ValueError(
                f"expected {self.label} to be a number from {self.low:g} to {self.high:g}, got a "
                f"slider at {_shown(position)}"
            )
        value = 10**place if self.is_log else place
        value = round(value) if self.is_whole else float(f"{value:.{_DIGITS}g}")
        return self.checked(min(max(value, self.low), self.high))


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
                f"expected {self.label} to be one of {', '.join(self.options)}, got {_shown(value)}"
            )
        return value


Field = Number | Choice
Values = Mapping[str, Any]


def is_shown(field: Field, values: Values) -> bool:
    """Whether a setting counts, given the others."""
    return field.shown is None or values[field.shown.name] in field.shown.values


def _number(value: Any) -> float | None:
    """A float, or None for what is no real number; text is read."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _shown(value: Any) -> str:
    """What came, in a few characters."""
    text = " ".join(str(value).split()) or "nothing"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
