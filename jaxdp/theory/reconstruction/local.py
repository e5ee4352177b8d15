r"""Attacks on given rows: errors of reconstruction, linearised in the noise, and membership.

With released parameters $\theta = \sum_i \alpha_i\varphi_i + s\,\xi$, $\xi$ standard normal, the
fit around the true rows moves by $\sum_i \varphi_i\,\delta_i + \alpha_i\,\phi'(V x_i) \odot V u_i$,
$u_i \perp x_i$, so the attack's covariance is $s^2 (J^\top J)^{-1}$ in $(\delta, u)$. Exact for
small noise, at any width. Derived: test_local_reconstruction.py compares with the attack itself.

**Membership.** One step of `DPGD` is Gaussian with noise $2C\eta/(n\mu)$, and exchanging two
records moves its mean by $\frac\eta n|\bar g - \bar g'|$, with clipped gradients $\bar g$. The best
test's errors therefore lie on the trade-off curve of $\mu_{x,x'}$-GDP,
$\mu_{x, x'} = \mu\,|\bar g - \bar g'|/2C \le \mu$. The squares of several steps, all seen, add:
exactly if every step clips both records, otherwise to first order in the noise, along the noiseless
path.

For wide features and two rows that are uniform on the sphere of a high dimension, one step that
clips both has $\mu_{x,x'} = \mu\sqrt{(1 \mp k(0))/2}$ with $k(0) = (E\phi)^2/E\phi^2$, minus if the
gradients have one sign: $0.58\,\mu$ and $0.81\,\mu$ for ReLU. Derived: test_membership_theory.py;
test_membership.py attains it.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import (
    NotCoveredError,
    require_callable,
    require_count,
    require_finite,
    require_host,
    require_kind,
    require_non_negative,
    require_shape,
)
from jaxdp.core.numerics.hermite import evaluate_on_host
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.reconstruction.error import slope_of

# Features per block of the Jacobian, each a row of as many numbers as unknowns.
_BLOCK = 1024


def local_reconstruction_errors(
    inputs: Float[Array, "rows dim"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    coefficients: Float[Array, " rows"],
    noise_std: float,
    *,
    num_known: int = 0,
) -> Float[np.ndarray, " unknown"]:
    r"""Root mean square of $|\hat x_i - x_i|/\sqrt d$ for every unknown row, to first order.

    Args:
        inputs: x, shape (rows, d), on the sphere of radius $\sqrt d$ (a row moves orthogonally to
            itself).
        weights: V, shape (features, d).
        activation: phi, elementwise.
        coefficients: $\alpha_i$, coefficient of row i's features in the parameters; not 0.
        noise_std: s, standard deviation per parameter.
        num_known: number of first rows that the attacker knows, default 0; their coefficients are
            unknown.

    Returns:
        One error per unknown row; infinite unless there are more features than unknowns.

    Raises:
        ValueError: shapes do not match, or an argument is out of range.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.theory import local_reconstruction_errors
        >>> generator = np.random.default_rng(0)
        >>> inputs, weights = generator.normal(size=(2, 4)), generator.normal(size=(200, 4))
        >>> inputs *= 2 / np.linalg.norm(inputs, axis=1, keepdims=True)
        >>> errors = local_reconstruction_errors(inputs, weights, jax.nn.relu, np.ones(2), 0.1)
        >>> errors.shape
        (2,)
    """
    arrays = {"inputs": inputs, "weights": weights, "coefficients": coefficients}
    require_host("inputs, weights and coefficients", arrays)
    inputs, weights, scales = (as_wide_float(value, name) for name, value in arrays.items())
    require_callable("activation", activation, "an elementwise function such as jnp.tanh")
    require_count("num_known", num_known, least=0)
    require_shape("inputs", inputs, (None, None))
    require_shape("weights", weights, (None, inputs.shape[1]))
    require_shape("coefficients", scales, (inputs.shape[0],))
    require_finite("coefficients", scales)
    require_non_negative("noise_std", noise_std)
    count, dim = inputs.shape
    if not 0 <= num_known < count:
        raise ValueError(f"expected 0 <= num_known < {count}, got {num_known}")
    if not np.all(np.asarray(scales)[num_known:] != 0):
        raise ValueError("expected coefficients that are not 0, got a row that leaves no trace")
    rows, neurons = np.asarray(inputs, np.float64), np.asarray(weights, np.float64)
    unknown = count - num_known
    if len(neurons) <= count + unknown * (dim - 1):
        return np.full(unknown, np.inf)
    matrix = _normal_matrix(rows, neurons, activation, num_known)
    inverse = np.linalg.inv(matrix)
    variances = np.diag(inverse)[count:].reshape(unknown, dim - 1).sum(1)
    return noise_std * np.sqrt(variances / dim) / np.abs(np.asarray(scales, float)[num_known:])


def _normal_matrix(rows, neurons, activation, num_known):
    """J'J with unit coefficients, summed over blocks of neurons: coefficients, then tangents."""
    # Orthonormal columns orthogonal to each row, (d, d - 1).
    bases = [np.linalg.qr(row[:, None], mode="complete")[0][:, 1:] for row in rows[num_known:]]
    size = len(rows) + sum(basis.shape[1] for basis in bases)
    total = np.zeros((size, size))
    arguments = neurons @ rows.T
    features = evaluate_on_host(activation, arguments)
    slopes = evaluate_on_host(slope_of(activation), arguments)[:, num_known:]
    for start in range(0, len(neurons), _BLOCK):
        part = slice(start, start + _BLOCK)
        tangents = [
            slopes[part, i, None] * (neurons[part] @ basis) for i, basis in enumerate(bases)
        ]
        jacobian = np.concatenate([features[part], *tangents], axis=1)
        total += jacobian.T @ jacobian
    return total


def last_iterate_reconstruction_errors(
    problem: RandomFeatures, algorithm: DPGD, *, num_known: int = 0
) -> Float[np.ndarray, " unknown"]:
    r"""Errors of the attack on the last iterate, with the signal of noiseless training.

    To first order, without noise in the span of the features, which moves the coefficients. The
    last iterate leaks less the longer training goes on at one $\mu$: its noise grows with the
    number of steps, its coefficients settle. $\mu$ covers all iterates, and does not promise that.

    Args:
        problem: features of finite width, with rows on the sphere of radius $\sqrt d$.
        algorithm: the algorithm with its noise.
        num_known: number of first rows that the attacker knows, default 0.

    Returns:
        One error per unknown row, as from `local_reconstruction_errors`.

    Raises:
        NotCoveredError: the features are of infinite width.

    Example:
        >>> import jax, jaxdp
        >>> from jaxdp.theory import last_iterate_reconstruction_errors
        >>> sizes, inputs = (3, 2, 4, 200), jaxdp.problems.sphere_inputs
        >>> problem = jaxdp.RandomFeatures.sample(*sizes, inputs=inputs, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(0.002, clip_norm=100.0, num_steps=100, noise_scale=0.01)
        >>> last_iterate_reconstruction_errors(problem, algorithm).shape
        (3,)
    """
    weights = weights_of_descent(problem, algorithm)
    std = float(algorithm.noise_std(problem.num_train)) * float(algorithm.num_steps) ** 0.5
    return local_reconstruction_errors(
        problem.train_inputs,
        weights,
        problem.activation,
        training_coefficients(problem, algorithm),
        std,
        num_known=num_known,
    )


def weights_of_descent(problem: Any, algorithm: Any, *others: Any) -> Float[Array, "features dim"]:
    """The features' weights; raises unless full-batch descent on explicit ones, all concrete."""
    require_kind("problem", problem, RandomFeatures, "a RandomFeatures problem")
    require_kind("algorithm", algorithm, DPGD, "a DPGD")
    require_host("arguments", (problem, algorithm, others))
    if problem.weights is None:
        raise NotCoveredError("an attack on rows reads explicit features, got infinite width")
    return problem.weights


def training_coefficients(problem: RandomFeatures, algorithm: DPGD) -> Float[Array, " train"]:
    r"""$\alpha$ with $\theta_T = \sum_i \alpha_i\varphi_i$ for the algorithm without its noise."""
    reduced = problem.reduced()
    return _without_noise(reduced, algorithm.with_traced_length())


@eqx.filter_jit
def _without_noise(reduced, algorithm):
    factor, labels = reduced.train_factor, reduced.train_labels
    gram = jnp.matmul(factor, factor.T, precision=Precision.HIGHEST)
    norms = reduced.feature_norms()

    def step(_, coefficients):
        predictions = jnp.matmul(gram, coefficients, precision=Precision.HIGHEST)
        slopes, _ = algorithm.clipped_slopes(reduced.loss.slope(predictions, labels), norms)
        moved = coefficients - algorithm.learning_rate / len(labels) * slopes
        return moved.astype(coefficients.dtype)

    return lax.fori_loop(0, algorithm.num_steps, step, jnp.zeros_like(labels))


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
