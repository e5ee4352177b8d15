"""The parts of a tab: settings as Panel's widgets, a line of state, and work in threads."""

import asyncio
import functools
import html
import math
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import panel

from jaxdp.core.checks import NotCoveredError
from jaxdp.explorer.fields import Field, Number

WIDTH = 310
Run = Callable[..., Awaitable[Any]]
Progress = Callable[[float], None]
# The exceptions of a wrong or impossible setting, or of a computation that came to nothing.
_ANSWERS = (ValueError, RuntimeError, NotCoveredError, MemoryError, ImportError)
# Set once the program ends. Python waits for its threads then, and long jobs ask for this.
OVER = threading.Event()
_STYLE = """
:host { font-family: "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 20px; margin: 4px 0; }
p { margin: 2px 0 6px 0; }
.readout { font-size: 17px; }
.note { color: #555; font-size: 13px; }
.busy { color: #8a4b00; font-weight: 600; font-size: 13px; }
.refused { background: #f8d7da; color: #721c24; border: 1px solid #f1b0b7; padding: 8px 12px; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 3px 18px 3px 0; border-bottom: 1px solid #ddd; text-align: left; }
ul { font-size: 12.5px; color: #444; margin: 8px 0 0 0; padding-left: 18px; }
pre { background: #f5f5f5; padding: 10px; font-size: 12.5px; overflow-x: auto; margin: 0; }
"""


class Ended(BaseException):
    """Nobody waits for the result of a job any more."""


def pane(text: str = "") -> panel.pane.HTML:
    """HTML with the page's style."""
    return panel.pane.HTML(text, stylesheets=[_STYLE], sizing_mode="stretch_width")


def span(kind: str, text: str) -> str:
    """Text, which may repeat what was sent, as HTML of a class."""
    return f'<div class="{kind}">{html.escape(" ".join(text.split())[:500])}</div>'


def code_html(code: str) -> str:
    """Python to be read and copied."""
    return f"<pre>{html.escape(code)}</pre>"


def form(fields: Iterable[Field]) -> tuple[panel.Column, dict[str, Any]]:
    """The settings in boxes by group, and the widget of each that has its value."""
    fields = tuple(fields)
    widgets = {field.name: _widget(field) for field in fields}
    groups: dict[str, list[Any]] = {}
    for field in fields:
        widget = widgets[field.name]
        view = panel.Column(widget, margin=0)
        if isinstance(field, Number):
            view.append(_slider(field, widget))
        if field.shown is not None:
            name, wanted = field.shown
            is_there: Any = panel.bind(functools.partial(_is_in, wanted), widgets[name])
            view.visible = is_there
        groups.setdefault(field.group, []).append(view)
    cards = [panel.Card(*parts, title=title, width=WIDTH) for title, parts in groups.items()]
    return panel.Column(*cards, width=WIDTH + 12), widgets


def _is_in(wanted: tuple[str, ...], value: str) -> bool:
    return value in wanted


def _widget(field: Field) -> Any:
    """A box for a number, a list for a choice. Their classes are for a browser's test."""
    look: dict[str, Any] = {"label": field.label, "width": WIDTH - 20, "margin": (4, 5, 0, 5)}
    look["css_classes"] = [f"box-{field.name}"]
    if isinstance(field, Number):
        text = f"{field.start:.6g}"
        return panel.widgets.TextInput(value=text, description=field.help or None, **look)
    options = {text: value for value, text in field.options.items()}
    return panel.widgets.Select(options=options, value=field.start, **look)


def _slider(field: Number, box: Any) -> Any:
    """A slider that sets the box once it is let go, and stands where the box's value is.

    Panel's own slider with a box, `EditableFloatSlider`, has no logarithmic scale.
    """

    def place(value: Any) -> float:
        number = field.checked(value)
        return math.log10(number) if field.is_log else float(number)

    low, high = place(field.low), place(field.high)
    step = 1.0 if field.is_whole and not field.is_log else (high - low) / 200
    slider = panel.widgets.FloatSlider(
        **{"start": low, "end": high, "step": step, "value": place(field.start)},
        # On a logarithmic slider it would be the logarithm.
        **{"show_value": False, "tooltips": False},
        **{"width": WIDTH - 20, "margin": (0, 5, 8, 5), "css_classes": [f"slider-{field.name}"]},
    )

    def slid(at: float) -> None:
        value = 10.0 ** min(at, 300.0) if field.is_log else at
        box.value = f"{value:.0f}" if field.is_whole else f"{value:.4g}"

    def typed(text: str) -> None:
        try:
            slider.value = place(text)
        except ValueError:
            # The page says what is wrong with it.
            return

    panel.bind(slid, slider.param.value_throttled, watch=True)
    panel.bind(typed, box, watch=True)
    return slider


def side_by_side(left: Any, *right: Any) -> panel.Column:
    """Settings and what they show; on a narrow screen the one above the other."""
    # A child of a flexible box is never narrower than its content, unless it says so.
    styles = {"flex": "1 1 560px", "min-width": "min(300px, 100%)"}
    wide = panel.Column(*right, sizing_mode="stretch_width", max_width=1000, styles=styles)
    # Panel makes a row as wide as its parts together, however narrow the screen is.
    look = {"flex-direction": "row", "flex-wrap": "wrap"}
    return panel.Column(left, wide, sizing_mode="stretch_width", styles=look)


class Work:
    """What a tab does, in threads so that the page goes on answering; what is asked next ends it.

    Attributes:
        state: what is being done, or why something is not done.
    """

    def __init__(self, text: str):
        self.state, self._ended = pane(span("note", text)), threading.Event()

    async def do(self, job: Callable[[Run, Progress], Awaitable[None]]) -> None:
        """Do a job; a failure is answered in a sentence, and the page goes on.

        The job is given a function that runs another one in a thread under a name, and a function
        to be told, in that thread, which share is done.
        """
        self._ended.set()
        self._ended = ended = threading.Event()
        loop, doing = asyncio.get_running_loop(), ""

        def say(kind: str, text: str) -> None:
            if not ended.is_set():
                self.state.object = span(kind, text)

        async def run(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
            nonlocal doing
            doing = name
            say("busy", f"{doing} ...")
            found = await asyncio.to_thread(function, *arguments)
            if ended.is_set():
                raise Ended
            return found

        def progress(share: float) -> None:
            if ended.is_set() or OVER.is_set():
                raise Ended
            loop.call_soon_threadsafe(say, "busy", f"{doing}: {share:.0%}")

        try:
            await job(run, progress)
            say("note", "up to date")
        except Ended:
            return
        except _ANSWERS as error:
            say("refused", str(error) or type(error).__name__)
        except Exception as error:
            # A defect of ours, of which the terminal has the traceback.
            traceback.print_exc()
            say("refused", f"a defect of jaxdp, {type(error).__name__}: the terminal says more")
