"""Links of the documents lead somewhere in the tree, down to the heading."""

import pathlib
import re

import pytest
from pages import PAGES, ROOT

DOCUMENTS = [*PAGES, "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "experiments/README.md"]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _anchors(text: str) -> set[str]:
    """The names of a page's headings, as GitHub and the site give them."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"\s", "-", heading) for heading in plain}


def broken_links(text: str, folder: pathlib.Path) -> list[str]:
    """The links of a document in that folder that lead nowhere."""
    broken = []
    for link in _LINK.findall(re.sub(r"`[^`\n]*`", "", _FENCED.sub("", text))):
        target, _, anchor = link.partition("#")
        # Addresses, and pages of the repository that are no files.
        if re.match(r"[a-z]+:", target) or target.startswith("../../security/advisories"):
            continue
        path = folder / target
        if not path.exists():
            broken.append(link)
        elif anchor and (not target or path.suffix == ".md"):
            anchors = _anchors(path.read_text() if target else text)
            broken += [link] * (anchor not in anchors)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file_and_a_heading(document):
    path = ROOT / document
    assert broken_links(path.read_text(), path.parent) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("see [this](no_such_page.md)", ["no_such_page.md"]),
        ("see [this](NOTATION.md#no-such-heading)", ["NOTATION.md#no-such-heading"]),
        ("# A, B\n[above](#a-b) and [below](#a-c)", ["#a-c"]),
        ("[a](NOTATION.md#privacy), [b](https://example.org/x), `[c](none)`", []),
        ("```\n[a](none.md)\n```\n![a](assets/compare.png)", []),
    ],
)
def test_a_link_to_nowhere_is_noticed(text, broken):
    assert broken_links(text, ROOT / "docs") == broken
