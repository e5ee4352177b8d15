"""Public ranges and categories of a table's columns, and bounded features made of them.

Whatever is said of a column is known without the data: a range from what is measured, categories
from the form that was filled in. A row's features depend on that row alone.
"""

import datetime
import itertools
import math
import numbers
import reprlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count, require_kind
from jaxdp.kernels.base import AbstractFeatureMap, as_rows

# What stands for a number that is missing; others are between 0 and 1.
_MISSING = -1.0
# Between these float32 divides by the width of a range.
_NARROWEST, _WIDEST = 1e-30, 1e30
_Spec = tuple[float, float] | tuple[Any, ...]
# What a cell is known by; None where it is missing.
_Key = float | str | None
_EPOCH, _DAY = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1)


class CodedTable(NamedTuple):
    """What `Columns` made of a table: its codes, and which cells are beyond what is public."""

    codes: Float[np.ndarray, "n columns"]
    is_beyond: Bool[np.ndarray, "n columns"]


class Columns(eqx.Module):
    """What is publicly known of a table's columns: the range of a number, the categories of a text.

    A value beyond its range counts as the nearer end. A category that is not listed has one place,
    with all others that are not, and a missing value has one of its own.

    What a cell is depends on that cell alone, whatever type its column has: a text that reads as a
    number is that number, true and false are 1 and 0, a date is one however it is kept or written
    in ISO 8601, and None, NaN, NaT, NA, what is masked and an empty text are missing. In a range a
    date is the days since 1970-01-01, in UTC where it has a time zone.

    Args:
        columns: for each column by name a tuple (low, high) of numbers or dates, or a list of
            categories: (0, 1) is a range, and ["0", "1"] two categories, of cells that are numbers
            too. A list [0, 1] of two numbers may be meant as either, and is refused.
        bins: of each number, evenly over its range, for additive models.
        interactions: pairs of names: additive models have a part for each pair of their bins.

    Raises:
        ValueError, TypeError: a column or an interaction is not described as above, a category
            stands twice or is a missing value, or a range is not 1e-30 to 1e30 wide.

    Example:
        >>> from jaxdp.regression import Columns
        >>> columns = Columns({"age": (17, 90), "sex": ["female", "male"]}, bins=8)
        >>> columns.names, columns.sizes
        (('age', 'sex'), (9, 4))
    """

    names: tuple[str, ...] = eqx.field(static=True)
    specs: tuple[_Spec, ...] = eqx.field(static=True)
    is_number: tuple[bool, ...] = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    interactions: tuple[tuple[str, str], ...] = eqx.field(static=True)

    def __init__(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        bins: int = 16,
        interactions: Sequence[tuple[str, str]] = (),
    ):
        expected = 'a dictionary, such as {"age": (17, 90), "sex": ["female", "male"]}'
        require_kind("columns", columns, Mapping, expected)
        if not columns:
            raise ValueError(f"expected columns to be {expected}, got none")
        self.names = tuple(columns)
        self.is_number = tuple(isinstance(spec, tuple) for spec in columns.values())
        self.specs = tuple(_checked(name, spec) for name, spec in columns.items())
        self.bins = require_count("bins", bins, least=2)
        if not isinstance(interactions, (list, tuple)):
            came = type(interactions).__name__
            raise TypeError(f"expected interactions as a list of pairs of names, got {came}")
        self.interactions = tuple(_checked_pair(pair, self.names) for pair in interactions)

    def __repr__(self):
        # scikit-learn prints it within an estimator: the first columns alone, on one line.
        known = zip(self.names[:4], self.specs, self.is_number, strict=False)
        texts = [f"{a!r}: {reprlib.repr(b if is_pair else [*b])}" for a, b, is_pair in known]
        shown = ", ".join(texts + ["..."] * (len(self.names) > 4))
        more = f", interactions={self.interactions}" if self.interactions else ""
        return f"Columns({{{shown}}}, bins={self.bins}{more})"

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins or categories a column has, those of what is not listed or missing too."""
        pairs = zip(self.specs, self.is_number, strict=True)
        return tuple(self.bins + 1 if number else len(spec) + 2 for spec, number in pairs)

    def codes(self, table: Any) -> Float[Any, "n columns"]:
        """The table in numbers: places in ranges from 0 to 1, and numbers of categories.

        Args:
            table: a data frame with these columns, among others; or rows in their order, as which a
                frame counts too where it or these columns have numbers from 0 for names. Traced
                rows, under `jit`, `vmap` or `grad`, are cells that are numbers. What `read` made of
                a table is not read again.

        Raises:
            ValueError, TypeError: a column is missing or stands twice, or a cell is not of its
                kind; it is not shown.
        """
        if isinstance(table, CodedTable):
            return table.codes
        if isinstance(table, Tracer):
            return self._traced_codes(as_rows("inputs", table, len(self.names)))
        return self.read(table).codes

    def read(self, table: Any) -> CodedTable:
        """The codes of a table, and which of its cells are beyond what is public."""
        found = self._found(table)
        coded = [
            (_places if number else _category_numbers)(name, _keys(name, cells), spec)
            for name, cells, spec, number in zip(
                self.names, found, self.specs, self.is_number, strict=True
            )
        ]
        codes, beyond = zip(*coded, strict=True)
        return CodedTable(np.stack(codes, axis=1), np.stack(beyond, axis=1))

    def _found(self, table: Any) -> list[Any]:
        """The cells of each of these columns."""
        names = getattr(table, "columns", None)
        if names is not None:
            labels = dict(zip(map(str, names), names, strict=True))
            twice = len(labels) < len(names) and [str(name) for name in names]
            several = [name for name in self.names if twice and twice.count(name) > 1]
            if several:
                raise ValueError(f"expected names of columns that differ, got {several} twice")
            missing = [name for name in self.names if name not in labels]
            if not missing:
                return [table[labels[name]] for name in self.names]
            is_by_place = _are_counted(self.names) or _are_counted(labels)
            if not is_by_place or len(names) != len(self.names):
                raise ValueError(
                    f"expected a table with the columns {self.names}, got none called {missing}"
                )
            return [table[label] for label in names]
        try:
            is_array = np.ma.isMaskedArray(table)
            dtype = None if hasattr(table, "dtype") else object
            rows = table if is_array else np.asarray(table, dtype=dtype)
        except ValueError:
            # Rows of several lengths.
            rows = np.asarray(None)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise ValueError(
                f"expected a data frame or rows of {len(self.names)} columns, got shape "
                f"{rows.shape} of a {type(table).__name__}"
            )
        return [rows[:, place] for place in range(len(self.names))]

    def _traced_codes(self, rows: Float[Array, "n columns"]) -> Float[Array, "n columns"]:
        coded = []
        for place, (spec, number) in enumerate(zip(self.specs, self.is_number, strict=True)):
            cells = rows[:, place]
            if number:
                low, high = spec
                code, missing = jnp.clip((cells - low) / (high - low), 0, 1), _MISSING
            else:
                keys = jnp.array([math.nan if isinstance(key, str) else key for key in spec])
                is_key = jnp.pad(cells[:, None] == keys, ((0, 0), (0, 1)), constant_values=True)
                code, missing = is_key.argmax(axis=1).astype(rows.dtype), len(spec) + 1
            coded.append(jnp.where(jnp.isnan(cells), missing, code))
        return jnp.stack(coded, axis=1)


class ColumnFeatures(AbstractFeatureMap):
    r"""Features of the columns of a table, whose norm is at most a constant.

    A category has a feature of its own, which is 1 where it stands. A number is its place in the
    range, from -1 to 1, with a feature for being missing; or, in an additive model, has a feature
    for each of its bins. So does each pair of bins of two columns that interact. Every column and
    every interaction adds at most 1 to $|z|^2$, and exactly 1 in an additive model.

    Inputs are a table's codes. Learners, and what they release, make codes of the cells.

    Args:
        columns: of the table.
        is_additive: whether numbers are in bins.

    Example:
        >>> import numpy as np
        >>> from jaxdp.regression import ColumnFeatures, Columns
        >>> columns = Columns({"age": (0, 10)}, bins=2)
        >>> ColumnFeatures(columns, is_additive=True)(columns.codes([[7.0]])).tolist()
        [[0.0, 1.0, 0.0]]
        >>> ColumnFeatures(columns, is_additive=True).names
        ('age from 0 to 5', 'age from 5 to 10', 'age is missing')
    """

    columns: Columns
    is_additive: bool = eqx.field(static=True, converter=plain_number)

    def __call__(self, inputs):
        codes = as_rows("inputs", inputs, self.dim)
        places = {}
        parts = []
        for place, (name, size) in enumerate(
            zip(self.columns.names, self.columns.sizes, strict=True)
        ):
            code = codes[:, place]
            is_number = self.columns.is_number[place]
            if is_number and not self.is_additive:
                is_missing = code < 0
                middle = jnp.where(is_missing, 0, 2 * jnp.minimum(code, 1) - 1)
                parts.append(jnp.stack([middle, is_missing], axis=1))
                continue
            if is_number:
                bins = self.columns.bins
                code = jnp.where(code < 0, bins, jnp.minimum(jnp.floor(code * bins), bins - 1))
            places[name] = code[:, None] == jnp.arange(size)
            parts.append(places[name])
        if self.is_additive:
            for first, second in self.columns.interactions:
                both = places[first][:, :, None] & places[second][:, None, :]
                parts.append(both.reshape(len(codes), -1))
        return jnp.concatenate([part.astype(codes.dtype) for part in parts], axis=1)

    @property
    def reader(self):
        return self.columns

    @property
    def dim(self):
        return len(self.columns.names)

    @property
    def num_outputs(self):
        sizes = dict(zip(self.columns.names, self.columns.sizes, strict=True))
        if not self.is_additive:
            numbers = zip(sizes.values(), self.columns.is_number, strict=True)
            return sum(2 if number else size for size, number in numbers)
        pairs = self.columns.interactions
        return sum(sizes.values()) + sum(sizes[first] * sizes[second] for first, second in pairs)

    @property
    def names(self) -> tuple[str, ...]:
        """What each feature is, in words, in the order of the features."""
        columns, parts = self.columns, {}
        for name, spec, is_number in zip(
            columns.names, columns.specs, columns.is_number, strict=True
        ):
            if is_number and self.is_additive:
                edges = _told_apart(np.linspace(spec[0], spec[1], columns.bins + 1))
                own = [f"{name} from {a} to {b}" for a, b in itertools.pairwise(edges)]
            elif is_number:
                low, high = _told_apart(spec)
                own = [f"{name}, -1 at {low} and 1 at {high}"]
            else:
                told = iter(_told_apart([key for key in spec if isinstance(key, float)]))
                keys = [next(told) if isinstance(key, float) else key for key in spec]
                own = [f"{name} is {key}" for key in (*keys, "not listed")]
            parts[name] = [*own, f"{name} is missing"]
        pairs = columns.interactions if self.is_additive else ()
        both = ([f"{a}, {b}" for a in parts[one] for b in parts[two]] for one, two in pairs)
        return tuple(itertools.chain(*parts.values(), *both))

    @property
    def norm_bound(self):
        pairs = len(self.columns.interactions) if self.is_additive else 0
        return math.sqrt(self.dim + pairs)


def _checked(name: str, spec: Any) -> _Spec:
    """The description of one column: a pair of numbers, or categories."""
    if not isinstance(name, str):
        raise TypeError(
            f"expected names of columns as texts, got {name!r}: {str(name)!r} is read from a "
            "table's column of either name"
        )
    if isinstance(spec, tuple):
        try:
            low, high = _numbers(_keys(name, spec)).tolist()
        except (TypeError, ValueError):
            came = f"{spec}: two numbers or two dates are a range, and a list is categories"
            raise TypeError(f"expected column {name!r} as (low, high), got {came}") from None
        if not -math.inf < low < high < math.inf:
            came = f"({low}, {high})"
            raise ValueError(f"expected column {name!r} with low < high, both finite, got {came}")
        if not (_NARROWEST <= high - low <= _WIDEST and max(-low, high) <= _WIDEST):
            raise ValueError(
                f"expected column {name!r} with a width from {_NARROWEST} to {_WIDEST} and no end "
                f"beyond {_WIDEST}, got ({low}, {high})"
            )
        return low, high
    if not isinstance(spec, list) or not spec:
        # Not shown: an array may be what `numpy.unique` found in the table.
        came = "no category" if isinstance(spec, list) else f"a {type(spec).__name__}"
        raise TypeError(
            f"expected column {name!r} as a tuple (low, high) or a list of categories, both public "
            f"and not read off the table, got {came}"
        )
    keys = tuple(_keys(name, spec))
    if None in keys:
        raise ValueError(
            f"expected categories of column {name!r} without missing values, which have a place of "
            "their own"
        )
    if len(spec) == 2 and not any(isinstance(key, (str, bytes, bool, np.bool_)) for key in spec):
        low, high = map(str, spec)
        raise ValueError(
            f"expected column {name!r} as a range, the tuple ({low}, {high}), or as categories, "
            f"the texts [{low!r}, {high!r}], got a list of two numbers or dates"
        )
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"expected categories that differ in column {name!r}, got {twice!r} twice")
    return keys


def _checked_pair(pair: Any, names: tuple[str, ...]) -> tuple[str, str]:
    is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
    if not is_pair or pair[0] == pair[1] or not all(name in names for name in pair):
        raise ValueError(f"expected interactions of two columns that are named, got {pair!r}")
    return pair[0], pair[1]


def _told_apart(numbers: Any) -> list[str]:
    """Numbers in as few digits, but six, as tell each from those beside it; whole ones in all."""
    if all(float(number).is_integer() for number in numbers):
        return [f"{number:.0f}" for number in numbers]
    texts: list[str] = []
    for digits in range(6, 18):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def _are_counted(names: Any) -> bool:
    """Whether they stand for places: the numbers from 0."""
    return list(names) == [str(place) for place in range(len(names))]


def _keys(name: str, cells: Any) -> Sequence[_Key] | Float[np.ndarray, " n"]:
    """What each cell of a column is known by, found from that cell alone."""
    dtype = getattr(cells, "dtype", None)
    # Each number becomes what `_key` makes of it.
    if isinstance(dtype, np.dtype) and not np.ma.isMaskedArray(cells) and _is_real(dtype):
        with np.errstate(over="ignore"):
            return np.asarray(cells).astype(np.float64)
    try:
        return [_key(cell) for cell in cells]
    except (TypeError, ValueError):
        # Raised outside the handler, whose error may show a cell.
        pass
    raise TypeError(f"expected texts, dates or numbers in column {name!r}, got other things")


def _is_real(dtype: np.dtype) -> bool:
    return dtype.kind in "biu" or jnp.issubdtype(dtype, jnp.floating)


def _key(cell: Any) -> _Key:
    if isinstance(cell, bytes):
        cell = cell.decode(errors="backslashreplace")
    if isinstance(cell, str):
        return _text_key(str(cell))
    # Of pandas: NA and NaT, of which the one can't be compared and the other is a date.
    is_nothing = cell is None or cell is np.ma.masked
    if is_nothing or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (datetime.date, np.datetime64)):
        return _date_key(cell)
    # NumPy's spans of time pass for whole numbers.
    is_number = isinstance(cell, (numbers.Real, Decimal, np.bool_))
    number: Any = cell
    if not is_number or isinstance(cell, np.timedelta64):
        raise TypeError
    if isinstance(cell, Decimal) and cell.is_nan():
        return None
    try:
        number = float(number)
    except OverflowError:
        number = math.inf if number > 0 else -math.inf
    return None if math.isnan(number) else number


def _text_key(text: str) -> _Key:
    """The number, date, true or false that a text is: a file's reader may leave it as a text."""
    if not text.strip():
        return None
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        number = float(text)
        return None if math.isnan(number) else number
    except ValueError:
        pass
    try:
        return _date_key(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return text


def _date_key(when: Any) -> str | None:
    """A moment in ISO 8601 to the microsecond, without a time at midnight."""
    is_aware = getattr(when, "tzinfo", None) is not None
    if is_aware:
        when = when.astimezone(datetime.UTC).replace(tzinfo=None)
    text = str(np.datetime64(when, "us"))
    if text == "NaT":
        return None
    return text.removesuffix(".000000").removesuffix("T00:00:00") + ("Z" if is_aware else "")


def _numbers(keys: Any) -> Float[np.ndarray, " n"]:
    """Places on an axis: dates are days since 1970; ValueError of a text that is no date."""
    if isinstance(keys, np.ndarray):
        return keys
    days = [_days(key) if isinstance(key, str) else key for key in keys]
    # None is NaN.
    return np.array(days, np.float64)


def _days(text: str) -> float:
    # Their time zone is UTC where they have one (`_date_key`).
    return (datetime.datetime.fromisoformat(text.removesuffix("Z")) - _EPOCH) / _DAY


def _places(name: str, keys: Any, spec: _Spec) -> tuple[np.ndarray, np.ndarray]:
    """Places in a range, and which are beyond it."""
    low, high = spec
    try:
        cells = _numbers(keys)
    except ValueError:
        cells = None
    if cells is None:
        # Outside the handler, whose error shows a cell.
        raise TypeError(
            f"expected numbers in column {name!r}, got text: give its categories, or make it "
            'numbers, as pandas.to_numeric(column, errors="coerce") does, after which text counts '
            "as missing"
        )
    places = (np.clip(cells, low, high) - low) / (high - low)
    return np.where(np.isnan(cells), _MISSING, places), (cells < low) | (cells > high)


def _category_numbers(name: str, keys: Any, spec: _Spec) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of categories: from 0, then one for all that are not listed, and one for none."""
    del name
    places = {key: place for place, key in enumerate(spec)}
    missing = len(spec) + 1
    found = [missing if key is None or key != key else places.get(key, len(spec)) for key in keys]
    codes = np.array(found, np.float64)
    return codes, codes == len(spec)
