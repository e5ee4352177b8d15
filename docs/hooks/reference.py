"""The reference: a page for each public name, and one for each package that lists its names.

The names are read from `__all__`, so that new exports appear by themselves. A name that is
in several packages has one page, under the name that a user writes: `jaxdp`'s if it has one.
"""

import functools
import importlib
import importlib.util
import inspect
import pathlib
import re
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a reader looks for first, in this order.
VERBS = ("predict", "simulate", "account", "compare", "plan", "train", "forecast", "sweep")
VERBS += ("required_samples", "required_epsilon")
_OPENING = """\
# Reference

Every public name, from its docstring, with a link to its source. Keys such as AC in a line
"Source:" are explained in [Notation](../papers/NOTATION.md). `import jaxdp` brings the names that
begin with `jaxdp.` alone, and the packages below.
"""
_WORDS = re.compile(r"[A-Z][a-z]+|[A-Z]+(?![a-z])")


def doors() -> list[str]:
    """The packages of jaxdp that list names, `jaxdp` itself first."""
    found = [
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "jaxdp").rglob("__init__.py")
        if "\n__all__ = " in path.read_text(encoding="utf-8")
    ]
    return sorted(found)


def _thing(door: str, name: str) -> object:
    return getattr(importlib.import_module(door), name)


def names(door: str) -> list[str]:
    """A package's listed names without packages and the version: functions come before classes."""

    def rank(name: str) -> tuple[int, bool, bool]:
        thing = _thing(door, name)
        verb = VERBS.index(name) if door == "jaxdp" and name in VERBS else len(VERBS)
        return verb, inspect.isabstract(thing), inspect.isclass(thing)

    listed = importlib.import_module(door).__all__
    explained = [x for x in listed if not isinstance(_thing(door, x), (types.ModuleType, str))]
    return sorted(explained, key=rank)


@functools.cache
def pages() -> dict[str, list[str]]:
    """The names that have their page in each package: in the first one that lists them."""
    taken: set[int] = set()
    homes = {}
    for door in doors():
        homes[door] = [name for name in names(door) if id(_thing(door, name)) not in taken]
        taken |= {id(_thing(door, name)) for name in homes[door]}
    return homes


def file_of(door: str, name: str = "index") -> str:
    """The path in the site of a package's page, or of a name's page."""
    return f"reference/{door}/{name}.md"


@functools.cache
def _paths() -> dict[int, str]:
    """The dotted name of everything that has a page, by its identity."""
    homes = pages().items()
    return {id(_thing(door, name)): f"{door}.{name}" for door, found in homes for name in found}


def source_of(door: str, name: str) -> str:
    """The dotted name for reading the sources; the defining module's if a module has it too."""
    thing = _thing(door, name)
    path = _paths()[id(thing)]
    if importlib.util.find_spec(path) is None:
        return path
    return f"{thing.__module__}.{thing.__qualname__}"  # pyright: ignore[reportAttributeAccessIssue]


def made() -> dict[str, str]:
    """Markdown of every page of the reference, by its path in the site."""
    found = {"reference/index.md": _index()}
    for door, at_home in pages().items():
        found[file_of(door)] = _page(door)
        found |= {file_of(door, name): _entry(door, name) for name in at_home}
    return found


def navigation(door: str) -> list[str | dict[str, str]]:
    """A package's page and those of its names, as entries of the navigation."""
    return [file_of(door), *({name: file_of(door, name)} for name in pages()[door])]


def _page(door: str) -> str:
    """A package's page: its purpose, and all names that it lists."""
    opening = inspect.getdoc(importlib.import_module(door)) or ""
    return "\n".join([f"# {door} {{#{door}}}", "", opening, "", *_table(door, names(door))])


def _index() -> str:
    """The page that lists the packages and their names."""
    lines = [_OPENING]
    for door, at_home in pages().items():
        lines += ["", f"## [{door}]({door}/index.md)", "", *_table(door, at_home)]
    return "\n".join(lines)


def _entry(door: str, name: str) -> str:
    """The page of one name, under the name that a user writes."""
    path, source = f"{door}.{name}", source_of(door, name)
    shown = "" if source == path else f"\n    options:\n      heading: {path}"
    # The search knows the words of a name; the tag adds the name in small letters.
    tag = f"tags: [{name.lower()}]\n" if len(_WORDS.findall(name)) > 1 else ""
    # A verb comes before the pages about its uses.
    weight = "search: {boost: 8}\n" if door == "jaxdp" and name in VERBS else ""
    return f"---\ntitle: {path}\n{tag}{weight}---\n\n::: {source}{shown}\n"


def _table(door: str, listed: list[str]) -> list[str]:
    """Names as links with their first sentences."""
    return ["| name | what it is |", "|---|---|"] + [
        f"| [`{_paths()[id(_thing(door, name))]}`][{source_of(door, name)}] "
        f"| {_summary(_thing(door, name))} |"
        for name in listed
    ]


def _summary(thing: object) -> str:
    """The first paragraph of a docstring, as a cell of a table."""
    text = (inspect.getdoc(thing) or "").strip().split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")
