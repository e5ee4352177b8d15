"""Extras that Griffe misses in jaxdp's sources: constructors that Equinox writes, lines `Source:`.

Equinox writes the constructor of a module without one from its fields, which a reader of the source
alone does not find; so signatures come from the running package.
"""

import importlib
import inspect
import re
from typing import Any

import equinox as eqx
import griffe

# Griffe knows "Examples:"; a line "Source: ..." in the text would be a heading without contents.
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# "epsilon: > 0" would begin a quotation.
_QUOTED = re.compile(r"^( +[\w, ]+: )>", re.MULTILINE)
_SOURCE = re.compile(r"^(Source|Derived): ", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Reads jaxdp's docstrings as they are meant."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every object: its docstring, with headings that Griffe knows, and sources as text."""
        if obj.docstring is not None:
            text = _QUOTED.sub(r"\1\\>", _EXAMPLE.sub("Examples:", obj.docstring.value))
            obj.docstring.value = _SOURCE.sub(r"*\1:* ", text)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """A class without a constructor of its own: that which Equinox gave it."""
        module = importlib.import_module(cls.module.path)
        found: Any = getattr(module, cls.name, None)
        is_module = inspect.isclass(found) and issubclass(found, eqx.Module)
        if "__init__" in cls.members or not is_module or inspect.isabstract(found):
            return
        parameters = [griffe.Parameter("self")]
        for each in inspect.signature(found).parameters.values():
            field = cls.members.get(each.name)
            parameters.append(
                griffe.Parameter(
                    each.name,
                    annotation=field.annotation if isinstance(field, griffe.Attribute) else None,
                    kind=griffe.ParameterKind(each.kind.description),
                    default=None if each.default is each.empty else repr(each.default),
                )
            )
        made = griffe.Function("__init__", parameters=griffe.Parameters(*parameters), parent=cls)
        cls.set_member("__init__", made)
