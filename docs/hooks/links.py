"""Links between files of the repository, as links between pages of the site.

Pages link each other by paths in the tree, so that they can be followed on the repository's page
and in an editor too. A link to a file that is a page of the site leads to the page, a link to any
other file of the tree to the file in the repository.
"""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages and pictures that live outside docs, and where the site has them.
ELSEWHERE = {
    "SECURITY.md": "concepts/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "experiments/README.md": "gallery/claims.md",
    "README.md": "index.md",
}
_RESULTS = "experiments/results/"
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_SCHEME = re.compile(r"[a-z]+:")


def site_path(path: str) -> str | None:
    """Where the site has a file of the tree; None where it has not.

    Args:
        path: relative to the repository.
    """
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path.startswith(_RESULTS) and path.endswith(".png"):
        return "gallery/" + path.removeprefix(_RESULTS)
    # A notebook's page is its executed copy.
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        copy = f"tutorials/{posixpath.basename(path)}"
        return copy if (ROOT / "docs" / copy).exists() else None
    inside = path.removeprefix("docs/")
    is_page = inside != path and not inside.startswith(("hooks/", "templates/"))
    return inside if is_page and (ROOT / path).is_file() and not path.endswith(".py") else None


def tree_path(page: str) -> str:
    """The file of the tree that a page of the site is made of."""
    inverse = {there: here for here, there in ELSEWHERE.items() if here != "README.md"}
    return inverse.get(page, f"docs/{page}")


def rewritten(text: str, page: str, repository: str) -> str:
    """A page's Markdown with its links into the tree as links of the site.

    Args:
        text: of the page.
        page: where the site has it.
        repository: its address.
    """
    here = posixpath.dirname(tree_path(page))

    def link(found: re.Match[str]) -> str:
        target, hash_, anchor = found[2].partition("#")
        if not target or _SCHEME.match(target):
            return found[0]
        path = posixpath.normpath(posixpath.join(here, target))
        there = site_path(path)
        if there is not None:
            start = posixpath.dirname(page) or "."
            return f"{found[1]}{posixpath.relpath(there, start)}{hash_}{anchor}{found[3]}"
        if not path.startswith("..") and (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"{found[1]}{repository}/{kind}/main/{path}{hash_}{anchor}{found[3]}"
        # On the repository's page, outside of any file: its security advisories.
        if target.startswith("../../"):
            return f"{found[1]}{repository}/{target.removeprefix('../../')}{found[3]}"
        return found[0]

    parts = _FENCE.split(text)
    return "".join(part if index % 2 else _LINK.sub(link, part) for index, part in enumerate(parts))
