"""Formulas as MathML, made while the site is built.

A browser shows MathML by itself, so that no page needs a script or another server, and a formula
that cannot be read is an error of the build and not red text on a page.
"""

import functools
import html
import importlib.util
import pathlib
import re

from math_core import LatexToMathML

# What `pymdownx.arithmatex` makes of $...$ and $$...$$.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
# Notebooks keep their dollars; code in them may hold others.
_CODE = re.compile(r"(<(pre|code|script|style|svg)\b.*?</\2>)", re.DOTALL)
_DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_DOLLARS = re.compile(r"(?<![\\$])\$(?!\s)([^$<]+?)(?<!\s)\$(?!\d)")


def font() -> pathlib.Path:
    """A font with the tables of mathematics, that a package of the extra docs brings."""
    # Found without being imported, which warns.
    package = importlib.util.find_spec("ziamath")
    assert package is not None
    return pathlib.Path(package.origin or "").with_name("fonts") / "STIXTwoMath-Regular.ttf"


@functools.cache
def mathml(latex: str, *, is_block: bool = False) -> str:
    """A formula as MathML.

    Args:
        latex: formula as written in a page or in HTML.
        is_block: True for a formula on a line of its own.

    Raises:
        ValueError: it cannot be read.
    """
    source = html.unescape(latex).strip()
    try:
        return LatexToMathML().convert_with_local_state(source, displaystyle=is_block)
    except Exception as error:
        raise ValueError(f"the formula {source!r} cannot be read: {error}") from error


def rendered(page: str) -> str:
    """A page's HTML with the formulas that Markdown marked as MathML."""
    page = _BLOCK.sub(lambda found: mathml(found[1], is_block=True), page)
    return _INLINE.sub(lambda found: mathml(found[1]), page)


def rendered_notebook(page: str) -> str:
    """A notebook's HTML with the text between dollars, outside of code, as MathML."""
    parts = _CODE.split(page)
    # The pattern has two groups: text, code, the code's tag, text, ...
    for position in range(0, len(parts), 3):
        text = _DISPLAYED.sub(lambda found: mathml(found[1], is_block=True), parts[position])
        parts[position] = _DOLLARS.sub(lambda found: mathml(found[1]), text)
    return "".join(part for index, part in enumerate(parts) if index % 3 != 2)
