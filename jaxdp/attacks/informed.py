r"""The informed adversary of private training: every record but one is known, labels as well.

Source: Balle, Cherubin and Hayes (2022). Nothing of the known records has to be fitted then: their
clipped gradients are subtracted, and what remains is one row's features times a positive number,
plus the noise. Least squares for that one row is maximum likelihood after one step, where it is
clipped; `reconstruct(..., known_inputs=...)` is for an adversary who has no labels, or only the
last iterate of many.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.attacks.likelihood import known_run
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.losses import AbstractScalarLoss


def without_known_rows(
    iterates: Float[Array, "iterates features"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    algorithm: AbstractFullBatchAlgorithm,
    known_inputs: Float[Array, "known dim"],
    known_labels: Float[Array, " known"],
    *,
    num_samples: int,
    loss: AbstractScalarLoss | None = None,
) -> RandomFeaturesTarget:
    r"""What the steps between consecutive iterates say of the records that are not known.

    $\sum_t \bigl(\theta_t - \theta_{t-1}\bigr) + \frac{\eta}{n}\sum_{t,i} \mathrm{clip}(g_i)$ over
    the known i. One unknown record leaves its clipped gradients and the noise of all steps, and is
    found by `reconstruct(target, 1, key=key)`.

    Args:
        iterates: $\theta_0, \dots, \theta_T$, beginning where training did; (T + 1, p).
        weights: V in memory.
        activation: phi, elementwise.
        algorithm: as it was run; the noise does not matter.
        known_inputs, known_labels: (m, d) and (m,), fewer than n.
        num_samples: n, by which the algorithm divides.
        loss: that training used, of one output; None for `Squared`.

    Returns:
        What is left of the known rows, as parameters to attack.

    Raises:
        ValueError: shapes do not match, or all records are known.
        TypeError: an argument is of another kind.

    Example:
        >>> import jax, jaxdp, numpy as np
        >>> from jaxdp.attacks import without_known_rows
        >>> algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=1, noise_scale=0.0)
        >>> generator = np.random.default_rng(0)
        >>> weights, known = generator.normal(size=(40, 3)), generator.normal(size=(1, 3))
        >>> iterates = np.stack([np.zeros(40), np.maximum(weights @ known[0], 0)])
        >>> run = iterates, weights, jax.nn.relu, algorithm, known, np.ones(1)
        >>> without_known_rows(*run, num_samples=2).num_features
        40
    """
    run = known_run(
        iterates,
        weights,
        activation,
        algorithm,
        known_inputs,
        known_labels,
        num_samples=num_samples,
        loss=loss,
    )
    return RandomFeaturesTarget(run.weights, activation, jnp.sum(run.left, axis=0))
