"""Progress of long calls: `progress=` is a function of the share done, or True for tqdm's bar."""

import contextlib
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.checks import require_callable
from jaxdp.core.terminals import is_terminal

_OF_SHARES = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"

# How many calls hide the bars of those within them.
_num_hiding, _counting = 0, threading.Lock()


@contextlib.contextmanager
def listening(
    progress: Any, name: str, note: Callable[[float], str] | None = None, *, keep: bool = True
) -> Iterator[Callable[[float], None] | None]:
    """The function that is told of progress while a call lasts, or None.

    None and False stand for no function, True for a bar on standard error that also shows what
    `note` says at a share, and stays on the screen at the end if `keep` is true. Calls within show
    no bar that nobody has asked for, unless this is None.
    """
    if progress is None:
        yield None
        return
    with hidden():
        if progress is True:
            with _bar(name, note, keep) as told:
                yield told
        else:
            if progress is not False:
                require_callable("progress", progress, "True for a bar, None or a function")
            yield progress or None


@contextlib.contextmanager
def listening_where_seen(
    progress: Any, name: str, *, keep: bool = True
) -> Iterator[Callable[[float], None]]:
    """The function that is told of progress, if None stands for a bar that a person would see."""
    with listening(is_seen() if progress is None else progress, name, keep=keep) as told:
        yield told or (lambda share: None)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """While it lasts, no bar is shown that nobody has asked for, in any thread."""
    global _num_hiding
    with _counting:
        _num_hiding += 1
    try:
        yield
    finally:
        with _counting:
            _num_hiding -= 1


def is_seen() -> bool:
    """Whether a person would see a bar, and its line is not another one's."""
    # A process of a pool would write into the line of the one that waits for it.
    return not _num_hiding and multiprocessing.parent_process() is None and _is_overwritten()


def _is_overwritten() -> bool:
    """Whether lines are written over: in a terminal, and by a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython and ipython.get_ipython(), "kernel", None)
    return is_terminal(sys.stderr) or kernel is not None


@contextlib.contextmanager
def _bar(
    name: str, note: Callable[[float], str] | None, keep: bool
) -> Iterator[Callable[[float], None]]:
    """A bar of tqdm on standard error; in a file or a pipe it is written every 30 seconds.

    No failure to show something ends a run that is paid for.
    """
    bar: Any = None
    with contextlib.suppress(Exception):
        from tqdm.auto import tqdm

        bar = tqdm(
            total=1.0,
            desc=name,
            leave=keep,
            # A stream that fails is first written to once the bar is made and can be closed.
            delay=1e-9,
            bar_format=_OF_SHARES,
            dynamic_ncols=True,
            miniters=0,
            mininterval=0.1 if _is_overwritten() else 30.0,
        )
        bar.refresh()

    def advance(share: float) -> None:
        with contextlib.suppress(Exception):
            if note is not None:
                bar.set_postfix_str(note(share), refresh=False)
            bar.update(min(share, 1.0) - bar.n)

    try:
        yield advance
    finally:
        with contextlib.suppress(Exception):
            bar.close()
