"""A setting as widgets: a slider with a box to type into, or a list of choices.

A widget only proposes: what it sends is checked by the field, and put back where it is refused.
"""

from collections.abc import Callable
from typing import Any

import panel

from jaxdp.explorer.studies.fields import Choice, Field, Number

WIDTH = 330
_BOX = 92
# Places of a logarithmic or continuous slider.
_STEPS = 400
# Called with the setting's name and its value.
OnChange = Callable[[str, Any], None]
OnRefuse = Callable[[str], None]


class _Slider(panel.widgets.FloatSlider):
    """A slider whose moves are not gathered: what is out of date is dropped where it waits."""

    # Milliseconds.
    _debounce = 1


class NumberControl:
    """A label, a box and a slider."""

    def __init__(self, field: Number, on_change: OnChange, on_refuse: OnRefuse):
        self.field, self._on_change, self._on_refuse = field, on_change, on_refuse
        self.value: Any = field.start
        self._is_setting = False
        low, high = field.position(field.low), field.position(field.high)
        is_stepwise = field.is_whole and not field.is_log
        # Under these names a browser's test finds them.
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
            # Of a logarithmic slider it would be the logarithm.
            tooltips=False,
            width=WIDTH - 20,
            margin=(0, 5, 8, 5),
            bar_color="#0072B2",
        )
        self.show(field.start)
        self.box.param.watch(self._typed, "value")
        event = "value_throttled" if field.compiles else "value"
        self.slider.param.watch(self._slid, event)
        label = panel.pane.HTML(field.label, width=WIDTH - _BOX - 20, margin=(2, 5), align="center")
        self.view = panel.Column(panel.Row(label, self.box, margin=0), self.slider, margin=0)

    def show(self, value: Any) -> None:
        """Put box and slider at a value that is known to be in the range."""
        self.value = value
        self._is_setting = True
        try:
            self.box.value = f"{value:d}" if self.field.is_whole else f"{value:.6g}"
            # Set anew where the same text was refused and stands there still.
            self.box.param.trigger("value")
            self.slider.value = self.field.position(value)
        finally:
            self._is_setting = False

    def _typed(self, event) -> None:
        if not self._is_setting:
            self._propose(lambda: self.field.checked(event.new))

    def _slid(self, event) -> None:
        if not self._is_setting and event.new != self.field.position(self.value):
            self._propose(lambda: self.field.at(event.new))

    def _propose(self, read: Callable[[], Any]) -> None:
        try:
            value = read()
        except ValueError as error:
            self.show(self.value)
            self._on_refuse(str(error))
            return
        if value != self.value:
            self._on_change(self.field.name, value)


class ChoiceControl:
    """A list of which one is chosen."""

    def __init__(self, field: Choice, on_change: OnChange, on_refuse: OnRefuse):
        self.field, self._on_change, self._on_refuse = field, on_change, on_refuse
        self.value = field.start
        self._is_setting = False
        options = {text: value for value, text in field.options.items()}
        self.select = panel.widgets.Select(
            css_classes=[f"select-{field.name}"],
            label=field.label,
            options=options,
            value=field.start,
            width=WIDTH - 20,
            margin=(2, 5, 8, 5),
        )
        self.select.param.watch(self._chosen, "value")
        self.view = self.select

    def show(self, value: Any) -> None:
        """Put the list at a value."""
        self.value = value
        self._is_setting = True
        try:
            self.select.value = value
        finally:
            self._is_setting = False

    def _chosen(self, event) -> None:
        if self._is_setting or event.new == self.value:
            return
        try:
            value = self.field.checked(event.new)
        except ValueError as error:
            self.show(self.value)
            self._on_refuse(str(error))
            return
        self._on_change(self.field.name, value)


def control_of(field: Field, on_change: OnChange, on_refuse: OnRefuse):
    """The widgets of a setting."""
    kind = NumberControl if isinstance(field, Number) else ChoiceControl
    return kind(field, on_change, on_refuse)  # pyright: ignore[reportArgumentType]
