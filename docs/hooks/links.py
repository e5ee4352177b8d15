"""Links between files of the repository, as links between pages of the site.

Pages link each other by paths in the tree, so that they can be followed on the repository's page
and in an editor too. A link to a file that is a page of the site leads to the page, a link to any
other file of the tree to the file in the repository. One to nothing stays, for mkdocs to refuse.
"""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages outside docs, and their paths in the site.
PAGES = {
    "SECURITY.md": "concepts/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "experiments/README.md": "gallery/experiments.md",
}
PAGES |= {
    path.relative_to(ROOT).as_posix(): f"gallery/{path.parent.name}/index.md"
    for path in sorted((ROOT / "experiments").glob("*/README.md"))
}
# Folders with files of the site, and their paths there: pictures, notebooks, pages.
FOLDERS = {"experiments/results/": "gallery/", "notebooks/": "notebooks/", "docs/": ""}
_ON_SITE = (".md", ".png", ".ipynb", ".json")
_LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def moved(path: str) -> str:
    """The path in the site of a file of the tree, if the site has it."""
    for start, there in FOLDERS.items():
        if path.startswith(start):
            return there + path.removeprefix(start)
    return PAGES.get(path, path.replace("README.md", "index.md"))


def tree_path(page: str) -> str:
    """The file of the tree that somebody changes to change a page of the site."""
    elsewhere = {there: here for here, there in PAGES.items()}
    return elsewhere.get(page) or (page if page.startswith("notebooks/") else f"docs/{page}")


def rewritten(text: str, page: str, repository: str) -> str:
    """A page's Markdown with its links into the tree as links of the site.

    Args:
        text: Markdown of the page.
        page: its path in the site.
        repository: address of the repository.
    """

    def link(found: re.Match[str]) -> str:
        start, target, end = found.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(tree_path(page)), target))
        if target.startswith("../../security/"):
            # A page of the repository and no file: its security advisories.
            return f"{start}{repository}/{target.removeprefix('../../')}{end}"
        if ":" in target or not (ROOT / path).exists():
            return found[0]
        # Of the results the site has the pictures alone.
        is_kind = path.endswith(".png" if path.startswith("experiments/results/") else _ON_SITE)
        if is_kind and path.startswith((*PAGES, "README.md", *FOLDERS)):
            return f"{start}{posixpath.relpath(moved(path), posixpath.dirname(page) or '.')}{end}"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{start}{repository}/{kind}/main/{path}{end}"

    parts = _FENCE.split(text)
    return "".join(part if index % 2 else _LINK.sub(link, part) for index, part in enumerate(parts))
