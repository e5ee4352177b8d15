"""Parts of a tab: settings as widgets of Panel, a status line, and computations in threads."""

import asyncio
import contextlib
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
# Exceptions that explain a wrong or impossible setting, or a failed computation.
_ANSWERS = (ValueError, RuntimeError, NotCoveredError, MemoryError, ImportError)
# Set when the program ends: Python waits for all threads, so long computations look at this flag.
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
    """Raised in a computation whose result nobody waits for any more."""


def pane(text: str = "") -> panel.pane.HTML:
    """Return a pane of HTML in the page's style."""
    return panel.pane.HTML(text, stylesheets=[_STYLE], sizing_mode="stretch_width")


def span(kind: str, text: str) -> str:
    """Return an escaped text as an HTML element of a class; the text may repeat a browser's."""
    return f'<div class="{kind}">{html.escape(" ".join(text.split())[:500])}</div>'


def code_html(code: str) -> str:
    """Return Python code as HTML."""
    return f"<pre>{html.escape(code)}</pre>"


def form(fields: Iterable[Field]) -> tuple[panel.Column, dict[str, Any]]:
    """Return the settings in boxes by group, and the widget that holds each setting's value."""
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
            is_shown: Any = panel.bind(lambda value, wanted=wanted: value in wanted, widgets[name])
            view.visible = is_shown
        groups.setdefault(field.group, []).append(view)
    cards = [panel.Card(*parts, title=title, width=WIDTH) for title, parts in groups.items()]
    return panel.Column(*cards, width=WIDTH + 12), widgets


def _widget(field: Field) -> Any:
    look: dict[str, Any] = {"label": field.label, "width": WIDTH - 20, "margin": (4, 5, 0, 5)}
    look["css_classes"] = [f"box-{field.name}"]  # tests in a browser look for it
    if isinstance(field, Number):
        text = f"{field.start:.6g}"
        return panel.widgets.TextInput(value=text, description=field.help or None, **look)
    options = {text: value for value, text in field.options.items()}
    return panel.widgets.Select(options=options, value=field.start, **look)


def _slider(field: Number, box: Any) -> Any:
    """A slider that sets the box when it is released, and follows the box's value.

    Panel's `EditableFloatSlider` has no logarithmic scale.
    """

    def place(value: Any) -> float:
        number = field.checked(value)
        return math.log10(number) if field.is_log else float(number)

    low, high = place(field.low), place(field.high)
    step = 1.0 if field.is_whole and not field.is_log else (high - low) / 200
    slider = panel.widgets.FloatSlider(
        **{"start": low, "end": high, "step": step, "value": place(field.start)},
        # A logarithmic slider would show the logarithm.
        **{"show_value": False, "tooltips": False},
        **{"width": WIDTH - 20, "margin": (0, 5, 8, 5), "css_classes": [f"slider-{field.name}"]},
    )

    def slid(at: float) -> None:
        value = 10.0 ** min(at, 300.0) if field.is_log else at
        box.value = f"{value:.0f}" if field.is_whole else f"{value:.4g}"

    def typed(text: str) -> None:
        # The tab reports a wrong value.
        with contextlib.suppress(ValueError):
            slider.value = place(text)

    panel.bind(slid, slider.param.value_throttled, watch=True)
    panel.bind(typed, box, watch=True)
    return slider


def side_by_side(left: Any, *right: Any) -> panel.Column:
    """Put settings to the left of their results; below them on a narrow screen."""
    # By default a child of a flexible box is never narrower than its content.
    styles = {"flex": "1 1 560px", "min-width": "min(300px, 100%)"}
    wide = panel.Column(*right, sizing_mode="stretch_width", styles=styles)
    # A panel.Row would not wrap on a narrow screen.
    look = {"flex-direction": "row-reverse", "flex-wrap": "wrap"}
    return panel.Column(wide, left, sizing_mode="stretch_width", max_width=1330, styles=look)


class Work:
    """A tab's job, which computes in threads; asking for it again ends it and starts a new one.

    The job gets two functions: `run(name, function, *arguments)` calls a function in a thread, and
    that function may call `progress(share)`.

    Attributes:
        state: pane with the current activity, or with the reason of a failure.
    """

    def __init__(self, text: str, job: Callable[[Run, Progress], Awaitable[None]]):
        self.state, self._ended = pane(span("note", text)), threading.Event()
        self._job = job

    async def do(self, *_: Any) -> None:
        """Do the job, and show a failure as a sentence on the page."""
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
            await self._job(run, progress)
            say("note", "up to date")
        except Ended:
            return
        except _ANSWERS as error:
            say("refused", str(error) or type(error).__name__)
        except Exception as error:
            traceback.print_exc()
            say("refused", f"a defect of jaxdp, {type(error).__name__}: the terminal says more")
