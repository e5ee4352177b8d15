"""Over HTTP and without a browser: who is answered, and from where a websocket may be opened."""

import socket
import sys
import time

import panel
import pytest
from bokeh.events import DocumentReady
from falling import Falling
from served import get, handshake, served
from tornado.ioloop import IOLoop

from jaxdp.explorer.views.theory_tab import TheoryTab


@pytest.fixture(scope="module")
def made():
    """Of each page that was made, a word."""
    return []


@pytest.fixture(scope="module")
def port(made):
    def new_page():
        made.append("page")
        return panel.pane.HTML("a page")

    with served(new_page, origins=("lab:80",)) as port:
        yield port


@pytest.mark.parametrize("path", ["/components/{}/x/_css/y", "//components/{}/x/_css/y"])
def test_no_path_imports_a_module(port, path, tmp_path, monkeypatch):
    (tmp_path / "named_by_a_path.py").write_text("x = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    status, _ = get(port, path.format("named_by_a_path"))
    assert "named_by_a_path" not in sys.modules
    assert status == 404


@pytest.mark.parametrize("path", ["/static/../metadata", "/static/%2e%2e/x", "/nowhere"])
def test_what_the_page_does_not_have_is_not_there(port, made, path):
    before = len(made)
    assert get(port, path)[0] in (403, 404)
    assert len(made) == before


@pytest.mark.parametrize("host", ["elsewhere.example", "elsewhere.example:{}", "lab.example"])
def test_other_names_of_this_machine_are_refused(port, made, host):
    before = len(made)
    for path in ("/", "/ws", "/favicon.ico", "/static/js/bokeh.min.js", "/nowhere"):
        status, text = get(port, path, Host=host.format(port))
        assert status == 403
        # A page that is not let in is not told which names are.
        assert "lab" not in text
    assert len(made) == before


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LocalHost:{}", "lab", "lab:80"])
def test_the_page_and_its_files_are_there_under_its_own_names(port, made, host):
    before, name = len(made), host.format(port)
    status, text = get(port, Host=name)
    assert (status, len(made)) == (200, before + 1)
    assert "bokeh" in text
    assert get(port, "/static/js/bokeh.min.js", Host=name)[0] == 200
    assert get(port, "/favicon.ico", Host=name)[0] == 200


def test_the_loopback_address_of_version_6_is_a_name_of_the_page():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no address of version 6")
    with served(lambda: panel.pane.HTML("a page"), address="::1") as port:
        assert get(port, address="::1", Host=f"[::1]:{port}")[0] == 200
        assert get(port, address="::1", Host=f"[::2]:{port}")[0] == 403


def test_a_page_from_elsewhere_has_no_websocket(port):
    for origin in ("http://elsewhere.example", "http://127.0.0.1:1", "null"):
        assert handshake(port, Origin=origin) == 403
    own = f"http://127.0.0.1:{port}"
    assert handshake(port, Origin=own, Host="elsewhere.example") == 403
    # The same handshake from the page itself.
    assert handshake(port, Origin=own) == 101
    assert handshake(port, Origin="http://lab", Host="lab") == 101


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
        assert study.num_described == 0
        # What a browser says over the websocket once it has drawn the page.
        loop.add_callback(document.callbacks.trigger_event, DocumentReady())
        for _ in range(500):
            if "up to date" in tab.status.object:
                break
            time.sleep(0.01)
        assert study.num_described == 1
