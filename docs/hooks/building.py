"""Hooks that `mkdocs` calls while it builds the site: made pages, links, formulas, code names.

Run `python -m mkdocs` at the top of the tree, because this imports its packages.
"""

import functools
import os
import pathlib
import re

import code_names
import coverage_page
import formulas
import links
import reference
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

from notebooks import executed
from notebooks.address import repository_address

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = repository_address()
# Links of the reference to its sources, by Griffe.
os.environ |= {"GRIFFE_GIT_REMOTE_URL": ADDRESS, "GRIFFE_GIT_SERVICE": "github"}
os.environ["GRIFFE_GIT_COMMIT_HASH"] = "main"
_BADGE = re.compile(r"><img[^>]*colab-badge[^>]*><")
_ANCHOR = re.compile(r'<a class="anchor-link".*?</a>')
# How much more than another page one of a folder weighs in the search.
BOOSTS = {
    "how_to/": 4.0,
    "reference/jaxdp.estimators/": 3.0,
    "reference/jaxdp/": 2.0,
    "reference/": 0.5,
    "project/": 0.25,
    "gallery/": 0.25,
}


def on_config(config):
    """The address from pyproject.toml, and the packages of the reference."""
    config.repo_url, config.edit_uri = ADDRESS, "edit/main/docs/"
    config.repo_name = ADDRESS.split("/", 3)[-1]
    (entries,) = (entry["Reference"] for entry in config.nav if "Reference" in entry)
    entries += [{door: reference.navigation(door)} for door in reference.pages()]
    return config


@functools.cache
def _made() -> dict[str, str]:
    """The pages of the reference; public names do not change while pages are served."""
    return reference.made()


@event_priority(100)  # before mkdocs-jupyter, which converts the notebooks
def on_files(files, config):
    """Add made pages, pages from elsewhere in the tree, and the font of formulas.

    A notebook that was not executed (`make notebooks`) is shown without its outputs.
    """
    for there, text in _made().items():
        files.append(File.generated(config, there, content=text))
    font = formulas.font()
    pictures = (ROOT / "experiments" / "results").glob("*/*.png")
    added = {f"assets/{font.name}": font}
    added |= {links.moved(path.relative_to(ROOT).as_posix()): path for path in sorted(pictures)}
    added |= {there: ROOT / here for here, there in links.PAGES.items()}
    for there, path in added.items():
        files.append(File.generated(config, there, abs_src_path=str(path)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        folder = executed.COPIES.parent if executed.is_current(path) else ROOT
        there = f"notebooks/{path.name}"
        files.append(File(there, str(folder), config.site_dir, config.use_directory_urls))
    for file in files:
        # Edit links lead to the source file.
        if file.src_uri in added or file.src_uri.startswith("notebooks/"):
            file.edit_uri = f"../{links.tree_path(file.src_uri)}"
    return files


def on_page_markdown(markdown, page, config, files):
    """Links into the tree become links of the site; the search gets the page's weight."""
    source = page.file.src_uri
    if source == "papers/coverage.md":
        markdown += f"\n\n{coverage_page.current()}"
    boosts = [boost for start, boost in BOOSTS.items() if source.startswith(start)]
    page.meta.setdefault("search", {}).setdefault("boost", (*boosts, 1.0)[0])
    is_made = source.startswith("reference/")
    return markdown if is_made else links.rewritten(markdown, source, ADDRESS)


def on_page_content(html, page, config, files):
    """Formulas become MathML; a tutorial's badge, from another server, becomes a link."""
    if page.file.src_uri.endswith(".ipynb"):
        return _ANCHOR.sub("", _BADGE.sub(">Open in Colab<", formulas.rendered_notebook(html)))
    return formulas.rendered(html)


def on_env(env, config, files):
    """Code names become links, once the names that each page explains are known."""
    known = config.plugins["autorefs"]
    for file in files.documentation_pages():
        if file.page is not None and file.page.content:
            file.page.content = code_names.linked(
                file.page.content, file.page.url, known.get_item_url
            )
    return env
