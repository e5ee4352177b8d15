"""The parts of the page that are plain HTML, or boxes around others."""

import html
from collections.abc import Iterable
from typing import Any

import panel

import jaxdp

WIDTH = 330
_HEADER = "#eef3f7"
STYLE = """
:host, .bk-root, body { font-family: "Helvetica Neue", Arial, sans-serif; }
.status { color: #444; font-size: 13px; }
.busy { color: #8a4b00; font-weight: 600; font-size: 13px; }
.readout { font-size: 17px; }
.refused { background: #f8d7da; color: #721c24; border: 1px solid #f1b0b7; padding: 8px 12px; }
.note { color: #555; font-size: 13px; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 3px 18px 3px 0; border-bottom: 1px solid #ddd; }
ul { font-size: 12.5px; color: #444; margin: 8px 0 0 0; padding-left: 18px; }
pre.code { background: #f5f5f5; padding: 10px; font-size: 12.5px; overflow-x: auto; margin: 0; }
"""
# A page that is not served by this machine has no clipboard of its own.
CLIPBOARD = """
const said = cb_obj.label;
const done = () => { cb_obj.label = "copied"; setTimeout(() => { cb_obj.label = said; }, 1500); };
if (navigator.clipboard) {
  navigator.clipboard.writeText(text.value).then(done);
} else {
  const area = document.createElement("textarea");
  area.value = text.value;
  document.body.appendChild(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  done();
}
"""


def pane(text: str = "", **settings: Any) -> panel.pane.HTML:
    """HTML with the page's style."""
    return panel.pane.HTML(text, stylesheets=[STYLE], **settings)


def message_pane() -> panel.pane.HTML:
    """A place for what is refused, which is hidden."""
    return pane(visible=False, sizing_mode="stretch_width")


def show_message(place: panel.pane.HTML, message: str) -> None:
    """Say why something is not done, as text: a message may repeat whatever was sent."""
    text = html.escape(" ".join(message.split())[:500])
    place.object = f'<div class="refused" role="alert">{text}</div>'
    place.visible = True


def status_html(text: str) -> str:
    """What is going on, or that nothing is."""
    kind = "busy" if text else "status"
    return f'<span class="{kind}">{html.escape(text or "up to date")}</span>'


def cost_html(algorithm: Any, delta: float) -> str:
    """The cost of an algorithm as a notebook shows it, or why none is known at this delta."""
    try:
        return jaxdp.account(algorithm, delta=delta)._repr_html_()
    except ValueError as error:
        return f"ε at δ = {delta:g} is not known: {html.escape(str(error))}"


def code_html(code: str) -> str:
    """Python to be read and copied."""
    return f'<pre class="code">{html.escape(code)}</pre>'


def settings_card(title: str, views: Iterable[Any]) -> panel.Card:
    """Settings under a heading."""
    return panel.Card(
        *views, title=title, width=WIDTH, margin=(0, 0, 8, 0), header_background=_HEADER
    )


def folding_card(title: str, content: Any, *, css_class: str, is_open: bool) -> panel.Card:
    """A part of the page that can be folded."""
    return panel.Card(
        content,
        title=title,
        collapsed=not is_open,
        css_classes=["card", css_class],
        sizing_mode="stretch_width",
        margin=(8, 0, 0, 0),
        header_background=_HEADER,
    )
