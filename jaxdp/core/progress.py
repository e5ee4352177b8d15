"""What `progress=` takes: a function of the share that is done, or True for a bar."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.checks import require_callable

Listener = Callable[[float], None]


@contextlib.contextmanager
def listening(progress: Any, name: str) -> Iterator[Any]:
    """The function that is told of progress, or None; a bar is closed at the end.

    Args:
        progress: None or False for none, True for a bar with the remaining time on standard
            error, or a function, which is yielded as it is. Without tqdm the bar is a percentage.
        name: shown before the bar.

    Raises:
        TypeError: it is something else.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        require_callable("progress", progress, "True for a bar, None or a function")
        yield progress
        return
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield _percentage(name)
        return
    with tqdm(desc=name, total=100, unit="%", bar_format=_FORMAT) as bar:
        yield lambda share: bar.update(100 * min(share, 1) - bar.n)


_FORMAT = "{l_bar}{bar}| {elapsed}<{remaining}"


def _percentage(name: str) -> Listener:
    def show(share: float) -> None:
        end = "\n" if share >= 1 else ""
        print(f"\r{name}: {share:4.0%}", end=end, file=sys.stderr, flush=True)

    return show
