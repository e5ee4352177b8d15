"""Over HTTP and without a browser: from where a websocket may be opened, and what is not there."""

import socket
import sys
import time

import panel
import pytest
from bokeh.events import DocumentReady
from falling import Falling
from served import get, handshake, served
from tornado.ioloop import IOLoop

from jaxdp.explorer.serving import allowed_origins, new_server
from jaxdp.explorer.theory_tab import TheoryTab


@pytest.fixture(scope="module")
def port():
    with served(lambda: panel.pane.HTML("a page"), origins=("lab:80",)) as port:
        yield port


@pytest.mark.parametrize("path", ["/components/{}/x/_css/y", "//components/{}/x/_css/y"])
def test_no_path_imports_a_module(port, path, tmp_path, monkeypatch):
    (tmp_path / "named_by_a_path.py").write_text("x = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    status, _ = get(port, path.format("named_by_a_path"))
    assert "named_by_a_path" not in sys.modules
    assert status == 404


def test_the_page_and_its_files_are_there_and_nothing_else(port):
    status, text = get(port)
    assert status == 200
    assert "width=device-width" in text
    # The page's content comes over the websocket alone.
    assert "a page" not in text
    assert get(port, "/static/js/bokeh.min.js")[0] == 200
    for path in ("/static/../metadata", "/static/%2e%2e/x", "/nowhere"):
        assert get(port, path)[0] in (403, 404)


@pytest.mark.parametrize("host", ["elsewhere.example", "elsewhere.example:{}", "lab.example"])
def test_other_names_of_this_machine_are_refused(port, host):
    for path in ("/", "/ws", "/favicon.ico", "/static/js/bokeh.min.js", "/nowhere"):
        status, text = get(port, path, Host=host.format(port))
        assert status == 403
        # A page that is not let in is not told which names are.
        assert "lab" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "LocalHost:{}", "lab"])
def test_the_page_is_there_under_its_own_names(port, host):
    assert get(port, Host=host.format(port))[0] == 200


def test_a_page_from_elsewhere_has_no_websocket(port):
    for origin in ("http://elsewhere.example", "http://127.0.0.1:1", "null"):
        assert handshake(port, Origin=origin) == 403
    # A name of another site that has been pointed at this machine.
    assert handshake(port, Origin="http://elsewhere.example", Host="elsewhere.example") == 403
    own = f"http://127.0.0.1:{port}"
    assert handshake(port, Origin=own, Host="elsewhere.example") == 403
    # The same handshake from the page itself.
    assert handshake(port, Origin=own) == 101
    assert handshake(port, Origin="http://lab", Host="lab") == 101


def test_no_origin_is_a_star_that_nobody_has_asked_for():
    assert allowed_origins("127.0.0.1", 5006, ()) == ["127.0.0.1:5006", "localhost:5006"]
    assert allowed_origins("192.0.2.7", 80, ("lab:80",)) == ["192.0.2.7:80", "lab:80"]
    for address in ("127.0.0.1", "0.0.0.0", "192.0.2.7"):
        assert not any("*" in origin for origin in allowed_origins(address, 5006, ()))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("everywhere", 0), "expected address to be an IPv4 address, got 'everywhere'"),
        (("127.0.0.1", 70_000), "expected 0 <= port < 65536"),
        (("127.0.0.1", 0, ("a:b:c",)), "origin|host"),
    ],
)
def test_where_no_server_can_listen_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        new_server(lambda: None, *settings)


def test_a_port_in_use_is_refused():
    refused = pytest.raises(ValueError, match=r"expected a free port at 127\.0\.0\.1")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        new_server(lambda: None, "127.0.0.1", taken.getsockname()[1])


def test_nothing_is_computed_before_a_browser_has_opened_the_page():
    study, made = Falling(), []

    def new_page():
        tab = TheoryTab(study)
        made.append((tab, panel.state.curdoc, IOLoop.current()))
        return tab.view

    with served(new_page) as port:
        assert get(port)[0] == 200
        ((tab, document, loop),) = made
        time.sleep(0.1)
        assert not study.described
        # What a browser says over the websocket once it has drawn the page.
        loop.add_callback(document.callbacks.trigger_event, DocumentReady())
        for _ in range(500):
            if "up to date" in tab.work.state.object:
                break
            time.sleep(0.01)
        assert study.described == [1]
