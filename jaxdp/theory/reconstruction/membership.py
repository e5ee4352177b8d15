r"""Power of the best test of whether a record was trained on, if all others are known.

One step of `DPGD` is Gaussian with noise $2C\eta/(n\mu)$, and exchanging two records moves its mean
by $\frac\eta n|\bar g - \bar g'|$, with clipped gradients $\bar g$. The best test's errors
therefore lie on the trade-off curve of $\mu_{x,x'}$-GDP,
$\mu_{x, x'} = \mu\,|\bar g - \bar g'|/2C \le \mu$. The squares of several steps, all seen, add:
exactly if every step clips both records, otherwise to first order in the noise, along the noiseless
path.

For wide features and two rows that are uniform on the sphere of a high dimension, one step that
clips both has $\mu_{x,x'} = \mu\sqrt{(1 \mp k(0))/2}$ with $k(0) = (E\phi)^2/E\phi^2$, minus if the
gradients have one sign: $0.58\,\mu$ and $0.81\,\mu$ for ReLU. Derived: test_membership_theory.py;
test_membership.py attains it.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_count, require_finite, require_shape
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.reconstruction.local import weights_of_descent


def membership_mu(
    problem: RandomFeatures,
    algorithm: DPGD,
    other_input: Float[Array, " dim"],
    other_label: float,
    *,
    index: int = -1,
) -> float:
    r"""The $\mu$ of the best test for one training record against another one in its place.

    Exact for one step, and if all steps clip both records; otherwise to first order in the noise.

    Args:
        problem: features of finite width, with the record among the training rows.
        algorithm: the algorithm, with all iterates seen.
        other_input, other_label: the alternative record, shapes (d,) and ().
        index: position of the record among the training rows, default the last.

    Returns:
        $\mu_{x,x'}$: the test's errors lie on its `privacy.gaussian_tradeoff`. Without noise
        infinite, or 0 if the two records have one gradient.

    Raises:
        NotCoveredError: the problem is infinitely wide.

    Example:
        >>> import jax, jaxdp, numpy as np
        >>> from jaxdp.theory import membership_mu
        >>> rows, labels = np.eye(2), np.ones(2)
        >>> arrays = rows, labels, rows, labels, np.eye(2)
        >>> problem = jaxdp.RandomFeatures.from_arrays(*arrays, activation=jax.nn.relu)
        >>> algorithm = jaxdp.DPGD(0.01, 1.0, num_steps=1, noise_scale=0.05)
        >>> other = rows[0], -1.0  # the opposite of the gradient at the first row
        >>> print(f"{membership_mu(problem, algorithm, *other, index=0):.3f} {algorithm.mu:.3f}")
        2.000 2.000
    """
    weights = weights_of_descent(problem, algorithm, other_input, other_label)
    count = problem.num_train
    require_count("index", index, least=-count)
    if index >= count:
        raise ValueError(f"expected index < {count}, got {index}")
    row = as_wide_float(other_input, "other_input")
    label = as_wide_float(other_label, "other_label")
    require_shape("other_input", row, (problem.dim,))
    require_shape("other_label", label, ())
    require_finite("other_input", row)
    require_finite("other_label", label)
    rows = jnp.concatenate([jnp.asarray(problem.train_inputs), row[None]])
    labels = jnp.append(jnp.asarray(problem.train_labels), label)
    arguments = jnp.matmul(rows, weights.T, precision=Precision.HIGHEST)
    features = problem.activation(arguments)
    gram = jnp.matmul(features, features.T, precision=Precision.HIGHEST)
    slopes = _slopes_on_the_path(gram, labels, problem.loss, algorithm)
    mine, others = (np.asarray(slopes, np.float64)[:, i] for i in (index % count, count))
    kernel = np.asarray(gram, np.float64)[np.ix_([index % count, count], [index % count, count])]
    # |a f - b g|^2, in a form that is 0 up to rounding if f = g and a = b.
    apart = np.asarray(features[index % count] - features[count], np.float64)
    sums = (mine - others) * (kernel[0, 0] + kernel[1, 1])
    sums += (mine + others) * (kernel[0, 0] - kernel[1, 1])
    squares = (mine - others) * sums / 2 + mine * others * (apart @ apart)
    gap = math.sqrt(max(squares.sum(), 0.0)) * float(algorithm.learning_rate) / count
    std = float(algorithm.noise_std(count))
    return gap / std if std > 0 else (math.inf if gap > 0 else 0.0)


@eqx.filter_jit
def _slopes_on_the_path(gram, labels, loss, algorithm):
    """Clipped slopes of all rows at every step; the last row is not trained on."""
    norms = jnp.sqrt(jnp.diag(gram))
    num_train = len(labels) - 1
    is_trained = jnp.arange(len(labels)) < num_train

    def step(coefficients, _):
        predictions = jnp.matmul(gram, coefficients, precision=Precision.HIGHEST)
        slopes, _ = algorithm.clipped_slopes(loss.slope(predictions, labels), norms)
        moved = coefficients - algorithm.learning_rate / num_train * jnp.where(
            is_trained, slopes, 0
        )
        return moved.astype(coefficients.dtype), slopes

    start = jnp.zeros_like(labels)
    return lax.scan(step, start, length=int(algorithm.num_steps))[1]
