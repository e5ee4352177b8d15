"""The installed version of jaxdp."""

import functools


@functools.cache
def installed_version() -> str:
    """The version of the distribution that is installed; "0+unknown" for a bare source tree."""
    import importlib.metadata

    try:
        return importlib.metadata.version("jaxdp-lab")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


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
