"""Whether a module is the user's, jaxdp's, an installed package's or Python's own.

A digest covers the user's modules by their content, jaxdp's by one hash of all its source files,
installed packages by their versions, and Python's own library by the version of Python.
"""

import enum
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import site
import sys
import sysconfig

# What numbers come from; what else a function reaches is added when it is reached.
_LIBRARIES = ("jax", "jaxlib", "numpy", "equinox", "diffrax", "optax", "lineax")
_COMPILED = (".so", ".pyd")
_INSTALLED = ("site-packages", "dist-packages")


class Owner(enum.Enum):
    """Whose a module is."""

    USER = enum.auto()
    COMPILED_BY_USER = enum.auto()
    JAXDP = enum.auto()
    INSTALLED = enum.auto()
    PYTHON = enum.auto()


def owner_of(name: str | None) -> Owner:
    """Whose the module of this name is; without a file, as in a notebook, the user's."""
    if not name or name == "__main__":
        return Owner.USER
    top = name.partition(".")[0]
    if top == "jaxdp":
        return Owner.JAXDP
    file = _file_of(name)
    # Some of Python's own have no file. A file of the user's may bear the name of one, and hide it.
    if top in sys.stdlib_module_names and (file is None or _is_of_python(file)):
        return Owner.PYTHON
    return _owner_of_file(file)


def described(name: str | None) -> str:
    """A module's name, with the version of the package where that is what counts."""
    if owner_of(name) is not Owner.INSTALLED:
        return str(name)
    return f"{name} {_version((name or '').partition('.')[0])}"


def versions() -> dict[str, str]:
    """The versions of the libraries that compute a sweep."""
    return {name: _version(name) for name in _LIBRARIES}


def python_version() -> str:
    """Python's version, as far as compiled code depends on it."""
    return ".".join(platform.python_version_tuple()[:2])


@functools.cache
def source_digest() -> str:
    """A hash of all source files of jaxdp, as they are when this process asks first."""
    state = hashlib.sha256()
    root = source_folder()
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
        # Git may give other line ends on other machines.
        content = path.read_bytes().replace(b"\r\n", b"\n")
        name = "/".join(path.relative_to(root).parts)
        state.update(f"{len(name)}:{name}:{len(content)}:".encode() + content)
    return state.hexdigest()


def source_folder() -> pathlib.Path:
    """The folder of the package jaxdp."""
    return pathlib.Path(__file__).resolve().parent.parent


def is_users(name: str | None) -> bool:
    """Whether the module of this name is one that the user wrote, in Python."""
    return owner_of(name) is Owner.USER


def _file_of(name: str) -> str | None:
    """The file of a module, which need not be imported yet; a package's folder without a file."""
    module = sys.modules.get(name) or sys.modules.get(name.partition(".")[0])
    if module is not None:
        return getattr(module, "__file__", None) or next(
            iter(getattr(module, "__path__", ())), None
        )
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    # Of a module that is built in, the origin is no file.
    file = spec.origin if spec.has_location else None
    return file or next(iter(spec.submodule_search_locations or ()), None)


@functools.cache
def _owner_of_file(file: str | None) -> Owner:
    if file is None:
        return Owner.USER
    path = pathlib.Path(file)
    parts = path.parts
    installed = _folders("purelib", "platlib") | {pathlib.Path(site.getusersitepackages())}
    if any(name in parts for name in _INSTALLED) or installed & set(path.parents):
        return Owner.INSTALLED
    if _is_of_python(file):
        return Owner.PYTHON
    return Owner.COMPILED_BY_USER if path.suffix in _COMPILED else Owner.USER


@functools.cache
def _is_of_python(file: str) -> bool:
    """Whether a file is of Python's own library, also where a link leads to it."""
    found = _folders("stdlib", "platstdlib") | {pathlib.Path(os.__file__).parent}
    folders = found | {folder.resolve() for folder in found}
    path = pathlib.Path(file)
    return bool(folders & {*path.parents, *path.resolve().parents})


def _folders(*names: str) -> set[pathlib.Path]:
    return {pathlib.Path(sysconfig.get_path(name)) for name in names}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    # The distribution may have another name than the package in it.
    for name in importlib.metadata.packages_distributions().get(package, ()):
        return importlib.metadata.version(name)
    return str(getattr(sys.modules.get(package), "__version__", "of an unknown version"))
