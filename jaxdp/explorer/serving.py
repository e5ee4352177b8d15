"""Opens the page: in a notebook, or as a server on this machine.

A server at the loopback address is within reach of every web page that this machine's browser
shows: a page of another site can make the browser ask for any path, and can point its own name at
this machine. Bokeh's list of origins says which pages may open a websocket, over which alone the
page's content goes, but it admits any page under the name by which the browser asks for the server:
requests under other names are refused here. Panel serves one path that imports a module named in
the path: it is not found.
"""

import ipaddress
import os
import re
import socket
import webbrowser
from collections.abc import Callable
from typing import Any

from jaxdp.core.packages import require_extra
from jaxdp.explorer.files import open_features, open_store

LOOPBACK = "127.0.0.1"
# Without it a phone draws the page as wide as a desk's screen, and then small.
_TEMPLATE = (
    '{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">'
    "{% endblock %}"
)
# Bytes of one message from a browser; those of sliders have some hundred.
_LARGEST_MESSAGE = 2**20


def page(
    store: str | os.PathLike | None = None, *, features: str | os.PathLike | None = None
) -> Any:
    """The page as an object of Panel, for a notebook (after `panel.extension()`) or a server.

    Args:
        store: the folder of a sweep (`jaxdp.sweep(..., store=...)`), or the .nc file of one, for
            a tab of its own; None for no such tab.
        features: an .npz of public features (`open_features`), for a tab that forecasts what
            private training on such rows gives; None for no such tab.

    Returns:
        The page, an object of Panel.

    Raises:
        ModuleNotFoundError: Panel is not installed; names the extra.
        ValueError: the store cannot be read, or the file has no features.

    Example:
        >>> import jaxdp.explorer
        >>> jaxdp.explorer.page().servable()  # doctest: +SKIP
    """
    with require_extra("panel", "explore", "jaxdp.explorer"):
        from jaxdp.explorer.tabs import new_page
    return new_page(*_opened(store, features))


def serve(
    store: str | os.PathLike | None = None,
    *,
    features: str | os.PathLike | None = None,
    address: str = LOOPBACK,
    port: int = 5006,
    origins: tuple[str, ...] = (),
    is_shown: bool = True,
) -> None:
    """Serve the page until the process is interrupted.

    Anybody who can reach the address can open a page and use this machine's time, so it is the
    loopback address unless another is asked for; other users of this machine reach that too, as
    there is no password. Pages of other sites in a browser of this machine are kept out: a request
    has to name an address of the page as its host, and a websocket, over which all content goes, as
    its origin. Settings are numbers and names of choices that are checked here; no code and no path
    is taken from a browser.

    Args:
        store, features: as for `page`.
        address: IPv4 address to listen at.
        port: port to listen at; 0 for a free one.
        origins: further `host:port` under which browsers know the page, behind a proxy for
            example. A `*` admits all.
        is_shown: whether a browser is opened.

    Raises:
        ModuleNotFoundError: Panel is not installed; names the extra.
        ValueError: the store cannot be read, the file has no features, or the address, the port or
            an origin cannot be used.

    Example:
        >>> import jaxdp.explorer
        >>> jaxdp.explorer.serve(port=0)  # doctest: +SKIP
    """
    with require_extra("panel", "explore", "jaxdp explore"):
        from jaxdp.explorer.parts import OVER
        from jaxdp.explorer.tabs import new_page
    opened = _opened(store, features)
    server, port = new_server(lambda: new_page(*opened), address, port, origins)
    page_address = f"http://{address}:{port}"
    print(f"{page_address}  (Ctrl-C ends it)", flush=True)
    server.start()
    if is_shown:
        server.io_loop.add_callback(webbrowser.open, page_address)
    try:
        server.io_loop.start()
    finally:
        OVER.set()


def new_server(
    make_page: Callable[[], Any], address: str, port: int, origins: tuple[str, ...] = ()
) -> tuple[Any, int]:
    """A server of the page that is not started, and its port.

    ValueError if it cannot listen at this port of the address, or cannot read an origin.
    """
    import panel
    from bokeh.server.server import BaseServer
    from bokeh.server.tornado import BokehTornado
    from bokeh.server.util import bind_sockets, create_hosts_allowlist
    from panel.io.application import build_applications
    from panel.io.resources import COMPONENT_PATH
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop
    from tornado.web import ErrorHandler

    def page_of_session():
        document: Any = panel.state.curdoc
        document.template = _TEMPLATE
        return make_page()

    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        raise ValueError(f"expected address to be an IPv4 address, got {address!r}") from None
    if not 0 <= port < 2**16:
        raise ValueError(f"expected 0 <= port < 65536, got {port}")
    create_hosts_allowlist(list(origins), port)  # raises for an origin that cannot be read
    try:
        socket.create_server((address, port)).close()
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
    # The hosts of the origins; a star stands for any name.
    hosts = (re.escape(re.sub(r":(\d+|\*)$", "", name).lower()) for name in allowed)
    others = f"(?!(?:{'|'.join(hosts)})$).*".replace(r"\*", ".*")
    application.add_handlers(others, [("/.*", ErrorHandler, {"status_code": 403})])
    http = HTTPServer(application)
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), port


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """The names under which the page may be asked for and may open a websocket."""
    names = {
        LOOPBACK: [LOOPBACK, "localhost"],
        "0.0.0.0": [LOOPBACK, "localhost", socket.gethostname()],
    }
    return [*(f"{name}:{port}" for name in names.get(address, [address])), *more]


def _opened(store: str | os.PathLike | None, features: str | os.PathLike | None):
    found = None if features is None else (str(features), open_features(features))
    return None if store is None else open_store(store), found
