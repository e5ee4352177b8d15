"""Opens the page: in a notebook, or as a server on this machine."""

import ipaddress
import os
import webbrowser
from typing import Any

from jaxdp.core.extras import require_extra
from jaxdp.explorer.feature_files import open_features
from jaxdp.explorer.sweep_slices import open_store

LOOPBACK = "127.0.0.1"


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
        from jaxdp.explorer.views.page import new_page
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
        address: to listen at.
        port: to listen at; 0 for a free one.
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
        from jaxdp.explorer.views.page import new_page
        from jaxdp.explorer.views.server import host_of, new_server
        from jaxdp.explorer.views.tab import OVER
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise ValueError(f"expected address to be an IP address, got {address!r}") from None
    if not 0 <= port < 2**16:
        raise ValueError(f"expected 0 <= port < 65536, got {port}")
    opened = _opened(store, features)
    server, port = new_server(lambda: new_page(*opened), address, port, origins)
    page_address = f"http://{host_of(address)}:{port}"
    print(f"{page_address}  (Ctrl-C ends it)", flush=True)
    server.start()
    if is_shown:
        server.io_loop.add_callback(webbrowser.open, page_address)
    try:
        server.io_loop.start()
    finally:
        OVER.set()


def _opened(store: str | os.PathLike | None, features: str | os.PathLike | None):
    found = None if features is None else (str(features), open_features(features))
    return None if store is None else open_store(store), found
