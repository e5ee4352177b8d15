"""What the documentation's site is made of: every public name, every figure, links, formulas."""

import importlib
import re

import code_names
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
    assert {"jaxdp", "jaxdp.theory", "jaxdp.kernels"} <= set(reference.doors())


def test_the_front_doors_page_lists_verbs_first_and_abstract_classes_come_last():
    listed = re.findall(r"^\| \[`([\w.]+)`\]", reference.front_page(), re.MULTILINE)
    assert tuple(listed[: len(reference.VERBS)]) == reference.VERBS
    at_home = {f"jaxdp.{name}" for name in reference.pages()["jaxdp"]}
    assert at_home <= set(listed)
    in_navigation = [next(iter(entry)) for entry in reference.navigation("jaxdp")[1:]]
    assert sorted(in_navigation) == sorted(reference.pages()["jaxdp"])
    attacks, losses = reference.page("jaxdp.attacks"), reference.page("jaxdp.losses")
    assert attacks.index("jaxdp.attacks.row_errors`") < attacks.index("jaxdp.attacks.Verdict`")
    assert losses.index("jaxdp.losses.Softmax`") < losses.index("jaxdp.losses.Abstract")


@pytest.mark.parametrize(
    ("html", "there"),
    [
        ("<code>jaxdp.predict</code>", "reference/jaxdp/predict.md"),
        ("<code>train(loss, model)</code>", "reference/jaxdp.algorithms/train.md"),
        ("<code>DPGD.calibrated</code>", "reference/jaxdp/DPGD.md#jaxdp.DPGD.calibrated"),
        ("<code>jaxdp.losses</code>", "reference/jaxdp.losses/index.md"),
        (
            '<span class="n">attacks</span><span class="o">.</span>'
            '<span class="n">reconstruct</span><span class="p">(</span>',
            "reference/jaxdp.attacks/reconstruct.md",
        ),
        # An extra, an option, a variable, a method of another library, what is linked already.
        ("<code>privacy</code>", None),
        ("<code>jaxdp plan</code>", None),
        ('<span class="n">plan</span>', None),
        ('<span class="n">np</span><span class="o">.</span><span class="n">predict</span>', None),
        ('<a href="#x"><code>jaxdp.predict</code></a>', None),
        ("<h2><code>jaxdp.predict</code></h2>", None),
        # In doubt, for two packages have one.
        ("<code>Columns</code>", None),
    ],
)
def test_code_names_are_links_to_what_explains_them(html, there):
    found = re.findall(r'<a class="code-name" href="([^"]*)"', code_names.linked(html, "", str))
    assert found == ([] if there is None else [there])


def test_every_page_names_a_file_of_the_tree_to_be_edited():
    pytest.importorskip("mkdocs", reason="of the extra docs")
    building = importlib.import_module("building")
    written = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/*/*.md")}
    pages = {*building._made(), *written, "index.md", "tutorials/01_quickstart.ipynb"}
    gone = {page for page in pages if not (ROOT / building._written_in(page)).is_file()}
    assert gone == set()
    assert building._written_in("reference/jaxdp/predict.md") == "jaxdp/theory/dispatch.py"


def test_every_figure_has_one_use():
    used = [name for _, _, names in gallery.USES for name in names.split()]
    assert sorted(used) == sorted(figure.name for figure in gallery.figures())
    for _, page, _ in gallery.USES:
        assert (ROOT / "docs" / page).is_file()


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
