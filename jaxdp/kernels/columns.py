"""What the columns of a training table are called, kept with the function learnt from it."""

import equinox as eqx

from jaxdp.core.checks import require_kind


class Columns(eqx.Module):
    """Names that were known before the data were seen: they are published with the function.

    Args:
        inputs: of the columns in the order of the function's inputs.
        label: of the target, or None where it has none.
        classes: of a classifier, what its label is where the score is negative and where it is
            positive, as the table writes it; None for a regression.

    Raises:
        ValueError: a name stands twice, or there are not two classes.
        TypeError: a name is not a text.
    """

    inputs: tuple[str, ...] = eqx.field(static=True)
    label: str | None = eqx.field(static=True, default=None)
    classes: tuple[str, str] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        require_kind("inputs", self.inputs, tuple, 'a tuple of names, such as ("age", "income")')
        names = (*self.inputs, *([] if self.label is None else [self.label]))
        for name in (*names, *(self.classes or ())):
            if not isinstance(name, str):
                raise TypeError(f"expected names of columns and classes as texts, got {name!r}")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"expected names that differ, got {twice!r} twice")
        if self.classes is not None and len(set(self.classes)) != 2:
            raise ValueError(f"expected two classes, got {self.classes}")
