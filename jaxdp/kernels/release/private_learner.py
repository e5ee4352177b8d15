"""Private learners: one `fit`, which checks its arguments, and a release that each makes of them.

All private kernel learners take the same arguments and check them in the same order.
`AbstractPrivateLearner.fit` does so once for all of them, and hands the checked arguments, a
`FitRequest`, to the learner's own `_release`.
"""

import abc
from typing import Any, Generic, TypeVar

from jaxtyping import Real

from jaxdp.core.description import AbstractDescription
from jaxdp.kernels.release.fit_request import FitRequest

Released = TypeVar("Released")


class AbstractPrivateLearner(AbstractDescription, Generic[Released]):
    """A learner that spends a privacy budget on a table and releases a function."""

    @abc.abstractmethod
    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviations of the noise, by the name of what each is added to.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """

    @property
    @abc.abstractmethod
    def _warning(self) -> str | None:
        """What `fit` warns of before any data are read; it depends on public choices alone."""

    @abc.abstractmethod
    def _release(self, request: FitRequest) -> Released:
        """The release, from checked arguments."""

    def fit(
        self,
        inputs: Real[Any, "n dim"],
        labels: Real[Any, " n"],
        *,
        epsilon: float,
        delta: float,
        public_seed: int,
        noise_seed: int | None = None,
    ) -> Released:
        """Learn from a table and release a function.

        Args:
            inputs: one record a row; scale them by public ranges, never by their own statistics.
                The names of a data frame's columns are public, and the release keeps them.
            labels: one for each. For classification -1 and +1, and the released function is a
                score, positive where +1 is likelier. For regression numbers, which the learner
                clips to its label bound: `PrivateKernelRidge` with a warning to whoever fits that
                the release does not repeat, the published algorithms without one.
            epsilon: > 0 and finite.
            delta: in (0, 1).
            public_seed: of the features; it is published with the function.
            noise_seed: None for the operating system's entropy. One that is given must stay as
                secret as the data and be at least 2^128 (`secrets.randbits(256)`), else the cost
                is infinite; fits that hide other numbers have independent noise under it.

        Warns:
            UserWarning: a certified learner is not told where the inputs lie; said before the data
                are looked at.

        Raises:
            ValueError, TypeError: an argument is out of its range, or not finite.
            NotCoveredError: the kernel has no such random features.
            RuntimeError: the loss is not convex or bounded as it states.
        """
        request = FitRequest.checked(
            inputs,
            labels,
            epsilon=epsilon,
            delta=delta,
            public_seed=public_seed,
            noise_seed=noise_seed,
            warning=self._warning,
        )
        return self._release(request)
