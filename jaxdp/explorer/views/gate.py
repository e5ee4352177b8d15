"""Which requests the page's server answers: those that a browser makes for the page itself.

A server at the loopback address is within reach of every web page that this machine's browser
shows: a page of another site can make the browser ask for any path, and can point its own name at
this machine, so that browsers take the answers for its own. Bokeh holds the origin of websockets
alone, and Panel serves more paths than the page needs, one of which imports a module that the path
names.
"""

from collections.abc import Callable, Collection
from typing import Any

from bokeh.server.util import check_allowlist
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import Application, RequestHandler

_PAGE, _SOCKET = "/", "/ws"
_PATHS = (_PAGE, _SOCKET, "/favicon.ico")
# Scripts and styles of Bokeh and Panel.
_FILES = "/static/"


def close_gate(
    application: Application,
    origins: Collection[str],
    num_sessions: Callable[[], int],
    most_sessions: int,
) -> None:
    """Refuse what does not belong to the page, before any other handler sees it.

    Args:
        application: of Tornado, not started yet.
        origins: `host:port` of each name that leads to the page.
        num_sessions: how many sessions there are now.
        most_sessions: that there may be before another one is refused.
    """
    matcher = _Refused(origins, num_sessions, most_sessions)
    application.default_router.rules.insert(0, Rule(matcher, _Refusal))


class _Refused(Matcher):
    """Matches the requests that are refused."""

    def __init__(
        self, origins: Collection[str], num_sessions: Callable[[], int], most_sessions: int
    ):
        self._origins, self._num_sessions, self._most = list(origins), num_sessions, most_sessions

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        found = self._refusal(request)
        if found is None:
            return None
        return {"target_kwargs": dict(zip(("status", "reason"), found, strict=True))}

    def _refusal(self, request: HTTPServerRequest) -> tuple[int, str] | None:
        """Status and one sentence, or None for what is answered."""
        # A name that was pointed at this machine stands here, whatever the address behind it.
        if not check_allowlist(request.headers.get("Host", "").lower(), self._origins):
            return 403, (
                "expected an address of the page: the one that was printed when it was started, or "
                "one that was given as an origin when it was started"
            )
        # Browsers say it of requests to a loopback address and over https.
        if request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site":
            return 403, "expected no request from another site: type the address, or paste it"
        if request.path not in _PATHS and not request.path.startswith(_FILES):
            return 404, "expected the page or what it needs"
        if self._is_full(request.path):
            return 503, f"expected at most {self._most} pages at once: close one, and wait a minute"
        return None

    def _is_full(self, path: str) -> bool:
        # The websocket of a page belongs to a session that counts already.
        taken = self._num_sessions() + (path == _PAGE)
        return path in (_PAGE, _SOCKET) and taken > self._most


class _Refusal(RequestHandler):
    """Answers with a status and one sentence."""

    def initialize(self, status: int, reason: str) -> None:
        self._answer = status, reason

    def prepare(self) -> None:
        status, reason = self._answer
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{reason}\n")
