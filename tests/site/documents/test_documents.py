"""Names, paths, links and commands that a document shows are there."""

import ast
import builtins
import functools
import json
import pydoc
import re
import shlex

import helpers
import pytest
from pages import PAGES, ROOT, blocks, text_of

from jaxdp.cli.entry import make_parser

# A history may tell of what is gone.
EXPERIMENTS = {
    path.relative_to(ROOT).as_posix() for path in (ROOT / "experiments").rglob("README.md")
}
DOCUMENTS = sorted({*PAGES, "SECURITY.md", "CONTRIBUTING.md", *EXPERIMENTS})
# Of Python and of other projects, and names that a reader is to make up.
FOREIGN = {"Abstract", "MyTheory", "cluster", "distributed", "error_if", "exercise", "plt"}
FOREIGN |= {"randbits", "secrets", "venv", "zsh"}
# Of Equinox.
FOREIGN |= {"tree_serialise_leaves"}
# Of opacus and jax_privacy.
FOREIGN |= {"CanaryScoreAuditor", "ModuleValidator", "auditing", "calibrate_dp_mechanism"}
FOREIGN |= {"dpsgd_event", "epsilon_one_run", "iterations", "matrix_factorization_privatizer"}
FOREIGN |= {"sampling_prob"}
_FILE = re.compile(r"[\w./*-]*\.(py|md|csv|json|nc|npz|png|toml|ipynb|txt|yml|cff|claim)")


@functools.cache
def _known() -> frozenset[str]:
    """All names in the code of the tree, arguments, keys and those of other packages among them."""
    names = {"jaxdp", *dir(builtins)}
    for folder in ("jaxdp", "experiments", "notebooks", "docs"):
        for path in (ROOT / folder).rglob("*"):
            names |= {path.stem, path.name}
            if path.suffix == ".py":
                for node in ast.walk(ast.parse(path.read_text())):
                    names |= _names_in(node)
    # Cases that other implementations are checked with, and what tests share.
    for path in (ROOT / "docs" / "papers" / "reference_cases").glob("*.json"):
        names |= set(json.loads(path.read_text()))
    return frozenset(names | {"helpers", *vars(helpers)})


def _names_in(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name):
            return {name}
        case ast.arg(arg=name) | ast.keyword(arg=str(name)) | ast.Attribute(attr=name):
            return {name}
        case ast.alias(name=name, asname=other):
            return {*name.split("."), other or name}
        case ast.Constant(value=str(name)) if name.isidentifier():
            return {name}
    return set()


def _names_used_in(span: str) -> set[str]:
    """The names of an expression; none where a span is no name, attribute or call."""
    if _FILE.fullmatch(span):
        return set()
    try:
        tree = ast.parse(span.removeprefix(".").replace("...", "None"), mode="eval")
    except SyntaxError:
        return set()
    is_name = isinstance(tree.body, (ast.Name, ast.Attribute, ast.Call))
    return set().union(*map(_names_in, ast.walk(tree))) if is_name else set()


def unknown_names(text: str) -> set[str]:
    """Names between backticks that no code knows, and `jaxdp.x.y` that leads nowhere."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    used = [_names_used_in(span) for span in re.findall(r"`([^`\n]+)`", prose)]
    unknown = set().union(*used) - _known() - FOREIGN
    paths = re.findall(r"(?<![\w/.-])jaxdp(?:\.[A-Za-z_]\w*)+(?!\.?[\w/])", text)
    return unknown | {path for path in set(paths) if not _leads_somewhere(path)}


def _leads_somewhere(path: str) -> bool:
    owner, _, field = path.rpartition(".")
    annotated = getattr(pydoc.locate(owner), "__annotations__", {})
    return pydoc.locate(path) is not None or field in annotated


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_in_documents_exist(name):
    assert unknown_names((ROOT / name).read_text()) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the constant is `jaxdp.theory.reconstruction_konstant`", "reconstruction_konstant"),
        ("ask `CoupledODEs()` for it", "CoupledODEs"),
        ("take `reconstruct(target, 3, kee=key)`", "kee"),
        ("see `found.no_such_field`", "no_such_field"),
        ("see `jaxdp.Trajectory.risk` and `.risk` after `make test`, `--drop a`", ""),
    ],
)
def test_a_wrong_name_is_noticed_and_a_right_one_passes(text, found):
    unknown = unknown_names(text)
    assert any(found in name for name in unknown) if found else not unknown


PATH = re.compile(r"(?<![\w/.-])(?:jaxdp|tests|experiments|notebooks|docs)/[\w/.]*\w")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_is_one_of_the_tree(document):
    named = PATH.findall((ROOT / document).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_readme_links_to_what_is_there():
    """The links of all other documents are checked where the site is built."""
    found = re.findall(r"\]\(([\w./]+)[#)]", text_of("README.md"))
    assert found
    assert [path for path in found if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")])
def test_commands_that_are_shown_parse(page):
    for line in "\n".join(blocks(page, "bash")).splitlines():
        if line.startswith("jaxdp "):
            assert make_parser().parse_args(shlex.split(line, comments=True)[1:])


def test_the_page_of_the_command_line_names_every_command_and_option_of_compare():
    text = text_of("docs/how_to/command_line.md")
    (commands,) = (dict(action.choices) for action in make_parser()._actions if action.choices)
    assert [name for name in commands if f"jaxdp {name}" not in text] == []
    options = [each for action in commands["compare"]._actions for each in action.option_strings]
    options = {each for each in options if each not in ("-h", "--help")}
    assert {each for each in options if f"`{each}" not in text} == set()
