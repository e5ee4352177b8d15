"""What mkdocstrings does not see in jaxdp's sources: constructors, sources, lines `Source:`.

Equinox writes the constructor of a module without one from its fields, which a reader of the source
alone does not find; so signatures are asked of the running package.
"""

import importlib
import inspect
import pathlib
import re
from typing import Any

import equinox as eqx
import griffe

from notebooks.address import repository_address

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = repository_address()
# Griffe knows "Examples:"; a line "Source: ..." in the text would be a heading without contents.
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# "epsilon: > 0" would begin a quotation.
_QUOTED = re.compile(r"^( +[\w, ]+: )>", re.MULTILINE)
_SOURCE = re.compile(r"^(Source|Derived): ", re.MULTILINE)
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


def readable(docstring: str) -> str:
    """A docstring with headings that Griffe knows, and sources as text."""
    text = _QUOTED.sub(r"\1\\>", _EXAMPLE.sub("Examples:", docstring))
    return _SOURCE.sub(r"*\1:* ", text)


def source_address(path: pathlib.Path, first: int, last: int) -> str:
    """The lines of a file in the repository."""
    return f"{ADDRESS}/blob/main/{path.relative_to(ROOT).as_posix()}#L{first}-L{last}"


class Docstrings(griffe.Extension):
    """Reads jaxdp's docstrings as they are meant."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every object: its docstring, and where its source is."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
        if obj.lineno is not None and obj.endlineno is not None:
            path = obj.filepath
            if isinstance(path, pathlib.Path) and path.is_relative_to(ROOT):
                obj.source_link = source_address(path, obj.lineno, obj.endlineno)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """A class without a constructor of its own: that which Equinox gave it."""
        if "__init__" in cls.members:
            return
        found = _running(cls.path)
        if not inspect.isclass(found) or not issubclass(found, eqx.Module):
            return
        if inspect.isabstract(found):
            return
        parameters = list(inspect.signature(found).parameters.values())
        made = griffe.Function("__init__", parameters=_parameters(cls, parameters), parent=cls)
        cls.set_member("__init__", made)


def _running(path: str) -> Any:
    """The thing of a dotted path in the running package; None where nothing is found."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _parameters(cls: griffe.Class, parameters: list[inspect.Parameter]) -> griffe.Parameters:
    """Parameters with the annotations of the fields and the defaults of the running class."""
    made = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for parameter in parameters:
        field = cls.members.get(parameter.name)
        annotation = field.annotation if isinstance(field, griffe.Attribute) else None
        has_default = parameter.default is not inspect.Parameter.empty
        made.append(
            griffe.Parameter(
                parameter.name,
                annotation=annotation,
                kind=_KINDS[parameter.kind],
                default=repr(parameter.default) if has_default else None,
            )
        )
    return griffe.Parameters(*made)
