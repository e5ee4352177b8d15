"""Serves the page on this machine."""

import ipaddress
import socket
from typing import TYPE_CHECKING

import panel

from jaxdp.explorer.views.page import TITLE, new_page

if TYPE_CHECKING:
    import xarray

_LOOPBACK = ("127.0.0.1", "localhost")


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
    panel.serve(
        {"/": lambda: new_page(dataset)},
        address=address,
        port=port,
        websocket_origin=allowed_origins(address, port, origins),
        websocket_max_message_size=largest,
        title=TITLE,
        show=is_shown,
        verbose=False,
        location=False,
        start=True,
        threaded=False,
    )


def allowed_origins(address: str, port: int, more: tuple[str, ...]) -> list[str]:
    """From which pages a websocket may be opened: this one, under the names that lead to it.

    A page of another site, and one whose name has been pointed at this machine, has another origin
    and is refused.
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
