"""The documentation in a real browser: what a search finds, what a phone shows, whom it asks.

Needs Chromium with its driver and the extra docs; where they are not installed the tests are
skipped.
"""

import functools
import http.server
import os
import subprocess
import sys
import threading

import pytest
from pages import ROOT

pytest.importorskip("selenium")
pytest.importorskip("mkdocstrings", reason="of the extra docs")

from browser import CHROMIUM, DRIVER, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver"),
]

_TYPE = """
const box = document.querySelector('[data-md-component=search-query]');
box.focus();
box.value = arguments[0];
box.dispatchEvent(new Event('keyup'));
"""
_FOUND = """
return [...document.querySelectorAll('.md-search-result__item > a:first-child')]
  .map(link => link.href);
"""
# Links of the page's own tree, each with whether its page has what it leads to.
_BROKEN = """
const done = arguments[0], pages = {};
const page = async path => pages[path] ??= new DOMParser().parseFromString(
  await (await fetch(path)).text(), 'text/html');
const broken = async link => {
  const {pathname, hash} = new URL(link.href);
  const there = await page(pathname);
  return hash ? !there.getElementById(hash.slice(1)) : !there.querySelector('h1');
};
const links = [...document.querySelectorAll('a.code-name')];
Promise.all(links.map(broken)).then(found =>
  done([links.length, links.filter((_, index) => found[index]).map(link => link.href)]));
"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        check=True,
    )
    handler = functools.partial(_Handler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Browser(f"http://127.0.0.1:{server.server_port}/")
    yield made
    made.close()
    server.shutdown()
    server.server_close()


def _open(browser, page):
    browser.driver.get(browser.url + page)


def _paths(browser, words):
    """The pages that a search on a fresh page lists, the best first."""
    browser.driver.execute_script(_TYPE, words)
    found = browser.wait(lambda: browser.driver.execute_script(_FOUND), 20)
    return [address.removeprefix(browser.url).split("?")[0] for address in found]


def test_no_page_asks_another_server(browser):
    browser.fetched_elsewhere()
    for page in ("", "reference/jaxdp/", "gallery/", "tutorials/01_quickstart/"):
        _open(browser, page)
        assert browser.errors() == []
        assert browser.fetched_elsewhere() == []


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("predict", "reference/jaxdp/predict/"),
        ("plan", "reference/jaxdp/plan/"),
        ("privateoptimiser", "reference/jaxdp/PrivateOptimiser/"),
        ("logistic regression", "reference/jaxdp.estimators/DPLogisticRegression/"),
        ("missing values", "how_to/private_tables/"),
        ("dropout", "how_to/"),
        ("opacus", ("how_to/", "compared/")),
    ],
)
def test_a_search_finds_first_what_a_person_wants(browser, words, first):
    _open(browser, "")
    assert _paths(browser, words)[0].startswith(first)


def test_the_front_doors_page_opens_with_verbs_and_each_leads_to_its_example(browser):
    _open(browser, "reference/jaxdp/")
    cells = browser.driver.execute_script(
        "return [...document.querySelectorAll('td:first-child a')].map(a => [a.text, a.href]);"
    )
    names = [name for name, _ in cells]
    assert names[:3] == ["jaxdp.predict", "jaxdp.simulate", "jaxdp.account"]
    assert names.index("jaxdp.LinearRegression") < names.index("jaxdp.NotCoveredError")
    browser.driver.get(cells[0][1])
    code = "return [...document.querySelectorAll('pre')].map(e => e.textContent).join('\\n');"
    shown = browser.driver.execute_script(code)
    assert ">>> predicted = jaxdp.predict(problem, algorithm)" in shown


@pytest.mark.parametrize("page", ["how_to/plan/", "tutorials/01_quickstart/", "concepts/parts/"])
def test_code_names_lead_to_what_explains_them_and_headings_are_bare(browser, page):
    _open(browser, page)
    number, broken = browser.driver.execute_async_script(_BROKEN)
    assert number > 5
    assert broken == []
    headings = browser.driver.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].map(h => h.textContent).join();"
    )
    assert "¶" not in headings


def test_on_a_narrow_screen_pages_keep_their_width_and_tables_scroll(browser):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for page in ("how_to/", "reference/jaxdp/", "gallery/by_use/", "tutorials/08_private_tables/"):
        _open(browser, page)
        assert browser.driver.execute_script("return document.body.scrollWidth;") <= 390
        overflows = browser.driver.execute_script(
            "return [...document.querySelectorAll('article table')].map(table =>"
            " getComputedStyle(table.closest('.md-typeset__scrollwrap, .jp-OutputArea-output'))"
            ".overflowX);"
        )
        assert set(overflows) <= {"auto", "scroll"}
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
