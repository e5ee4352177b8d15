"""Code names of the pages, inline and in blocks, as links to the reference.

A page writes `jaxdp.predict` and nothing more; autorefs knows which page explains the name.
"""

import collections
import functools
import importlib
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
def _identifiers() -> dict[str, str]:
    """The identifier in autorefs of each public name, by the name's forms.

    A form is the name in each of its packages, also without `jaxdp.`, and the bare name if only one
    thing bears it.
    """
    found, bare = {}, collections.defaultdict(set)
    for door in reference.doors():
        found[door] = door
        for name in reference.names(door):
            source = reference.source_of(door, name)
            found |= {
                form: source for form in (f"{door}.{name}", f"{door}.{name}".removeprefix("jaxdp."))
            }
            bare[name].add(id(getattr(importlib.import_module(door), name)))
            found.setdefault(name, source)
    doubtful = {name for name, things in bare.items() if len(things) > 1}
    return {form: source for form, source in found.items() if form not in {*doubtful, "jaxdp"}}


def linked(html: str, url: str, address: Callable[..., tuple[str, str | None]]) -> str:
    """A page's HTML with its code names as links.

    Args:
        html: HTML of the page.
        url: address of the page in the site.
        address: function of an identifier and a page, which returns the link from that page and
            a title. A KeyError means that nothing explains the identifier.
    """

    def link(text: str, name: str, *, is_word: bool) -> str:
        if is_word and name.isidentifier() and name.islower():
            return text
        whole, _, member = name.rpartition(".")
        known = _identifiers()
        identifier = known.get(name) or (whole in known and f"{known[whole]}.{member}")
        try:
            there, _ = address(identifier, from_url=url)
        except KeyError:
            return text
        # A page does not send its reader to itself.
        is_here = there.startswith("#")
        return text if is_here else f'<a class="code-name" href="{there}">{text}</a>'

    def inline(found: re.Match[str]) -> str:
        # In the reference a bare small word is an argument or an attribute.
        return link(found[0], found["name"], is_word=url.startswith("reference/"))

    def block(found: re.Match[str]) -> str:
        # A bare small word is a variable of the reader's.
        return link(found[0], _TAG.sub("", found[0]), is_word=True)

    parts = _SKIPPED.split(html)
    # The pattern has two groups: text, skipped part, its tag, text, ...
    for position in range(0, len(parts), 3):
        parts[position] = _BLOCK.sub(block, _INLINE.sub(inline, parts[position]))
    return "".join(part for index, part in enumerate(parts) if index % 3 != 2)
