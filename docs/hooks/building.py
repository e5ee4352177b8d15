"""What `mkdocs` asks while it builds the site: pages that are made, links, formulas, navigation.

To be run as `python -m mkdocs` at the top of the tree, whose packages this imports.
"""

import fnmatch
import functools
import pathlib
import re

import code_names
import formulas
import gallery
import links
import reference
from mkdocs.structure.files import File

from notebooks.address import repository_address

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = repository_address()
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
    """The address from pyproject.toml, and the entries of the navigation that have a star."""
    config.repo_url = ADDRESS
    config.repo_name = ADDRESS.split("/", 3)[-1]
    config.nav = _expanded(config.nav)
    return config


@functools.cache
def _made() -> dict[str, str]:
    """The pages that no file of docs holds, by where the site has them."""
    made = {**reference.made(), "gallery/index.md": gallery.page()}
    made["gallery/by_use.md"] = gallery.page_by_use()
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
            elif entry == reference.file_of("*"):
                yield from ({door: reference.navigation(door)} for door in reference.pages())
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


def _written_in(page: str) -> str:
    """The file of the tree in which a reader who wants a page changed has to change it."""
    folder, _, name = page.removeprefix("reference/").rpartition("/")
    if page.startswith("reference/") and folder:
        return reference.written_in(folder, name.removesuffix(".md"))
    if page in _made() and page not in links.ELSEWHERE.values():
        return f"docs/hooks/{page.split('/')[0]}.py"
    if page.startswith("tutorials/"):
        return page.replace("tutorials", "notebooks")
    return links.tree_path(page)


def on_page_markdown(markdown, page, config, files):
    """Links into the tree become links of the site; what the search is to weigh is said."""
    source = page.file.src_uri
    boosts = [boost for start, boost in BOOSTS.items() if source.startswith(start)]
    page.meta.setdefault("search", {}).setdefault("boost", (*boosts, 1.0)[0])
    if source.startswith("reference/"):
        return markdown
    return links.rewritten(markdown, source, ADDRESS)


def on_page_content(html, page, config, files):
    """Formulas become MathML, code names links; a tutorial's badge, another server's, a link."""
    source = page.file.src_uri
    page.edit_url = f"{ADDRESS}/edit/main/{_written_in(source)}"
    if source.endswith(".ipynb"):
        html = _ANCHOR.sub("", _BADGE.sub(">Open in Colab<", formulas.rendered_notebook(html)))
    else:
        html = formulas.rendered(html)

    def address(place: str) -> str:
        path, hash_, anchor = place.partition("#")
        file = files.get_file_from_path(path)
        return f"{file.url_relative_to(page.file)}{hash_}{anchor}"

    return code_names.linked(html, source, address)
