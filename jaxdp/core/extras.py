"""Optional packages: what is missing, and how to get it."""

import contextlib
from collections.abc import Iterator

# Packages whose names differ from their modules'.
_PACKAGES = {"dp_accounting": "dp-accounting", "sklearn": "scikit-learn"}


@contextlib.contextmanager
def require_extra(module: str, extra: str, purpose: str, otherwise: str = "") -> Iterator[None]:
    """Imports of a package that jaxdp does without; an error says what for, and how to get it."""
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
