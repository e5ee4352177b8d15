"""What `progress=` takes: a function of the share that is done, or True for a bar."""

import sys
from collections.abc import Callable
from typing import Any

from jaxdp.core.checks import require_callable

Listener = Callable[[float], None]

_FORMAT = "{l_bar}{bar}| {elapsed}<{remaining}"


def listener_of(progress: Any, name: str) -> Any:
    """The function that is told of progress, or None.

    Args:
        progress: None or False for none, True for a bar with the remaining time on standard
            error, which ends at a share of 1, or a function, which is returned as it is. Without
            tqdm the bar is a percentage.
        name: shown before the bar.

    Raises:
        TypeError: it is something else.
    """
    if progress is None or progress is False:
        return None
    if progress is not True:
        require_callable("progress", progress, "True for a bar, None or a function")
        return progress
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return _percentage(name)
    bar = tqdm(desc=name, total=100, bar_format=_FORMAT)

    def advance(share: float) -> None:
        bar.update(100 * min(share, 1) - bar.n)
        if share >= 1:
            bar.close()

    return advance


def _percentage(name: str) -> Listener:
    def show(share: float) -> None:
        end = "\n" if share >= 1 else ""
        print(f"\r{name}: {share:4.0%}", end=end, file=sys.stderr, flush=True)

    return show
