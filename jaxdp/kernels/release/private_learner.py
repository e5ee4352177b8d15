"""The checked arguments of one fit, and the steps that all learners share.

Public arguments (budget, seeds, whether the inputs' ranges were given) are checked before the table
is read, so errors and warnings about them reveal nothing about the data.
"""

import abc
import dataclasses
import hashlib
import warnings
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, Real

from jaxdp.core.description import AbstractDescription
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.evaluation import ROWS
from jaxdp.kernels.release.released_function import FitRecord, ReleasedFunction, check_seeds
from jaxdp.kernels.release.tables import ColumnNames, columns_of, training_table
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP, budget_of, warn_of_budget
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise


# Without a repr of its fields: a traceback would show private records and the secret seed.
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FitRequest:
    """The checked arguments of one fit, including private records and a secret seed (or None)."""

    table: Float[np.ndarray, "n dim"]
    targets: Float[np.ndarray, " n"]
    columns: ColumnNames | None
    budget: AbstractBudget
    epsilon: float  # as reports state the budget
    delta: float
    public_seed: int
    noise_seed: int | None

    @classmethod
    def checked(
        cls,
        inputs: Any,
        labels: Any,
        *,
        epsilon: Any,
        delta: Any,
        public_seed: Any,
        noise_seed: Any,
        warning: str | None,
    ) -> "FitRequest":
        """The request of a call of `fit`; public arguments are checked before the table is read."""
        budget = budget_of(epsilon, delta)
        check_seeds(public_seed, noise_seed)
        if warning is not None:
            # Equinox adds a frame between `fit` and its caller.
            warnings.warn(warning, UserWarning, stacklevel=4)
        columns = columns_of(inputs, labels)
        table, targets = training_table(inputs, labels)
        warn_of_budget(budget, len(table), stacklevel=4)
        secret = None if noise_seed is None else int(noise_seed)
        return cls(table, targets, columns, budget, *budget.stated, int(public_seed), secret)

    @property
    def num_samples(self) -> int:
        return len(self.table)

    @property
    def dim(self) -> int:
        return self.table.shape[1]

    def truncated(self, bound: float) -> "FitRequest":
        """The request with labels clipped to [-bound, bound], without a warning."""
        return dataclasses.replace(self, targets=np.clip(self.targets, -bound, bound))

    def clipped(self, bound: float) -> "FitRequest":
        """The request `truncated`, with a warning to the curator if that changes any label."""
        beyond = int(np.count_nonzero(np.abs(self.targets) > bound))
        if beyond:
            warnings.warn(
                f"{beyond} of {self.num_samples} labels are beyond label_bound = {bound:g} and are "
                "clipped; this is for the curator alone: the number is not private",
                UserWarning,
                # Between this and the caller of `fit`: `_release`, `fit`, two frames of Equinox.
                stacklevel=6,
            )
        return self.truncated(bound)

    def noise(self, rows: Float[np.ndarray, "n columns"] | None = None) -> SecretNoise:
        """The noise of this fit, a function of any given seed, and of `rows` or the table."""
        if self.noise_seed is None:
            return SecretNoise()
        hidden = self.table if rows is None else rows
        public = hidden.shape, self.epsilon, self.delta, self.public_seed
        hashed = hashlib.sha256(repr(public).encode())
        for start in range(0, len(hidden), ROWS):
            block = np.ascontiguousarray(hidden[start : start + ROWS], np.float64)
            hashed.update(block.tobytes())
        hashed.update(np.ascontiguousarray(self.targets, np.float64).tobytes())
        return SecretNoise(self.noise_seed, hashed.digest())

    def in_precision(self, numbers: ArrayLike) -> Any:
        """The numbers in the precision in which the table's features are computed."""
        dtype = jnp.promote_types(jnp.asarray(self.table[:0]).dtype, jnp.float32)
        return jnp.asarray(numbers, dtype)

    def released(
        self,
        features: AbstractFeatureMap,
        coefficients: Float[ArrayLike, "outputs ..."],
        statement: Release,
        *,
        intercept: Float[ArrayLike, ""] = 0.0,
        label_bound: float | tuple[float, float] | None = None,
    ) -> ReleasedFunction:
        """The released function, which keeps only the public part of the request."""
        lines = statement.assumptions
        if not isinstance(self.budget, ApproximateDP):
            lines = (f"the noise was calibrated to {self.budget!r}", *lines)
        return ReleasedFunction(
            features=features,
            coefficients=coefficients,
            intercept=intercept,
            label_bound=label_bound,
            public_seed=self.public_seed,
            statement=dataclasses.replace(
                statement, num_records=self.num_samples, assumptions=lines
            ),
            delta=self.delta,
            columns=self.columns,
            record=FitRecord(self.num_samples),
        )


Released = TypeVar("Released")


class AbstractPrivateLearner(AbstractDescription, Generic[Released]):
    """A learner that spends a privacy budget on a table and releases a function."""

    @abc.abstractmethod
    def noise_std(self, num_samples: int, epsilon: Any, delta: Any = None) -> dict[str, float]:
        """Standard deviations of the noise, by the name of the noisy quantity."""

    @property
    @abc.abstractmethod
    def _warning(self) -> str | None:
        """The warning of `fit` before any data are read; it depends on public choices alone."""

    @abc.abstractmethod
    def _release(self, request: FitRequest) -> Released: ...

    def fit(
        self,
        inputs: Real[Any, "n dim"],
        labels: Real[Any, " n"],
        *,
        epsilon: float | AbstractBudget,
        delta: float | None = None,
        public_seed: int,
        noise_seed: int | None = None,
    ) -> Released:
        """Learn from a table and release a function.

        A UserWarning says that no public range of the inputs is given (before the data are read) or
        that labels were clipped (for the curator; the release does not contain it). Raises
        NotCoveredError without random features, RuntimeError if the loss breaks its bounds.

        Args:
            inputs: one record a row; scale them by public ranges, never by their own statistics.
                Column names of a data frame are public, and the release keeps them.
            labels: one label per record. Classification: -1 and +1, and the released function is a
                score, positive if +1 is likelier. Regression: numbers, clipped to the label bound.
            epsilon, delta: the budget, epsilon > 0 and finite, delta in (0, 1). Or a budget such as
                `jaxdp.privacy.MembershipAdvantage(0.1)`; costs are then stated at delta = 1e-6.
            public_seed: seed of the features; it is published with the function.
            noise_seed: None for the operating system's entropy. A given seed must be kept as secret
                as the data and be at least 2^128 (`secrets.randbits(256)`), else the cost is
                infinite; fits on different data have independent noise under one seed.
        """
        budget = {"epsilon": epsilon, "delta": delta, "noise_seed": noise_seed}
        given = {"public_seed": public_seed, "warning": self._warning}
        return self._release(FitRequest.checked(inputs, labels, **budget, **given))
