"""Lets every test file import `helpers`, and keeps the number of compiled programs in bounds."""

import gc
import pathlib
import sys

import jax
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

# Each compiled program keeps some memory maps; Linux ends a process, by a segmentation fault in the
# compiler, that wants more than 65,530.
_MAPS, _MOST_MAPS = pathlib.Path("/proc/self/maps"), 40_000


@pytest.fixture(scope="module", autouse=True)
def _bounded_programs():
    """Forget what is compiled, at a file's end, where it has become much."""
    yield
    if _MAPS.exists() and _MAPS.read_text().count("\n") > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()
