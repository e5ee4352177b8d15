"""Every name that a document shows is one that the package defines."""

import ast
import builtins
import functools
import importlib
import json
import re

import pytest
from pages import PAGES, ROOT

DOCUMENTS = (*PAGES, "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "experiments/README.md")
# Of Python, of other projects, and of names that a reader is to make up.
FOREIGN = {
    "jaxdp_tolerance",
    "jnp",
    "JAX_COMPILATION_CACHE_DIR",
    "notebooks",
    "adam",
    "answer",
    "Abstract",
    "Dataset",
    "MLP",
    "Linear",
    "Module",
    "MyTheory",
    "ProcessPoolExecutor",
    "Sequential",
    "FALSE_ALARM",
    "ThreadPoolExecutor",
    "helpers",
    "badge",
    "bash",
    "cluster",
    "dataclasses",
    "custom_vmap",
    "distributed",
    "docs",
    "equinox",
    "entropy",
    "exercise",
    "eqx",
    "error_if",
    "filter_vmap",
    "get_context",
    "grad",
    "install",
    "multiprocessing",
    "randbits",
    "np",
    "plt",
    "savefig",
    "secrets",
    "site",
    "tree_at",
    "shard_map",
    "venv",
    "vmap",
    "xarray",
}
_FILE = re.compile(r"[\w./*-]*\.(py|md|csv|json|nc|npz|png|toml|ipynb|txt|yml|cff|claim)")


@functools.cache
def _defined() -> frozenset[str]:
    """All names of jaxdp and its experiments, arguments and keys of tables among them."""
    names = {"jaxdp", *dir(builtins)}
    # Reference cases have the names of their files.
    names |= {path.stem for path in (ROOT / "docs").rglob("*.json")}
    for folder in ("jaxdp", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            names |= {path.stem, path.parent.name}
            for node in ast.walk(ast.parse(path.read_text())):
                names |= _names_made_by(node)
    # Cases that other implementations are checked with, and what their files hold.
    for path in (ROOT / "docs" / "reference_cases").glob("*.json"):
        names |= {path.stem, *json.loads(path.read_text())}
    return frozenset(names)


def _names_made_by(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return {name}
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
    if not isinstance(tree.body, (ast.Name, ast.Attribute, ast.Call)):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                names.add(name)
    return names


def unknown_names(text: str) -> set[str]:
    """Names between backticks that nothing defines, and `jaxdp.x.y` that leads nowhere."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    used = [_names_used_in(span) for span in re.findall(r"`([^`\n]+)`", prose)]
    unknown = set().union(*used) - _defined() - FOREIGN
    paths = re.findall(r"(?<![\w/.-])jaxdp(?:\.[A-Za-z_]\w*)+(?!\.?[\w/])", text)
    return unknown | {path for path in set(paths) if not _leads_somewhere(path)}


def _leads_somewhere(path: str) -> bool:
    found = importlib.import_module("jaxdp")
    for position, part in enumerate(path.split(".")[1:], start=2):
        if hasattr(found, part):
            found = getattr(found, part)
        elif isinstance(found, type):
            return part in getattr(found, "__annotations__", {})
        else:
            try:
                found = importlib.import_module(".".join(path.split(".")[:position]))
            except ImportError:
                return False
    return True


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_in_documents_exist(name):
    assert unknown_names((ROOT / name).read_text()) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the constant is `jaxdp.theory.reconstruction_konstant`", "reconstruction_konstant"),
        ("the constant is jaxdp.theory.reconstruction_konstant.", "reconstruction_konstant"),
        ("ask `CoupledODEs()` for it", "CoupledODEs"),
        ("take `reconstruct(target, 3, kee=key)`", "kee"),
        ("see `found.no_such_field`", "no_such_field"),
        ("`SecretNoise` in place of `secret_normals`", "secret_normals"),
        ("```python\njaxdp.simulated(problem)\n```", "jaxdp.simulated"),
    ],
)
def test_a_wrong_name_is_noticed(text, found):
    assert any(found in name for name in unknown_names(text))


def test_right_names_commands_and_files_pass():
    text = (
        "`jaxdp.attacks.reconstruct(target, 3, key=key)`, `make test`, `model.npz`, `.risk`, "
        "`jaxdp.Trajectory.risk`, jaxdp.theory.CoupledODE, `--drop a`, `LinearRegression`"
    )
    assert unknown_names(text) == set()


# A history may tell of files that are gone.
CURRENT = sorted(set(DOCUMENTS) - {"CHANGELOG.md"})
PATH = re.compile(r"(?<![\w/.-])(?:jaxdp|tests|experiments|notebooks|docs)/[\w/.]*\w")


@pytest.mark.parametrize("document", CURRENT)
def test_every_path_that_a_document_names_is_one_of_the_tree(document):
    named = PATH.findall((ROOT / document).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_path_that_is_gone_is_noticed():
    assert PATH.findall("subclass it (`jaxdp/schedules.py`).") == ["jaxdp/schedules.py"]
