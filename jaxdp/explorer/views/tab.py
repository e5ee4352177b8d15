"""A tab of settings, with work in threads so that the page goes on answering meanwhile.

Coroutines change the widgets, in the session to which they belong, and wait for threads that
compute. Panel runs the coroutines.
"""

import abc
import asyncio
import functools
import threading
import traceback
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import panel

from jaxdp.core.errors import NotCoveredError
from jaxdp.explorer.studies.base import AbstractSettings, is_shown
from jaxdp.explorer.views.widgets import control_of, message_html, pane, status_html, text_of

# The exceptions of a wrong or impossible setting, or of a computation that came to nothing.
_ANSWERS = (ValueError, RuntimeError, NotCoveredError, MemoryError, ImportError)
# Set once the program ends. Python waits for its threads then, and long jobs ask for this.
OVER = threading.Event()


class Ended(BaseException):
    """The program ends: nobody will see the result of a job."""


class AbstractTab(abc.ABC):
    """The settings of one tab in one session, and one long job at a time.

    Attributes:
        view: the object of Panel.
        values: the settings that are shown, all of them valid; replaced if one changes.
        inputs: the widget of each setting.
        status, message: places for what is being done, and for why something is not.
        doing: the long job that is running, in words; "" for none.
    """

    view: Any
    is_predicting = False  # whether the settings that are shown are being predicted

    def _set_up(self, settings: AbstractSettings) -> None:
        self._settings, self.values = settings, settings.start()
        self.status, self.message = pane(status_html("")), pane(visible=False)
        self.message.sizing_mode = "stretch_width"
        self.doing = ""
        controls = {field.name: control_of(field) for field in settings.fields}
        self.views = {name: view for name, (view, _) in controls.items()}
        self.inputs = {name: widget for name, (_, widget) in controls.items()}
        for name, widget in self.inputs.items():
            panel.bind(functools.partial(self._take, name), widget, watch=True)
        self._show(())

    @abc.abstractmethod
    def _follow(self) -> None:
        """Do what follows from settings that have just been changed."""

    @abc.abstractmethod
    def _refused(self, name: str, value: Any, message: str) -> None:
        """Answer a setting that has been refused."""

    def change(self, **changes: Any) -> None:
        """Change settings and show them; ValueError, and no change, if one is wrong."""
        self.values = self._settings.changed(self.values, **changes)
        self.message.visible = False
        self._show(changes)
        self._follow()

    def refuse(self, message: str) -> None:
        """Say why something is not done; nothing else changes."""
        self.message.object, self.message.visible = message_html(message), True

    def say(self, text: str) -> None:
        """Say what is being done; "" for nothing."""
        self.status.object = status_html(text)

    def start(self, doing: str, job: Callable[[], Awaitable[None]]) -> None:
        """Start a long job, unless another one is running."""
        if self.doing:
            self.refuse(f"one thing at a time: {self.doing}")
            return
        self.doing, self.message.visible = doing, False
        panel.state.execute(functools.partial(self._finish, job))

    async def guarded(self, job: Callable[[], Awaitable[None]]) -> None:
        """Do a job of the page; a failure is answered in a sentence, and the page goes on."""
        try:
            await job()
        except _ANSWERS as error:
            self.refuse(str(error) or type(error).__name__)
        except Exception as error:
            # A defect of ours, of which the terminal has the traceback.
            traceback.print_exc()
            self.refuse(f"a defect of jaxdp, {type(error).__name__}: the terminal says more")

    def progress(self) -> Callable[[float], None]:
        """A function for the thread of the running job, which says the share that is done."""
        loop, doing = asyncio.get_running_loop(), self.doing

        def report(share: float) -> None:
            if OVER.is_set():
                raise Ended
            loop.call_soon_threadsafe(self.say, f"{doing}: {share:.0%}")

        return report

    async def _finish(self, job: Callable[[], Awaitable[None]]) -> None:
        self.say(self.doing)
        await self.guarded(job)
        self.doing = ""
        if not self.is_predicting:
            self.say("")

    def _take(self, name: str, sent: Any) -> None:
        """Take a setting that a widget proposes, or put the widget back."""
        field = next(field for field in self._settings.fields if field.name == name)
        if sent == text_of(field, self.values[name]):
            return
        try:
            self.change(**{name: sent})
        except ValueError as error:
            self._show((name,))
            self._refused(name, sent, str(error))

    def _show(self, names: Collection[str]) -> None:
        """Put the widgets of some settings at their values, and show those that count."""
        for field in self._settings.fields:
            if field.name in names:
                self.inputs[field.name].value = text_of(field, self.values[field.name])
            self.views[field.name].visible = is_shown(field, self.values)
