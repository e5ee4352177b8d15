"""Many repetitions that need nothing of one another, a process for each core."""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from experiments.harness.command import track

Item = TypeVar("Item")
Result = TypeVar("Result")
# A process takes seconds to start: fewer items than this run in the calling process.
FEWEST = 50
# One thread in each process for the linear algebra libraries of NumPy and SciPy.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    name: Callable[[Item], str],
    *,
    fewest: int = FEWEST,
) -> list[Result]:
    """Results of the function for all items, in their order.

    Args:
        function: a module's function, whose result can be pickled.
        items: arguments; from `fewest` on they are shared by new processes, one for each core.
        name: text of an item for standard error, when it is begun or its result has come.
        fewest: least number of items for new processes, 2 or more.
    """
    if len(items) < fewest:
        return [function(item) for item in track(items, name)]
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    context = multiprocessing.get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(count, context) as pool:
        found = []
        for number, result in enumerate(pool.map(function, items)):
            print(f"{number + 1}/{len(items)} {name(items[number])}", file=sys.stderr)
            found.append(result)
        return found


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """For the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
