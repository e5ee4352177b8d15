"""Progress of long calls: `progress=` is a function of the share done, or True for a tqdm bar."""

import contextlib
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.checks import require_callable
from jaxdp.core.terminals import is_terminal

_BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
# Calls under way, in any thread, within which no automatic bar is shown.
_outer_calls: list[str] = []


@contextlib.contextmanager
def listening(
    progress: Any, name: str, note: Callable[[float], str] | None = None, *, keep: bool = True
) -> Iterator[Callable[[float], None] | None]:
    """The function to call with the share done, or None for None and False.

    True shows a bar on standard error with the text `note(share)`; if `keep`, it stays at the end.
    Unless `progress` is None, calls within show no automatic bar.
    """
    if progress is None:
        yield None
        return
    if not isinstance(progress, bool):
        require_callable("progress", progress, "True for a bar, None or a function")
    bar = _bar(name, note, keep) if progress is True else contextlib.nullcontext(progress or None)
    _outer_calls.append(name)
    try:
        with bar as listener:
            yield listener
    finally:
        _outer_calls.pop()


@contextlib.contextmanager
def listening_where_seen(
    progress: Any, name: str, *, keep: bool = True
) -> Iterator[Callable[[float], None]]:
    """As `listening`, but None shows a bar in a terminal or a notebook."""
    with listening(is_seen() if progress is None else progress, name, keep=keep) as listener:
        yield listener or (lambda share: None)


def is_seen() -> bool:
    """Whether an automatic bar would be seen, and would not break another bar's line."""
    return not _outer_calls and multiprocessing.parent_process() is None and _is_interactive()


def _is_interactive() -> bool:
    """Whether standard error is a terminal, or this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return is_terminal(sys.stderr) or getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def _bar(
    name: str, note: Callable[[float], str] | None, keep: bool
) -> Iterator[Callable[[float], None]]:
    """A tqdm bar, whose failures end no call; in a file it is written every 30 seconds."""
    bar: Any = None
    with contextlib.suppress(Exception):
        from tqdm.auto import tqdm

        interval = 0.1 if _is_interactive() else 30.0
        looks = {"bar_format": _BAR_FORMAT, "dynamic_ncols": True, "leave": keep}
        # The delay makes a bar that can be closed before a failing stream is written to.
        bar = tqdm(total=1.0, desc=name, delay=1e-9, miniters=0, mininterval=interval, **looks)
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
