"""The release of a private kernel learner: a function of new inputs, with its cost.

It holds public features, noisy coefficients and public numbers; no training row. Its `card` shows
nothing else ("Model cards for model reporting", Mitchell et al. 2019).
"""

import math
import os
import sys
import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Bool, Float

from jaxdp.core.arrays import as_float, gathered, plain_float
from jaxdp.core.checks import (
    require_count,
    require_finite,
    require_kind,
    require_positive,
    require_shape,
)
from jaxdp.core.display import AbstractExplained, Explanation, Row, as_text, in_words
from jaxdp.core.terminals import printable
from jaxdp.kernels.base import AbstractFeatureMap, as_rows, require_feature_map
from jaxdp.kernels.evaluation import blockwise
from jaxdp.kernels.release.model_file import written
from jaxdp.kernels.release.tables import ColumnNames, check_magnitudes, in_order, real_array
from jaxdp.privacy.accounting import Cost, cost_of
from jaxdp.privacy.arguments import check_delta
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import check_noise_seed

_LIMITS = (
    "the guarantee is about {unit} in the table: it promises no accuracy, and no fairness to any "
    "group; test the function on data of your own"
)


class FitRecord(eqx.Module):
    """Public facts of a fit besides the released function, for model cards.

    Args:
        num_samples: n >= 1, number of rows of the table.
        learnt: the function and the way it was learnt, in words; empty for the release's text.
        inputs: for each column its name, and its public range or categories in words.
        ledger: for each release its share of mu^2, its mu, and its description.
        noise_std: planned standard deviation of the noise on each coefficient; empty if unknown.
        forecast: expected accuracy at this budget, in words, if it was requested.
        has_logits: whether values are log odds, from which class probabilities follow.
    """

    num_samples: int = eqx.field(static=True)
    learnt: str = eqx.field(static=True, default="")
    inputs: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    ledger: tuple[tuple[float, float, str], ...] = eqx.field(static=True, default=())
    noise_std: tuple[float, ...] = eqx.field(static=True, default=())
    forecast: str = eqx.field(static=True, default="")
    has_logits: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        require_count("num_samples", self.num_samples, least=1)
        for name in ("learnt", "forecast"):
            require_kind(name, getattr(self, name), str, "a text")


def _under(name: str, values: list[str]) -> list[Row]:
    return [Row("" if place else name, value) for place, value in enumerate(values)]


class ReleasedFunction(AbstractExplained, eqx.Module):
    r"""The published result of a kernel learner: a function of new inputs, and its cost.

    $f(x) = b + \beta \cdot z(x)$, clipped to the range of the labels if it is known. It works under
    `jit`, `vmap` and `grad`, and evaluates concrete inputs block by block.

    Attributes:
        features: z, drawn from the public seed.
        coefficients: beta, (M,); for several classes (M, k), and the values are k scores a row.
        intercept: b, a number, or one for each of several classes.
        label_bound: T, or both ends of the labels' range, or None for the score of a classifier.
        public_seed: seed from which the features were drawn, an int.
        statement: the release, and the guarantee that is proved about it.
        delta: the delta at which `cost` states epsilon.
        columns: public names of the table's columns, if it was fitted to a data frame.
        record: public facts of the fit; None in files of earlier versions.

    Raises:
        ValueError: a part has the wrong shape, is not finite or is out of its range, or the number
            of names differs from that of the inputs.
        TypeError: the seed is not an int.

    Example:
        >>> from jaxdp.kernels import InnerProduct, PrivateKernelRidge
        >>> learner = PrivateKernelRidge(InnerProduct(), 4, label_bound=1.0, input_bound=1.0)
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> learner.fit([[1.0], [0.0]], [1.0, 0.0], **budget).coefficients.shape
        (4,)
    """

    features: AbstractFeatureMap
    coefficients: Float[Array, "outputs ..."] = eqx.field(converter=as_float)
    statement: Release
    delta: float = eqx.field(static=True, converter=plain_float)
    public_seed: int = eqx.field(static=True)
    intercept: Float[Array, "..."] = eqx.field(converter=as_float, default=0.0)
    label_bound: float | tuple[float, float] | None = eqx.field(
        static=True, converter=plain_float, default=None
    )
    columns: ColumnNames | None = None
    record: FitRecord | None = None

    def __check_init__(self):
        require_feature_map("features", self.features)
        require_kind("statement", self.statement, Release, "a jaxdp.privacy.Release")
        has_classes, num_classes = self.coefficients.ndim > 1, 2
        classes = (None,) if has_classes else ()
        require_shape("coefficients", self.coefficients, (self.features.num_outputs, *classes))
        if has_classes:
            num_classes = self.coefficients.shape[1]
            if num_classes < 2:
                raise ValueError(f"expected two classes or more, got {num_classes}")
            if self.label_bound is not None:
                raise ValueError("expected no label_bound of a function with classes")
        if self.intercept.ndim:
            require_shape("intercept", self.intercept, self.coefficients.shape[1:])
        for name, value in (("coefficients", self.coefficients), ("intercept", self.intercept)):
            require_finite(name, value)
            if not jnp.issubdtype(value.dtype, jnp.floating):
                raise TypeError(f"expected {name} of floating-point numbers, got {value.dtype}")
        check_delta(self.delta)
        check_seeds(self.public_seed, None)
        if isinstance(self.label_bound, tuple):
            low, high = self.label_bound
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"expected label_bound with low < high, got {self.label_bound}")
        elif self.label_bound is not None:
            require_positive("label_bound", self.label_bound)
        if self.columns is not None and len(self.columns.inputs) != self.features.dim:
            raise ValueError(
                f"expected names of {self.features.dim} columns, got {len(self.columns.inputs)}"
            )
        names = self.columns and self.columns.classes
        if names and len(names) != num_classes:
            raise ValueError(f"expected names of {num_classes} classes, got {len(names)}")
        count, stds = len(self.coefficients), self.record.noise_std if self.record else ()
        if len(stds) not in (0, count):
            raise ValueError(f"expected noise_std of {count} coefficients, got {len(stds)}")

    def __call__(self, inputs: Float[Any, "m dim"]) -> Float[Array, "m ..."]:
        """The function's values at new inputs, one a row, in the units of the training inputs.

        Data-frame columns are matched by name if the fit had names, array columns by position. If
        the features have a reader, cells may be texts, dates or missing; traced inputs are numbers.

        Warns:
            UserWarning: cells are beyond what is public of the columns; not of traced inputs.
        """
        reader = self.features.reader
        if reader is not None and not isinstance(inputs, Tracer):
            inputs = reader.read(inputs)
            _warn_of_cells_beyond(reader.names, inputs.is_beyond)
        if reader is not None:
            inputs = reader.codes(inputs)
        # Without statement and seed, which are other for each release: one compilation for all.
        bound = self.label_bound
        limits = bound if isinstance(bound, tuple) else bound and (-bound, bound)
        parts = self.features, self.coefficients, self.intercept, limits and jnp.asarray(limits)
        if isinstance(inputs, Tracer):
            return _values(*parts, inputs)
        table = gathered(in_order(inputs, self.columns))
        if not isinstance(table, Array):
            table = real_array("inputs", table)
        require_shape("inputs", table, (None, self.features.dim))
        check_magnitudes(table)
        return jnp.asarray(blockwise(eqx.Partial(_values, *parts), table))

    def predict(self, inputs: Any) -> np.ndarray:
        """The classes of new inputs, names or numbers from 0; of a regression the values, (m,)."""
        values, names = np.asarray(self(inputs)), self.columns and self.columns.classes
        if names is None and values.ndim == 1 and not (self.record and self.record.has_logits):
            return values
        places = values.argmax(axis=1) if values.ndim > 1 else (values > 0).astype(int)
        return places if names is None else np.array(names)[places]

    def predict_proba(self, inputs: Any) -> Float[np.ndarray, "m classes"]:
        """Class probabilities at new inputs; a ValueError unless values are known log odds."""
        if not (self.record and self.record.has_logits):
            raise ValueError("expected a function of log odds, got one of scores or values")
        return chances(np.asarray(self(inputs), np.float64))

    @property
    def card(self) -> str:
        """The model card, as text: the function, its columns and rows, and its privacy cost."""
        cost, columns, record = self.cost, self.columns, self.record
        rows = [Row("learnt", (record.learnt if record else "") or self.statement.what)]
        if columns is not None and columns.label is not None:
            rows.append(Row("target", columns.label))
        if columns is not None and columns.classes is not None:
            rows.append(Row("classes", ", ".join(columns.classes)))
        if record is not None and record.inputs:
            rows += _under("inputs", [f"{name}: {known}" for name, known in record.inputs])
        elif columns is not None:
            rows.append(Row("inputs", ", ".join(columns.inputs)))
        if record is not None:
            rows.append(Row("rows", str(record.num_samples), "n, public"))
        noise = "certified" if cost.is_certified else "simulated"
        rows += [
            Row("epsilon", f"{cost.epsilon:.4g}", "of this release"),
            Row("delta", f"{cost.delta:g}", "of this release"),
            Row("mu", "unknown" if cost.mu is None else f"{cost.mu:.4g}", "Gaussian DP"),
            Row("unit", cost.unit, "in which neighbours differ"),
            Row("adjacency", cost.adjacency, "who the neighbours are"),
            Row("noise", noise, "in machine arithmetic"),
        ]
        if record is not None:
            rows += _under("ledger", [f"{share:.1%}  {what}" for share, _, what in record.ledger])
            if record.noise_std:
                stds = f"{np.median(record.noise_std):.3g}, at most {max(record.noise_std):.3g}"
                rows.append(Row("noise_std", stds, "of a coefficient"))
            if record.forecast:
                rows.append(Row("forecast", record.forecast))
        return as_text(
            Explanation(
                "Model card",
                tuple(rows),
                (cost.in_words, *cost.assumptions, _LIMITS.format(unit=cost.unit)),
            )
        )

    @property
    def cost(self) -> Cost:
        """The privacy cost of the release at the delta of the fit."""
        return cost_of(self.statement, self.delta)

    def release(self) -> Release:
        """The statement about this release; `jaxdp.account` reads it at any delta."""
        return self.statement

    def save(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Write everything to one file that `jaxdp.kernels.load` reads back, bit by bit.

        The file is written whole or not at all, and contains no code. By default an existing file
        is kept (OSError), because it may hold a release whose privacy budget was spent. A part
        without a written form, such as a user's function, raises TypeError.
        """
        written(path, self, replace=overwrite)

    def __hash__(self):
        # `jax.jit(released)` needs one, and arrays have none.
        return hash((self.public_seed, self.delta, self.label_bound))

    def _explanation(self):
        cost = self.cost
        rows = [
            Row("dim", in_words(self.features.dim), "inputs"),
            Row("coefficients", in_words(self.coefficients), "of the features, released"),
            Row("intercept", in_words(self.intercept), "in units of the labels"),
            Row("label_bound", in_words(self.label_bound), "values are clipped to it"),
            Row("epsilon", f"{cost.epsilon:.4g}", "of the release"),
            Row("delta", f"{self.delta:g}", "of the release"),
            Row("adjacency", cost.adjacency, "who the neighbours are"),
        ]
        if self.columns is not None:
            names = ", ".join(map(str, self.columns.inputs))
            rows.append(Row("columns", names, "inputs, by name"))
        return Explanation("Released function", tuple(rows))

    def __repr__(self):
        return (
            f"ReleasedFunction(dim={self.features.dim}, num_coefficients={len(self.coefficients)}, "
            f"label_bound={self.label_bound}, epsilon={self.cost.epsilon:.4g}, "
            f"delta={self.delta:g})"
        )


def _warn_of_cells_beyond(names: tuple[str, ...], is_beyond: Bool[np.ndarray, "m dim"]) -> None:
    """Warn, in the line that called the library, how many cells the columns do not list."""
    if not is_beyond.any():
        return
    counts = zip(names, is_beyond.sum(axis=0), strict=True)
    told = printable(", ".join(f"{name}: {count}" for name, count in counts if count))
    frame, level = sys._getframe(), 1
    # scikit-learn's scores and Equinox's methods stand between the caller and this.
    passed = ("jaxdp", "equinox", "sklearn")
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in passed:
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"{is_beyond.any(axis=1).sum()} of {len(is_beyond)} rows have cells that the columns do "
        f"not list ({told}): unlisted categories count as another one, numbers beyond the range as "
        "its nearer end, and what a complete column cannot have adds nothing",
        UserWarning,
        stacklevel=level,
    )


def _values(
    features: AbstractFeatureMap,
    coefficients: Float[Array, "outputs ..."],
    intercept: Float[Array, "..."],
    limits: Any,
    inputs: Any,
) -> Float[Array, "m ..."]:
    given = as_rows("inputs", inputs, features.dim)
    found = features(given)
    # As in the fit, features of an input so large that they overflow are set to zero.
    is_lost = ~jnp.isfinite(found).all(axis=1) & jnp.isfinite(given).all(axis=1)
    rows = jnp.where(is_lost[:, None], 0, found)
    # A product in bf16 or TF32 would lose most digits.
    values = jnp.matmul(rows, coefficients, precision=Precision.HIGHEST)
    values += intercept.astype(values.dtype)
    return values if limits is None else jnp.clip(values, *limits.astype(values.dtype))


def chances(logits: Float[np.ndarray, "m ..."]) -> Float[np.ndarray, "m classes"]:
    """Class probabilities from one logit (of the second of two classes), or from k scores a row."""
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    return scipy.special.softmax(logits, axis=1)


def check_seeds(public_seed: Any, noise_seed: Any, public_name: str = "public_seed") -> None:
    if isinstance(public_seed, bool) or not isinstance(public_seed, (int, np.integer)):
        raise TypeError(f"expected {public_name} to be an int, got {type(public_seed).__name__}")
    if not 0 <= public_seed < 2**63:
        raise ValueError(f"expected 0 <= {public_name} < 2^63, got one beyond")
    check_noise_seed(noise_seed)
    if noise_seed is not None and noise_seed == public_seed:
        raise ValueError(
            f"expected noise_seed to differ from {public_name}, which is published: knowing "
            "noise_seed is enough to remove the noise"
        )
