"""Public ranges and categories of a table's columns, and bounded features made of them.

Whatever is said of a column is known without the data: a range from what is measured, categories
from the form that was filled in. A row's features depend on that row alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count, require_kind
from jaxdp.core.description import AbstractDescription
from jaxdp.kernels.base import AbstractFeatureMap, as_rows

# What stands for a number that is missing; others are between 0 and 1.
_MISSING = -1.0
_Spec = tuple[float, float] | tuple[Any, ...]


class Columns(AbstractDescription):
    """What is publicly known of a table's columns: the range of a number, the categories of a text.

    A value beyond its range counts as the nearer end. A category that is not listed has one place,
    with all others that are not, and a missing value has one of its own.

    Args:
        columns: for each column by name a pair (low, high) of numbers, or a list of categories.
        bins: of each number, evenly over its range, for additive models.
        interactions: pairs of names: additive models have a part for each pair of their bins.

    Raises:
        ValueError: there is no column, a range is empty, categories stand twice, or an interaction
            names no two columns.
        TypeError: a column is described by something else.

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
        self.interactions = tuple((first, second) for first, second in interactions)
        for pair in self.interactions:
            if pair[0] == pair[1] or not {*pair} <= {*self.names}:
                raise ValueError(f"expected interactions of two columns that are named, got {pair}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins or categories a column has, those of what is not listed or missing too."""
        pairs = zip(self.specs, self.is_number, strict=True)
        return tuple(self.bins + 1 if number else len(spec) + 2 for spec, number in pairs)

    def codes(self, table: Any) -> Float[np.ndarray, "n columns"]:
        """The table in numbers: places in ranges from 0 to 1, and numbers of categories.

        Args:
            table: a data frame with these columns, among others; or rows in their order.

        Raises:
            ValueError: a column is missing, or there are more or fewer than these.
            TypeError: a column of numbers holds something else; its cells are not shown.
        """
        names = getattr(table, "columns", None)
        if names is not None:
            missing = [name for name in self.names if name not in list(names)]
            if missing:
                raise ValueError(
                    f"expected a table with the columns {self.names}, got none called {missing}"
                )
            found = [table[name] for name in self.names]
        else:
            rows = np.asarray(table, dtype=None if hasattr(table, "dtype") else object)
            if rows.ndim != 2 or rows.shape[1] != len(self.names):
                raise ValueError(
                    f"expected rows of {len(self.names)} columns, got shape {rows.shape}"
                )
            found = list(rows.T)
        coded = [
            _places(name, values, spec) if number else _category_numbers(values, spec)
            for name, values, spec, number in zip(
                self.names, found, self.specs, self.is_number, strict=True
            )
        ]
        return np.stack(coded, axis=1)


class ColumnFeatures(AbstractFeatureMap):
    r"""Features of the columns of a table, whose norm is at most a constant.

    A category has a feature of its own, which is 1 where it stands. A number is its place in the
    range, from -1 to 1, with a feature for being missing; or, in an additive model, has a feature
    for each of its bins. So does each pair of bins of two columns that interact. Every column and
    every interaction adds at most 1 to $|z|^2$, and exactly 1 in an additive model.

    Args:
        columns: of the table.
        is_additive: whether numbers are in bins.

    Example:
        >>> import numpy as np
        >>> from jaxdp.regression import ColumnFeatures, Columns
        >>> columns = Columns({"age": (0, 10)}, bins=2)
        >>> ColumnFeatures(columns, is_additive=True)(columns.codes([[7.0]])).tolist()
        [[0.0, 1.0, 0.0]]
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
                parts.append(
                    jnp.stack([jnp.where(is_missing, 0, 2 * code - 1), is_missing], axis=1)
                )
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
    def norm_bound(self):
        pairs = len(self.columns.interactions) if self.is_additive else 0
        return math.sqrt(self.dim + pairs)


def _checked(name: str, spec: Any) -> _Spec:
    """The description of one column: a pair of numbers, or categories."""
    if not isinstance(name, str):
        raise TypeError(f"expected names of columns as texts, got {name!r}")
    if isinstance(spec, tuple):
        numbers = [isinstance(end, (int, float, np.number)) for end in spec]
        if len(spec) != 2 or not all(numbers):
            raise TypeError(f"expected column {name!r} as (low, high), two numbers, got {spec}")
        low, high = map(float, spec)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"expected column {name!r} with low < high, both finite, got {spec}")
        return low, high
    if not isinstance(spec, list) or not spec:
        raise TypeError(
            f"expected column {name!r} as a pair (low, high) or a list of categories, got {spec!r}"
        )
    keys = tuple(map(_key, spec))
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"expected categories that differ in column {name!r}, got {twice!r} twice")
    return keys


def _key(value: Any) -> Any:
    """What a category is known by: a text, or a number."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return float(value)
    return str(value)


def _is_missing(value: Any) -> bool:
    # Of pandas: NA, which can't be compared, and NaT.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _places(name: str, values: Any, spec: _Spec) -> Float[np.ndarray, " n"]:
    low, high = spec
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        cells = array.astype(object).tolist()
        if any(not _is_missing(cell) and isinstance(cell, (str, bytes)) for cell in cells):
            raise TypeError(f"expected numbers in column {name!r}, got text: give its categories")
        try:
            array = np.array([math.nan if _is_missing(cell) else float(cell) for cell in cells])
        except (TypeError, ValueError):
            raise TypeError(f"expected numbers in column {name!r}, got other things") from None
    numbers = array.astype(np.float64)
    # Halved first, so that no range overflows.
    places = (np.clip(numbers, low, high) / 2 - low / 2) / (high / 2 - low / 2)
    return np.where(np.isnan(numbers), _MISSING, places)


def _category_numbers(values: Any, spec: _Spec) -> Float[np.ndarray, " n"]:
    """Numbers of categories: from 0, then one for all that are not listed, and one for none."""
    numbers = {key: place for place, key in enumerate(spec)}
    cells = np.asarray(values).astype(object).tolist()
    missing = len(spec) + 1
    return np.array(
        [missing if _is_missing(cell) else numbers.get(_key(cell), len(spec)) for cell in cells],
        np.float64,
    )
