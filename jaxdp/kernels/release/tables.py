"""Users' tables as finite real numbers on the host; errors name columns but show no cell."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import given_array, require_finite, require_kind, require_shape
from jaxdp.core.terminals import printable
from jaxdp.kernels.evaluation import ROWS

_LEAST_RECORDS = 2


def training_table(
    inputs: Any, labels: Any
) -> tuple[Float[np.ndarray, "n dim"], Float[np.ndarray, " n"]]:
    table, targets = real_array("inputs", inputs), real_array("labels", labels)
    if table.ndim != 2:
        raise ValueError(
            f"expected inputs of shape (records, columns), got {table.shape}; "
            "inputs.reshape(-1, 1) makes one column"
        )
    require_shape("labels", targets, (None,))
    if len(table) != len(targets):
        raise ValueError(f"expected one label for each of {len(table)} rows, got {len(targets)}")
    if len(table) < _LEAST_RECORDS or table.shape[1] < 1:
        raise ValueError(
            f"expected at least {_LEAST_RECORDS} records of at least one number, "
            f"got {table.shape[0]} of {table.shape[1]}"
        )
    require_finite("labels", targets)
    check_magnitudes(table)
    return table, targets.astype(np.float64)


def check_magnitudes(table: Float[Any, "n dim"]) -> None:
    """Raise ValueError unless all inputs are finite in the precision of the features."""
    dtype = jnp.asarray(table[:0]).dtype
    largest = float(jnp.finfo(dtype).max) if jnp.issubdtype(dtype, jnp.floating) else math.inf
    # A block at a time: a boolean as large as the table would be all the memory a fit needs.
    for start in range(0, len(table), ROWS):
        block = np.asarray(table[start : start + ROWS])
        require_finite("inputs", block)
        if np.abs(block).max(initial=0) > largest:
            raise ValueError(f"expected inputs of magnitude at most {largest:.3g}")


def real_array(name: str, value: Any) -> Float[np.ndarray, "*shape"]:
    """Real numbers on the host: float32 and float64 unchanged, other types in float64."""
    array = given_array(name, value)
    if array.dtype in (np.float32, np.float64):
        return array
    # Text is refused even if it could be read as a number.
    column = _first_column(value, _is_text)
    if column is not None:
        raise TypeError(
            f"expected {name} of real numbers, got text in column {column!r}: leave it out, or "
            "write its categories, which must be public, as numbers; DPLinearRegression and "
            "DPLogisticRegression read it where columns=jaxdp.regression.Columns(...) lists them"
        )
    if num_axes(value) != 2 and _has(np.asarray(value), _is_text):
        raise TypeError(f"expected {name} of real numbers, got text")
    # Half precisions and objects that are numbers are widened too.
    is_number = jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "biuO"
    try:
        if is_number:
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    column = _first_column(value, _is_no_number)
    # pandas' own missing cells are visible only in a whole frame: in a column they are NaN.
    other = "missing values or other things" if array.dtype == object else f"a {array.dtype}"
    came = other if column is None else f"other things in column {column!r}"
    raise TypeError(
        f"expected {name} of real numbers, got {came}: the argument must be free of strings and of "
        "all else that is no number"
    )


def num_axes(value: Any) -> int:
    """The number of axes; `numpy.ndim` fails for some tables."""
    return value.ndim if hasattr(value, "ndim") else np.asarray(value).ndim


def _first_column(value: Any, is_foreign: Any) -> Any:
    """The name or number of the first column of a table with such a cell, or None."""
    names = getattr(value, "columns", None)
    if names is not None and num_axes(value) == 2:
        frame = ((name, np.asarray(value[name])) for name in names)
        return next((name for name, column in frame if _has(column, is_foreign)), None)
    # From a list with one text NumPy would turn the numbers into texts too.
    array = value if hasattr(value, "dtype") else _as_objects(value)
    if num_axes(array) != 2 or array.dtype.kind not in "OUS":
        return None
    columns = np.asarray(array).T
    return next((place for place, cells in enumerate(columns) if _has(cells, is_foreign)), None)


def _as_objects(value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=object)
    except ValueError:
        # Rows of several lengths, which the check of the shape refuses.
        return np.asarray(None)


def _has(cells: np.ndarray, is_foreign: Any) -> bool:
    if cells.dtype.kind not in "OUSMm":
        return False
    return any(is_foreign(cell) for cell in cells.ravel().tolist())


def _is_text(cell: Any) -> bool:
    return isinstance(cell, (str, bytes))


def _is_no_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError, OverflowError):
        return True
    return False


class ColumnNames(eqx.Module):
    """Names that were known before the data were seen; they are published with the function.

    Args:
        inputs: names of the columns in the order of the function's inputs, texts, all different.
        label: name of the target, or None.
        classes: for two classes, the names for a negative and for a positive score; for more
            classes, one name per score. None for a regression.

    Example:
        >>> from jaxdp.kernels import ColumnNames
        >>> ColumnNames(("age", "income"), label="spending").inputs
        ('age', 'income')
    """

    inputs: tuple[str, ...] = eqx.field(static=True)
    label: str | None = eqx.field(static=True, default=None)
    classes: tuple[str, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        require_kind("inputs", self.inputs, tuple, 'a tuple of names, such as ("age", "income")')
        names = (*self.inputs, *([] if self.label is None else [self.label]))
        for name in (*names, *(self.classes or ())):
            if not isinstance(name, str):
                raise TypeError(f"expected names of columns and classes as texts, got {name!r}")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"expected names that differ, got {twice!r} twice")
        if self.classes is not None and not 2 <= len(set(self.classes)) == len(self.classes):
            raise ValueError(f"expected two classes or more that differ, got {self.classes}")


def columns_of(
    inputs: Any, labels: Any = None, classes: tuple[Any, ...] | None = None
) -> ColumnNames | None:
    """Names of a data frame's columns and labels; None for arrays, and for columns 0, 1, ...."""
    names = _names(inputs)
    if names is None or _is_counted(inputs.columns):
        return None
    texts = [isinstance(name, str) for name in inputs.columns]
    if any(texts) and not all(texts):
        other = tuple(inputs.columns)[texts.index(False)]
        raise TypeError(f"expected names of columns that are all texts, got {other!r} too")
    label = getattr(labels, "name", None)
    kept = None if classes is None else tuple(map(str, classes))
    return ColumnNames(names, label if isinstance(label, str) else None, kept)


def in_order(inputs: Any, columns: ColumnNames | None) -> Any:
    """A data frame's columns in the order of the fit; rows without names are unchanged.

    If the fit had no names, they are taken to be 0, 1, 2, ...: a frame with these names is
    reordered; a frame with other names, or whose columns are only counted, is taken by position.
    """
    names = _names(inputs)
    if names is None:
        return inputs
    wanted = columns.inputs if columns is not None else tuple(map(str, range(len(names))))
    is_nameless = columns is None or _is_counted(inputs.columns)
    if names == wanted or (is_nameless and {*names} != {*wanted}):
        return inputs
    missing = [name for name in wanted if name not in names]
    more = [name for name in names if name not in wanted]
    if missing or more or len(names) != len(wanted):
        found = [f"without {', '.join(map(repr, missing))}"] if missing else []
        found += [f"with {', '.join(map(repr, more))} besides"] if more else []
        raise ValueError(
            f"expected inputs with the columns of the fit, {printable(', '.join(wanted))}, got a "
            f"table {' and '.join(found) or 'in which a name occurs twice'}"
        )
    labels = dict(zip(names, inputs.columns, strict=True))
    return inputs[[labels[name] for name in wanted]]


def _names(inputs: Any) -> tuple[str, ...] | None:
    found = getattr(inputs, "columns", None)
    return None if found is None or num_axes(inputs) != 2 else tuple(map(str, found))


def _is_counted(names: Any) -> bool:
    return tuple(names) == tuple(range(len(names)))
