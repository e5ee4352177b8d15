"""What the columns of a training table are called, kept with the function learnt from it.

Names and types of columns are the table's schema: public, and published with what is learnt. They
are read off any data frame that has `.columns` (pandas, polars), without importing either.
"""

from typing import Any

import equinox as eqx

from jaxdp.core.checks import require_kind
from jaxdp.kernels.release.table_inputs import num_axes


class Columns(eqx.Module):
    """Names that were known before the data were seen: they are published with the function.

    Args:
        inputs: of the columns in the order of the function's inputs.
        label: of the target, or None where it has none.
        classes: of a classifier, what its label is where the score is negative and where it is
            positive, as the table writes it; of more classes, one name for each score. None for a
            regression.

    Raises:
        ValueError: a name stands twice, or there are fewer than two classes.
        TypeError: a name is not a text.

    Example:
        >>> from jaxdp.kernels import Columns
        >>> Columns(("age", "income"), label="spending").inputs
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
) -> Columns | None:
    """What the columns of a data frame are called; None for arrays, and for columns 0, 1, 2, ....

    Args:
        inputs: a data frame, or rows without names.
        labels: a series, whose name is the label's, or labels without a name.
        classes: the negative and the positive class, or all of more, as texts.

    Raises:
        TypeError: some names are texts, and others are not.
        ValueError: a name stands twice, the label's among the inputs included.
    """
    names = _names(inputs)
    if names is None or _is_counted(inputs.columns):
        return None
    texts = [isinstance(name, str) for name in inputs.columns]
    if any(texts) and not all(texts):
        other = tuple(inputs.columns)[texts.index(False)]
        raise TypeError(f"expected names of columns that are all texts, got {other!r} too")
    label = getattr(labels, "name", None)
    kept = None if classes is None else tuple(map(str, classes))
    return Columns(names, label if isinstance(label, str) else None, kept)


def in_order(inputs: Any, columns: Columns | None) -> Any:
    """A data frame's columns in the order of the fit; rows without names stay as they are.

    Columns that had no names at the fit are taken to be called 0, 1, 2, ...: a frame with these
    names in another order is put in this one, and one with other names is taken by position, as is
    a frame whose columns are only counted.

    Raises:
        ValueError: a column of the fit is missing, or there is one more.
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
            f"expected inputs with the columns of the fit, {', '.join(wanted)}, got a "
            f"table {' and '.join(found) or 'in which a name stands twice'}"
        )
    labels = dict(zip(names, inputs.columns, strict=True))
    return inputs[[labels[name] for name in wanted]]


def _names(inputs: Any) -> tuple[str, ...] | None:
    """The names of a table's columns as texts: years, dates, ... are texts in a file of it."""
    found = getattr(inputs, "columns", None)
    return None if found is None or num_axes(inputs) != 2 else tuple(map(str, found))


def _is_counted(names: Any) -> bool:
    """Whether they are the numbers that a data frame counts columns without names by."""
    return tuple(names) == tuple(range(len(names)))
