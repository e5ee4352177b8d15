"""Serves the page on this machine, and answers only what a browser asks for the page itself.

A server at the loopback address is within reach of every web page that this machine's browser
shows: a page of another site can make the browser ask for any path, and can point its own name at
this machine, so that browsers take the answers for its own. Bokeh holds the origin of websockets
alone, and Panel serves more paths than the page needs, one of which imports a module that the path
names.
"""

import socket
from collections.abc import Callable, Collection
from typing import Any

import panel
from bokeh.server.util import check_allowlist
from panel.io.server import Server, get_server
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

_TITLE = "jaxdp explore"
# Without it a phone draws the page as wide as a desk's screen, and then small.
_TEMPLATE = (
    '{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">'
    "{% endblock %}"
)
_LOOPBACK = ("127.0.0.1", "localhost")
_PAGE, _SOCKET = "/", "/ws"
_PATHS = (_PAGE, _SOCKET, "/favicon.ico")
# Scripts and styles of Bokeh and Panel.
_FILES = "/static/"
# Sessions at once, each with its own widgets and its own thread: tabs of browsers, and those that
# were closed some seconds ago.
MOST_SESSIONS = 16
# Bytes of one message from a browser; those of sliders have some hundred.
_LARGEST_MESSAGE = 2**20


def new_server(
    make_page: Callable[[], Any],
    address: str,
    port: int,
    origins: tuple[str, ...] = (),
    *,
    is_shown: bool = False,
    most_sessions: int = MOST_SESSIONS,
) -> Server:
    """A server of the page that answers what belongs to the page and nothing else, not started.

    ValueError where nothing can listen at this port of the address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        reason = error.strerror
        raise ValueError(f"expected a free port at {address}, got {port}: {reason}") from None
    # Bokeh does not read addresses of version 6, which are added below.
    named = [name for name in origins if not name.startswith("[")]

    def page_of_session():
        document: Any = panel.state.curdoc
        document.template = _TEMPLATE
        return make_page()

    server = get_server(
        {"/": page_of_session},
        address=address,
        port=port,
        websocket_origin=named or None,
        websocket_max_message_size=_LARGEST_MESSAGE,
        title=_TITLE,
        show=is_shown,
        verbose=False,
        location=False,
        start=False,
    )
    application = server._tornado
    allowed = application.websocket_origins
    if not named:
        # Where none is named Bokeh adds localhost, whatever the address.
        allowed.clear()
    allowed.update(allowed_origins(address, server.port or port, origins))
    gate = _Gate(allowed, application.applications.values(), most_sessions)
    application.default_router.rules.insert(0, Rule(gate, _Refusal))
    return server


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """Under which names the page may be asked for, and from which a websocket may be opened.

    A page of another site has another origin, and a name that has been pointed at this machine is
    another host: both are refused.
    """
    names = [host_of(address)]
    if address in ("127.0.0.1", "::1"):
        names += [name for name in _LOOPBACK if name not in names]
    elif address in ("0.0.0.0", "::"):
        names = [*_LOOPBACK, socket.gethostname()]
    return [*(f"{name}:{port}" for name in names), *more]


def host_of(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


class _Gate(Matcher):
    """Matches the requests that are refused, before any other handler sees them."""

    def __init__(self, allowed: Collection[str], contexts: Collection[Any], most: int):
        self._allowed, self._contexts, self._most = list(allowed), contexts, most

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        refusal = self._refusal(request)
        return None if refusal is None else {"target_kwargs": {"refusal": refusal}}

    def _refusal(self, request: HTTPServerRequest) -> tuple[int, str] | None:
        """Status and one sentence, or None for what is answered."""
        # A name that was pointed at this machine stands here, whatever the address behind it.
        if not check_allowlist(request.headers.get("Host", "").lower(), self._allowed):
            return 403, (
                "expected an address of the page: the one that was printed when it was started, or "
                "one that was given as an origin when it was started"
            )
        # Browsers say it of requests to a loopback address and over https.
        if request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site":
            return 403, "expected no request from another site: type the address, or paste it"
        if request.path not in _PATHS and not request.path.startswith(_FILES):
            return 404, "expected the page or what it needs"
        # The websocket of a page belongs to a session that counts already.
        taken = sum(len(list(each.sessions)) for each in self._contexts)
        if request.path in (_PAGE, _SOCKET) and taken + (request.path == _PAGE) > self._most:
            return 503, f"expected at most {self._most} pages at once: close one, and wait a minute"
        return None


class _Refusal(RequestHandler):
    """Answers with a status and one sentence."""

    def initialize(self, refusal: tuple[int, str]) -> None:
        self._refusal = refusal

    def prepare(self) -> None:
        status, sentence = self._refusal
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{sentence}\n")
