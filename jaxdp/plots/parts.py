"""The parts of an additive model: one curve for each column."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.checks import require_count
from jaxdp.core.pictures import given_axes, letter_panels, new_figure
from jaxdp.kernels import ReleasedFunction
from jaxdp.regression import ColumnFeatures, WithConstant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL, _ACROSS = (2.6, 2.1), 4  # inches of a panel, and panels side by side
_PART, _BAND = "part", "noise, 2 std"
_MOST_NAMES = 12  # largest number of readable categories under a panel


def plot_parts(model: Any, *, place: int = 0, ax: Any = None) -> "Figure | None":
    """Draw an additive model: the part of each column in the function, with its noise.

    The part of a number is a line through its knots, that of categories a point each; missing and
    unlisted values are not drawn. Parts are as released: a fit with a constant moves each column's
    mean, by noisy counts, to the constant. All panels have one vertical scale. Bands are two
    planned standard deviations of the gradients' noise, without sampling error; in simulations of
    logits refits spread by 1.0 to 1.3 times as much at an epsilon of at most 1.

    Args:
        model: a fitted `jaxdp.estimators.DPLinearRegression` or `DPLogisticRegression` with
            `features="additive"`, or its file as `jaxdp.regression.load` reads it.
        place: index of the class, with more than two.
        ax: axes to draw on, one for each column; None for a new figure.

    Returns:
        The figure.

    Raises:
        TypeError: the model is of another kind, or not additive.
        ValueError: its columns interact, or there is no such class.

    Example:
        >>> import numpy as np
        >>> import jaxdp
        >>> inputs = np.random.default_rng(0).uniform(size=(2000, 2))
        >>> options = {"input_range": (0, 1), "label_range": (0, 2), "features": "additive"}
        >>> model = jaxdp.estimators.DPLinearRegression(1.0, 1e-6, **options)
        >>> figure = jaxdp.plots.plot_parts(model.fit(inputs, inputs.sum(axis=1)))
        >>> len(figure.axes)
        2
    """
    release = model if isinstance(model, ReleasedFunction) else getattr(model, "release_", None)
    features = release.features if isinstance(release, ReleasedFunction) else None
    features = features.base if isinstance(features, WithConstant) else features
    if not isinstance(features, ColumnFeatures) or not features.is_additive:
        raise TypeError(
            'expected a fitted estimator with features="additive" or a file of one, got '
            f"{type(model).__name__}"
        )
    assert release is not None
    columns = features.columns
    if columns.interactions:
        raise ValueError(
            "expected a model without interactions, whose parts are curves of one column each, got "
            f"{len(columns.interactions)} of two"
        )
    coefficients = np.asarray(release.coefficients, np.float64)
    coefficients = coefficients.reshape(len(coefficients), -1)
    num_functions = coefficients.shape[1]
    if require_count("place", place, least=0) >= num_functions:
        raise ValueError(f"expected place < {num_functions}, of a class, got {place}")
    coefficients = coefficients[:, place]
    noise_std = np.array(release.record.noise_std) if release.record else ()
    count = len(columns.names)
    if ax is None:
        across = min(_ACROSS, count)
        down = -(-count // across)
        figure = new_figure((_PANEL[0] * across, _PANEL[1] * down))
        axes = np.ravel(figure.subplots(down, across, squeeze=False, sharey=True))
        for spare in axes[count:]:
            spare.remove()
        letter_panels(axes[:count].tolist())
    else:
        axes = given_axes(ax, count, "one for each column")
        figure = axes[0].get_figure(root=True)
    start = 0
    parts = zip(columns.names, columns.specs, columns.is_number, columns.sizes, strict=True)
    for panel, (number, (name, spec, is_number, size)) in zip(axes, enumerate(parts), strict=False):
        shown = columns.bins if is_number else len(spec)
        values = coefficients[start : start + shown]
        spread = 2 * noise_std[start : start + shown] if len(noise_std) else None
        if is_number:
            knots = columns.knots(number)
            if columns.is_date[number]:
                panel.tick_params(axis="x", rotation=30)
            if spread is not None:
                band = {"alpha": 0.25, "color": "C0", "linewidth": 0, "label": _BAND}
                panel.fill_between(knots, values - spread, values + spread, **band)
            panel.plot(knots, values, linewidth=1.2, color="C0", label=_PART)
        else:
            names = [str(key) for key in spec]
            dots = {"fmt": "o", "markersize": 3, "linewidth": 1, "color": "C0"}
            label = _PART if spread is None else f"{_PART}, {_BAND}"
            panel.errorbar(range(shown), values, spread, label=label, **dots)
            every = -(-shown // _MOST_NAMES)
            turned: Any = {"rotation": 60, "ha": "right", "fontsize": 6}
            panel.set_xticks(range(0, shown, every), names[::every], **turned)
        panel.axhline(0, color="0.7", linewidth=0.6, zorder=0)
        panel.set_title(name, fontsize=8)
        panel.tick_params(labelsize=6)
        start += size
    for panel in axes[:count:_ACROSS]:
        panel.set_ylabel(_added_to(release, place), fontsize=7)
    handles = {}
    for panel in axes[:count]:
        found = panel.get_legend_handles_labels()
        handles |= dict(zip(found[1], found[0], strict=True))
    axes[0].legend([*handles.values()], [*handles], fontsize=6)
    return figure


def _added_to(release: ReleasedFunction, place: int) -> str:
    """The sum of the parts in words: the label, or the logit of a class."""
    names = release.columns
    if release.label_bound is not None:
        return f"added to {(names and names.label) or 'the label'}"
    place = place if release.coefficients.ndim > 1 else 1
    named = names.classes[place] if names and names.classes else f"class {place}"
    return f"added to the logit of {named}"
