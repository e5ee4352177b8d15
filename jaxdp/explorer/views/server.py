"""Serves the page on this machine to browsers that ask for it under one of its own names.

A server at the loopback address is within reach of every web page that this machine's browser
shows: a page of another site can make the browser ask for any path, and can point its own name at
this machine. Bokeh's own option names the origins that may open a websocket, over which alone the
page's content goes. Panel serves one path that imports a module named in the path: it is not found.
"""

import re
import socket
from collections.abc import Callable
from typing import Any

import panel
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets, create_hosts_allowlist
from panel.io.application import build_applications
from panel.io.resources import COMPONENT_PATH
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import ErrorHandler

# Without it a phone draws the page as wide as a desk's screen, and then small.
_TEMPLATE = (
    '{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">'
    "{% endblock %}"
)
_LOOPBACK = ("127.0.0.1", "localhost")
# Bytes of one message from a browser; those of sliders have some hundred.
_LARGEST_MESSAGE = 2**20


def new_server(
    make_page: Callable[[], Any], address: str, port: int, origins: tuple[str, ...] = ()
) -> tuple[BaseServer, int]:
    """A server of the page that is not started, and its port.

    Raises:
        ValueError: nothing can listen at this port of the address, or an origin cannot be read.
    """

    def page_of_session():
        document: Any = panel.state.curdoc
        document.template = _TEMPLATE
        return make_page()

    # Raises for an origin that Bokeh cannot read.
    create_hosts_allowlist([name for name in origins if not name.startswith("[")], port)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        reason = error.strerror
        raise ValueError(f"expected a free port at {address}, got {port}: {reason}") from None
    sockets, port = bind_sockets(address, port)
    allowed = allowed_origins(address, port, origins)
    pages = build_applications({"/": page_of_session}, title="jaxdp explore", location=False)
    application = BokehTornado(
        pages,
        extra_websocket_origins=allowed,
        websocket_max_message_size_bytes=_LARGEST_MESSAGE,
    )
    application.add_handlers(".*", [(f"/+{COMPONENT_PATH}.*", ErrorHandler, {"status_code": 404})])
    # A name of another site that has been pointed at this machine is no name of the page.
    others = "|".join(_pattern_of(name) for name in allowed)
    application.add_handlers(f"(?!(?:{others})$).*", [("/.*", ErrorHandler, {"status_code": 403})])
    http = HTTPServer(application)
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), port


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """The names under which the page may be asked for and may open a websocket."""
    names = [host_of(address)]
    if address in ("127.0.0.1", "::1"):
        names += [name for name in _LOOPBACK if name not in names]
    elif address in ("0.0.0.0", "::"):
        names = [*_LOOPBACK, socket.gethostname()]
    return [*(f"{name}:{port}" for name in names), *more]


def host_of(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def _pattern_of(origin: str) -> str:
    """The hosts of an origin as a regular expression; a star stands for any."""
    host = re.sub(r":(\d+|\*)$", "", origin).lower()
    return re.escape(host).replace(r"\*", ".*")
