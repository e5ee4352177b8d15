"""How objects are printed and shown in notebooks: tables of names, values and their meanings.

Printed text ends up in logs, so private records appear by their number alone and keys not at all.
Quantities computed from records are shown: a problem made from a table shows its target, the
table's least-squares solution.
"""

import abc
import functools
import html
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdp.core.checks import SHOWN_BITS
from jaxdp.core.terminals import on_a_line

# Most numbers that are listed; longer arrays are shown by their range.
_MOST_LISTED = 6
# Arrays with more numbers are shown by their shape, without a pass over them.
_MOST_LOOKED_AT = 10_000_000
_MOST_LETTERS = 60


def in_words(value: Any, ndim: int | None = None, *, is_record: bool = False) -> str:
    """A value for a reader: "0.3", "100 numbers, all 1", "20 x 5 array", "traced float32[5]".

    `ndim` is the number of axes without those of a batch, if known. For records (`is_record`) only
    their number is shown.
    """
    if value is None:
        return "none"
    if is_array(value):
        return _array_in_words(value, ndim, is_record)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        bits = int(value).bit_length()
        return f"{int(value):,}" if bits <= SHOWN_BITS else f"a number of {bits} bits"
    if isinstance(value, (float, np.floating)):
        return number(value)
    if isinstance(value, str):
        return value if len(value) <= _MOST_LETTERS else f"{value[:_MOST_LETTERS]}..."
    if isinstance(value, dict):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (list, tuple)):
        several = f"{len(value)} items" if len(value) > _MOST_LISTED else None
        return _maker(value) or several or ", ".join(map(in_words, value)) or "none"
    if isinstance(value, eqx.Module):
        return _module_in_words(value)
    return called(value) if callable(value) else repr(value)


def as_python(value: Any) -> str:
    """A value on one line as a debugger shows it: scalars as numbers, other arrays by shape."""
    if is_array(value) and not value.shape and is_known(value):
        # NumPy prints a float32 in its own precision: 0.3, not 0.30000001.
        return str(np.asarray(value)[()])
    if isinstance(value, (int, np.integer)) and int(value).bit_length() > SHOWN_BITS:
        return f"<{int(value).bit_length()} bits>"
    if callable(value) and not isinstance(value, eqx.Module):
        return called(value)
    if isinstance(value, tuple) and (maker := _maker(value)):
        return f"<{maker}>"
    is_tree = is_array(value) or isinstance(value, (dict, list, tuple))
    return " ".join((eqx.tree_pformat(value) if is_tree else repr(value)).split())


def is_array(value: Any) -> bool:
    """Whether a value has a shape and a dtype, traced or not."""
    return isinstance(value, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def is_known(value: Any) -> bool:
    """Whether an array's numbers can be read here; those of a key cannot."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    if not isinstance(value, jax.Array) or isinstance(value, Tracer) or is_key(value):
        return False
    return value.is_fully_addressable and not value.is_deleted()


def is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def number(value: Any) -> str:
    """A number to six digits, the precision of float32."""
    return f"{float(value):.6g}"


def in_full(value: float) -> str:
    """A number in all its digits: "1234567", "0.25"."""
    number = float(value)
    is_whole = number.is_integer() and abs(number) < 1e16
    return f"{number:.0f}" if is_whole else repr(number)


def called(function: Any) -> str:
    """A function's name, with the arguments that a partial fixes."""
    if isinstance(function, functools.partial):
        fixed = [*map(as_python, function.args)]
        fixed += [f"{name}={as_python(value)}" for name, value in function.keywords.items()]
        return f"{called(function.func)}({', '.join(fixed)})"
    plain = inspect.unwrap(function)
    return getattr(plain, "__name__", type(plain).__name__)


def _module_in_words(value: eqx.Module) -> str:
    """A model by its class and size; Equinox would list every layer."""
    text = repr(value)
    if type(value).__repr__ is not eqx.Module.__repr__ or len(text) <= _MOST_LETTERS:
        return text
    count = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(value, eqx.is_inexact_array)))
    name = type(value).__name__
    return f"{name} of {count:,} parameters" if count else name


def _array_in_words(value: Any, ndim: int | None, is_record: bool) -> str:
    kind = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, Tracer):
        return f"traced {kind}"
    if is_key(value):
        return "a random key" if not value.shape else f"{value.size} random keys"
    if is_record:
        columns = f" of {' x '.join(map(str, value.shape[1:]))} numbers" if value.ndim > 1 else ""
        return f"{value.shape[0]:,} rows{columns}" if value.ndim else "a row"
    is_batch = ndim is not None and value.ndim > ndim
    if not is_known(value) or value.size > _MOST_LOOKED_AT or not value.size:
        return kind
    if value.ndim > 1 and not is_batch:
        return f"{' x '.join(f'{length:,}' for length in value.shape)} array"
    inner = value.shape[value.ndim - ndim :] if ndim is not None and is_batch else value.shape
    return _numbers_in_words(np.asarray(value).astype(np.float64), inner, is_batch)


def _numbers_in_words(numbers: np.ndarray, inner: tuple[int, ...], is_batch: bool) -> str:
    """Numbers as a list or a range; `inner` is the shape of each element of a batch."""
    if not numbers.ndim:
        return number(numbers)
    counted = f"{' x '.join(f'{length:,}' for length in inner)} numbers" if inner else ""
    counted += " each" if inner and is_batch else ""
    low, high = numbers.min(), numbers.max()
    if low == high and numbers.size > 1:
        text = f"all {number(low)}"
    elif numbers.size <= _MOST_LISTED:
        return ", ".join(map(number, numbers.ravel()))
    elif np.isfinite(numbers).all():
        text = f"{number(low)} to {number(high)}"
    else:
        text = f"{int((~np.isfinite(numbers)).sum())} of {numbers.size} not finite"
    return f"{counted}, {text}" if counted else text


def _maker(values: Any) -> str:
    """The name of the function that made these functions, such as an optax optimiser's, or ""."""
    if not values or not all(map(callable, values)):
        return ""
    plain = [inspect.unwrap(each) for each in values]
    makers = {getattr(each, "__qualname__", "").partition(".<locals>") for each in plain}
    names = {before for before, mark, _ in makers if mark}
    if len(names) != 1 or len(makers) != len(values):
        return ""
    return f"made by {plain[0].__module__.partition('.')[0]}.{names.pop()}"


WIDTH = 80
# Least width of the columns of values and meanings.
_LEAST = 20


class Row(NamedTuple):
    """One line of an explanation: a name as in Python, a value in words, its meaning and unit."""

    name: str
    value: str
    meaning: str = ""


class Explanation(NamedTuple):
    """The content of an object's table: a title, a row for each quantity, and notes."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def on_lines(self) -> "Explanation":
        """The explanation without line breaks and escape sequences, which names may hold."""
        rows = tuple(Row(*map(on_a_line, row)) for row in self.rows)
        return Explanation(on_a_line(self.title), rows, tuple(map(on_a_line, self.notes)))


class AbstractExplained(abc.ABC):
    """An object that `print` and notebooks show as a table of its quantities."""

    @abc.abstractmethod
    def _explanation(self) -> Explanation:
        """The content of this object's table."""

    def __str__(self) -> str:
        return as_text(self._explanation())

    def _repr_html_(self) -> str:
        return as_html(self._explanation())


def as_text(explanation: Explanation) -> str:
    """The table in at most 80 columns if names are short enough."""
    explanation = explanation.on_lines()
    rows = explanation.rows
    first = max((len(row.name) for row in rows), default=0)
    room = max(WIDTH - 2 - first - 2, 2 * _LEAST)
    # One long value does not widen the column.
    second = max((len(row.value) for row in rows if len(row.value) <= room // 2), default=0)
    lines = textwrap.wrap(explanation.title, WIDTH) or [""]
    for row in rows:
        lines += _lines(row, first, min(second, room - _LEAST - 2), room)
    for note in explanation.notes:
        lines += textwrap.wrap(note, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _lines(row: Row, first: int, second: int, room: int) -> list[str]:
    """A row: name, value, and the meaning to the right or, for a long value, below."""
    meanings = textwrap.wrap(row.meaning, room - second - 2)
    if len(row.value) <= second:
        values = [row.value]
    else:
        values = textwrap.wrap(row.value, room)
        meanings = [""] * len(values) * bool(meanings) + meanings
    pairs = itertools.zip_longest([row.name], values, meanings, fillvalue="")
    return [
        f"  {name.ljust(first)}  {value.ljust(second)}  {meaning}".rstrip()
        for name, value, meaning in pairs
    ]


def as_html(explanation: Explanation) -> str:
    """The table for a notebook, with all content escaped."""
    explanation = explanation.on_lines()
    has_meanings = any(row.meaning for row in explanation.rows)
    rows, left = "", "text-align:left"
    for row in explanation.rows:
        rows += f'<tr><th style="{left}">{html.escape(row.name)}</th>'
        values = (row.value, row.meaning) if has_meanings else (row.value,)
        rows += "".join(f'<td style="{left}">{html.escape(each)}</td>' for each in values) + "</tr>"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in explanation.notes)
    table = f"<table>{rows}</table>" if rows else ""
    notes = f"<ul>{notes}</ul>" if notes else ""
    return f"<div><strong>{html.escape(explanation.title)}</strong>{table}{notes}</div>"


def rows_of_time(time: Any) -> Row:
    """The table row of the clock: its ends and its number of records."""
    if not is_known(time):
        return Row("time", in_words(time))
    times = np.asarray(time, np.float64)
    text = f"{number(times[..., 0].min())} to {number(times[..., -1].max())}"
    return Row("time", f"{text}, {times.shape[-1]} records")


def row_over_time(name: str, values: Any, chosen: Any, meaning: str) -> Row:
    """The table row of a quantity: its first and last record, as means over the `chosen` runs.

    If `chosen` is None, for a batch of descriptions, it is the range at the end.
    """
    if not is_known(values):
        return Row(name, in_words(values, 1), meaning)
    known = np.asarray(values, np.float64)
    ends = [_of_all(known[..., place], chosen) for place in (0, -1)]
    return Row(name, " to ".join(ends) if chosen is not None else f"{ends[-1]} at the end", meaning)


def row_at_end(name: str, values: Any, chosen: Any, meaning: str) -> Row:
    """The table row of one number per run: mean and standard error, or the range over a batch."""
    if not is_known(values):
        return Row(name, in_words(values, 0), meaning)
    known = np.asarray(values, np.float64)
    text = _of_all(known, chosen)
    if chosen is not None and chosen.sum() > 1:
        error = known[chosen].std(ddof=1) / np.sqrt(chosen.sum())
        text += f" +- {error:.2g}"
        meaning += f", mean and standard error of {int(chosen.sum())} runs"
    return Row(name, text, meaning)


def endings(statuses: Iterable[tuple[int, str]], found: Any) -> str:
    """The number of runs by status, as in "8 ok, 2 diverged"; `statuses` are codes and names."""
    codes = np.asarray(found).reshape(-1)
    counts = [(name, int((codes == code).sum())) for code, name in statuses]
    texts = [f"{count} {name}" if codes.size > 1 else name for name, count in counts if count]
    return ", ".join(text.lower().replace("_", " ") for text in texts)


def tidy_columns(
    time: Any, over_time: dict[str, Any], once: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Columns of equal length, those that number the runs first: "run", or "run_0", "run_1", ...

    `over_time` has arrays (*runs, records), `once` (*runs,), and the time is (*clocks, records),
    with one clock for all runs or one for each trajectory of a batch.
    """
    shape = np.shape(next(iter(over_time.values())))
    numbers = np.indices(shape)[:-1]
    names = ["run"] if len(numbers) == 1 else [f"run_{axis}" for axis in range(len(numbers))]
    clock = np.asarray(time)
    between = (1,) * (len(shape) - clock.ndim)
    columns = dict(zip(names, numbers, strict=True))
    columns["time"] = clock.reshape(*clock.shape[:-1], *between, clock.shape[-1])
    columns |= {name: np.asarray(values) for name, values in over_time.items()}
    columns |= {name: np.asarray(values)[..., None] for name, values in once.items()}
    return {name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()}


def _of_all(values: np.ndarray, chosen: Any) -> str:
    if chosen is None:
        return in_words(values, 0)
    well = values[chosen]
    return number(well.mean()) if well.size else "none ended well"
