r"""The best attack on one unknown record: samples of its posterior, and the guess of least error.

An adversary who knows everything but one record, uniform on the sphere of radius $\sqrt d$ and with
one of some labels, has by Bayes' rule the law of that record given the run (`informed`). No
attack has a smaller expected error than the guess that minimises the mean distance to samples of
it.

The sampler is elliptical slice sampling (Murray, Adams and MacKay 2010): a normal vector with the
row's direction moves along a random ellipse, on which points are drawn until one is likely enough.
The sampler needs no step size and leaves the posterior exactly as it is. Chains start at the
direction of $V^\top\sum_t\Delta_t$, which is right but for the noise and the directions that
features mix in. Derived: tests/attacks/test_posterior.py compares with quadrature, and with
`jaxdp.theory`'s least error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Key

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.attacks.informed import run_without_one
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import host_array, require_count, require_finite, require_key, require_shape
from jaxdp.core.keys import numbered_key, stream_key
from jaxdp.losses import AbstractScalarLoss

# Halvings of an ellipse's arc, in the mean, before the chain stays where it is.
_MOST_SHRINKS = 60
_MOST_STEPS, _SETTLED, _MEDOIDS = 500, 1e-10, 200


def posterior_rows(
    iterates: Float[Array, "iterates features"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    algorithm: AbstractFullBatchAlgorithm,
    known_inputs: Float[Array, "known dim"],
    known_labels: Float[Array, " known"],
    *,
    num_samples: int,
    key: Key[Array, ""],
    labels: Sequence[float] = (-1.0, 1.0),
    num_chains: int = 4,
    num_draws: int = 500,
    num_discarded: int = 200,
    loss: AbstractScalarLoss | None = None,
) -> Float[np.ndarray, "chains draws dim"]:
    r"""Samples of the one record that is not known, given everything else and all iterates.

    Args:
        iterates, weights, activation, algorithm, known_inputs, known_labels, num_samples, loss: as
            in `without_known_rows`; the algorithm has noise, and n - 1 records are known.
        key: of the sampler.
        labels: that the record may have, all as likely; one where its label is known.
        num_chains: chains, independent of each other but for their start.
        num_draws: samples that are kept of each chain, one after another.
        num_discarded: steps before the first of them.

    Returns:
        Rows on the sphere of radius $\sqrt d$. Neighbours in a chain are alike: the more so, the
        sharper the posterior.

    Raises:
        ValueError, TypeError: shapes do not match, not exactly one record is unknown, or nothing is
            noisy.

    Example:
        >>> import jax, jaxdp, numpy as np
        >>> from jaxdp.attacks import best_guess, posterior_rows
        >>> weights = np.random.default_rng(0).normal(size=(400, 2)) / np.sqrt(2)
        >>> algorithm = jaxdp.DPGD(0.01, 1.0, num_steps=1, noise_scale=0.005)  # mu = 20
        >>> features = np.maximum(weights @ np.ones(2), 0)
        >>> iterates = np.stack([np.zeros(400), 0.01 * features / np.linalg.norm(features)])
        >>> run = iterates, weights, jax.nn.relu, algorithm, np.zeros((0, 2)), np.zeros(0)
        >>> samples = posterior_rows(*run, num_samples=1, key=jax.random.key(0))
        >>> bool(np.linalg.norm(best_guess(samples) - np.ones(2)) < 0.5)
        True
    """
    require_key(key)
    given = iterates, weights, activation, algorithm, known_inputs, known_labels
    run = run_without_one(*given, num_samples=num_samples, loss=loss)
    for name, count, least in (
        ("num_chains", num_chains, 1),
        ("num_draws", num_draws, 1),
        ("num_discarded", num_discarded, 0),
    ):
        require_count(name, count, least=least)
    known = as_wide_float(labels, "labels")
    require_shape("labels", known, (None,))
    require_finite("labels", known)
    if not known.size:
        raise ValueError("expected one label or more that the record may have, got none")
    # The linear estimate, up to its sign, which is the label's.
    ahead = jnp.sum(run.left, axis=0) @ run.weights
    both = jnp.stack([ahead, -ahead]) / jnp.linalg.norm(ahead) * run.dim**0.5
    levels = [float(logsumexp(run.log_likelihoods(row, known))) for row in both]
    first = both[int(np.argmax(levels))]
    keys = jax.vmap(lambda chain: numbered_key(stream_key(key, "posterior"), chain))(
        jnp.arange(num_chains)
    )
    return np.asarray(_chains(run, known, first, keys, num_discarded, num_draws), np.float64)


def best_guess(samples: Float[Any, "*draws dim"]) -> Float[np.ndarray, " dim"]:
    r"""The row on the sphere whose mean distance to samples of a posterior is least.

    By reweighted means (Weiszfeld), from the direction of their mean on.

    Args:
        samples: of the posterior, on the sphere of radius $\sqrt d$; all leading axes are joined.

    Returns:
        The guess, (d,); where samples have no mean direction, one of them.

    Raises:
        ValueError: there are none, or they are not finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.attacks import best_guess
        >>> best_guess(np.sqrt(2) * np.array([[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]])).round(3)
        array([1.414, 0.   ])
    """
    rows = host_array("samples", samples)
    if rows.ndim < 2 or 0 in rows.shape or not np.isfinite(rows).all():
        raise ValueError(f"expected finite samples of shape (..., dim), got {rows.shape}")
    rows = rows.reshape(-1, rows.shape[-1])
    radius = np.sqrt(rows.shape[1])

    def on_sphere(row):
        return row * radius / max(np.linalg.norm(row), np.finfo(float).tiny)

    mean = rows.mean(axis=0)
    if np.linalg.norm(mean) <= 1e-9 * radius:
        # No direction to start from: the best of some samples.
        some = rows[:: max(1, len(rows) // _MEDOIDS)]
        distances = [np.linalg.norm(rows - one, axis=1).mean() for one in some]
        return on_sphere(some[int(np.argmin(distances))])
    guess = on_sphere(mean)
    for _ in range(_MOST_STEPS):
        distances = np.linalg.norm(rows - guess, axis=1)
        shares = 1 / np.maximum(distances, _SETTLED * radius)
        following = on_sphere(shares @ rows)
        moved = np.linalg.norm(following - guess)
        guess = following
        if moved <= _SETTLED * radius:
            break
    return guess


@eqx.filter_jit
def _chains(run, labels, start, keys, num_discarded, num_draws):
    """A chain for each key, as rows on the sphere."""
    radius = run.dim**0.5

    def level_of(point):
        row = point * radius / jnp.linalg.norm(point)
        return logsumexp(run.log_likelihoods(row, labels))

    def step(carry, key):
        point, level = carry
        of_length, of_ellipse, of_level, of_low, of_angles = jr.split(key, 5)
        # The length is not seen by the likelihood: it is drawn anew.
        length = jnp.linalg.norm(jr.normal(of_length, point.shape, point.dtype))
        point = point * length / jnp.linalg.norm(point)
        other = jr.normal(of_ellipse, point.shape, point.dtype)
        threshold = level + jnp.log1p(-jr.uniform(of_level, dtype=point.dtype))

        def propose(low, high, key):
            following, own = jr.split(key)
            angle = jr.uniform(own, minval=low, maxval=high, dtype=point.dtype)
            proposed = jnp.cos(angle) * point + jnp.sin(angle) * other
            return angle, proposed, level_of(proposed), following

        def is_unlikely(state):
            (_, _, reached, _), _, _, count = state
            return ~(reached >= threshold) & (count < _MOST_SHRINKS)

        def shrink(state):
            (angle, _, _, key), low, high, count = state
            low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
            return propose(low, high, key), low, high, count + 1

        turn = jnp.asarray(2 * jnp.pi, point.dtype)
        low = -turn * jr.uniform(of_low, dtype=point.dtype)
        first = propose(low, low + turn, of_angles), low, low + turn, 0
        (_, proposed, reached, _), *_ = lax.while_loop(is_unlikely, shrink, first)
        is_moved = reached >= threshold
        carry = jnp.where(is_moved, proposed, point), jnp.where(is_moved, reached, level)
        return carry, carry[0] * radius / jnp.linalg.norm(carry[0])

    def chain(key):
        _, rows = lax.scan(step, (start, level_of(start)), jr.split(key, num_discarded + num_draws))
        return rows[num_discarded:]

    return jax.vmap(chain)(keys)
