"""Which statements of the four papers a line `Source:` names, and at what code it stands.

Such a line names a paper by its key (AC, PF, PK, DR) and then statements: `Source: PF Lemma B.1,
(4.3)`. It ends with its sentence. What stands behind a year is other literature's.
"""

import ast
import dataclasses
import functools
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a place in a folder of the tree is.
KINDS = {"jaxdp": "function", "tests": "test", "experiments": "experiment"}
# What computes a statement and serves no user of jaxdp.
STATEMENTS = "experiments/statements/"
# What a run judges, whose saved result a test reads.
JUDGED = f"{STATEMENTS}judged/"
# Tests of the documentation, whose docstrings quote such lines.
_QUOTING = "tests/documents/"
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
    """Code at which a line `Source:` stands.

    Attributes:
        path: of the file, in the tree.
        name: of the function or class, with its module where that is part of jaxdp.
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
        text: what follows `Source:`; read to the end of its first sentence.
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
    """What one match names, ranges written out."""
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
    stem, start = re.fullmatch(r"(.*?)(\d+)", first).groups()  # pyright: ignore[reportOptionalMemberAccess]
    other, stop = re.fullmatch(r"(.*?)(\d+)", last).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if stem != other or int(stop) <= int(start):
        raise ValueError(f"expected a range of statements, got {first} to {last}")
    return [f"{stem}{number}" for number in range(int(start), int(stop) + 1)]


@functools.cache
def everywhere() -> dict[tuple[str, str], list[Place]]:
    """For each statement that a line `Source:` of the tree names, where those lines stand."""
    found: dict[tuple[str, str], set[Place]] = {}
    for folder in KINDS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            if "Source:" in text and not name.startswith(_QUOTING):
                for statement, place in in_file(name, text):
                    found.setdefault(statement, set()).add(place)
    return {statement: sorted(places) for statement, places in found.items()}


def in_file(path: str, text: str) -> Iterator[tuple[tuple[str, str], Place]]:
    """The statements that a file of Python names, each with its place.

    Args:
        path: in the tree.
        text: of the file.
    """
    tree = ast.parse(text)
    for source, name in [*_of_docstrings(tree), *_of_comments(tree, text)]:
        for statement in named(source):
            yield statement, Place(path, _shown(path, name))


def _shown(path: str, name: str) -> str:
    """The name of a place: a part of jaxdp by its dotted name, of others without the folder."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if path.startswith("tests/"):
        # A test and not what is defined in it; a file of tests where it is the file's.
        outer = name.partition(".")[0]
        return (
            outer if outer.startswith("test_") else f"{module.rpartition('.')[2]}.{name}".strip(".")
        )
    if path.startswith("experiments/"):
        return f"{module.rpartition('.')[2]}.{name}".strip(".")
    return f"{module}.{name}".strip(".")


def _sources(text: str) -> list[str]:
    """What follows each `Source:` in a text."""
    return text.split("Source:")[1:]


def _definitions(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """All functions and classes with their dotted names inside the module, outer ones first."""
    found: list[tuple[str, ast.AST]] = []

    def visit(node: ast.AST, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{inside}.{child.name}".strip(".")
                found.append((name, child))
                visit(child, name)
            else:
                visit(child, inside)

    visit(tree, "")
    return found


def _of_docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each source in a docstring, with the name of what it explains."""
    for name, node in [("", tree), *_definitions(tree)]:
        for source in _sources(ast.get_docstring(node) or ""):  # pyright: ignore[reportArgumentType]
            yield source, name


def _of_comments(tree: ast.Module, text: str) -> Iterator[tuple[str, str]]:
    """Each source in a comment, with the definition that it is in or stands just above."""
    blocks: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip("# ")
            if blocks and blocks[-1][0] == line - 1 and not token.line[: token.start[1]].strip():
                blocks[-1] = line, f"{blocks[-1][1]}\n{words}"
            else:
                blocks.append((line, words))
    definitions = _definitions(tree)
    for line, words in blocks:
        for source in _sources(words):
            yield source, _around(line, definitions)


def _around(line: int, definitions: list[tuple[str, ast.AST]]) -> str:
    """The definition that begins on the next line, or the innermost that has the line."""
    inner = ""
    for name, node in definitions:
        decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
        first, last = min([node.lineno, *decorators]), node.end_lineno  # pyright: ignore[reportAttributeAccessIssue]
        if first == line + 1:
            return name
        if first <= line <= last:
            inner = name
    return inner
