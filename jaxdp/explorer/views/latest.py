"""Work in the background, of which only the latest piece counts.

A slider that is dragged sends values faster than a curve can follow; all but the last of those that
wait are dropped.
"""

import threading
import traceback
from collections.abc import Callable


class Ended(Exception):
    """The program ends: nobody will see what a job would still compute."""


def end_if_over() -> None:
    """Raise `Ended` in a job once the program ends; a long job asks now and then."""
    if not threading.main_thread().is_alive():
        raise Ended


class Latest:
    """One thread at a time, which ends when nothing is left to do.

    Python waits at its end for what the thread is doing: to be stopped within a compiled program
    would abort the process. What waits is dropped then.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._pending: tuple[Callable[[int], None], int] | None = None
        self._is_running = False
        self._number = 0

    def ask(self, job: Callable[[int], None]) -> None:
        """Do this next, in place of what waits; the job is given its number."""
        with self._lock:
            self._number += 1
            self._pending = job, self._number
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._work).start()

    @property
    def number(self) -> int:
        """Of the latest piece that was asked for: a job of a lower number is out of date."""
        return self._number

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._is_running

    def _work(self) -> None:
        while True:
            with self._lock:
                pending, self._pending = self._pending, None
                if pending is None:
                    self._is_running = False
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
