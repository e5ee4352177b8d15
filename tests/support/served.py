"""The page's server in a thread, and requests as browsers and other programs send them."""

import asyncio
import base64
import contextlib
import http.client
import threading

from bokeh.io import doc
from bokeh.io.state import curstate
from bokeh.util.token import generate_jwt_token, generate_session_id

from jaxdp.explorer.serving import new_server


@contextlib.contextmanager
def served(make_page, **settings):
    """A server of pages at the loopback address; gives its port."""
    ready, running = threading.Event(), []

    def serve():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        server, port = new_server(make_page, "127.0.0.1", 0, **settings)
        server.start()
        running.extend((server, port))
        server.io_loop.add_callback(ready.set)
        server.io_loop.start()
        server.stop()
        server.io_loop.close(all_fds=True)

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(30)
    try:
        yield running[1]
    finally:
        loop = running[0].io_loop
        loop.add_callback(loop.stop)
        thread.join(30)
        assert not thread.is_alive()
        # Bokeh may leave a page's document as everybody's current one: pages that other tests make
        # would wait for it.
        doc._PATCHED_CURDOCS.clear()
        curstate().reset()


def get(port, path="/", **headers):
    """Status and text of a path, which is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(
            "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def handshake(port, **headers):
    """The answer to a browser that asks for the page's websocket: 101 if it is opened."""
    token = generate_jwt_token(generate_session_id())
    asked = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode(),
        "Sec_WebSocket_Protocol": f"bokeh, {token}",
    }
    return get(port, "/ws", **asked, **headers)[0]
