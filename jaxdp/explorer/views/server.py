"""Serves the page on this machine."""

import ipaddress
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from panel.io.server import Server, get_server

from jaxdp.explorer.views.gate import close_gate
from jaxdp.explorer.views.page import TITLE, new_page

if TYPE_CHECKING:
    import xarray

_LOOPBACK = ("127.0.0.1", "localhost")
# Sessions at once, each with its own widgets and its own thread: tabs of browsers, and those that
# were closed some seconds ago.
MOST_SESSIONS = 16


def run_server(
    dataset: "xarray.Dataset | None",
    address: str,
    port: int,
    origins: tuple[str, ...],
    *,
    is_shown: bool,
    largest: int,
) -> None:
    """Serve until interrupted; the arguments are those of `jaxdp.explorer.serve`, checked."""
    port = port or _free_port(address)
    _require_free(address, port)
    host = f"[{address}]" if ":" in address else address
    print(f"http://{host}:{port}  (Ctrl-C ends it)", flush=True)
    server = new_server(
        lambda: new_page(dataset), address, port, origins, is_shown=is_shown, largest=largest
    )
    server.start()
    server.io_loop.start()


def new_server(
    make_page: Callable[[], Any],
    address: str,
    port: int,
    origins: tuple[str, ...],
    *,
    is_shown: bool,
    largest: int,
    most_sessions: int = MOST_SESSIONS,
) -> Server:
    """A server of the page that answers what belongs to the page and nothing else, not started.

    Args:
        make_page: called for each session.
        address, port, origins, is_shown, largest: as for `run_server`; the port is a free one.
        most_sessions: that there may be at once.
    """
    allowed = allowed_origins(address, port, origins)
    server = get_server(
        {"/": make_page},
        address=address,
        port=port,
        # Bokeh does not read addresses of version 6, which are added below.
        websocket_origin=[name for name in allowed if not name.startswith("[")] or None,
        websocket_max_message_size=largest,
        title=TITLE,
        show=is_shown,
        verbose=False,
        location=False,
        start=False,
    )
    application = server._tornado
    application.websocket_origins.update(allowed)
    contexts = application.applications.values()
    close_gate(
        application,
        application.websocket_origins,
        lambda: sum(len(list(each.sessions)) for each in contexts),
        most_sessions,
    )
    return server


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """Under which names the page may be asked for, and from which a websocket may be opened.

    A page of another site has another origin, and a name that has been pointed at this machine is
    another host: both are refused.
    """
    names = [f"[{address}]" if ":" in address else address]
    if address in ("127.0.0.1", "::1"):
        names += [name for name in _LOOPBACK if name not in names]
    elif address in ("0.0.0.0", "::"):
        names = [*_LOOPBACK, socket.gethostname()]
    return [*(f"{name}:{port}" for name in names), *more]


def _free_port(address: str) -> int:
    with _listening(address, 0) as probe:
        return probe.getsockname()[1]


def _require_free(address: str, port: int) -> None:
    """Raise ValueError where nothing can listen there."""
    try:
        _listening(address, port).close()
    except OSError as error:
        raise ValueError(
            f"expected a free port at {address}, got {port}: {error.strerror}"
        ) from None


def _listening(address: str, port: int) -> socket.socket:
    version = ipaddress.ip_address(address).version
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    return socket.create_server((address, port), family=family)
