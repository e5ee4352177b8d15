"""Where the noise of one published fit comes from."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from jaxdp.kernels.fit_arguments import noise_of_fit
from jaxdp.privacy.secret_noise import SecretNoise


def noise_of_learner(
    learner: Any,
    table: Float[np.ndarray, "n dim"],
    targets: Float[np.ndarray, " n"],
    seeds: tuple[int, int | None],
    budget: tuple[float, float],
) -> SecretNoise:
    """That of a fit with these (public, noise) seeds and (epsilon, delta), for this learner alone.

    Learners of one table release other statistics, which could be subtracted otherwise.
    """
    source = noise_of_fit(table, targets, seeds=seeds, budget=budget)
    return source.hiding(repr(learner), *filter(eqx.is_array, jax.tree.leaves(learner)))
