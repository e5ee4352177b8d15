"""Work in the background, of which the latest piece counts, and how it reaches the page.

A slider that is dragged sends values faster than a curve can follow: one thread computes, and all
but the last of those that wait are dropped. Bokeh allows the widgets of a page to be changed only
while the page's own session is at work, so that the thread hands over a function that shows what it
has computed, and the session calls it in its next turn.
"""

import abc
import collections
import threading
import traceback
from collections.abc import Callable, Hashable
from typing import Any

import jax
import panel

from jaxdp.core.errors import NotCoveredError
from jaxdp.explorer.views.widgets import control_of, message_pane, pane, show_message, status_html

# What a wrong or impossible setting raises, or a computation that came to nothing.
_ANSWERS = (ValueError, RuntimeError, NotCoveredError, MemoryError, ImportError)
# A compiled program keeps some megabytes for as long as JAX remembers it.
MOST_PROGRAMS = 300


class Ended(Exception):
    """The program ends: nobody will see what a job would still compute."""


def end_if_over() -> None:
    """Raise `Ended` in a job once the program ends; a long job asks now and then."""
    if not threading.main_thread().is_alive():
        raise Ended


def guarded(job: Callable[[], None], answer: Callable[[str], None]) -> None:
    """Do a job of the page; what goes wrong is answered in a sentence, and the page goes on."""
    try:
        job()
        return
    except Ended:
        raise
    except _ANSWERS as error:
        message = str(error) or type(error).__name__
    except Exception as error:
        # A defect of ours, of which the terminal has the traceback.
        traceback.print_exc()
        message = f"a defect of jaxdp, {type(error).__name__}: the terminal says more"
    answer(message)


class Latest:
    """One thread at a time, which ends when nothing is left to do.

    Python waits at its end for what the thread is doing: to be stopped within a compiled program
    would abort the process. What waits is dropped then.

    Attributes:
        number: of the latest piece that was asked for; a job of a lower one is out of date.
        is_idle: whether nothing runs and nothing waits.
    """

    def __init__(self):
        self.number, self.is_idle = 0, True
        self._lock = threading.Lock()
        self._pending: tuple[Callable[[int], None], int] | None = None

    def ask(self, job: Callable[[int], None]) -> None:
        """Do this next, in place of what waits; the job is given its number."""
        with self._lock:
            self.number += 1
            self._pending = job, self.number
            if not self.is_idle:
                return
            self.is_idle = False
        threading.Thread(target=self._work).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                pending, self._pending = self._pending, None
                if pending is None:
                    self.is_idle = True
                    return
            job, number = pending
            try:
                end_if_over()
                job(number)
            except Ended:
                pass
            except Exception:
                # What was asked for next is still done.
                traceback.print_exc()


class Poster:
    """Hands functions to the document of the session in which it was made.

    They are called in the order in which they were handed over, which Bokeh alone does not promise
    of functions from other threads. In a notebook there is no such session, and a function is
    called at once.
    """

    def __init__(self):
        document = panel.state.curdoc
        is_session = document is not None and document.session_context is not None
        self._document = document if is_session else None
        self._is_closed = False
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        if is_session:
            panel.state.on_session_destroyed(self._close)

    def when_open(self, start: Callable[[], None]) -> None:
        """Call the function once a browser has loaded the page and opened its websocket.

        Whatever merely asks for the page's text, such as a picture's address on another page, then
        starts nothing.
        """
        if self._document is None:
            start()
        else:
            panel.state.onload(start)

    def post(self, change: Callable[[], None]) -> None:
        if self._document is None:
            change()
        elif not self._is_closed:
            self._waiting.append(change)
            self._document.add_next_tick_callback(self._work_off)

    def _work_off(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    def _close(self, _context) -> None:
        self._is_closed = True


class Programs:
    """The programs that this process has compiled, by what they depend on.

    Where there are too many, all of them are forgotten, here and by JAX.
    """

    def __init__(self, most: int = MOST_PROGRAMS, forget: Callable[[], None] = jax.clear_caches):
        self._known: set[Hashable] = set()
        self._most, self._forget = most, forget

    def __contains__(self, program: Hashable) -> bool:
        return program in self._known

    def add(self, program: Hashable) -> None:
        if program not in self._known and len(self._known) >= self._most:
            self._known.clear()
            self._forget()
        else:
            self._known.add(program)


# One for all pages of the process.
PROGRAMS = Programs()


class AbstractTab(abc.ABC):
    """The settings of a study, and one job at a time: what is being done is said, or why not."""

    _doing: str  # the job that is running, in words
    values: dict[str, Any]  # the settings that are shown, all of them valid
    view: Any  # the object of Panel

    def _set_up(self, study: Any, poster: Poster) -> None:
        self.study, self._poster, self._actions = study, poster, Latest()
        self.values = study.start()
        self.controls = {
            field.name: control_of(field, self._changed, self.refuse) for field in study.fields
        }
        self.status, self.message = pane(status_html("")), message_pane()

    @abc.abstractmethod
    def _changed(self, name: str, value: Any) -> None:
        """Take a setting that a widget proposes."""

    def refuse(self, message: str) -> None:
        """Say why something is not done; nothing else changes."""
        show_message(self.message, message)

    def _act(self, job: Callable[[], None]) -> None:
        if not self._actions.is_idle:
            self.refuse(f"one thing at a time: {self._doing}")
            return
        self.message.visible = False
        self._actions.ask(lambda _: guarded(job, self._failed))

    def _failed(self, message: str) -> None:
        self._poster.post(lambda: self.refuse(message))
        self._say("")

    def _say(self, text: str) -> None:
        """Say what is being done, between its parts."""
        end_if_over()
        self._poster.post(lambda: setattr(self.status, "object", status_html(text)))
