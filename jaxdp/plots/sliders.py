"""Pictures with sliders for notebooks."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxdp.core.packages import require_extra


def show_sliders(draw: Callable[..., Any], **stops: Sequence[Any] | np.ndarray) -> None:
    """Show a picture below sliders of ipywidgets, which redraw it when they are released.

    Args:
        draw: function that draws with pyplot or returns the picture. Each slider's name is one of
            its arguments and has a default.
        stops: values of each slider; it starts at the value nearest to the default.

    Example:
        >>> import jaxdp
        >>> def risk(clip_scale=1.0):
        ...     algorithm = jaxdp.OnePassDPSGD(3.0, clip_scale, rho=1.0, num_steps=1000)
        ...     problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        ...     print(f"{jaxdp.predict(problem, algorithm).final_risk:.3f}")
        >>> jaxdp.plots.show_sliders(risk, clip_scale=[0.3, 1.0, 3.0])  # doctest: +SKIP
    """
    with require_extra("ipywidgets", "notebooks", "a picture with sliders"):
        import ipywidgets  # pyright: ignore[reportMissingImports]

    sliders, arguments = {}, inspect.signature(draw).parameters
    for name, given in stops.items():
        values, default = np.asarray(given).tolist(), arguments[name].default
        sliders[name] = ipywidgets.SelectionSlider(
            options=[(f"{x:.3g}" if isinstance(x, float) else str(x), x) for x in values],
            value=default if default in values else min(values, key=lambda x: abs(x - default)),
            description=name.replace("_", " "),
            continuous_update=False,
            style={"description_width": "initial"},
        )
    ipywidgets.interact(draw, **sliders)
