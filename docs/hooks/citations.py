"""Statements of the four papers that lines `Source:` name, and the code with such a line.

Such a line names a paper by its key (AC, PF, PK, DR) and then statements: `Source: PF Lemma B.1,
(4.3)`. It ends with its sentence. Statements after a year belong to other literature.
"""

import ast
import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a place in a folder of the tree is.
KINDS = {"jaxdp": "function", "tests": "test", "experiments": "experiment"}
# What computes a statement and serves no user of jaxdp.
STATEMENTS = "experiments/statements/"
# What a run judges, whose saved result a test reads.
JUDGED = f"{STATEMENTS}judged/"
_NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"
_WORDS = "Theorem|Proposition|Lemma|Corollary|Definition|Assumption|Algorithm|Figure|Remark"
_LIST = rf"{_NUMBER}(?:(?:\s*[,/-]\s*|\s+(?:and|or|to)\s+|,\s+and\s+){_NUMBER})*"
_TOKEN = re.compile(
    r"\b(?P<key>AC|PF|PK|DR)\b"
    r"|(?P<year>\b(?:19|20)\d\d\b)"
    rf"|\b(?P<word>{_WORDS})s?\s+(?P<numbers>{_LIST})"
    r"|\bAppendix\s+(?P<appendix>[A-Z])(?![.\w])"
    rf"|(?<![\w~])(?!\((?:19|20)\d\d\))\((?P<first>{_NUMBER})\)(?:\s*(?:to|-)\s*\((?P<last>{_NUMBER})\))?"
)
_RANGE = re.compile(rf"({_NUMBER})(?:\s*-\s*|\s+to\s+)({_NUMBER})")
_ASIDE = re.compile(r"\$[^$]*\$|`[^`]*`")
_END = re.compile(r"(?<!\bal)\.(?=\s|$)|\n\s*\n|\bDerived:")


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """Code that has a line `Source:`.

    Attributes:
        path: path of the file, in the tree.
        name: name of the function or class, with its module if that is part of jaxdp.
    """

    path: str
    name: str

    @property
    def kind(self) -> str:
        """Function, test or experiment."""
        if self.path.startswith(JUDGED):
            return "test"
        is_statement = self.path.startswith(STATEMENTS)
        return "function" if is_statement else KINDS[self.path.partition("/")[0]]


def named(text: str) -> list[tuple[str, str]]:
    """The statements that a text names: pairs such as `("AC", "Theorem 4")`, `("PF", "(4.3)")`.

    Args:
        text: text after `Source:`; read to the end of its first sentence.
    """
    text = _ASIDE.sub(" ", text)
    end = _END.search(text)
    found = []
    key = None
    for match in _TOKEN.finditer(text[: end.start() if end else None]):
        if match["key"] or match["year"]:
            key = match["key"]
        elif key is not None:
            found += [(key, item) for item in _items(match)]
    return found


def items(text: str) -> list[str]:
    """The statements in a text about one paper: `Lemma 11, (18) to (20)` are four."""
    return [item for match in _TOKEN.finditer(text) for item in _items(match)]


def _items(match: re.Match[str]) -> list[str]:
    """The statements that one match names, ranges written out."""
    if match["appendix"]:
        return [f"Appendix {match['appendix']}"]
    if match["first"]:
        return [f"({number})" for number in _between(match["first"], match["last"])]
    if not match["word"]:
        return []
    spread = _RANGE.sub(lambda found: ",".join(_between(found[1], found[2])), match["numbers"])
    return [f"{match['word']} {number}" for number in re.findall(_NUMBER, spread)]


def _between(first: str, last: str | None) -> list[str]:
    """`B.1` to `B.3` is `B.1`, `B.2`, `B.3`."""
    if last is None:
        return [first]
    (stem, start), (other, stop) = (re.split(r"(?<!\d)(?=\d+$)", end) for end in (first, last))
    if stem != other or int(stop) <= int(start):
        raise ValueError(f"expected a range of statements, got {first} to {last}")
    return [f"{stem}{number}" for number in range(int(start), int(stop) + 1)]


@functools.cache
def everywhere() -> dict[tuple[str, str], list[Place]]:
    """The places of the lines `Source:` in the tree, by the statement that they name."""
    found: dict[tuple[str, str], set[Place]] = {}
    for folder in KINDS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            # Tests of the documentation quote such lines.
            if "Source:" in text and path.name != "test_coverage_page.py":
                for statement, place in in_file(name, text):
                    found.setdefault(statement, set()).add(place)
    return {statement: sorted(places) for statement, places in found.items()}


def in_file(path: str, text: str) -> Iterator[tuple[tuple[str, str], Place]]:
    """The statements that a file of Python names, each with its place.

    A comment belongs to the definition that begins just below it, else to the one around it.

    Args:
        path: path in the tree.
        text: contents of the file.
    """
    spans = [*_spans(ast.parse(text))]
    lines = text.splitlines()
    for match in re.finditer("Source:", text):
        number = text.count("\n", 0, match.start())
        place = number
        rest = text[match.end() :].partition('"""')[0]
        if "#" in lines[number].partition("Source:")[0]:
            while place < len(lines) and lines[place].lstrip().startswith("#"):
                place += 1
            count = max(place - number, 1)
            rest = "\n".join(line.lstrip().lstrip("#") for line in rest.splitlines()[:count])
        below = [name for first, _, name in spans if place > number and first == place]
        around = [name for first, last, name in spans if first <= number < last]
        name = (below or around or [""])[-1]
        for statement in named(rest):
            yield statement, Place(path, _shown(path, name))


def _spans(tree: ast.AST, inside: str = "") -> Iterator[tuple[int, int, str]]:
    """First line, line after the last, and dotted name of each definition, outer ones first."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            name = f"{inside}.{child.name}".strip(".")
            first = min(node.lineno for node in (child, *child.decorator_list)) - 1
            yield first, child.end_lineno or 0, name
            yield from _spans(child, name)
        else:
            yield from _spans(child, inside)


def _shown(path: str, name: str) -> str:
    """The name of a place: a part of jaxdp by its dotted name, of others without the folder."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if path.startswith("tests/") and name.startswith("test_"):
        # A test and not the definitions in it.
        return name.partition(".")[0]
    if not path.startswith("jaxdp/"):
        module = module.rpartition(".")[2]
    return f"{module}.{name}".strip(".")
