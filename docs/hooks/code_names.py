"""Code names of the pages, inline and in blocks, as links to the reference.

A page writes `jaxdp.predict` and nothing more; which page explains the name is found here.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Callable

import reference

# What holds links already, or is a heading, whose text the search and the contents show.
_SKIPPED = re.compile(r"(<(a|autoref|h[1-6]|script|style|svg)\b.*?</\2>)", re.DOTALL)
_INLINE = re.compile(r"<code>(?P<name>[A-Za-z_][\w.]*)(?:\([^<]*\))?</code>")
# A dotted name of a highlighted block: <span class="n">jaxdp</span><span class="o">.</span>...
_PART = r'<span class="n[a-z]?">\w+</span>'
_BLOCK = re.compile(rf'(?<!\.</span>){_PART}(?:<span class="o">\.</span>{_PART})*')
_TAG = re.compile(r"<[^>]*>")


@functools.cache
def places() -> dict[str, str]:
    """Where each public name is explained, by every way to write it but for a leading `jaxdp.`.

    A page of the site, with the anchor of a method; packages count too, under their full names, and
    a bare name where only one thing bears it.
    """
    found: dict[str, str] = {}
    bare: dict[str, set[str]] = {}
    for door in reference.doors():
        module = importlib.import_module(door)
        found[door] = reference.file_of(door)
        for name in reference.names(door):
            path = reference.path_of(door, name)
            there = reference.file_of(*path.rsplit(".", 1))
            bare.setdefault(name, set()).add(there)
            source, thing = reference.source_of(door, name), getattr(module, name)
            members = _members(thing) if inspect.isclass(thing) else []
            for written in (_short(f"{door}.{name}"), _short(path), name):
                found[written] = there
                found |= {f"{written}.{each}": f"{there}#{source}.{each}" for each in members}
    doubtful = {name for name, pages in bare.items() if len(pages) > 1}
    return {name: there for name, there in found.items() if name.split(".")[0] not in doubtful}


def _short(path: str) -> str:
    return path.removeprefix("jaxdp.")


def _members(cls: type) -> list[str]:
    """The methods of a class that its page explains."""
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (callable(member) or isinstance(member, (classmethod, staticmethod, property)))
        and member.__doc__
    ]


def linked(html: str, page: str, address: Callable[[str], str]) -> str:
    """A page's HTML with its code names as links.

    Args:
        html: of the page.
        page: where the site has it.
        address: of a place, as the page has to write it.
    """
    # There a bare small word is an argument or an attribute.
    is_reference = page.startswith("reference/")

    def link(text: str, name: str, *, is_word: bool) -> str:
        there = places().get(name) or places().get(_short(name))
        if (
            there in (None, page)
            or name == "jaxdp"
            or (is_word and name.isidentifier() and name.islower())
        ):
            return text
        return f'<a class="code-name" href="{address(there)}">{text}</a>'

    def inline(found: re.Match[str]) -> str:
        return link(found[0], found["name"], is_word=is_reference)

    def block(found: re.Match[str]) -> str:
        # A bare small word is a variable of the reader's.
        return link(found[0], _TAG.sub("", found[0]), is_word=True)

    parts = _SKIPPED.split(html)
    # The pattern has two groups: text, what is skipped, its tag, text, ...
    for position in range(0, len(parts), 3):
        parts[position] = _BLOCK.sub(block, _INLINE.sub(inline, parts[position]))
    return "".join(part for index, part in enumerate(parts) if index % 3 != 2)
