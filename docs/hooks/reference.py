"""The reference: a page for each public name, and one for each package that lists its names.

The names are read from `__all__`, so that what is newly exported appears by itself. A name that is
in several doors has one page, under the name that a user writes: the front door's where it has one.
"""

import functools
import importlib
import importlib.util
import inspect
import pathlib
import re
import types

import jaxdp

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "jaxdp"
# What a reader of the front door's page looks for first, in this order; nouns stand by package.
VERBS = (
    *("jaxdp.predict", "jaxdp.simulate", "jaxdp.account", "jaxdp.compare", "jaxdp.plan"),
    *("jaxdp.train", "jaxdp.forecast", "jaxdp.sweep", "jaxdp.required_samples"),
    *("jaxdp.required_epsilon", "jaxdp.attacks.reconstruct"),
)
NOUNS = ("problems", "algorithms", "schedules", "theory", "simulation", "planning", "privacy")

_WORDS = re.compile(r"[A-Z][a-z]+|[A-Z]+(?![a-z])")


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


@functools.cache
def pages() -> dict[str, list[str]]:
    """The names that are at home in each door: in the front door, else in the first that has it."""
    taken: set[int] = set()
    homes = {}
    for door in doors():
        module = importlib.import_module(door)
        homes[door] = [name for name in names(door) if id(getattr(module, name)) not in taken]
        taken |= {id(getattr(module, name)) for name in homes[door]}
    return homes


def file_of(door: str, name: str = "index") -> str:
    """Where the site has a door's page, or that of a name that is at home there."""
    return f"reference/{door}/{name}.md"


def written_in(door: str, name: str) -> str:
    """The file of the tree that explains a name, or that of its door."""
    module = importlib.import_module(door)
    home = getattr(getattr(module, name, None), "__module__", door)
    return pathlib.Path(importlib.import_module(home).__file__ or "").relative_to(ROOT).as_posix()


@functools.cache
def _paths() -> dict[int, str]:
    """The dotted name of everything that has a page, by its identity."""
    return {
        id(getattr(importlib.import_module(door), name)): f"{door}.{name}"
        for door, found in pages().items()
        for name in found
    }


def path_of(door: str, name: str) -> str:
    """By what dotted name a user reaches a thing: the front door's, where it has one."""
    return _paths()[id(getattr(importlib.import_module(door), name))]


def source_of(door: str, name: str) -> str:
    """By what dotted name the sources are read: of a name that a module has too, where it is."""
    path = path_of(door, name)
    if importlib.util.find_spec(path) is None:
        return path
    thing = getattr(importlib.import_module(door), name)
    return f"{thing.__module__}.{thing.__qualname__}"


def made() -> dict[str, str]:
    """Markdown of every page of the reference, by where the site has it."""
    found = {"reference/index.md": index()}
    for door, at_home in pages().items():
        found[file_of(door)] = front_page() if door == "jaxdp" else page(door)
        for name in at_home:
            found[file_of(door, name)] = _entry(path_of(door, name), source_of(door, name))
    return found


def navigation(door: str) -> list[str | dict[str, str]]:
    """A door's page and those of the names at home there, as entries of the navigation."""
    at_home = pages()[door]
    if door == "jaxdp":
        rows = [row for _, found in _front() for row in found]
        at_home = [name for door_of, name in rows if door_of == "jaxdp"]
    else:
        at_home = _ordered(door, at_home)
    return [file_of(door), *({name: file_of(door, name)} for name in at_home)]


def _ordered(door: str, found: list[str]) -> list[str]:
    """Functions, then classes, then what is abstract."""
    module = importlib.import_module(door)

    def rank(name: str) -> tuple[bool, bool]:
        thing = getattr(module, name)
        return inspect.isabstract(thing), inspect.isclass(thing)

    return sorted(found, key=rank)


def _front() -> list[tuple[str, list[tuple[str, str]]]]:
    """The front door's verbs, and its other names package by package, each as door and name."""
    groups: dict[str, list[tuple[str, str]]] = {"Verbs": [], **{noun: [] for noun in NOUNS}}
    for verb in VERBS:
        door, _, name = verb.rpartition(".")
        groups["Verbs"].append((door, name))
    for name in pages()["jaxdp"]:
        if f"jaxdp.{name}" not in VERBS:
            package = getattr(jaxdp, name).__module__.split(".")[1]
            title = "answers and errors" if package == "core" else package
            groups.setdefault(title, []).append(("jaxdp", name))
    return [(title.capitalize(), found) for title, found in groups.items()]


def front_page() -> str:
    """Markdown of the front door's page: verbs, nouns, packages."""
    lines = ["# jaxdp", "", inspect.getdoc(jaxdp) or ""]
    for title, rows in _front():
        lines += ["", f"## {title}", "", *_table(rows)]
    lines += ["", "## Packages", "", "| name | what is in it |", "|---|---|"]
    for door in pages():
        if door != "jaxdp":
            what = _summary(importlib.import_module(door))
            lines += [f"| [`{door}`](../{door}/index.md) | {what} |"]
    return "\n".join(lines) + "\n"


def page(door: str) -> str:
    """Markdown of a door's page: what it is for, and all names that it lists."""
    opening = inspect.getdoc(importlib.import_module(door)) or ""
    rows = [(door, name) for name in _ordered(door, names(door))]
    return "\n".join([f"# {door}", "", opening, "", *_table(rows)]) + "\n"


def _entry(path: str, source: str) -> str:
    """The page of one name, under the name that a user writes."""
    shown = "" if source == path else f"\n    options:\n      heading: {path}"
    # The search knows the words of a name; it is told the name in small letters too.
    words = _WORDS.findall(source.rpartition(".")[2])
    tag = f"tags: [{''.join(words).lower()}]\n" if len(words) > 1 else ""
    # A verb of the front door comes before the pages that tell what it is used for.
    weight = "search: {boost: 8}\n" if path in VERBS and path.count(".") == 1 else ""
    return f"---\ntitle: {path}\n{tag}{weight}---\n\n::: {source}{shown}\n"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    """Names, each with its door, as links with their first sentences."""
    return ["| name | what it is |", "|---|---|"] + [
        f"| [`{path_of(door, name)}`][{source_of(door, name)}] "
        f"| {_summary(getattr(importlib.import_module(door), name))} |"
        for door, name in rows
    ]


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
        rows = [(door, name) for name in _ordered(door, found)]
        lines += ["", f"## [{door}]({door}/index.md)", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _summary(thing: object) -> str:
    """The first line of a docstring, as a cell of a table."""
    text = (inspect.getdoc(thing) or "").strip().split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")
