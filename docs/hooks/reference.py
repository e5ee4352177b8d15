"""The reference: a page for each package of jaxdp, with every name that its door lists.

The names are read from `__all__`, so that what is newly exported appears by itself. A name that is
in several doors is explained once, in the package where it is at home.
"""

import importlib
import importlib.util
import inspect
import pathlib
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "jaxdp"


def doors() -> list[str]:
    """The packages of jaxdp whose door lists names, the front door first."""
    found = ["jaxdp"]
    for path in sorted(PACKAGE.rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        if name != "jaxdp" and "__all__ = [" in path.read_text(encoding="utf-8"):
            found.append(name)
    return found


def names(door: str) -> list[str]:
    """What a door lists, without packages, constants of no class, and the version."""
    module = importlib.import_module(door)
    return [name for name in module.__all__ if _is_explained(getattr(module, name))]


def _is_explained(thing: object) -> bool:
    """Whether a thing has a page entry: packages have a page, and a version a string."""
    return not isinstance(thing, (types.ModuleType, str))


def pages() -> dict[str, list[str]]:
    """The names that each door's page explains: those that no inner door lists."""
    listed = {door: names(door) for door in doors()}
    inner = {
        id(getattr(importlib.import_module(door), name))
        for door, found in listed.items()
        if door != "jaxdp"
        for name in found
    }
    front = importlib.import_module("jaxdp")
    listed["jaxdp"] = [name for name in listed["jaxdp"] if id(getattr(front, name)) not in inner]
    taken: set[int] = set()
    for door, found in listed.items():
        module = importlib.import_module(door)
        listed[door] = [name for name in found if id(getattr(module, name)) not in taken]
        taken |= {id(getattr(module, name)) for name in found}
    return {door: found for door, found in listed.items() if found}


def file_of(door: str) -> str:
    """Where the site has a door's page."""
    return f"reference/{door}.md"


def path_of(door: str, name: str) -> str:
    """By what dotted name a user reaches a thing: the front door's, where it has one."""
    front = importlib.import_module("jaxdp")
    thing = getattr(importlib.import_module(door), name)
    is_front = name in front.__all__ and getattr(front, name) is thing
    return f"jaxdp.{name}" if is_front else f"{door}.{name}"


def source_of(door: str, name: str) -> str:
    """By what dotted name the sources are read: of a name that a module has too, where it is."""
    path = path_of(door, name)
    if importlib.util.find_spec(path) is None:
        return path
    thing = getattr(importlib.import_module(door), name)
    return f"{thing.__module__}.{thing.__qualname__}"


def page(door: str, found: list[str]) -> str:
    """Markdown of a door's page."""
    opening = inspect.getdoc(importlib.import_module(door)) or ""
    entries = "\n\n".join(_entry(path_of(door, name), source_of(door, name)) for name in found)
    return f"# {door}\n\n{opening}\n\n{entries}\n"


def _entry(path: str, source: str) -> str:
    """The directive of one name, under the name that a user writes."""
    shown = "" if source == path else f"\n    options:\n      heading: {path}"
    return f"::: {source}{shown}"


def index() -> str:
    """Markdown of the page that lists all names."""
    lines = [
        "# Reference",
        "",
        "Every public name, from its docstring, with a link to its source. Keys such as AC in a "
        'line "Source:" are explained in [Notation](../NOTATION.md). '
        "`import jaxdp` brings the names that begin with `jaxdp.` alone, and the packages below.",
    ]
    for door, found in pages().items():
        module = importlib.import_module(door)
        rows = [
            f"| [`{path_of(door, name)}`][{source_of(door, name)}] "
            f"| {_summary(getattr(module, name))} |"
            for name in found
        ]
        link = f"## [{door}]({file_of(door).removeprefix('reference/')})"
        lines += ["", link, "", "| name | what it is |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _summary(thing: object) -> str:
    """The first line of a docstring, as a cell of a table."""
    text = (inspect.getdoc(thing) or "").strip().split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")
