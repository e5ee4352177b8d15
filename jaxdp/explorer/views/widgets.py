"""The parts of the page: plain HTML, boxes around others, and settings as Panel's widgets."""

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

import panel

from jaxdp.core.version import repository_address
from jaxdp.explorer.studies.base import Field, Number
from jaxdp.privacy.accounting import cost_of, release_of

WIDTH = 330
_HEADER = "#eef3f7"
_BOX = 92
# Places of a slider whose values are not counts.
_STEPS = 400
_STYLE = """
:host, .bk-root, body { font-family: "Helvetica Neue", Arial, sans-serif; }
.status { color: #444; font-size: 13px; }
.busy { color: #8a4b00; font-weight: 600; font-size: 13px; }
h1 { font-size: 20px; margin: 4px 0; }
p { margin: 2px 0 6px 0; }
.readout { font-size: 17px; }
.refused { background: #f8d7da; color: #721c24; border: 1px solid #f1b0b7; padding: 8px 12px; }
abbr { text-decoration: underline dotted #888; cursor: help; }
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
    return panel.pane.HTML(text, stylesheets=[_STYLE], **settings)


def docs_link(page: str, text: str) -> str:
    """A link to a page of the documentation in the repository; the text if that is unknown."""
    address = repository_address()
    if not address:
        return html.escape(text)
    href = html.escape(f"{address}/blob/main/docs/{page}")
    return f'<a href="{href}" target="_blank" rel="noreferrer">{html.escape(text)}</a>'


def message_html(message: str) -> str:
    """The reason why something is not done, as text: a message may repeat what was sent."""
    text = html.escape(" ".join(message.split())[:500])
    return f'<div class="refused" role="alert">{text}</div>'


def status_html(text: str) -> str:
    """The work that is being done, in words; "up to date" for none."""
    kind = "busy" if text else "status"
    return f'<span class="{kind}">{html.escape(text or "up to date")}</span>'


def cost_html(algorithm: Any, delta: float) -> str:
    """The cost of an algorithm as a notebook shows it, with a warning of a delta of 1/n or more."""
    release = release_of(algorithm)
    count = release.num_records
    warning = ""
    if count is not None and delta >= 1 / count:
        warning = message_html(
            f"δ = {delta:g} is at least 1/n = {1 / count:.2g}: such a budget allows to publish a "
            "record drawn at random"
        )
    try:
        return warning + cost_of(release, delta)._repr_html_()
    except ValueError as error:
        return f"{warning}ε at δ = {delta:g} is not known: {html.escape(str(error))}"


def code_html(code: str) -> str:
    """Python to be read and copied."""
    return f'<pre class="code">{html.escape(code)}</pre>'


def text_of(field: Field, value: Any) -> str:
    """A setting's value as its widget has it."""
    if not isinstance(field, Number):
        return value
    return f"{value:d}" if field.is_whole else f"{value:.6g}"


def control_of(field: Field) -> tuple[Any, Any]:
    """The object that shows a setting, and the widget in it whose `value` is what is proposed.

    CSS classes of its name let a browser's test find the widgets.
    """
    if isinstance(field, Number):
        return _number_control(field)
    select = panel.widgets.Select(
        css_classes=[f"select-{field.name}"],
        label=field.label,
        options={text: value for value, text in field.options.items()},
        value=field.start,
        width=WIDTH - 20,
        margin=(2, 5, 8, 5),
    )
    return select, select


def _number_control(field: Number) -> tuple[Any, Any]:
    """A label, a box and a slider, which follow each other.

    Panel's own slider with a box, `EditableFloatSlider`, has no logarithmic scale and no whole
    numbers on one.
    """
    box = panel.widgets.TextInput(
        value=text_of(field, field.start),
        css_classes=[f"box-{field.name}"],
        width=_BOX,
        margin=(2, 5, 0, 0),
        align="center",
    )
    low, high = _place(field, field.low), _place(field, field.high)
    step = 1.0 if field.is_whole and not field.is_log else (high - low) / _STEPS
    slider = panel.widgets.FloatSlider(
        css_classes=[f"slider-{field.name}"],
        start=low,
        end=high,
        step=step,
        value=_place(field, field.start),
        show_value=False,
        # On a logarithmic slider it would be the logarithm.
        tooltips=False,
        width=WIDTH - 20,
        margin=(0, 5, 8, 5),
        bar_color="#0072B2",
    )

    def slid(place: float) -> None:
        if math.isfinite(place) and abs(place - slider_place()) > step / 2:
            # Beyond 1e300 a power would be no float, and is out of every range all the same.
            value = 10.0 ** min(place, 300.0) if field.is_log else place
            box.value = text_of(field, round(value) if field.is_whole else float(f"{value:.4g}"))

    def slider_place() -> float:
        """The place of the box's value; of what is no value none is far."""
        try:
            return _place(field, field.checked(box.value))
        except ValueError:
            return math.inf

    def typed(_: str) -> None:
        place = slider_place()
        if math.isfinite(place) and abs(place - slider.value) > step / 2:
            slider.value = place

    panel.bind(slid, slider.param.value_throttled if field.compiles else slider, watch=True)
    panel.bind(typed, box, watch=True)
    label = pane(label_html(field), width=WIDTH - _BOX - 20, margin=(2, 5), align="center")
    return panel.Column(panel.Row(label, box, margin=0), slider, margin=0), box


def _place(field: Number, value: float) -> float:
    """The place of a value on its slider."""
    return math.log10(value) if field.is_log else float(value)


def label_html(field: Number) -> str:
    """A setting's label, with the sentence about it if the mouse rests on it."""
    text = html.escape(field.label)
    return f'<abbr title="{html.escape(field.help)}">{text}</abbr>' if field.help else text


def grouped_cards(fields: Iterable[Field], views: Mapping[str, Any]) -> list[panel.Card]:
    """The objects that show settings, those of a group in a box under its heading."""
    groups: dict[str, list[Any]] = {}
    for field in fields:
        groups.setdefault(field.group, []).append(views[field.name])
    look = {"width": WIDTH, "margin": (0, 0, 8, 0), "header_background": _HEADER}
    return [panel.Card(*parts, title=title, **look) for title, parts in groups.items()]


def side_by_side(left: Iterable[Any], right: Iterable[Any]) -> panel.Column:
    """Settings and what they show; on a narrow screen the one above the other."""
    # A child of a flexible box is never narrower than its content, unless it says so.
    styles = {"flex": "1 1 560px", "min-width": "min(300px, 100%)"}
    wide = panel.Column(*right, sizing_mode="stretch_width", max_width=1000, styles=styles)
    parts = panel.Column(*left, width=WIDTH + 12), wide
    # Panel makes a row as wide as its parts together, however narrow the screen is.
    look = {"flex-direction": "row", "flex-wrap": "wrap"}
    return panel.Column(*parts, sizing_mode="stretch_width", margin=(8, 0, 0, 0), styles=look)


def folding_card(title: str, content: Any, *, is_open: bool) -> panel.Card:
    """A part of the page that can be folded."""
    return panel.Card(
        content,
        title=title,
        collapsed=not is_open,
        sizing_mode="stretch_width",
        margin=(8, 0, 0, 0),
        header_background=_HEADER,
    )
