"""Times of calls that take turns, made repeatable."""

import ctypes
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from jaxtyping import Float

Name = TypeVar("Name", bound=Hashable)


def alternate(
    calls: Mapping[Name, Callable[[], object]], num_rounds: int, seconds: float = math.inf
) -> dict[Name, Float[np.ndarray, " rounds"]]:
    """Seconds of each call in each round; NaN in rounds that a slow one leaves out.

    The call before leaves caches and threads of its own behind, so a call of less than a second is
    made twice and the second time counts.

    Args:
        calls: each waits until its work is done.
        num_rounds: rounds of each call. A call gets fewer if they do not fit into `seconds`: at
            least 3, or 1 if a single call takes longer.
        seconds: time for each call.
    """
    times = {name: np.full(num_rounds, np.nan) for name in calls}
    estimates = {name: _seconds(call) for name, call in calls.items()}
    is_doubled = {name: estimate < 1 for name, estimate in estimates.items()}
    for number in range(num_rounds):
        for name, call in calls.items():
            cost = estimates[name] * (1 + is_doubled[name])
            most = max(3 if cost < seconds else 1, math.floor(min(num_rounds, seconds / cost)))
            if number % -(-num_rounds // most) == 0:
                if is_doubled[name]:
                    call()
                times[name][number] = _seconds(call)
    return times


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def keep_freed_memory() -> bool:
    """Tell glibc to keep memory that calls free; False if there is no glibc.

    It hands large buffers back, and each call faults them in anew, page by page. That takes up to
    several times as long as the call itself, or no time, depending on the history of the process.
    Call this before threads have memory of their own.
    """
    arenas, mapped_buffers, trim = (-8, 1), (-4, 0), (-1, -1)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return all(mallopt(*option) for option in (arenas, mapped_buffers, trim))
