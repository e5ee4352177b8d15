"""Public ranges and categories of a table's columns, and bounded features made of them.

Descriptions are known without the data. A row's features depend on that row alone.
"""

import datetime
import functools
import itertools
import math
import numbers
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count, require_kind
from jaxdp.core.display import in_full
from jaxdp.kernels.base import AbstractFeatureMap, as_rows

_MISSING = -1.0  # code of a missing number; others are between 0 and 1
_NARROWEST, _WIDEST = 1e-30, 1e30  # widths by which float32 can divide
# Ends of a range of numbers; or, as texts, ends of a range of dates, or categories.
_Spec = tuple[float, float] | tuple[str, ...]
_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
_PER_DAY = {"D": 1.0, "h": 24.0, "m": 1440.0}
_PER_DAY |= {f"{unit}s": 86400 * 1000.0**i for i, unit in enumerate(["", *"munpfa"])}
# Numbers as Python, NumPy, R and spreadsheets write them; 007, 12e5 and 1_0 are codes.
_NUMERAL = re.compile(r"-?(0|[1-9][0-9]*|(?=\.))(\.[0-9]+)?([eE][+-][0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?|[0-9]{8}(T.+)?")
_MISSING_TEXTS = ("", "nan", "NaN", "NaT")  # as NumPy, pandas and JavaScript write them
_NO_NUMBERS = (
    "expected numbers in column {!r}, got text: give its categories, or make it numbers, as "
    'pandas.to_numeric(column, errors="coerce") does, after which text counts as missing'
)
_NO_DATES = (
    "expected dates in column {!r}, whose range is of dates, such as 2024-01-31 or 20240131, got "
    "text or other numbers: make them dates, as pandas.to_datetime does with unit='s' of seconds "
    "since 1970, unit='ns' of nanoseconds, and unit='D', origin='1899-12-30' of a spreadsheet's "
    "day numbers"
)


class CodedTable(NamedTuple):
    """The codes of a table, and which of its cells are beyond the public ranges or categories."""

    codes: Float[np.ndarray, "n columns"]
    is_beyond: Bool[np.ndarray, "n columns"]


class _Column(NamedTuple):
    """The public description of one column."""

    name: str
    spec: _Spec
    is_number: bool
    is_complete: bool

    @property
    def missing(self) -> float:
        """The code of a missing cell."""
        return _MISSING if self.is_number else len(self.spec) + 1


class Columns(eqx.Module):
    """Public knowledge of a table's columns: ranges of numbers or dates, categories of texts.

    A value beyond its range counts as the nearer end. All unlisted categories share one place;
    missing values have another. A cell means the same whatever the other cells and the type of its
    column:

    - true and false are 1 and 0; None, NaN, NaT, NA, a masked cell and an empty text are missing.
    - A date is an object or a text in ISO 8601. In a range of numbers it is the days since
      1970-01-01, in UTC if it has a time zone. A range of dates takes 20240131, but no other
      number.
    - A category written like a number (7, 7.0, -0.5, 1e-05) is that number, to every digit, the
      same in single and double precision. 007, 1_0, 12e5 and Inf are texts; 007 and 12e5 are
      numbers in a range.

    Args:
        columns: for each column by name a tuple (low, high) of numbers or dates, or a list of
            categories: (0, 1) is a range, ["0", "1"] are categories. A list of two numbers is
            refused.
        bins: number of knots of each range in additive models, equally spaced from end to end.
        interactions: pairs of names; additive models have a part for each pair of their knots or
            categories.
        complete: names of columns without missing values and without unlisted categories. Nothing
            is learnt for such cells; one that occurs all the same adds nothing, with a warning.

    Raises:
        ValueError, TypeError: a description is not as above, a category is listed twice or is a
            missing value, a range is not 1e-30 to 1e30 wide, or a name is not a column's.

    Example:
        >>> from jaxdp.regression import Columns
        >>> columns = Columns({"age": (17, 90), "sex": ["female", "male"]}, bins=8)
        >>> columns.names, columns.sizes
        (('age', 'sex'), (9, 4))
        >>> Columns({"age": (17, 90), "sex": ["female", "male"]}, complete=["sex"]).sizes
        (17, 2)
    """

    names: tuple[str, ...] = eqx.field(static=True)
    specs: tuple[_Spec, ...] = eqx.field(static=True)
    is_number: tuple[bool, ...] = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    interactions: tuple[tuple[str, str], ...] = eqx.field(static=True)
    complete: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        bins: int = 16,
        interactions: Sequence[tuple[str, str]] = (),
        complete: Sequence[str] = (),
    ):
        expected = 'a dictionary, such as {"age": (17, 90), "sex": ["female", "male"]}'
        require_kind("columns", columns, Mapping, expected)
        if not columns:
            raise ValueError(f"expected columns to be {expected}, got none")
        self.names = tuple(columns)
        self.is_number = tuple(isinstance(spec, tuple) for spec in columns.values())
        self.specs = tuple(_checked(name, spec) for name, spec in columns.items())
        self.bins = require_count("bins", bins, least=2)
        expected = "a list of pairs of names"
        require_kind("interactions", interactions, (list, tuple), expected)
        self.interactions = tuple(_checked_pair(pair, self.names) for pair in interactions)
        require_kind("complete", complete, (list, tuple), "a list of names of columns")
        foreign = [name for name in complete if name not in self.names]
        if foreign:
            raise ValueError(f"expected complete to name columns, got {foreign[0]!r}")
        self.complete = tuple(complete)

    def __repr__(self):
        # One line with the first columns, which scikit-learn prints within an estimator.
        known = zip(self.names[:4], self.specs, self.is_number, strict=False)
        texts = [f"{a!r}: {reprlib.repr(b if is_pair else [*b])}" for a, b, is_pair in known]
        shown = ", ".join(texts + ["..."] * (len(self.names) > 4))
        more = f", interactions={self.interactions}" if self.interactions else ""
        more += f", complete={self.complete}" if self.complete else ""
        return f"Columns({{{shown}}}, bins={self.bins}{more})"

    @property
    def _described(self) -> list[_Column]:
        known = zip(self.names, self.specs, self.is_number, strict=True)
        return [_Column(*column, is_complete=column[0] in self.complete) for column in known]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of knots or categories of each column, with any unlisted and missing ones."""
        return tuple(
            (self.bins if each.is_number else len(each.spec))
            + (0 if each.is_complete else 2 - each.is_number)
            for each in self._described
        )

    @property
    def is_date(self) -> tuple[bool, ...]:
        """Whether each column has a range of dates."""
        return tuple(each.is_number and isinstance(each.spec[0], str) for each in self._described)

    @property
    def in_words(self) -> tuple[str, ...]:
        """Each column's range or categories, with all digits."""
        marks = [" to " if each.is_number else ", " for each in self._described]
        return tuple(mark.join(_texts(spec)) for mark, spec in zip(marks, self.specs, strict=True))

    def knots(self, place: int) -> np.ndarray:
        """The knots of a range, as numbers or moments."""
        knots = np.linspace(*_ends(self.specs[place]), self.bins)
        if not self.is_date[place]:
            return knots
        return np.round(knots * _PER_DAY["ms"]).astype("datetime64[ms]")

    def codes(self, table: Any) -> Float[Any, "n columns"]:
        """Convert a table to numbers: places in ranges, from 0 to 1, and numbers of categories.

        Args:
            table: data frame with these columns, among others; or rows, or a frame with columns
                named from 0, in the order of these columns. Traced rows have numeric cells, and
                days since 1970 for dates. A table from `read` is already converted.

        Raises:
            ValueError, TypeError: a column is missing or appears twice, or a cell is of the wrong
                kind; the message does not show it.
        """
        if isinstance(table, Tracer):
            return self._traced_codes(as_rows("inputs", table, len(self.names)))
        return self.read(table).codes

    def read(self, table: Any) -> CodedTable:
        """The codes of a table, and which of its cells are beyond the public description."""
        if isinstance(table, CodedTable):
            return table
        coded = [
            (_places if each.is_number else _category_numbers)(each.name, cells, each.spec)
            for each, cells in zip(self._described, self._cells_of(table), strict=True)
        ]
        codes, beyond = (np.stack(part, axis=1) for part in zip(*coded, strict=True))
        # Codes of missing cells that have no feature; NaN is none.
        missing = [each.missing if each.is_complete else math.nan for each in self._described]
        return CodedTable(codes, beyond | (codes == missing))

    def _cells_of(self, table: Any) -> list[Any]:
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
            rows = np.asarray(None)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            came = f"shape {rows.shape} of a {type(table).__name__}"
            if rows.ndim == 1 and len(rows) and isinstance(rows[0], Mapping):
                came = "a list of dictionaries: pandas.DataFrame(rows) makes a table of them"
            raise ValueError(
                f"expected a data frame or rows of {len(self.names)} columns, got {came}"
            )
        return [rows[:, place] for place in range(len(self.names))]

    def _traced_codes(self, rows: Float[Array, "n columns"]) -> Float[Array, "n columns"]:
        coded = []
        for each, cells in zip(self._described, rows.T, strict=True):
            if each.is_number:
                low, high = _ends(each.spec)
                code = jnp.clip((cells - low) / (high - low), 0, 1)
            else:
                is_numeral = [_NUMERAL.fullmatch(str(key)) for key in each.spec]
                pairs = zip(each.spec, is_numeral, strict=True)
                keys = jnp.array([float(key) if found else math.nan for key, found in pairs])
                is_key = jnp.pad(cells[:, None] == keys, ((0, 0), (0, 1)), constant_values=True)
                code = is_key.argmax(axis=1).astype(rows.dtype)
            coded.append(jnp.where(jnp.isnan(cells), each.missing, code))
        return jnp.stack(coded, axis=1)


class ColumnFeatures(AbstractFeatureMap):
    """Features of a table's columns, with bounded norm.

    A category has a feature that is 1 for its rows. A number is its place in the range, from -1 to
    1. In an additive model it has a hat for each knot of the range: 1 at the knot, 0 from the next
    ones on, and linear between, so that their sums are piecewise linear curves. Interactions have a
    product for each pair of such features. Missing values have a feature, unless the column is
    complete. Every column and interaction adds at most 1 to $|z|^2$. Inputs are the codes of a
    table.

    Args:
        columns: description of the table's columns.
        is_additive: whether numbers have hats.

    Example:
        >>> import numpy as np
        >>> from jaxdp.regression import ColumnFeatures, Columns
        >>> columns = Columns({"age": (0, 10)}, bins=3)
        >>> ColumnFeatures(columns, is_additive=True)(columns.codes([[7.5]])).tolist()
        [[0.0, 0.5, 0.5, 0.0]]
        >>> ColumnFeatures(columns, is_additive=True).names
        ('age at 0', 'age at 5', 'age at 10', 'age is missing')
    """

    columns: Columns
    is_additive: bool = eqx.field(static=True, converter=plain_number)

    def __call__(self, inputs):
        codes = as_rows("inputs", inputs, self.dim)
        owner, slope, centre, is_line = self._shapes
        # One gather for all columns: a program unrolled over columns takes minutes to compile.
        own = codes[:, owner]
        found = jnp.maximum(0, 1 - jnp.abs(own * slope - centre))
        found = jnp.where(is_line, jnp.where(own < 0, 0, 2 * jnp.clip(own, 0, 1) - 1), found)
        first, second, _ = self._products
        found = jnp.concatenate([found, found[:, first] * found[:, second]], axis=1)
        return found.astype(codes.dtype)

    @property
    def _shapes(self) -> tuple[np.ndarray, ...]:
        """Column, slope and centre of each feature max(0, 1 - |slope code - centre|) of one column.

        The last array says which features are the place in the range instead.
        """
        bins, cells = self.columns.bins, []
        for place, column in enumerate(self.columns._described):
            if not column.is_number:
                num_kinds = len(column.spec) + (not column.is_complete)
                own = [(1, number, False) for number in range(num_kinds)]
            elif self.is_additive:
                own = [(bins - 1, knot, False) for knot in range(bins)]
            else:
                own = [(1, 0, True)]
            own += [(1, column.missing, False)] * (not column.is_complete)
            cells += [(place, *cell) for cell in own]
        return tuple(np.array(part) for part in zip(*cells, strict=True))

    @property
    def _products(self) -> tuple[np.ndarray, ...]:
        """Both cells of each feature of an interaction, and the interaction, by index."""
        starts = itertools.pairwise(np.cumsum([0, *self.columns.sizes]))
        own = dict(zip(self.columns.names, itertools.starmap(range, starts), strict=True))
        found = [
            (*cells, which)
            for which, (one, two) in enumerate(self._interactions)
            for cells in itertools.product(own[one], own[two])
        ]
        return tuple(np.array(found, int).reshape(-1, 3).T)

    @property
    def _interactions(self) -> tuple[tuple[str, str], ...]:
        return self.columns.interactions if self.is_additive else ()

    @property
    def owner(self) -> np.ndarray:
        """The column of each feature of one column, by index."""
        return self._shapes[0]

    @property
    def is_line(self) -> np.ndarray:
        """Whether each feature of one column is the place in a range."""
        return self._shapes[3]

    @property
    def sums(self) -> list[tuple[np.ndarray, int]]:
        """Features of interactions, by index, that sum to a feature of one column, and this one."""
        *ends, which = self._products
        return [
            (np.flatnonzero((which == pair) & (end == cell)) + len(self.owner), int(cell))
            for pair in range(len(self._interactions))
            for end in ends
            for cell in np.unique(end[which == pair])
        ]

    def metric(self, bend: float) -> np.ndarray:
        """A matrix M of squared lengths z' M z, in which hats count little beside a line.

        A row's number counts by its place in the range, from -1 to 1, and by its hats with the
        length `bend`; so do products. Other features have length one.
        """
        owner, places = self.owner, self.places
        lengths = np.full(self.num_outputs, bend)
        lengths[: len(owner)][np.isnan(places)] = 1.0
        found = np.diag(lengths**2)
        line = np.nan_to_num(places)
        found[: len(owner), : len(owner)] += (owner[:, None] == owner) * np.outer(line, line)
        return found

    @property
    def places(self) -> np.ndarray:
        """The place of each hat's knot in its range, from -1 to 1; NaN for other features."""
        owner, slope, centre, is_line = self._shapes
        is_hat = np.array(self.columns.is_number)[owner] & ~is_line & (centre >= 0)
        return np.where(is_hat, 2 * centre / slope - 1, np.nan)

    @property
    def groups(self) -> tuple[np.ndarray, ...]:
        """The features, by index, of each column whose features sum to 1 at every row."""
        owner, _, _, is_line = self._shapes
        return tuple(
            np.flatnonzero(owner == at) for at in range(self.dim) if at not in owner[is_line]
        )

    @property
    def reader(self):
        return self.columns

    @property
    def dim(self):
        return len(self.columns.names)

    @property
    def num_outputs(self):
        return len(self.owner) + len(self._products[0])

    @property
    def names(self) -> tuple[str, ...]:
        """A description of each feature, in words."""
        parts = {}
        for place, (name, spec, is_number, is_complete) in enumerate(self.columns._described):
            hidden = [] if is_complete else ["missing"]
            if not is_number:
                own = [f"{name} is {key}" for key in (*spec, *["not listed" for _ in hidden])]
            elif self.is_additive:
                own = [f"{name} at {knot}" for knot in _told_apart(self.columns.knots(place))]
            else:
                own = ["{}, -1 at {} and 1 at {}".format(name, *_texts(spec))]
            parts[name] = own + [f"{name} is {kind}" for kind in hidden]
        pairs = self._interactions
        both = ([f"{a}, {b}" for a in parts[one] for b in parts[two]] for one, two in pairs)
        return tuple(itertools.chain(*parts.values(), *both))

    @property
    def norm_bound(self):
        return math.sqrt(self.dim + len(self._interactions))


def _checked(name: str, spec: Any) -> _Spec:
    """The description of one column: a pair of numbers, or categories."""
    if not isinstance(name, str):
        raise TypeError(
            f"expected names of columns as texts, got {name!r}: {str(name)!r} is read from a "
            "table's column of either name"
        )
    if isinstance(spec, tuple):
        try:
            ends: Any = _dates_or_numbers(spec)
            low, high = _ends(ends)
        except (TypeError, ValueError):
            came = f"{spec}: two numbers or two dates are a range, and a list is categories"
            raise TypeError(f"expected column {name!r} as (low, high), got {came}") from None
        came = f"({ends[0]}, {ends[1]})"
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"expected column {name!r} with low < high, both finite, got {came}")
        if not (_NARROWEST <= high - low <= _WIDEST and max(-low, high) <= _WIDEST):
            raise ValueError(
                f"expected column {name!r} with a width from {_NARROWEST} to {_WIDEST} and no end "
                f"beyond {_WIDEST}, got {came}"
            )
        return ends
    if not isinstance(spec, list) or not spec:
        # Not shown: an array may come from the table, by `numpy.unique`.
        came = "no category" if isinstance(spec, list) else f"a {type(spec).__name__}"
        raise TypeError(
            f"expected column {name!r} as a tuple (low, high) or a list of categories, both public "
            f"and not read off the table, got {came}"
        )
    keys = tuple(_read_each(name, spec, _key))
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


def _dates_or_numbers(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """The ends of a range as numbers, or as texts of dates; TypeError for one of each."""
    are_dates = [_is_date(end) for end in spec]
    if not any(are_dates):
        return tuple(map(_number, spec))
    if not all(are_dates):
        raise TypeError
    return tuple(map(_date_text, spec))


def _ends(spec: Any) -> tuple[float, float]:
    """Both ends of a range as numbers, in days since 1970 for dates."""
    low, high = spec
    if isinstance(low, str):
        moments = [np.datetime64(end.removesuffix("Z")) for end in spec]
        low, high = (float(_days(moment)) for moment in moments)
    return low, high


def _texts(spec: _Spec) -> list[str]:
    return [part if isinstance(part, str) else in_full(part) for part in spec]


def _told_apart(ends: np.ndarray) -> list[str]:
    """Numbers with as few digits, at least six, as make neighbours differ; whole ones in full."""
    if ends.dtype.kind == "M":
        return [_date_text(end) for end in ends]
    if all(float(number).is_integer() for number in ends):
        return [f"{number:.0f}" for number in ends]
    texts: list[str] = []
    for digits in range(6, 18):
        texts = [f"{number:.{digits}g}" for number in ends]
        if len(set(texts)) == len(texts):
            break
    return texts


def _are_counted(names: Any) -> bool:
    return list(names) == [str(place) for place in range(len(names))]


def _read_each(name: str, cells: Any, read: Callable[[Any], Any], advice: str = "") -> Any:
    """Values of a function at cells, each from its cell alone, or TypeError without a cell."""
    is_array = isinstance(getattr(cells, "dtype", None), np.dtype)
    array = np.asarray(cells) if is_array and not np.ma.isMaskedArray(cells) else np.array(None)
    is_real = array.dtype.kind in "biu" or jnp.issubdtype(array.dtype, jnp.floating)
    is_moment = array.dtype.kind == "M"
    if is_real and read is _number:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if is_moment and read is not _key:
        return _days(array)
    message = f"expected texts, dates or numbers in column {name!r}, got other things"
    try:
        if is_real or is_moment:
            # Categories are few. A number of a type outside NumPy is not a Python number.
            array = array if array.dtype.kind in "biufM" else array.astype(np.float32)
            values, places = np.unique(array, return_inverse=True)
            return np.array([read(value) for value in values], object)[places]
        read_text = functools.cache(read)
        return [read_text(cell) if type(cell) is str else read(cell) for cell in cells]
    except TypeError:
        pass
    except ValueError:
        message = advice.format(name) or message
    # Outside the handler: its error may show a cell.
    raise TypeError(message)


def _present(cell: Any) -> Any:
    """A cell, bytes as text; None if it is missing."""
    if isinstance(cell, bytes):
        cell = cell.decode(errors="backslashreplace")
    if isinstance(cell, str):
        return None if cell.strip() in _MISSING_TEXTS else str(cell)
    # By name: pandas' NA cannot be compared, and its NaT is a date.
    is_nothing = cell is None or cell is np.ma.masked
    if is_nothing or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else cell
    if isinstance(cell, Decimal):
        return None if cell.is_nan() else cell
    return None if isinstance(cell, (float, np.floating)) and math.isnan(cell) else cell


def _key(cell: Any) -> str | None:
    """A category: a number in all its digits, a date in ISO 8601, or a text; None if missing."""
    cell = _present(cell)
    if not isinstance(cell, str):
        if cell is None:
            return None
        return _date_text(cell) if _is_date(cell) else _digits(cell)
    if cell.lower() in ("true", "false"):
        return str(int(cell.lower() == "true"))
    bare = cell.strip()
    if _NUMERAL.fullmatch(bare):
        return _digits(Decimal(bare))
    return _date_text(bare) if _is_date(bare) else cell


def _digits(number: Any) -> str:
    """A number in all its digits (in its own precision), the same text for equal numbers."""
    # NumPy's time spans count as integers.
    is_number = isinstance(number, (numbers.Real, Decimal, np.bool_))
    if not is_number or isinstance(number, np.timedelta64):
        raise TypeError
    if isinstance(number, (numbers.Integral, np.bool_)):
        number = Decimal(int(number))
    elif not isinstance(number, Decimal):
        number = Decimal(_shortest(_float(number)))
    if not number.is_finite():
        return str(float(number))
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _shortest(number: float) -> str:
    if number.is_integer():
        return f"{number:.0f}"
    # More than 15 digits are those of a rounded number.
    if math.isfinite(number) and float(f"{number:.15g}") != number:
        single = np.float32(number)
        return str(single) if float(single) == number else repr(number)
    return repr(number)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number(cell: Any) -> float:
    """A cell of a range of numbers, NaN if missing; ValueError for other texts."""
    cell = _present(cell)
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        if cell.lower() in ("true", "false"):
            return float(cell.lower() == "true")
        # Only Python reads digits of all scripts, and 1_0, as numbers.
        if not cell.isascii() or "_" in cell:
            raise ValueError
        try:
            return float(cell)
        except ValueError:
            return _day(cell)
    if _is_date(cell):
        return _day(cell)
    _digits(cell)
    return _float(cell)


def _day(cell: Any) -> float:
    """The days since 1970 of a cell in a range of dates, NaN if missing; or ValueError."""
    cell = _present(cell)
    if cell is None:
        return math.nan
    if not isinstance(cell, str):
        cell = cell if _is_date(cell) else _digits(cell)
    elif _NUMERAL.fullmatch(cell.strip()):
        cell = _digits(Decimal(cell.strip()))
    return float(_days(_moment(cell)))


def _is_date(cell: Any) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, (datetime.date, np.datetime64))
    try:
        _read_date(cell)
    except ValueError:
        return False
    return True


def _read_date(text: str) -> datetime.datetime:
    if not _DATE.fullmatch(text.strip()):
        raise ValueError
    return datetime.datetime.fromisoformat(text.strip())


def _moment(when: Any) -> np.datetime64:
    """A date of Python, NumPy or pandas, or its text, in UTC if it has a time zone."""
    when = _read_date(when) if isinstance(when, str) else when
    # pandas' moments reach beyond Python's years.
    when = getattr(when, "asm8", when)
    if isinstance(when, datetime.datetime):
        # A time span: in UTC the year may be 0 or 10000.
        since = when.replace(tzinfo=None) - _EPOCH - (when.utcoffset() or datetime.timedelta())
        return np.datetime64(since // _MICROSECOND, "us")
    return np.datetime64(when)


def _date_text(when: Any) -> str:
    """A moment in ISO 8601 to the microsecond, without the time at midnight."""
    when = _read_date(when) if isinstance(when, str) else when
    moment = _moment(when)
    # NumPy's microseconds overflow silently after 292,000 years.
    text = str(moment.astype("datetime64[us]") if abs(_days(moment)) < 1e8 else moment)
    text = text.removesuffix(".000000").removesuffix("T00:00:00")
    return text + "Z" * (getattr(when, "tzinfo", None) is not None)


def _days(moments: Any) -> Float[np.ndarray, "..."]:
    """Days since 1970 of NumPy's moments in any unit; NaN for NaT."""
    moments = np.asarray(moments)
    unit, count = np.datetime_data(moments.dtype)
    if unit not in _PER_DAY:
        # Years, months and weeks, which overflow silently beyond.
        limits = np.array([-(10**12), 10**12]).astype(moments.dtype)
        moments, unit, count = moments.clip(*limits).astype("datetime64[D]"), "D", 1
    days = moments.astype(np.int64).astype(np.float64) * count / _PER_DAY[unit]
    return np.where(np.isnat(moments), np.nan, days)


def _places(name: str, cells: Any, spec: _Spec) -> tuple[np.ndarray, np.ndarray]:
    """Places in a range, and which cells are beyond it."""
    low, high = _ends(spec)
    read, advice = (_day, _NO_DATES) if isinstance(spec[0], str) else (_number, _NO_NUMBERS)
    values = np.asarray(_read_each(name, cells, read, advice), np.float64)
    places = (np.clip(values, low, high) - low) / (high - low)
    return np.where(np.isnan(values), _MISSING, places), (values < low) | (values > high)


def _category_numbers(name: str, cells: Any, spec: _Spec) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of categories from 0, then one for unlisted and one for missing values."""
    places: dict[Any, int] = {key: place for place, key in enumerate(spec)}
    places[None] = len(spec) + 1
    codes = np.array(
        [places.get(key, len(spec)) for key in _read_each(name, cells, _key)], np.float64
    )
    return codes, codes == len(spec)
