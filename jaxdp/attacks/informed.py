r"""The informed adversary of private training: every record but one is known, labels as well.

Source: Balle, Cherubin and Hayes (2022). Nothing of the known records has to be fitted then: their
clipped gradients are subtracted, and what remains is one row's features times a positive number,
plus the noise. Least squares for that one row is maximum likelihood after one step, where it is
clipped; `reconstruct(..., known_inputs=...)` is for an adversary who has no labels, or only the
last iterate of many.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.attacks.base import require_activation
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_count, require_kind, require_shape
from jaxdp.losses import Squared


def without_known_rows(
    iterates: Float[Array, "iterates features"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    algorithm: AbstractFullBatchAlgorithm,
    known_inputs: Float[Array, "known dim"],
    known_labels: Float[Array, " known"],
    *,
    num_samples: int,
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
    expected = "a full-batch algorithm, such as DPGD"
    require_kind("algorithm", algorithm, AbstractFullBatchAlgorithm, expected)
    require_activation(activation)
    num_samples = require_count("num_samples", num_samples)
    iterates, weights = as_wide_float(iterates), as_wide_float(weights)
    inputs, labels = as_wide_float(known_inputs), as_wide_float(known_labels)
    require_shape("weights", weights, (None, None))
    require_shape("iterates", iterates, (None, weights.shape[0]))
    require_shape("known_inputs", inputs, (None, weights.shape[1]))
    require_shape("known_labels", labels, (inputs.shape[0],))
    if len(iterates) < 2:
        raise ValueError(f"expected two iterates or more, got {len(iterates)}")
    if len(inputs) >= num_samples:
        raise ValueError(f"expected fewer known rows than {num_samples}, got {len(inputs)}")
    features = activation(jnp.matmul(inputs, weights.T, precision=Precision.HIGHEST))
    predictions = jnp.matmul(iterates[:-1], features.T, precision=Precision.HIGHEST)
    slopes = Squared().slope(predictions, labels[None])
    slopes, _ = algorithm.clipped_slopes(slopes, jnp.linalg.norm(features, axis=1))
    moved = jnp.matmul(jnp.sum(slopes, axis=0), features, precision=Precision.HIGHEST)
    known = algorithm.learning_rate / num_samples * moved
    return RandomFeaturesTarget(weights, activation, iterates[-1] - iterates[0] + known)
