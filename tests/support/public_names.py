"""All functions and classes that a public package of jaxdp hands out, by the name to import."""

import importlib
import inspect
import pathlib
from typing import Any

_ROOT = pathlib.Path(__file__).parents[2] / "jaxdp"


def _packages() -> list[str]:
    """jaxdp, and all packages within that say what they hand out."""
    found = [path.parent.relative_to(_ROOT.parent) for path in _ROOT.rglob("__init__.py")]
    names = sorted(".".join(path.parts) for path in found)
    return [name for name in names if hasattr(importlib.import_module(name), "__all__")]


def _public_names() -> dict[str, Any]:
    """A name that several packages hand out is found under the shortest of them."""
    found: dict[int, tuple[str, Any]] = {}
    for package in sorted(_packages(), key=lambda name: name.count(".")):
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) and not inspect.ismodule(thing):
                found.setdefault(id(thing), (f"{package}.{name}", thing))
    return dict(found.values())


PUBLIC = _public_names()
