"""What `mkdocs` asks while it builds the site: pages that are made, links, formulas, navigation.

To be run as `python -m mkdocs` at the top of the tree, whose packages this imports.
"""

import fnmatch
import pathlib
import re

import formulas
import gallery
import links
import reference
from mkdocs.structure.files import File

from notebooks.address import repository_address

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = repository_address()
_BADGE = re.compile(r"><img[^>]*colab-badge[^>]*><")


def on_config(config):
    """The address from pyproject.toml, and the entries of the navigation that have a star."""
    config.repo_url = ADDRESS
    config.repo_name = ADDRESS.split("/", 3)[-1]
    config.nav = _expanded(config.nav)
    return config


def _made() -> dict[str, str]:
    """The pages that no file of docs holds, by where the site has them."""
    made = {"reference/index.md": reference.index(), "gallery/index.md": gallery.page()}
    for door, names in reference.pages().items():
        made[reference.file_of(door)] = reference.page(door, names)
    for here, there in links.ELSEWHERE.items():
        if here != "README.md":
            made[there] = (ROOT / here).read_text(encoding="utf-8")
    return made


def _expanded(nav):
    """The navigation with the pages that each entry with a star stands for."""
    docs = ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.*")} | set(_made())
    named = set(_leaves(nav))

    def expand(entries):
        for entry in entries:
            if isinstance(entry, dict):
                ((title, value),) = entry.items()
                if not isinstance(value, list):
                    yield entry
                elif inner := list(expand(value)):
                    yield {title: inner}
            elif "*" in entry:
                yield from sorted(fnmatch.filter(there - named, entry), key=_stem)
            else:
                yield entry

    return list(expand(nav))


def _stem(path: str) -> str:
    """A file's name without its ending, by which `jaxdp.md` comes before `jaxdp.theory.md`."""
    return pathlib.PurePath(path).stem


def _leaves(nav):
    """The pages of a navigation, the entries with a star among them."""
    for entry in nav:
        if isinstance(entry, dict):
            (value,) = entry.values()
            yield from _leaves(value) if isinstance(value, list) else [value]
        else:
            yield entry


def on_files(files, config):
    """Add what is made, the font of formulas, and the pictures of the experiments."""
    font = formulas.font()
    files.append(File.generated(config, f"assets/{font.name}", abs_src_path=str(font)))
    for path, text in _made().items():
        files.append(File.generated(config, path, content=text))
    for picture in sorted((ROOT / "experiments" / "results").glob("*/*.png")):
        there = links.site_path(picture.relative_to(ROOT).as_posix())
        assert there is not None
        files.append(File.generated(config, there, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links into the tree become links of the site."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    return links.rewritten(markdown, page.file.src_uri, ADDRESS)


def on_page_content(html, page, config, files):
    """Formulas become MathML; a tutorial's badge, which is another server's picture, a link."""
    if not page.file.src_uri.endswith(".ipynb"):
        return formulas.rendered(html)
    return _BADGE.sub(">Open in Colab<", formulas.rendered_notebook(html))
