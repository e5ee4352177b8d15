"""One repetition of a figure: errors of all methods on one split, as a dataset."""

import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array, Key

from experiments.harness import dataset
from experiments.private_kernel_learning.data_free import PROCEDURES, data_free_errors
from experiments.private_kernel_learning.ridge_grid import (
    FORMS,
    Grid,
    UnitNoise,
    columns_of,
    errors,
)
from experiments.private_kernel_learning.ridge_methods import METHODS, NOISELESS, Bounds, Method
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import Gaussian

# lambda = n^-.4 of PK's eleven.
FIXED = 4
_AXES = ("learner", "form", "epsilon", "num_projections")


def oracle_errors(
    kernel: Gaussian,
    split: Split,
    bounds: Bounds,
    grid: Grid,
    methods: dict[str, Method] = METHODS,
    *,
    key: Key[Array, ""],
) -> xarray.Dataset:
    """Test errors whose settings are chosen on the test set.

    Args:
        kernel: of all learners.
        split: training rows and test rows.
        bounds: of training labels.
        grid: budgets and sizes.
        methods: by name.
        key: of the features and the noise, which is the same for all methods but for its scale.

    Returns:
        error: the least over lambda. fixed_error: at n^-.4. noiseless: the least over lambda
        without noise. constant: of the mean training label.
    """
    init, noise_key = (purpose_key(key, purpose) for purpose in ("init", "noise"))
    columns = columns_of(methods | NOISELESS, kernel, split, grid.most, key=init)
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
    """Test errors of releases for which nothing was chosen by the data.

    Args:
        kernel: of the learners.
        split: training rows and test rows.
        bounds: public ones.
        epsilons: one release each.
        number: of the repetition, from which both seeds are made.
    """
    seeds = {"public_seed": number, "noise_seed": 1_000_000 + number}
    found = data_free_errors(kernel, split, bounds, epsilons, **seeds)
    places = {"procedure": PROCEDURES, "epsilon": list(epsilons)}
    return xarray.DataArray(found, places, ("procedure", "epsilon"))
