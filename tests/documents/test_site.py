"""What the documentation's site is made of: every public name, every figure, links, formulas."""

import importlib
import inspect
import re

import gallery
import links
import pytest
import reference
from pages import PAGES, ROOT

import jaxdp
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


def test_a_newly_exported_name_appears_by_itself(monkeypatch):
    def newest():
        """What was added last."""

    monkeypatch.setattr(jaxdp.schedules, "newest", newest, raising=False)
    monkeypatch.setattr(jaxdp.schedules, "__all__", [*jaxdp.schedules.__all__, "newest"])
    names = reference.pages()["jaxdp.schedules"]
    assert "::: jaxdp.schedules.newest" in reference.page("jaxdp.schedules", names)
    assert (
        "| [`jaxdp.schedules.newest`][jaxdp.schedules.newest] | What was added last. |"
        in reference.index()
    )


def test_a_function_with_the_name_of_a_module_is_shown_under_the_name_that_users_write():
    page = reference.page("jaxdp.attacks", ["network_target"])
    assert "::: jaxdp.attacks.victims.networks.network_target\n" in page
    assert "heading: jaxdp.attacks.network_target\n" in page


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


def test_the_gallery_counts_claims_that_are_false():
    name = registry.ENTRIES[0].name
    rows = [
        f"| [{name}](#{name}) | `python -m it` | 3 s | `ab` | a \\| b | c | true |",
        "|  |  |  |  | d | e | **false** |",
    ]
    (figure,) = gallery.figures("\n".join(rows))
    assert figure.command == "python -m it"
    assert figure.verdicts == (True, False)


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


def test_links_in_code_stay():
    text = "```\n[a](../Makefile)\n```\n"
    assert links.rewritten(text, "index.md", ADDRESS) == text


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


def test_every_formula_of_the_documents_can_be_read():
    pytest.importorskip("math_core", reason="of the extra docs")
    formulas = importlib.import_module("formulas")
    for page in (*PAGES, "SECURITY.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text(), flags=re.DOTALL)
        for formula in re.findall(r"\$([^$\n]+)\$", text):
            assert "<math" in formulas.mathml(formula), formula


def test_docstrings_are_given_to_the_site_as_they_are_meant():
    pytest.importorskip("griffe", reason="of the extra docs")
    docstrings = importlib.import_module("docstrings")
    text = inspect.cleandoc(
        """A function.

        Source: AC equation (2).

        Args:
            epsilon: > 0.

        Example:
            >>> 1
            1
        """
    )
    shown = docstrings.readable(text)
    assert "*Source:* AC equation (2)." in shown
    assert "epsilon: \\> 0." in shown
    assert "\nExamples:\n    >>> 1" in shown
