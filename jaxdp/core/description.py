"""Descriptions: objects that are determined by the arguments of their constructor.

Problems, algorithms, simulators and theories are descriptions. A copy that sets fields directly
(`equinox.tree_at`) skips the constructor's checks and leaves derived fields stale.
"""

import functools
import inspect
import numbers
from collections.abc import Iterable
from typing import Any, Self, get_args, get_type_hints

import equinox as eqx
import jax
from jax.core import Tracer

from jaxdp.core.display import (
    AbstractExplained,
    Explanation,
    Row,
    as_python,
    in_words,
    is_array,
    is_known,
)

# Arguments that are rows of a table, which may be private: only their number is shown.
RECORDS = {"inputs", "labels", "rows", "train_inputs", "train_labels", "test_inputs"}
RECORDS |= {"test_labels", "train_factor", "test_factor", "unseen_factor"}
# Meanings and units of arguments. A name means one thing throughout the toolkit; names that
# depend on their class (`scale`, `weights`, `order`) are left out.
MEANINGS = {
    "activation": "of each feature",
    "average": "of the iterates, what is released",
    "batch_size": "samples a step",
    "block_size": "features in memory together",
    "chunk_size": "steps drawn together",
    "clip_norm": "longest gradient of a record",
    "clip_scale": "clip norm over sqrt(dim)",
    "decay": "kept of the average each step",
    "dim": "number of inputs",
    "feature_norm": "of the training rows, root mean square",
    "initial_risk": "risk at zero parameters",
    "input_bound": "longest row, in units of the inputs",
    "input_range": "ends of the columns' public ranges",
    "input_scales": "squared scale of a row's inputs; none: Gaussian",
    "intercept_share": "of the budget, for the mean label",
    "knee": "time at which the rate has halved",
    "knots": "times in [0, 1]",
    "label_bound": "largest label, in units of the labels",
    "label_noise": "standard deviation of the labels' noise",
    "max_steps": "steps of the solver",
    "noise": "how it is drawn; none: simulated, from a key",
    "noise_multiplier": "noise on the sum over the clip norm",
    "noise_scale": "sigma; multiplier 2 sigma / sqrt(learning rate)",
    "num_batches": "batches in an epoch",
    "num_features": "random features",
    "num_knots": "knots of the schedule",
    "num_projections": "functions that are fitted",
    "num_records": "records of the data set",
    "num_steps": "steps",
    "num_test": "held-out rows",
    "num_train": "training rows",
    "peak": "learning rate at time 0",
    "power": "exponent of the decay",
    "rank": "modes whose covariances are kept in full",
    "rates": "learning rates of the steps",
    "residual_bound": "largest label less the intercept",
    "rho": "Gaussian DP parameter mu of the release",
    "sampler": "which records a batch has",
    "sampling_rate": "share of the records in a batch",
    "signal": "standard deviation of the log-odds",
    "spectrum": "eigenvalues of the inputs' covariance",
    "strategy": "correlation of the noise over steps",
    "target": "true parameters, in the eigenbasis",
    "tolerance": "of the solver's gradient",
}


class AbstractDescription(AbstractExplained, eqx.Module):
    """An object whose constructor's arguments are all attributes of the same names."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # `dataclasses.replace` calls the constructor with the names of the fields.
        _require_arguments(cls, kwargs, "; to change arguments of an object, use its .replace(...)")
        return super().__new__(cls)

    def replace(self, **changes: Any) -> Self:
        """A copy with some of the constructor's arguments changed, checked again.

        Arguments that an alternative constructor chose (the noise of `calibrated`, for instance)
        stay as they are unless they are changed too.

        Args:
            **changes: any of the constructor's arguments, by name.

        Raises:
            TypeError: the constructor has no argument of that name; the message lists its
                arguments.
            ValueError: the constructor refuses a value.
        """
        _require_arguments(type(self), changes)
        names = (name for name in constructor_arguments(type(self)) if name not in changes)
        return type(self)(**{name: self._argument(name) for name in names}, **changes)

    def require_arguments(self) -> None:
        """Raise what the constructor raises for the present arguments; traced ones pass."""
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            kind = type(self)
            kind(**{name: getattr(self, name) for name in constructor_arguments(kind)})

    def _argument(self, name: str) -> Any:
        """The value that `replace` passes to the constructor for an unchanged argument."""
        return getattr(self, name)

    def _shown(self) -> dict[str, Any]:
        """The printed arguments, by name."""
        kind = type(self)
        shown = {name: getattr(self, name) for name in constructor_arguments(kind)}
        # A method may have the name of an argument.
        methods = [name for name in shown if inspect.isroutine(getattr(kind, name, None))]
        return shown | {name: self._argument(name) for name in methods}

    def _derived(self) -> tuple[str, ...]:
        """Names of further attributes in the table; left out of batches and traced objects."""
        return ()

    def _notes(self) -> tuple[str, ...]:
        """Sentences below the table."""
        return ()

    def __repr__(self):
        try:
            parts = (f"{name}={as_python(value)}" for name, value in self._shown().items())
            return f"{type(self).__name__}({', '.join(parts)})"
        except (AttributeError, TypeError, ValueError, IndexError):
            # Half built in its constructor, or a tree of JAX's without numbers.
            return eqx.tree_pformat(self)

    def _explanation(self):
        shown = self._shown()
        shape = _batch_shape(self, shown)
        title = type(self).__name__
        if shape:
            title += f", a batch of {' x '.join(map(str, shape))}"
        if not shape and all(map(_is_number, jax.tree.leaves(self))):
            shown |= {name: getattr(self, name) for name in self._derived()}
        words = {name: _in_words(self, name, value) for name, value in shown.items()}
        rows = tuple(Row(name, text, MEANINGS.get(name, "")) for name, text in words.items())
        return Explanation(title, rows, self._notes())


def _in_words(whole: Any, name: str, value: Any) -> str:
    """An argument in words; another description on one line, its arrays in brackets."""
    if not isinstance(value, AbstractDescription):
        return in_words(value, _ndim(type(whole), name), is_record=name in RECORDS)
    texts = []
    for each, part in value._shown().items():
        text = _in_words(value, each, part)
        texts.append(f"{each}=[{text}]" if is_array(part) and ", " in text else f"{each}={text}")
    return f"{type(value).__name__}({', '.join(texts)})"


def _is_number(leaf: Any) -> bool:
    return is_known(leaf) if is_array(leaf) else isinstance(leaf, numbers.Number)


def _batch_shape(whole: Any, shown: dict[str, Any]) -> tuple[int, ...]:
    """The axes that `vmap` over the constructor put before those of the arguments."""
    for name, value in shown.items():
        ndim = _ndim(type(whole), name)
        if isinstance(value, AbstractDescription):
            shape = _batch_shape(value, value._shown())
        elif is_array(value) and ndim is not None:
            shape = value.shape[: max(value.ndim - ndim, 0)]
        else:
            shape = ()
        if shape:
            return shape
    return ()


@functools.cache
def _ndim(kind: type, name: str) -> int | None:
    """The number of axes in an argument's annotation, or None if it gives no number."""
    attribute = inspect.getattr_static(kind, name, None)
    if isinstance(attribute, property):
        annotation = getattr(attribute.fget, "__annotations__", {}).get("return")
    else:
        annotation = get_type_hints(kind).get(name)
    kinds: tuple[Any, ...] = (annotation, *get_args(annotation))
    found = {len(each.dims) for each in kinds if getattr(each, "index_variadic", 0) is None}
    return found.pop() if len(found) == 1 else None


@functools.cache
def constructor_arguments(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind.__init__).parameters)[1:]


def _require_arguments(kind: type, names: Iterable[str], hint: str = "") -> None:
    known = constructor_arguments(kind)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TypeError(
            f"expected arguments of {kind.__name__}, which are {', '.join(known) or 'none'}, "
            f"got {', '.join(unknown)}{hint}"
        )
