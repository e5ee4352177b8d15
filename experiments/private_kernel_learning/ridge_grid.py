r"""Test errors of private kernel ridge regression over epsilon, M and lambda, from one draw.

Fitting every cell would draw features and solve systems anew. Here each repetition draws the
features and standard normal noise at the largest M, scales the noise to each budget and takes the
leading block for each M; one eigendecomposition then answers for every lambda. The scales are the
learners' own `noise_std`. Simulated, not released: the noise is NumPy's.
"""

import math
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array, Float, Key
from scipy import linalg

from experiments.harness import dataset
from experiments.private_kernel_learning.ridge_methods import (
    METHODS,
    NOISELESS,
    Bounds,
    Budget,
    Method,
    with_intercept,
)
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import Gaussian, PrivateKernelRidge
from jaxdp.privacy import gaussian_mu
from jaxdp.privacy.secret.secret_noise import SecretNoise

# As printed: the system is solved though it may be indefinite. Repaired, which is free: without its
# negative eigenvalues, and predictions within the label bound.
FORMS = ["as printed", "repaired"]
# lambda = n^-.4 of PK's eleven.
FIXED = 4
_AXES = ("learner", "form", "epsilon", "num_projections")
# The learner's own M. The smaller one was settled on draws of the synthetic model, which is public.
_DEFAULT = 200
PROCEDURES = ["noisy mean", "no intercept", "intercept", "intercept, M = 50"]
DRAWN = PROCEDURES[-1]


class Grid(NamedTuple):
    """The budgets, and the M over which the smallest error is taken."""

    epsilons: tuple[float, ...]
    num_projections: tuple[int, ...]

    @property
    def most(self) -> int:
        return max(self.num_projections)

    def ridges(self, num_samples: int) -> Float[np.ndarray, " ridges"]:
        """n^(-i/10), i = 0, ..., 10. Source: PK section 5."""
        return float(num_samples) ** (-np.arange(11) / 10)


class UnitNoise(NamedTuple):
    """Standard normal noise for the largest M: symmetrised, the diagonal of variance one."""

    matrix: Float[np.ndarray, "most most"]
    vector: Float[np.ndarray, " most"]
    scalar: float

    @classmethod
    def draw(cls, most: int, generator: np.random.Generator) -> "UnitNoise":
        square = generator.standard_normal((most, most))
        vector = generator.standard_normal(most)
        return cls((square + square.T) / 2, vector, float(generator.standard_normal()))


def errors(
    method: Method,
    columns: Float[np.ndarray, "both most"],
    kernel: Gaussian,
    split: Split,
    bounds: Bounds,
    grid: Grid,
    noise: UnitNoise,
) -> Float[np.ndarray, "forms epsilons projections ridges"]:
    """Mean squared test error in every cell; `columns` are the features at the largest M."""
    count, ridges = split.num_train, grid.ridges(split.num_train)
    labels = np.clip(split.train_labels, -bounds.label, bounds.label)
    shape = (len(FORMS), len(grid.epsilons), len(grid.num_projections), len(ridges))
    found = np.empty(shape)
    for column, size in enumerate(grid.num_projections):
        rows = method.features.leading(columns, size)
        train, test = rows[:count], rows[count:]
        moments = train.T @ train / count
        for row, epsilon in enumerate(grid.epsilons):
            std = method.noise_std(kernel, size, bounds, Budget(epsilon, count))
            intercept, targets = _centred(labels, bounds, std, noise)
            matrix = moments + std["C"] * noise.matrix[:size, :size]
            vector = train.T @ targets / count + std["u"] * noise.vector[:size]
            for form, coefficients in enumerate(solutions(matrix, vector, ridges)):
                values = test @ coefficients + intercept
                if FORMS[form] == "repaired":
                    values = np.clip(values, -bounds.label, bounds.label)
                misses = values - split.test_labels[:, None]
                found[form, row, column] = np.mean(misses**2, axis=0)
    return found


def _centred(labels, bounds: Bounds, std: dict[str, float], noise: UnitNoise):
    """The released intercept and the labels less it; 0 and the labels if none is released."""
    if "intercept" not in std:
        return 0.0, labels
    mean = labels.mean() + std["intercept"] * noise.scalar
    intercept = float(np.clip(mean, -bounds.label, bounds.label))
    # The bound is for privacy's sake: an intercept without noise keeps all residuals.
    bound = bounds.residual if std["intercept"] else np.inf
    return intercept, np.clip(labels - intercept, -bound, bound)


def solutions(
    matrix: Float[np.ndarray, "size size"],
    vector: Float[np.ndarray, " size"],
    ridges: Float[np.ndarray, " ridges"],
) -> list[Float[np.ndarray, "size ridges"]]:
    r"""$(C + \lambda I)^{-1} u$ for every $\lambda$, and the same with C's positive part.

    Source: PK Algorithm 1, step 5.
    """
    decomposition: Any = linalg.eigh(matrix, driver="evd", check_finite=False)
    values, vectors = decomposition
    parts = (vectors.T @ vector)[:, None]
    return [
        vectors @ (parts / (kept[:, None] + ridges)) for kept in (values, np.maximum(values, 0))
    ]


def oracle_errors(
    kernel: Gaussian,
    split: Split,
    bounds: Bounds,
    grid: Grid,
    methods: dict[str, Method] = METHODS,
    *,
    key: Key[Array, ""],
) -> xarray.Dataset:
    """Test errors whose settings are chosen on the test set, of one repetition of a figure.

    The key draws the features and the noise, which differs between methods only by its scale.

    Returns:
        error: the least over lambda. fixed_error: the error at n^-0.4. noiseless: the least
        over lambda without noise. constant: the mean training label's error.
    """
    init, noise_key = (purpose_key(key, purpose) for purpose in ("init", "noise"))
    draws = dict.fromkeys(method.features for method in (methods | NOISELESS).values())
    columns = {one: one.draw(kernel, split.inputs, grid.most, key=init) for one in draws}
    generator = np.random.default_rng(np.asarray(jr.key_data(noise_key)))
    noise = UnitNoise.draw(grid.most, generator)

    def errors_of(method: Method, grid: Grid):
        return errors(method, columns[method.features], kernel, split, bounds, grid, noise)

    private = np.stack([errors_of(method, grid) for method in methods.values()])
    once = grid._replace(epsilons=grid.epsilons[:1])
    noiseless = [errors_of(method, once)[0, 0].min(axis=-1) for method in NOISELESS.values()]
    constant = np.mean((split.test_labels - split.train_labels.mean()) ** 2)
    return dataset(
        {
            "learner": methods,
            "form": FORMS,
            "epsilon": grid.epsilons,
            "num_projections": grid.num_projections,
            "features": NOISELESS,
        },
        {
            _AXES: {"error": private.min(axis=-1), "fixed_error": private[..., FIXED]},
            ("features", "num_projections"): {"noiseless": np.stack(noiseless)},
            (): {"constant": constant},
        },
    )


def data_free(
    kernel: Gaussian, split: Split, bounds: Bounds, epsilons: tuple[float, ...], *, number: int
) -> xarray.DataArray:
    """Test errors of releases whose settings do not depend on the data: a curator can make them."""
    seeds = {"public_seed": number, "noise_seed": 1_000_000 + number}
    # Clipped here, where the learner would warn.
    labels = np.clip(split.train_labels, -bounds.label, bounds.label)
    found = np.empty((len(PROCEDURES), len(epsilons)))
    for column, epsilon in enumerate(epsilons):
        budget = Budget(epsilon, split.num_train)
        learners = (
            PrivateKernelRidge(kernel, _DEFAULT, label_bound=bounds.label, input_bound=math.inf),
            with_intercept(kernel, _DEFAULT, bounds, budget),
            with_intercept(kernel, 50, bounds, budget),
        )
        predictions: list[Any] = [_noisy_mean(labels, bounds.label, budget, seeds["noise_seed"])]
        for learner in learners:
            given = {"epsilon": epsilon, "delta": budget.delta, **seeds}
            release = learner.fit(split.train_inputs, labels, **given)
            predictions.append(np.asarray(release(split.test_inputs), np.float64))
        found[:, column] = [np.mean((one - split.test_labels) ** 2) for one in predictions]
    places = {"procedure": PROCEDURES, "epsilon": list(epsilons)}
    return xarray.DataArray(found, places, ("procedure", "epsilon"))


def _noisy_mean(labels, bound: float, budget: Budget, noise_seed: int) -> float:
    """The mean label with the Gaussian mechanism's noise, for sensitivity 2T/n."""
    std = 2 * bound / (budget.num_samples * gaussian_mu(budget.epsilon, budget.delta))
    purpose = f"mean label at epsilon {budget.epsilon}"
    normal = float(SecretNoise(noise_seed).normals(1, purpose)[0])
    return float(np.clip(labels.mean() + std * normal, -bound, bound))
