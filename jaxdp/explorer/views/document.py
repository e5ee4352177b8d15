"""Changes of the page's widgets that a background thread asks for.

Bokeh allows the widgets of a page to be changed only while the page's own session is at work. A
thread that has computed a curve therefore hands over a function that shows it, and the session
calls the function in its next turn.
"""

import collections
from collections.abc import Callable

import panel


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
        """Call the function, soon."""
        if self._is_closed:
            return
        if self._document is None:
            change()
        else:
            self._waiting.append(change)
            self._document.add_next_tick_callback(self._work_off)

    def _work_off(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    def _close(self, _context) -> None:
        self._is_closed = True
