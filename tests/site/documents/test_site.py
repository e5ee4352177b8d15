"""The documentation's site: it builds without a warning, and a browser shows what it should."""

import functools
import html
import http.server
import os
import re
import subprocess
import sys
import threading

import pytest
from pages import ROOT

pytest.importorskip("selenium")
pytest.importorskip("mkdocstrings", reason="of the extra docs")

import formulas
from browser import CHROMIUM, DRIVER, Browser

from experiments import registry

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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, in which every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return folder


@pytest.mark.slow
def test_formulas_are_mathml_and_code_names_lead_to_headings(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("index.html")}
    assert sum(page.count("<math") for page in pages.values()) > 1000
    number = 0
    for path, page in pages.items():
        assert 'class="arithmatex"' not in page
        for link in re.findall(r'class="code-name" href="([^"]+)"', page):
            there, _, anchor = html.unescape(link).partition("#")
            assert f'id="{anchor}"' in pages[(path.parent / there / "index.html").resolve()], link
            number += 1
    assert number > 1000


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def browser(site):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Chromium and chromedriver")
    handler = functools.partial(_Handler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Browser(f"http://127.0.0.1:{server.server_port}/")
    yield made
    made.close()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_no_page_asks_another_server_and_on_a_narrow_screen_tables_scroll(browser):
    browser.fetched_elsewhere()
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for page in ("", "how_to/", "reference/jaxdp/", "gallery/", "notebooks/08_private_tables/"):
        browser.driver.get(browser.url + page)
        assert browser.errors() == []
        assert browser.fetched_elsewhere() == []
        assert browser.driver.execute_script("return document.body.scrollWidth;") <= 390
        overflows = browser.driver.execute_script(
            "return [...document.querySelectorAll('article table')].map(table =>"
            " getComputedStyle(table.closest('.md-typeset__scrollwrap, .jp-OutputArea-output'))"
            ".overflowX);"
        )
        assert {*overflows} <= {"auto", "scroll"}
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("predict", "reference/jaxdp/predict/"),
        ("logistic regression", "reference/jaxdp.estimators/DPLogisticRegression/"),
        ("missing values", "how_to/private_tables/"),
        ("confidence intervals", "how_to/confidence_intervals/"),
        ("opacus", ("how_to/", "compared/")),
    ],
)
def test_a_search_finds_first_what_a_person_wants(browser, words, first):
    browser.driver.get(browser.url)
    browser.driver.execute_script(_TYPE, words)
    found = browser.wait(lambda: browser.driver.execute_script(_FOUND), 20)
    assert found[0].removeprefix(browser.url).startswith(first)


def test_a_wrong_formula_is_an_error_and_code_has_none():
    with pytest.raises(ValueError, match=r"\\sqr"):
        formulas.rendered(r'<span class="arithmatex">\(x_1 &lt; \sqrrt d\)</span>')
    notebook = formulas.rendered_notebook("<p>$p > dn$ at $5 each</p><code>$x$ and $y$</code>")
    assert notebook.count("<math") == 1
    assert "<code>$x$ and $y$</code>" in notebook


def test_the_gallery_has_every_figure_that_has_a_result():
    shown = (ROOT / "docs/gallery/index.md").read_text(encoding="utf-8")
    results = ROOT / "experiments" / "results"
    pictures = {entry.file.with_suffix(".png").as_posix() for entry in registry.ENTRIES}
    there = {each for each in pictures if (results / each).exists()}
    assert {*re.findall(r"experiments/results/([\w/]+\.png)", shown)} == there
