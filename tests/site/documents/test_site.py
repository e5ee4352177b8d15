"""The documentation's site: it builds without a warning, and a browser shows what it should.

Links and headings are checked by `mkdocs build --strict`. Needs the extra docs, and Chromium with
its driver for what a browser shows; where they are not installed the tests are skipped.
"""

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

import code_names
import formulas
import links
from browser import CHROMIUM, DRIVER, Browser

from experiments import registry

ADDRESS = "https://example.org/jaxdp"
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
        ("privateoptimiser", "reference/jaxdp/PrivateOptimiser/"),
        ("logistic regression", "reference/jaxdp.estimators/DPLogisticRegression/"),
        ("missing values", "how_to/private_tables/"),
        ("opacus", ("how_to/", "compared/")),
    ],
)
def test_a_search_finds_first_what_a_person_wants(browser, words, first):
    browser.driver.get(browser.url)
    browser.driver.execute_script(_TYPE, words)
    found = browser.wait(lambda: browser.driver.execute_script(_FOUND), 20)
    assert found[0].removeprefix(browser.url).startswith(first)


def _address(identifier, from_url):
    """As autorefs answers: it knows what it is asked for, unless that is nothing."""
    if not identifier:
        raise KeyError(identifier)
    return identifier, None


@pytest.mark.parametrize(
    ("page", "there"),
    [
        ("<code>jaxdp.predict</code>", "jaxdp.predict"),
        ("<code>train(loss, model)</code>", "jaxdp.train"),
        ("<code>DPGD.calibrated</code>", "jaxdp.DPGD.calibrated"),
        ("<code>jaxdp.losses</code>", "jaxdp.losses"),
        (
            '<span class="n">attacks</span><span class="o">.</span>'
            '<span class="n">reconstruct</span><span class="p">(</span>',
            "jaxdp.attacks.reconstruct",
        ),
        # An extra, an option, a variable, a method of another library, what is linked already.
        ("<code>privacy</code>", None),
        ("<code>jaxdp plan</code>", None),
        ('<span class="n">plan</span>', None),
        ('<span class="n">np</span><span class="o">.</span><span class="n">predict</span>', None),
        ('<a href="#x"><code>jaxdp.predict</code></a>', None),
        # In doubt, for two packages have one.
        ("<code>Columns</code>", None),
    ],
)
def test_code_names_are_links_to_what_explains_them(page, there):
    found = re.findall(r'class="code-name" href="([^"]*)"', code_names.linked(page, "", _address))
    assert found == ([] if there is None else [there])


@pytest.mark.parametrize(
    ("page", "written", "there"),
    [
        ("how_to/audit.md", "../../SECURITY.md#a", "../concepts/security.md#a"),
        ("concepts/security.md", "docs/papers/ERRATA.md", "../papers/ERRATA.md"),
        ("gallery/benchmarks/index.md", "../results/benchmarks/planning.png", "planning.png"),
        ("papers/ERRATA.md", "../../jaxdp/theory", f"{ADDRESS}/tree/main/jaxdp/theory"),
        ("index.md", "no_such_page.md", "no_such_page.md"),
        ("concepts/security.md", "../../security/advisories", f"{ADDRESS}/security/advisories"),
    ],
)
def test_links_of_the_tree_become_links_of_the_site(page, written, there):
    assert links.rewritten(f"a [b]({written}), c", page, ADDRESS) == f"a [b]({there}), c"


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
