"""What a docstring owes its reader, of every name that a public package hands out."""

import enum
import inspect
import re
import textwrap
from typing import Any

import pytest
from public_names import PUBLIC

CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}

_ENTRY = re.compile(r"^\*{0,2}\w+(?:,\s+\*{0,2}\w+)*:", re.MULTILINE)


def _section(doc: str, *titles: str) -> str:
    """The lines under these headings, each up to the next heading or text."""
    pattern = rf"^(?:{'|'.join(titles)}):\n((?:\n|    .*\n?)*)"
    return "".join(re.findall(pattern, doc + "\n", re.MULTILINE))


def _described(doc: str) -> set[str]:
    entries = _ENTRY.findall(textwrap.dedent(_section(doc, "Args", "Attributes")))
    return {name.strip(" \n*:") for entry in entries for name in entry.split(",")}


def complaints(thing) -> list[str]:
    """What is missing from the docstring and the annotations of a function or a class."""
    doc = thing.__doc__ and inspect.cleandoc(thing.__doc__)
    if not doc:
        return ["no docstring"]
    is_class, empty = inspect.isclass(thing), inspect.Parameter.empty
    if is_class and issubclass(thing, Exception | enum.Enum):
        owed, untyped = set(getattr(thing, "__members__", ())), []
    else:
        given = inspect.signature(thing).parameters
        owed = set(given)
        untyped = [name for name, one in given.items() if one.annotation is empty]
    answer = None if is_class else inspect.signature(thing).return_annotation
    untyped += ["return"] * (answer is empty)
    found = []
    if missing := owed - _described(doc):
        found.append(f"not explained: {', '.join(sorted(missing))}")
    if untyped:
        found.append(f"without a type: {', '.join(untyped)}")
    if answer not in (None, "None") and not _section(doc, "Returns", "Yields"):
        found.append("no Returns")
    if not inspect.isabstract(thing) and not _section(doc, "Example"):
        found.append("no Example")
    return found


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
    unsaid = {}
    for name, kind in CLASSES.items():
        for method in filter(lambda one: one[0] != "_", dir(kind)):
            made = getattr(inspect.getattr_static(kind, method), "__func__", None)
            if inspect.ismethod(getattr(kind, method)) and made.__module__.startswith("jaxdp"):
                arguments = set(inspect.signature(getattr(kind, method)).parameters)
                described = _described(inspect.getdoc(made) or "")
                if missing := arguments - (described & set(made.__annotations__)):
                    unsaid[f"{name}.{method}"] = missing
    assert unsaid == {}


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
