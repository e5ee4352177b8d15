"""Versions of installed distributions, and what that of jaxdp says of itself."""

import functools


@functools.cache
def version_of(distribution: str) -> str:
    """The version of an installed distribution; "0+unknown" of a bare source tree."""
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def installed_version() -> str:
    """The version of jaxdp that is installed."""
    return version_of("jaxdp-lab")


@functools.cache
def repository_address() -> str:
    """The address of the repository as the installed distribution states it, or ""."""
    import importlib.metadata

    try:
        stated = importlib.metadata.metadata("jaxdp-lab").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    named = (each.partition(", ") for each in stated)
    return next((address for name, _, address in named if name == "Repository"), "")
