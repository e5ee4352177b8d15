"""Installed packages: their versions, and errors that say how to get a missing one."""

import contextlib
import functools
from collections.abc import Iterator


@functools.cache
def version_of(distribution: str = "jaxdp-lab") -> str:
    """The version of an installed distribution; "0+unknown" for a bare source tree."""
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


@functools.cache
def repository_address() -> str:
    """The address of the repository in the installed distribution's metadata, or ""."""
    import importlib.metadata

    try:
        stated = importlib.metadata.metadata("jaxdp-lab").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    named = (each.partition(", ") for each in stated)
    return next((address for name, _, address in named if name == "Repository"), "")


# Packages whose names differ from their modules'.
_PACKAGES = {"dp_accounting": "dp-accounting", "sklearn": "scikit-learn"}


@contextlib.contextmanager
def require_extra(module: str, extra: str, purpose: str, otherwise: str = "") -> Iterator[None]:
    """Imports of an optional package; if it is missing the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs {_PACKAGES.get(module, module)} (the extra '{extra}'): "
            # The name `jaxdp` on the index is another project's.
            f'pip install -e ".[{extra}]" in a clone, or pip install "jaxdp-lab[{extra}]" from the '
            f"index{otherwise}",
            name=module,
        ) from None
