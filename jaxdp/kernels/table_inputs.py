"""Tables as users hold them: numbers in every column, and the names of the columns.

Names and types of columns are the table's schema: public, and published with what is learnt. They
are read off any data frame that has `.columns` (pandas, polars), without importing either.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.kernels.columns import Columns


def columns_of(
    inputs: Any, labels: Any = None, classes: tuple[Any, Any] | None = None
) -> Columns | None:
    """What the columns of a data frame are called; None for arrays, and for numbered columns.

    Args:
        inputs: a data frame, or rows without names.
        labels: a series, whose name is the label's, or labels without a name.
        classes: the negative and the positive class; kept where they are texts.

    Raises:
        TypeError: some names are texts, and others are not.
        ValueError: a name stands twice, the label's among the inputs included.
    """
    names = _names(inputs)
    if names is None:
        return None
    label = getattr(labels, "name", None)
    are_texts = classes is not None and all(isinstance(value, str) for value in classes)
    kept = (str(classes[0]), str(classes[1])) if classes is not None and are_texts else None
    return Columns(names, label if isinstance(label, str) else None, kept)


def in_order(inputs: Any, columns: Columns | None) -> Any:
    """A data frame's columns in the order of the fit; rows without names stay as they are.

    Raises:
        ValueError: a column of the fit is missing, or there is one more.
    """
    names = None if columns is None else _names(inputs)
    if columns is None or names is None or names == columns.inputs:
        return inputs
    missing = [name for name in columns.inputs if name not in names]
    more = [name for name in names if name not in columns.inputs]
    if missing or more or len(names) != len(columns.inputs):
        found = [f"without {', '.join(map(repr, missing))}"] if missing else []
        found += [f"with {', '.join(map(repr, more))} besides"] if more else []
        raise ValueError(
            f"expected inputs with the columns of the fit, {', '.join(columns.inputs)}, got a "
            f"table {' and '.join(found) or 'in which a name stands twice'}"
        )
    return inputs[list(columns.inputs)]


def real_array(name: str, value: Any) -> Float[np.ndarray, "*shape"]:
    """Real numbers on the host: float32 and float64 as they are, all others in float64.

    Args:
        name: of the argument, for the error.
        value: an array, a data frame or series, or nested lists.

    Raises:
        TypeError: it holds text, or anything else that is no real number; a table's column is
            named.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype in (np.float32, np.float64):
        return array
    require_no_text(name, value)
    # Half precisions that NumPy knows by name alone are widened too, and objects that are numbers.
    is_number = jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "biuO"
    try:
        if is_number:
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    column = _first_column(value, _is_no_number)
    came = f"a {array.dtype}" if column is None else f"other things in column {column!r}"
    raise TypeError(f"expected {name} of real numbers, got {came}")


def require_no_text(name: str, value: Any) -> None:
    """Raise TypeError where a cell is text, even text that could be read as a number.

    The column is named and the text is not shown: it is private data.
    """
    column = _first_column(value, _is_text)
    if column is not None:
        raise TypeError(
            f"expected {name} of real numbers, got text in column {column!r}: leave it out, or "
            "write its categories, which must be public, as numbers"
        )
    if _ndim(value) != 2 and _has(np.asarray(value), _is_text):
        raise TypeError(f"expected {name} of real numbers, got text")


def _ndim(value: Any) -> int:
    """`numpy.ndim`, which some tables refuse to be asked for."""
    return value.ndim if hasattr(value, "ndim") else np.asarray(value).ndim


def _names(inputs: Any) -> tuple[str, ...] | None:
    found = getattr(inputs, "columns", None)
    if found is None or _ndim(inputs) != 2:
        return None
    names = tuple(found)
    texts = [isinstance(name, str) for name in names]
    if not any(texts):
        return None
    if not all(texts):
        other = names[texts.index(False)]
        raise TypeError(f"expected names of columns that are all texts, got {other!r} too")
    return tuple(map(str, names))


def _first_column(value: Any, is_foreign: Any) -> Any:
    """The name or number of the first column of a table with such a cell; None without one."""
    names = getattr(value, "columns", None)
    if names is not None and _ndim(value) == 2:
        frame = ((name, np.asarray(value[name])) for name in names)
        return next((name for name, column in frame if _has(column, is_foreign)), None)
    # In a list NumPy would make texts of the numbers beside one.
    array = value if hasattr(value, "dtype") else _as_objects(value)
    if _ndim(array) != 2 or array.dtype.kind not in "OUS":
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
    if cells.dtype.kind not in "OUSM":
        return False
    return any(is_foreign(cell) for cell in cells.ravel().tolist())


def _is_text(cell: Any) -> bool:
    return isinstance(cell, (str, bytes))


def _is_no_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return True
    return False
