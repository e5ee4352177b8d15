"""Which folder may import which, and what importing jaxdp may not do."""

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "jaxdp"
# A module imports only lower layers, or its own folder.
LAYERS = [
    {"core"},
    {"data", "losses", "schedules", "privacy"},
    {"clipping", "problems"},
    {"algorithms"},
    {"simulation", "theory", "kernels"},
    {"attacks"},
    {"comparison", "planning", "sweeps"},
    {"regression"},
    {"plots", "estimators"},
    {"explorer"},
    {"cli"},
    {"__main__"},
]
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}
# Heavy or optional packages are imported where they are used.
LAZY = {"matplotlib", "pandas", "xarray", "sklearn", "dp_accounting"}
LAZY |= {"ipywidgets", "panel", "bokeh", "tqdm"}
# Whose classes cannot be defined without their package; the front door imports it when asked.
NEEDS = {"estimators": {"sklearn"}, "explorer": {"panel", "bokeh"}}
# Rooms that the front door opens when asked, and what of SciPy takes long: `import scipy` takes
# none of it, and `scipy.special.ndtr` imports `scipy.special` where it is used.
ON_DEMAND = {"attacks", "estimators", "kernels", "plots", "regression"}
SLOW = {f"scipy.{part}" for part in ("special", "linalg", "optimize", "sparse", "spatial", "stats")}
SLOW |= {f"jaxdp.{room}" for room in ON_DEMAND}


@functools.cache
def _imports(path):
    """(module, whether at the top level) of every import in a file."""
    tree = ast.parse(path.read_text())
    found, top = [], {id(node) for node in tree.body}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found += ((name, id(node) in top) for name in names)
    return found


def _room(module):
    """The folder or file of jaxdp that a dotted module name lies in, or None."""
    parts = module.split(".")
    return parts[1] if parts[0] == "jaxdp" and len(parts) > 1 and parts[1] in LAYER else None


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def _wrong_imports(path):
    """The imports of a file that its layer forbids."""
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in LAYER, f"{room} has no layer: add it to LAYERS"
    for module, is_top in _imports(path):
        package, other = module.split(".")[0], _room(module)
        is_higher = other not in (None, room) and LAYER[other] >= LAYER[room]
        is_heavy = package in LAZY - NEEDS.get(room, set()) or module.startswith("scipy.")
        # Experiments are no part of what is installed.
        if package == "experiments" or is_higher or (is_top and is_heavy):
            yield module


def test_a_room_imports_only_lower_rooms_and_heavy_packages_where_they_are_used():
    wrong = {str(path.relative_to(ROOT)): list(_wrong_imports(path)) for path in FILES}
    assert {path: modules for path, modules in wrong.items() if modules} == {}


def test_theory_and_simulation_never_see_each_other():
    for room, other in [("theory", "simulation"), ("simulation", "theory")]:
        seen = {
            _room(module) for path in (PACKAGE / room).rglob("*.py") for module, _ in _imports(path)
        }
        assert other not in seen


# LAPACK's operations. A vmapped one can lock up a CPU: core/numerics/batching.py.
LAPACK = {"cholesky", "cho_factor", "cho_solve", "eig", "eigh", "eigvals", "eigvalsh", "expm"}
LAPACK |= {"inv", "lstsq", "lu", "pinv", "qr", "schur", "solve", "solve_triangular", "sqrtm", "svd"}
JAXS_OWN = {"jnp.linalg", "jax.scipy.linalg", "lax.linalg"}


def _unsafe_decompositions(text):
    """Calls of JAX's decompositions in a file that do not go through `one_at_a_time`."""
    tree = ast.parse(text)
    safe = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("one_at_a_time")
        for argument in node.args
        for part in ast.walk(argument)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "jax.scipy.linalg":
            yield ast.unparse(node)
        is_call = isinstance(node, ast.Attribute) and node.attr in LAPACK and id(node) not in safe
        if is_call and ast.unparse(node.value) in JAXS_OWN:
            yield ast.unparse(node)


def test_no_decomposition_in_a_program_can_lock_up():
    for path in FILES:
        unsafe = list(_unsafe_decompositions(path.read_text()))
        assert not unsafe or path.stem == "batching", f"{path}: {unsafe}"
    assert list(_unsafe_decompositions("f = jax.vmap(jnp.linalg.qr)"))
    assert list(_unsafe_decompositions("from jax.scipy.linalg import solve_triangular"))
    assert not list(_unsafe_decompositions("f = jax.vmap(one_at_a_time(jnp.linalg.qr))"))
    assert not list(_unsafe_decompositions("f = np.linalg.qr"))


ROOMS = sorted({path.parent for path in FILES if path.parent != PACKAGE})


def _circle(edges):
    """A path through a directed graph that ends where it began, or None."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def _circle_in(room):
    """Files and folders of a room that import each other in a circle, or None."""
    prefix = ".".join(("jaxdp", *room.relative_to(PACKAGE).parts, ""))
    members = {path.stem for path in room.glob("*.py")} | {path.name for path in room.iterdir()}
    edges = {}
    for path in room.rglob("*.py"):
        own = path.relative_to(room).parts[0].removesuffix(".py")
        others = {
            module.removeprefix(prefix).split(".")[0]
            for module, _ in _imports(path)
            if module.startswith(prefix)
        }
        # The room's door opens what is inside; nothing inside imports the door.
        if own != "__init__":
            edges.setdefault(own, set()).update((others & members) - {own})
    return _circle(edges)


def test_the_files_and_folders_of_a_room_import_each_other_in_one_direction():
    assert [circle for circle in map(_circle_in, ROOMS) if circle] == []
    assert _circle({"a": {"b"}, "b": {"a"}})


def test_type_checkers_are_told_of_what_the_front_door_opens():
    import jaxdp

    for name in ON_DEMAND:
        assert name in dir(jaxdp)
        assert getattr(jaxdp, name).__name__ == f"jaxdp.{name}"
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = jaxdp.nothing_of_this_name
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    stub = {
        (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = (*jaxdp._HOMES.items(), *jaxdp._ALSO.items())
    found = {(f"jaxdp.{home}", name) for home, names in homes for name in names}
    assert stub == found | {("jaxdp", room) for room in jaxdp._ROOMS}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {*jaxdp._ROOMS} == folders - {"cli", "core"}
    assert len(jaxdp.__all__) <= 50


def _opens_something(door):
    """Whether a door lists names; that of a room in a room may leave this to the outer one."""
    is_inner = door.parent.parent not in (ROOT, PACKAGE)
    return door.parent.name != "core" and not (is_inner and not bool(_imports(door)))


DOORS = sorted(filter(_opens_something, PACKAGE.rglob("__init__.py")))


def test_every_door_lists_what_it_opens():
    for path in DOORS:
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name
            for part in tree.body
            for node in (part.body if isinstance(part, ast.With) else [part])
            if isinstance(node, ast.ImportFrom) and node.module != "typing"
            for alias in node.names
            if not (alias.asname or "").startswith("_")
        }
        module = importlib.import_module(".".join(path.parent.relative_to(ROOT).parts))
        listed = set(module.__all__)
        assert len(module.__all__) == len(listed), path
        assert imported <= listed <= set(dir(module)), path
        assert all(hasattr(module, name) for name in listed), path


def test_no_module_shadows_a_verb():
    import jaxdp

    verbs = {name for name in jaxdp.__all__ if callable(getattr(jaxdp, name))}
    assert not verbs & {path.stem for path in PACKAGE.glob("*.py")}


def test_importing_changes_no_global_state_and_nothing_heavy():
    code = (
        "import jax, signal, sys; before = jax.config.values.copy(); "
        "before_signal = signal.getsignal(signal.SIGINT); "
        "import jaxdp; assert 'diffrax' not in sys.modules; "
        "jaxdp.planning.optimal_strategy; "
        "[getattr(jaxdp, name) for names in jaxdp._HOMES.values() for name in names]; "
        "assert jax.config.values == before; "
        f"heavy = {LAZY | SLOW} & set(sys.modules); assert not heavy, heavy; "
        "assert signal.getsignal(signal.SIGINT) is before_signal"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
