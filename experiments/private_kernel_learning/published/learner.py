"""Common to the paper's learners: the multiplier of their noise, its source and their statement."""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import require_count
from jaxdp.kernels.release.private_learner import AbstractPrivateLearner, FitRequest, Released
from jaxdp.kernels.release.tables import real_array
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.release import Release, StatedBudget
from jaxdp.privacy.secret.secret_noise import SecretNoise

# Above the rounding of the formulas for mu. That of the sums in float64 is left to the statement's
# assumptions.
ROUNDING = 1e-9
_ASSUMPTIONS = (
    "public, and chosen without looking at the data: the number of records, the names of columns, "
    "the bounds, the kernel, the ridge, the seed of the features",
    "noise is an exact Gaussian: sums and noise are those of float64, and its low bits are not "
    "accounted for",
)


class AbstractPublishedLearner(AbstractPrivateLearner[Released]):
    """A learner as PK prints it: it warns of nothing, and its cost says what is false."""

    @property
    def _warning(self):
        return None

    def _noise(self, request: FitRequest) -> SecretNoise:
        """The secret noise of this fit, for this learner alone.

        Learners of one table release different statistics; with the same noise, one release
        could be subtracted from another.
        """
        arrays = filter(eqx.is_array, jax.tree.leaves(self))
        return request.noise().hiding(eqx.tree_pformat(self), *arrays)


def check_noise_arguments(num_samples: int, epsilon: float, delta: float) -> None:
    """Raise ValueError or TypeError unless noise can be calibrated to these."""
    check_budget(epsilon, delta)
    require_count("num_samples", num_samples)


def classic_multiplier(delta: float) -> float:
    r"""$c(\delta) = 1 + \sqrt{2 \log(1/\delta)}$, of noise $\Delta c/\epsilon$.

    The multiplier is loose for small epsilon, which hides wrong sensitivities. Printed for every
    epsilon: the proof needs $\epsilon \le 2c$, and the statement is false from $\epsilon$ = 17.7,
    20.0 and 21.1 on at $\delta = 1000^{-1.1}$, $10^{-5}$ and $10^{-6}$.

    Source: PK Proposition 2. Derived:
    tests/papers/private_kernel_learning/published/test_counterexamples.py.
    """
    return 1 + math.sqrt(2 * math.log(1 / delta))


def statement(
    what: str,
    mechanism: AbstractMechanism,
    source: SecretNoise,
    *remarks: str,
    request: FitRequest,
) -> Release:
    """A release with the paper's (epsilon, delta) as its claim and its faults as assumptions.

    `what` and the remarks are in words; the mechanism is proved for unpredictable noise.
    """
    return Release(
        what,
        REPLACE_ONE,
        source.proved(mechanism),
        (*remarks, *_ASSUMPTIONS, *source.assumptions()),
        StatedBudget(request.epsilon, request.delta),
        num_records=request.num_samples,
    )


def host_rows(name: str, value: Any) -> Float[np.ndarray, "n dim"]:
    """Points as a finite matrix in float64; an error names the argument."""
    rows = real_array(name, value).astype(np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected {name} of shape (rows, dim), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"expected finite {name}, got NaN or infinite entries")
    return rows


def scaled_down(
    rows: Float[np.ndarray, "n columns"], bound: float | None
) -> Float[np.ndarray, "n columns"]:
    """The rows, those beyond the bound shortened to it; None and infinity leave them all."""
    if bound is None or math.isinf(bound):
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (bound / np.maximum(norms, bound))
