"""The parts of the page: plain HTML, boxes around others, and settings as widgets.

A setting is a slider with a box to type into, or a list of choices. A widget only proposes: what it
sends is checked by the field, and put back where it is refused.
"""

import abc
import html
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import panel

import jaxdp
from jaxdp.core.version import repository_address
from jaxdp.explorer.studies.base import Choice, Field, Number

WIDTH = 330
_HEADER = "#eef3f7"
_BOX = 92
# Places of a logarithmic or continuous slider.
_STEPS = 400
# Called with the setting's name and its value, and with a message.
OnChange = Callable[[str, Any], None]
OnRefuse = Callable[[str], None]
STYLE = """
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
    return panel.pane.HTML(text, stylesheets=[STYLE], **settings)


def docs_link(page: str, text: str) -> str:
    """A link to a page of the documentation in the repository; the text where that is unknown."""
    address = repository_address()
    if not address:
        return html.escape(text)
    href = html.escape(f"{address}/blob/main/docs/{page}")
    return f'<a href="{href}" target="_blank" rel="noreferrer">{html.escape(text)}</a>'


def message_pane() -> panel.pane.HTML:
    """A place for what is refused, which is hidden."""
    return pane(visible=False, sizing_mode="stretch_width")


def show_message(place: panel.pane.HTML, message: str) -> None:
    """Say why something is not done, as text: a message may repeat whatever was sent."""
    text = html.escape(" ".join(message.split())[:500])
    place.object = f'<div class="refused" role="alert">{text}</div>'
    place.visible = True


def status_html(text: str) -> str:
    """The work that is being done, in words; "up to date" where there is none."""
    kind = "busy" if text else "status"
    return f'<span class="{kind}">{html.escape(text or "up to date")}</span>'


def cost_html(algorithm: Any, delta: float) -> str:
    """The cost of an algorithm as a notebook shows it, or why none is known at this delta."""
    try:
        return jaxdp.account(algorithm, delta=delta)._repr_html_()
    except ValueError as error:
        return f"ε at δ = {delta:g} is not known: {html.escape(str(error))}"


def label_html(field: Number) -> str:
    """A setting's label, with the sentence about it where the mouse rests on it."""
    text = html.escape(field.label)
    return f'<abbr title="{html.escape(field.help)}">{text}</abbr>' if field.help else text


def code_html(code: str) -> str:
    """Python to be read and copied."""
    return f'<pre class="code">{html.escape(code)}</pre>'


def grouped_cards(
    fields: Iterable[Field], controls: Mapping[str, "AbstractControl"]
) -> list[panel.Card]:
    """The widgets of settings, those of a group in a box under its heading."""
    groups: dict[str, list[Any]] = {}
    for field in fields:
        groups.setdefault(field.group, []).append(controls[field.name].view)
    look = {"width": WIDTH, "margin": (0, 0, 8, 0), "header_background": _HEADER}
    return [panel.Card(*views, title=title, **look) for title, views in groups.items()]


def side_by_side(left: Iterable[Any], right: Iterable[Any]) -> panel.Column:
    """Settings and what they show; on a narrow screen the one above the other."""
    # Of a flexible box no child is narrower than its content, unless it says so.
    styles = {"flex": "1 1 560px", "min-width": "min(300px, 100%)"}
    wide = panel.Column(*right, sizing_mode="stretch_width", max_width=1000, styles=styles)
    parts = panel.Column(*left, width=WIDTH + 12), wide
    # Panel makes a row as wide as its parts together, however narrow the screen is.
    look = {"flex-direction": "row", "flex-wrap": "wrap"}
    return panel.Column(*parts, sizing_mode="stretch_width", margin=(8, 0, 0, 0), styles=look)


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


class AbstractControl(abc.ABC):
    """The widgets of a setting."""

    field: Any  # the setting
    value: Any  # what is shown, which is in the range
    view: Any  # the object of Panel
    _on_change: OnChange
    _on_refuse: OnRefuse

    @abc.abstractmethod
    def show(self, value: Any) -> None:
        """Put the widgets at a value that is known to be in the range."""

    def _propose(self, read: Callable[[Any], Any], sent: Any) -> None:
        try:
            value = read(sent)
        except ValueError as error:
            self.show(self.value)
            self._on_refuse(str(error))
            return
        if value != self.value:
            self._on_change(self.field.name, value)


class _Slider(panel.widgets.FloatSlider):
    """A slider whose moves are not gathered: what is out of date is dropped where it waits."""

    # Milliseconds.
    _debounce = 1


class NumberControl(AbstractControl):
    """A label, a box and a slider; CSS classes of its name let a browser's test find them."""

    def __init__(self, field: Number, on_change: OnChange, on_refuse: OnRefuse):
        self.field, self._on_change, self._on_refuse = field, on_change, on_refuse
        low, high = field.position(field.low), field.position(field.high)
        is_stepwise = field.is_whole and not field.is_log
        self.box = panel.widgets.TextInput(
            css_classes=[f"box-{field.name}"], width=_BOX, margin=(2, 5, 0, 0), align="center"
        )
        self.slider = _Slider(
            css_classes=[f"slider-{field.name}"],
            start=low,
            end=high,
            step=1.0 if is_stepwise else (high - low) / _STEPS,
            value=field.position(field.start),
            show_value=False,
            # On a logarithmic slider it would be the logarithm.
            tooltips=False,
            width=WIDTH - 20,
            margin=(0, 5, 8, 5),
            bar_color="#0072B2",
        )
        self.show(field.start)
        self.box.param.watch(self._typed, "value")
        event = "value_throttled" if field.compiles else "value"
        self.slider.param.watch(self._slid, event)
        label = pane(label_html(field), width=WIDTH - _BOX - 20, margin=(2, 5), align="center")
        self.view = panel.Column(panel.Row(label, self.box, margin=0), self.slider, margin=0)

    def show(self, value):
        # First, so that the widgets find nothing new in what they are set to.
        self.value = value
        self.box.value = self._text(value)
        # Set anew where the same text was refused and stands there still.
        self.box.param.trigger("value")
        self.slider.value = self.field.position(value)

    def _text(self, value) -> str:
        return f"{value:d}" if self.field.is_whole else f"{value:.6g}"

    def _typed(self, event) -> None:
        if event.new != self._text(self.value):
            self._propose(self.field.checked, event.new)

    def _slid(self, event) -> None:
        if event.new != self.field.position(self.value):
            self._propose(self.field.at, event.new)


class ChoiceControl(AbstractControl):
    """A list of which one is chosen."""

    def __init__(self, field: Choice, on_change: OnChange, on_refuse: OnRefuse):
        self.field, self._on_change, self._on_refuse = field, on_change, on_refuse
        self.value = field.start
        self.view = self.select = panel.widgets.Select(
            css_classes=[f"select-{field.name}"],
            label=field.label,
            options={text: value for value, text in field.options.items()},
            value=field.start,
            width=WIDTH - 20,
            margin=(2, 5, 8, 5),
        )
        self.select.param.watch(lambda event: self._propose(field.checked, event.new), "value")

    def show(self, value):
        self.value = self.select.value = value


def control_of(field: Field, on_change: OnChange, on_refuse: OnRefuse) -> AbstractControl:
    """The widgets of a setting."""
    if isinstance(field, Number):
        return NumberControl(field, on_change, on_refuse)
    return ChoiceControl(field, on_change, on_refuse)
