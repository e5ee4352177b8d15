"""Text that is safe to print on a terminal. Nothing here imports JAX, which is slow."""

import re
from typing import Any

# Control characters but line breaks and tabs, those that turn the direction of writing round, and
# those without a width that no language needs within a word.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def printable(text: str) -> str:
    r"""The text with control characters escaped, such as \x1b."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def on_a_line(text: str) -> str:
    """A printable text with blanks for its line breaks."""
    return printable(text.translate({ord(space): " " for space in "\n\t\r"}))


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False if it is None, closed, or cannot tell."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False
