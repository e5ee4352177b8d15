"""What a docstring owes its reader, of every name that a public package hands out.

Functions: what each argument is, what comes back, an example; types of all of them. Classes: what
each argument of the constructor, or each attribute of a result, is, and an example. Abstract
classes, which nobody builds, need no example. That the examples run is shown by test_examples.py.
"""

import enum
import inspect
import re
import textwrap
from typing import Any

import pytest
from public_names import PUBLIC

import jaxdp

CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}

_ENTRY = re.compile(r"^\*{0,2}\w+(?:,\s+\*{0,2}\w+)*:", re.MULTILINE)


def _section(doc: str, *titles: str) -> str:
    """The lines under these headings, each up to the next heading or text."""
    pattern = rf"^(?:{'|'.join(titles)}):\n((?:\n|    .*\n?)*)"
    return "".join(re.findall(pattern, doc + "\n", re.MULTILINE))


def _described(doc: str) -> set[str]:
    entries = _ENTRY.findall(textwrap.dedent(_section(doc, "Args", "Attributes")))
    return {name.strip(" \n*:") for entry in entries for name in entry.split(",")}


def _parameters(thing) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(thing).parameters)


def _owed(thing) -> set[str]:
    """Names that the docstring has to explain."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return set()
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        return set(thing.__members__)
    return set(_parameters(thing))


def _untyped(thing) -> list[str]:
    signature = inspect.signature(thing)
    empty = inspect.Parameter.empty
    untyped = [name for name, found in signature.parameters.items() if found.annotation is empty]
    if not inspect.isclass(thing) and signature.return_annotation is empty:
        untyped.append("return")
    return untyped


def complaints(thing) -> list[str]:
    """What is missing from the docstring and the annotations of a function or a class."""
    doc = thing.__doc__ and inspect.cleandoc(thing.__doc__)
    if not doc:
        return ["no docstring"]
    found = []
    if missing := _owed(thing) - _described(doc):
        found.append(f"not explained: {', '.join(sorted(missing))}")
    is_class = inspect.isclass(thing)
    if not (is_class and issubclass(thing, Exception | enum.Enum)) and (untyped := _untyped(thing)):
        found.append(f"without a type: {', '.join(untyped)}")
    answers = not is_class and inspect.signature(thing).return_annotation not in (None, "None")
    if answers and not _section(doc, "Returns", "Yields"):
        found.append("no Returns")
    if not inspect.isabstract(thing) and not _section(doc, "Example"):
        found.append("no Example")
    return found


def _constructors(kind) -> dict[str, Any]:
    """Of a class, those beside `__init__`, as functions."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind)}
    return {
        name: thing.__func__
        for name, thing in found.items()
        if isinstance(thing, classmethod)
        and not name.startswith("_")
        and thing.__func__.__module__.startswith("jaxdp")
    }


def _unsaid(constructor) -> set[str]:
    """Arguments of a class method that have no type, or of which its docstring does not tell."""
    arguments = set(list(inspect.signature(constructor).parameters)[1:])
    described = _described(inspect.cleandoc(constructor.__doc__ or ""))
    return arguments - (described & set(constructor.__annotations__))


def _methods(kind) -> list[str]:
    """Of a class, public methods and properties that jaxdp has written."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if name[0] != "_"}
    bodies = {name: getattr(thing, "fget", None) or thing for name, thing in found.items()}
    return [
        name
        for name, body in bodies.items()
        if callable(body) and str(getattr(body, "__module__", "")).startswith("jaxdp")
    ]


def test_every_public_name_is_explained():
    found = {name: complaints(thing) for name, thing in PUBLIC.items()}
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_every_method_of_a_public_class_says_what_it_does():
    silent = [
        f"{name}.{method}"
        for name, kind in CLASSES.items()
        for method in _methods(kind)
        if not inspect.getdoc(getattr(kind, method))
    ]
    assert silent == []


def test_every_other_constructor_explains_its_arguments():
    unsaid = {
        f"{name}.{method}": names
        for name, kind in CLASSES.items()
        for method, body in _constructors(kind).items()
        if (names := _unsaid(body))
    }
    assert unsaid == {}


def test_public_names_are_found_in_all_packages():
    found = {name.rpartition(".")[0] for name in PUBLIC}
    assert {"jaxdp", "jaxdp.privacy", "jaxdp.kernels.published", "jaxdp.estimators"} <= found
    assert PUBLIC["jaxdp.simulate"] is jaxdp.simulate


def _explained(count: int, key: Any = None) -> int:
    """A number.

    Args:
        count: how many.
        key: which.

    Returns:
        The number.

    Example:
        >>> 1
        1
    """
    return count


@pytest.mark.parametrize(
    ("without", "complaint"),
    [
        ("key: which.", "not explained: key"),
        ("Returns:", "no Returns"),
        ("Example:", "no Example"),
        (_explained.__doc__, "no docstring"),
    ],
)
def test_what_is_missing_is_noticed(without, complaint, monkeypatch):
    assert complaints(_explained) == []
    monkeypatch.setattr(_explained, "__doc__", _explained.__doc__.replace(without, ""))
    assert complaints(_explained) == [complaint]


def test_a_missing_type_is_noticed(monkeypatch):
    monkeypatch.setattr(_explained, "__annotations__", {"key": Any})
    assert complaints(_explained) == ["without a type: count, return"]
