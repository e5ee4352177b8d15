"""Which programs this process has compiled, so that the page can say when it compiles another."""

import threading
from collections.abc import Callable, Hashable

import jax

# A compiled program keeps some megabytes for as long as JAX remembers it.
MOST_PROGRAMS = 300


class Programs:
    """The programs that have run, by what they depend on; shared by all pages of a process.

    Args:
        most: how many there may be before all of them are forgotten, here and by JAX.
        forget: makes JAX forget what it has compiled.
    """

    def __init__(self, most: int = MOST_PROGRAMS, forget: Callable[[], None] = jax.clear_caches):
        self._known: set[Hashable] = set()
        self._most, self._forget = most, forget
        self._lock = threading.Lock()

    def __contains__(self, program: Hashable) -> bool:
        with self._lock:
            return program in self._known

    def add(self, program: Hashable) -> None:
        """Note that a program has run."""
        with self._lock:
            if program not in self._known and len(self._known) >= self._most:
                self._known.clear()
                self._forget()
            else:
                self._known.add(program)


PROGRAMS = Programs()
