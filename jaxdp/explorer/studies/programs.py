"""Which programs this process has compiled, so that the page can say when it compiles another."""

import threading
from collections.abc import Hashable


class Programs:
    """The programs that have run, by what they depend on; shared by all pages of a process."""

    def __init__(self):
        self._known: set[Hashable] = set()
        self._lock = threading.Lock()

    def __contains__(self, program: Hashable) -> bool:
        with self._lock:
            return program in self._known

    def add(self, program: Hashable) -> None:
        """Note that a program has run."""
        with self._lock:
            self._known.add(program)


PROGRAMS = Programs()
