"""A picture with sliders, for notebooks: what a number does is seen by moving it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxdp.core.checks import require_callable

_HINT = "Without ipywidgets there are no sliders, only the picture that they start with."


def show_sliders(draw: Callable[..., Any], **stops: Sequence[Any] | np.ndarray) -> None:
    """Show a picture, and above it sliders that draw it anew.

    The picture is drawn when a slider is let go. Where ipywidgets is not installed the picture is
    drawn once, at the values where the sliders would start.

    Args:
        draw: draws with pyplot, or returns what is to be shown; its arguments of the sliders'
            names have defaults.
        stops: for each slider the values that it stops at. A slider starts at the one that is
            nearest to the default of `draw`.

    Raises:
        TypeError: `draw` has no default for a slider.
        ValueError: a slider has nowhere to stop.

    Example:
        >>> import jaxdp
        >>> def risk(clip_scale=1.0):
        ...     algorithm = jaxdp.OnePassDPSGD(3.0, clip_scale, rho=1.0, num_steps=1000)
        ...     problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        ...     print(f"{jaxdp.predict(problem, algorithm).final_risk:.3f}")
        >>> jaxdp.plots.show_sliders(risk, clip_scale=[0.3, 1.0, 3.0])  # doctest: +SKIP
    """
    require_callable("draw", draw, "a function that draws")
    lists = {name: np.asarray(values).tolist() for name, values in stops.items()}
    starts = {name: _start(draw, name, values) for name, values in lists.items()}

    def show(**values):
        shown = draw(**values)
        if shown is not None:
            _display(shown)

    try:
        import ipywidgets  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        if error.name != "ipywidgets":
            raise
        print(_HINT)
        show(**starts)
        return
    sliders = {
        name: ipywidgets.SelectionSlider(
            options=[(_text(value), value) for value in values],
            value=starts[name],
            description=name.replace("_", " "),
            continuous_update=False,
            style={"description_width": "initial"},
        )
        for name, values in lists.items()
    }
    picture = ipywidgets.interactive_output(show, sliders)
    _display(ipywidgets.VBox([*sliders.values(), picture]))


def _start(draw, name, values):
    """The stop that is nearest to the default."""
    parameters = inspect.signature(draw).parameters
    default = parameters[name].default if name in parameters else inspect.Parameter.empty
    if default is inspect.Parameter.empty:
        raise TypeError(f"expected draw to have a default for {name!r}, where its slider starts")
    if not values:
        raise ValueError(f"expected values for the slider of {name!r} to stop at, got none")
    if default in values:
        return default
    return min(values, key=lambda value: abs(value - default))


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _display(shown: Any) -> None:
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    display(shown)
