"""What stands before a private estimator in a Pipeline, as far as its fit can see it.

A step that learns from the records (a StandardScaler, PCA, an imputer) lets one record change the
inputs of all others, and nothing that is proved of the last step is true of the whole. A fit sees
the pipelines that call it, by the frames of the interpreter's stack; whether a step learns is
read off its class and tags, never off the data.

It does not see what was done to the table before the call, steps that are called by hand, functions
in a FunctionTransformer that look at all rows, nor samplers and meta-estimators that are no
Pipeline or TransformedTargetRegressor.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import get_tags

# They are fitted to nothing but the number of columns, or not at all.
_FIXED = (PolynomialFeatures, FrozenEstimator)


def learnt_steps() -> tuple[str, ...]:
    """Classes of the steps that learn from the records which the calling fit is given."""
    found = [type(step).__name__ for step in _earlier_steps() if _learns(step)]
    return tuple(dict.fromkeys(found))


def _earlier_steps() -> Iterator[Any]:
    frame = inspect.currentframe()
    while frame is not None:
        names = frame.f_code.co_varnames
        owner = frame.f_locals.get("self") if names[:1] == ("self",) else None
        # Where its first steps are being fitted (`_fit`), what comes later has no part in it.
        if isinstance(owner, Pipeline) and frame.f_code.co_name.startswith("fit"):
            for _, step in owner.steps[:-1]:
                yield from _parts(step)
        elif isinstance(owner, TransformedTargetRegressor) and frame.f_code.co_name == "fit":
            yield from _parts(owner.transformer)
        frame = frame.f_back


def _parts(step: Any) -> Iterator[Any]:
    """The step, or what it is made of; the names "passthrough" and "drop" are no steps."""
    if isinstance(step, Pipeline):
        inner = [part for _, part in step.steps]
    elif isinstance(step, FeatureUnion):
        inner = [part for _, part in step.transformer_list]
    elif isinstance(step, ColumnTransformer):
        inner = [part for _, part, _ in step.transformers] + [step.remainder]
    elif step is None or isinstance(step, str):
        inner = []
    else:
        yield step
        return
    for part in inner:
        yield from _parts(part)


def _learns(step: Any) -> bool:
    if isinstance(step, _FIXED):
        return False
    # A Pipeline also takes steps that are no scikit-learn estimators; they may learn anything.
    return not hasattr(step, "__sklearn_tags__") or get_tags(step).requires_fit
