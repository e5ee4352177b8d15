"""What the documentation's site is made of: every public name, every figure, links, formulas."""

import importlib
import re

import gallery
import links
import pytest
import reference
from pages import ROOT

from experiments import registry

ADDRESS = "https://example.org/jaxdp"


def test_every_public_name_is_explained_on_exactly_one_page():
    explained = [
        id(getattr(importlib.import_module(door), name))
        for door, names in reference.pages().items()
        for name in names
    ]
    assert len(explained) == len(set(explained))
    public = {
        id(getattr(importlib.import_module(door), name)): f"{door}.{name}"
        for door in reference.doors()
        for name in importlib.import_module(door).__all__
        if callable(getattr(importlib.import_module(door), name))
    }
    assert {name for key, name in public.items() if key not in explained} == set()
    assert {"jaxdp", "jaxdp.theory", "jaxdp.kernels.published"} <= set(reference.doors())


def test_the_gallery_has_every_figure_of_the_report_with_its_verdict():
    report = gallery.REPORT.read_text(encoding="utf-8")
    figures = {figure.name: figure for figure in gallery.figures()}
    assert set(figures) == set(re.findall(r"^### (\w+)$", report, re.MULTILINE))
    assert set(figures) <= {entry.name for entry in registry.ENTRIES}
    assert sum(len(figure.verdicts) for figure in figures.values()) == report.count(
        " | true |"
    ) + report.count(" | **false** |")
    page = gallery.page()
    for figure in figures.values():
        assert f"\n{figure.command}\n" in page
        picture = f"{figure.folder}/{figure.name}.png"
        assert f"![{figure.name}]({picture})" in page
        assert (ROOT / "experiments" / "results" / picture).exists()


@pytest.mark.parametrize(
    ("page", "written", "there"),
    [
        ("how_to/plan.md", "../NOTATION.md#privacy", "../NOTATION.md#privacy"),
        ("how_to/audit.md", "../../SECURITY.md#a", "../concepts/security.md#a"),
        ("concepts/security.md", "docs/ERRATA.md", "../ERRATA.md"),
        ("concepts/security.md", "CHANGELOG.md", "../project/changelog.md"),
        ("gallery/claims.md", "results/a_paper/rates.png", "a_paper/rates.png"),
        ("ERRATA.md", "../jaxdp/theory", f"{ADDRESS}/tree/main/jaxdp/theory"),
        ("index.md", "../Makefile", f"{ADDRESS}/blob/main/Makefile"),
        ("index.md", "no_such_page.md", "no_such_page.md"),
        ("index.md", "#install", "#install"),
        ("concepts/security.md", "../../security/advisories", f"{ADDRESS}/security/advisories"),
    ],
)
def test_links_of_the_tree_become_links_of_the_site(page, written, there):
    assert links.rewritten(f"a [b]({written}), c", page, ADDRESS) == f"a [b]({there}), c"


def test_formulas_are_mathml_and_a_wrong_one_is_an_error():
    pytest.importorskip("math_core", reason="of the extra docs")
    formulas = importlib.import_module("formulas")
    page = r'<p>a <span class="arithmatex">\(x_1 &lt; \sqrt d\)</span></p>'
    made = formulas.rendered(page)
    assert "<math" in made
    assert "<msqrt>" in made
    assert "arithmatex" not in made
    block = formulas.rendered('<div class="arithmatex">\\[\nE = 1\n\\]</div>')
    assert 'display="block"' in block
    with pytest.raises(ValueError, match=r"\\sqr"):
        formulas.mathml(r"\sqrrt d")
    notebook = formulas.rendered_notebook("<p>$p > dn$ at $5 each</p><code>$x$ and $y$</code>")
    assert notebook.count("<math") == 1
    assert "<code>$x$ and $y$</code>" in notebook
