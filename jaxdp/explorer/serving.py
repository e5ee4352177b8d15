"""Opens the page in a notebook, or serves it on this machine.

Every web page in this machine's browser can send requests to a server at the loopback address, and
can point its own name at that address (DNS rebinding). Bokeh's list of origins restricts websockets
but admits an origin equal to the request's host, so requests for other hosts are refused here.
Panel's path that imports a module named in a request is switched off.
"""

import html
import ipaddress
import os
import re
import socket
import webbrowser
from collections.abc import Callable
from typing import Any

from jaxdp.core.packages import repository_address, require_extra
from jaxdp.explorer.files import open_features, open_store

LOOPBACK = "127.0.0.1"
# Without the viewport a phone shrinks a page as wide as a desktop's screen. If the system is dark,
# all colours are inverted, with their hues kept.
_TEMPLATE = """\
{% block preamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
html { background: white; }
@media (prefers-color-scheme: dark) { html { filter: invert(0.9) hue-rotate(180deg); } }
</style>
{% endblock %}
"""
_HEAD = (
    "<h1>What will private learning give?</h1>"
    '<p class="note">Move a slider: the predicted curve of DP-SGD and its cost follow. {}</p>'
)
_LINK = (
    '<a href="{}/blob/main/docs/how_to/explore.md" target="_blank" rel="noreferrer">'
    "How to use this page</a>"
)
# Bytes in one message from a browser; a slider sends a few hundred.
_LARGEST_MESSAGE = 2**20


def page(
    store: str | os.PathLike | None = None, *, features: str | os.PathLike | None = None
) -> Any:
    """Make the page for a notebook (after `panel.extension()`) or a server.

    Args:
        store: a sweep's folder (`jaxdp.sweep(..., store=...)`) or .nc file to show in a tab; None
            for no such tab.
        features: an .npz file of public features (see `open_features`), for a tab that forecasts
            private training on similar rows; None for no such tab.

    Returns:
        The page, an object of Panel.

    Raises:
        ModuleNotFoundError: Panel is not installed.
        ValueError: the store or the features cannot be read.

    Example:
        >>> import jaxdp.explorer
        >>> jaxdp.explorer.page().servable()  # doctest: +SKIP
    """
    return _page_maker(store, features)()


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

    There is no password: everybody who can reach the address can use this machine's time. Other
    users of this machine can reach the loopback address too; other sites' pages in a browser
    cannot. The server checks all settings, and takes no code and no path from a browser.

    Args:
        store, features: files to show, the same as in `page`.
        address: IPv4 address to listen at, default 127.0.0.1.
        port: port to listen at, default 5006; 0 for a free one.
        origins: further `host:port` names of the page, for example behind a proxy. A `*` admits
            all.
        is_shown: whether to open a browser, default True.

    Raises:
        ModuleNotFoundError: Panel is not installed.
        ValueError: a file cannot be read, or the address, the port or an origin cannot be used.

    Example:
        >>> import jaxdp.explorer
        >>> jaxdp.explorer.serve(port=0)  # doctest: +SKIP
    """
    server, port = new_server(_page_maker(store, features), address, port, origins)
    from jaxdp.explorer.parts import OVER

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
    """Return a server that is not started, and its port; ValueError for a wrong argument."""
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
    create_hosts_allowlist(list(origins), port)  # raises if an origin is malformed
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
    # Hosts of the allowed origins; a star matches any name.
    hosts = (re.escape(re.sub(r":(\d+|\*)$", "", name).lower()) for name in allowed)
    others = f"(?!(?:{'|'.join(hosts)})$).*".replace(r"\*", ".*")
    application.add_handlers(others, [("/.*", ErrorHandler, {"status_code": 403})])
    http = HTTPServer(application)
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), port


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """Return the names under which a browser may ask for the page and open a websocket."""
    names = {
        LOOPBACK: [LOOPBACK, "localhost"],
        "0.0.0.0": [LOOPBACK, "localhost", socket.gethostname()],
    }
    return [*(f"{name}:{port}" for name in names.get(address, [address])), *more]


def _page_maker(
    store: str | os.PathLike | None, features: str | os.PathLike | None
) -> Callable[[], Any]:
    """Open the files, and return a function that makes the page of one session."""
    with require_extra("panel", "explore", "jaxdp.explorer"):
        import panel
    from jaxdp.explorer.forecast_tab import ForecastTab
    from jaxdp.explorer.parts import pane
    from jaxdp.explorer.studies import STUDIES
    from jaxdp.explorer.sweep_tab import sweep_view
    from jaxdp.explorer.theory_tab import TheoryTab

    public = None if features is None else open_features(features)
    dataset = None if store is None else open_store(store)
    studies = {study.label: study for study in STUDIES}
    address = html.escape(repository_address())
    head = _HEAD.format(_LINK.format(address) if address else "")
    look: dict[str, Any] = {"sizing_mode": "stretch_width"}

    def new_page() -> Any:
        choice = panel.widgets.RadioButtonGroup(
            options=list(studies), margin=(8, 5, 12, 5), orientation="vertical"
        )
        made: dict[str, TheoryTab] = {}

        def shown(label: str) -> Any:
            # A study is made when it is first shown; a browser may send an unknown name.
            if label in studies and label not in made:
                made[label] = TheoryTab(studies[label])
            return made[label].view if label in made else None

        tabs = panel.Tabs(
            ("Theory", panel.Column(choice, panel.bind(shown, choice), **look)), **look
        )
        if public is not None:
            tabs.append(("Forecast", ForecastTab(public, str(features)).view))
        if dataset is not None:
            tabs.append(("Sweep", sweep_view(dataset)))
        return panel.Column(pane(head), tabs, margin=(4, 8), **look)

    return new_page
