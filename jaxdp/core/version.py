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
