r"""Errors of the least-squares attack on given rows, linearised in the noise of the parameters.

With released parameters $\theta = \sum_i \alpha_i\varphi_i + s\,\xi$, $\xi$ standard normal, the
fit around the true rows moves by $\sum_i \varphi_i\,\delta_i + \alpha_i\,\phi'(V x_i) \odot V u_i$,
$u_i \perp x_i$, so the attack's covariance is $s^2 (J^\top J)^{-1}$ in $(\delta, u)$. Exact for
small noise, at any width. Derived: test_local_reconstruction.py compares with the attack itself.
"""

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
from jaxdp.theory.reconstruction.saturation import slope_of

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
    bases = [_tangent_basis(row) for row in rows[num_known:]]
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


def _tangent_basis(row):
    """Orthonormal columns orthogonal to a row, (d, d - 1)."""
    return np.linalg.qr(row[:, None], mode="complete")[0][:, 1:]


def last_iterate_reconstruction_errors(
    problem: RandomFeatures, algorithm: DPGD, *, num_known: int = 0
) -> Float[np.ndarray, " unknown"]:
    r"""Errors of the attack on the last iterate, to first order, with the signal of noiseless
    training.

    Noise in the span of the features, which moves the coefficients, is left out. The last iterate
    leaks less the longer training goes on at one $\mu$: its noise grows with the number of steps,
    its coefficients settle. $\mu$ covers all iterates, and does not promise that.

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
