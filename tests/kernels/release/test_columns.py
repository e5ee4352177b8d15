"""Names of columns and classes that are published with a function."""

import pytest

from jaxdp.kernels import Columns


def test_names_are_kept():
    columns = Columns(("a", "b"), "y", ("no", "yes"))
    assert (columns.inputs, columns.label, columns.classes) == (("a", "b"), "y", ("no", "yes"))
    assert columns == Columns(("a", "b"), "y", ("no", "yes"))
    assert Columns(("a", "b")).label is None
    assert Columns(("a",), "y", ("no", "yes", "maybe")).classes == ("no", "yes", "maybe")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((("a", "a"), "y"), ValueError),
        ((("a", "y"), "y"), ValueError),
        ((("a", 1), "y"), TypeError),
        ((("a",), 1), TypeError),
        (((None,), "y"), TypeError),
        ((("a",), "y", ("no", "no")), ValueError),
        ((("a",), "y", ("no", "yes", "no")), ValueError),
        ((("a",), "y", ("yes",)), ValueError),
        ((("a",), "y", (0, 1)), TypeError),
    ],
)
def test_other_names_are_refused(arguments, error):
    with pytest.raises(error, match="expected"):
        Columns(*arguments)
