"""Many repetitions that need nothing of one another, a process for each core."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from experiments.harness.command import track

Item = TypeVar("Item")
Result = TypeVar("Result")
# A process takes seconds to start: fewer items than this are done by the one that asks.
FEWEST = 50
# Of the linear algebra libraries that NumPy and SciPy may have, one thread in each process.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    name: Callable[[Item], str],
    *,
    fewest: int = FEWEST,
) -> list[Result]:
    """What the function returns for each item, in their order.

    Args:
        function: of a module, and what it returns, can be pickled.
        items: at least `fewest` for new processes, as many as there are cores.
        name: for a line on standard error when an item's turn has come, or its result.
        fewest: 2 or more.
    """
    if len(items) < fewest:
        return [function(item) for item in track(items, name)]
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    context = multiprocessing.get_context("spawn")
    # The processes that are started have this process's environment.
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    with ProcessPoolExecutor(count, context) as pool:
        found = []
        for number, result in enumerate(pool.map(function, items)):
            print(f"{number + 1}/{len(items)} {name(items[number])}", file=sys.stderr)
            found.append(result)
        return found
