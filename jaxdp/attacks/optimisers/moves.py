"""Changes to an attack's guess between two descents of its loss.

Gradient steps get stuck if two guessed rows approach one training row, or one is between two. So a
descent starts with surplus ("spare") rows, half of them negatives of guessed ones, half random
(`with_spares`). Then the rows are dropped whose removal raises the loss least (`thinned`). A
training row that is still missing is searched in the direction in which the residual pulls the rows
(`reseeded`). Derived: that this finds all rows if descent alone misses some, test_moves.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import accumulate_products, residual, ridged_inverse, sum_over_blocks
from jaxdp.attacks.optimisers.base import onto_sphere
from jaxdp.core.numerics.batching import one_at_a_time

# Rows are dropped at once up to a relative loss of `room` or of _FACTOR times the loss before; with
# the right signs up to more, because the errors of nearly found rows then count in full. A third or
# three times _FACTOR, a tenth or ten times the others changed nothing for `curvature_scaled`.
_FACTOR, _SIGNED_ROOM, _SIGNED_FACTOR = 10.0, 1e3, 1e3
# Ridges that elimination tries, relative to the mean diagonal of the Gram matrix, from about the
# rounding of float32 upward; larger ones allow for rows that are more alike.
_RIDGES = (1e-7, 1e-5, 1e-4, 1e-3)


@eqx.filter_jit
def with_spares(
    guesses: Float[Array, "starts n dim"],
    is_fresh: Bool[Array, " starts"],
    count: int,
    *,
    num_known: int,
    key: Key[Array, ""],
) -> Float[Array, "starts rows dim"]:
    """The guesses, drawn anew if `is_fresh`, and `count` rows more, half of them negatives."""
    _, num_rows, dim = guesses.shape
    key_rows, key_random = jr.split(key)
    # Fewer negatives if there are fewer rows.
    chosen = num_known + jr.permutation(key_rows, num_rows - num_known)[: count // 2]
    normal = jr.normal(key_random, (num_rows + count - len(chosen), dim), guesses.dtype)
    random = onto_sphere(normal)

    def widened(guess, is_fresh):
        is_replaced = is_fresh & (jnp.arange(num_rows) >= num_known)
        guess = jnp.where(is_replaced[:, None], random[:num_rows], guess)
        return jnp.concatenate([guess, -guess[chosen], random[num_rows:]])

    return jax.vmap(widened)(guesses, is_fresh)


def thinned(
    target: AbstractTarget,
    inputs: Float[Array, "starts rows dim"],
    is_used: Bool[np.ndarray, "starts rows"],
    losses: Float[np.ndarray, " starts"],
    num_kept: int,
    *,
    num_known: int,
    room: float,
    is_last: bool = False,
) -> tuple[Float[Array, "starts rows dim"], Bool[np.ndarray, "starts rows"]]:
    r"""Fewer rows: the wanted number, with their right signs, or somewhat less than before.

    For ReLU $\varphi(-x) = \varphi(x) - Vx$, so a guess with two more rows, w and -w, fits with any
    rows negated: descent finds such guesses, and none of their rows can be dropped. Among the rows
    and their negatives together the coefficients are unique for at most d rows, and those of wrong
    signs are zero. If dropping all surplus rows raises the relative loss above `room`, the cheap
    ones go, at least half of the surplus, or all of it if `is_last`. Derived: test_moves.
    """
    both = _with_negatives(inputs)
    gram, moments, power = (np.asarray(each, np.float64) for each in _products(target, both))
    places = np.tile(np.arange(inputs.shape[1]), (len(inputs), 1))
    result = np.zeros_like(is_used)
    for start, used in enumerate(is_used):

        def eliminated(rows, start=start):
            parts = gram[start][np.ix_(rows, rows)], moments[start][rows]
            return elimination(*parts, power[start], num_kept, num_known)

        rows = np.flatnonzero(used)
        signed = np.concatenate([rows, inputs.shape[1] + rows[rows >= num_known]])
        gone, rises = eliminated(signed)
        if len(rows) == num_kept:
            result[start] = used
        elif rises[-1] <= max(_SIGNED_ROOM * room, _SIGNED_FACTOR * losses[start]):
            places[start, :num_kept] = np.delete(signed, gone)
            result[start, :num_kept] = True
        else:
            gone, rises = eliminated(rows)
            cheap = np.count_nonzero(rises <= max(room, _FACTOR * losses[start]))
            least = len(gone) if is_last else -(-len(gone) // 2)
            result[start, np.delete(rows, gone[: max(cheap, least)])] = True
    return _taken(both, places), result


def elimination(
    gram: Float[np.ndarray, "rows rows"],
    moments: Float[np.ndarray, "rows outputs"],
    power: float,
    num_kept: int,
    num_known: int,
) -> tuple[Int[np.ndarray, " gone"], Float[np.ndarray, " gone"]]:
    """Backward elimination: the order in which rows go, and the rise of the loss after each."""
    tried = []
    for ridge in _RIDGES:
        ridged = gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram))
        order, rises = _eliminated(ridged, moments, num_kept, num_known)
        rows = np.delete(np.arange(len(gram)), order)
        kept = gram[np.ix_(rows, rows)] + _RIDGES[0] * np.trace(gram) / len(gram) * np.eye(num_kept)
        explained = np.sum(moments[rows] * np.linalg.solve(kept, moments[rows]))
        tried.append((power - explained, order, rises / power))
    # Only their differences matter, which rounding in `power` does not affect.
    _, order, rises = min(tried, key=lambda each: each[0])
    return order, rises


def _eliminated(gram, moments, num_kept, num_known):
    r"""Without row i the squared residual rises by $\|\alpha_i\|^2/(K^{-1})_{ii}$."""
    inverse, rows = np.linalg.inv(gram), np.arange(len(gram))
    gone, total, totals = [], 0.0, []
    while len(rows) > num_kept:
        rises = np.sum((inverse @ moments[rows]) ** 2, axis=1) / np.diag(inverse)
        rises[rows < num_known] = np.inf
        # A NaN goes first.
        least = int(np.argmin(np.nan_to_num(rises, nan=-1.0, posinf=np.inf)))
        left = np.delete(np.arange(len(rows)), least)
        column = inverse[left, least]
        inverse = inverse[np.ix_(left, left)] - np.outer(column, column) / inverse[least, least]
        gone.append(rows[least])
        total += max(float(rises[least]), 0.0)
        totals.append(total)
        rows = rows[left]
    return np.array(gone, int), np.array(totals)


def chosen_rows(
    inputs: Float[Array, "starts rows dim"], is_used: Bool[np.ndarray, "starts rows"]
) -> Float[Array, "starts kept dim"]:
    return _taken(inputs, np.stack([np.flatnonzero(used) for used in is_used]))


@jax.jit
def _with_negatives(inputs):
    return jnp.concatenate([inputs, -inputs], axis=1)


@eqx.filter_jit
def _taken(inputs, rows):
    return jnp.take_along_axis(inputs, rows[:, :, None], axis=1)


@eqx.filter_jit
def _products(target, inputs):
    products = jax.vmap(lambda rows: accumulate_products(target, rows))(inputs)
    return products.gram, products.moments, products.power


@eqx.filter_jit
def reseeded(
    target: AbstractTarget, inputs: Float[Array, "starts n dim"], *, num_known: Int[Array, ""] | int
) -> Float[Array, "starts n dim"]:
    r"""The guesses with their least significant row moved to where the residual points.

    A missing input x leaves $\alpha\varphi(x)$ and little else in the residual r, and $J_i^\top r$
    then points along $\pm x$ for features with an odd part. Among the directions of all rows and
    their mean, with either sign, the one is taken whose features lower the loss most.
    """
    return jax.vmap(lambda rows: _reseeded_rows(target, rows, num_known))(inputs)


def _reseeded_rows(target, inputs, num_known):
    numbers = jnp.arange(len(inputs))
    products = accumulate_products(target, inputs)
    inverse = ridged_inverse(products.gram)
    significance = jnp.sum((inverse @ products.moments) ** 2, axis=1) / jnp.diag(inverse)
    least = jnp.argmin(jnp.where(numbers < num_known, jnp.inf, significance))
    is_kept = numbers != least
    inverse = inverse - jnp.outer(inverse[least], inverse[least]) / inverse[least, least]
    inverse = jnp.where(is_kept[:, None] & is_kept[None], inverse, 0)
    coefficients = inverse @ products.moments
    candidates = _pointed(target, inputs, coefficients)
    gains = _gains(target, inputs, candidates, coefficients, inverse)
    best = candidates[jnp.argmax(jnp.nan_to_num(gains, nan=-jnp.inf))]
    return jnp.where(is_kept[:, None], inputs, best)


def _pointed(target, inputs, coefficients):
    """Directions of the residual, as seen from each row and from all, with either sign."""

    def power(block):
        left = residual(block.features(inputs), block.parameters, coefficients)
        return left.T @ left

    total, outputs = sum_over_blocks(target, power), target.num_outputs
    # The combination of outputs with the largest residual.
    eigh = one_at_a_time(jnp.linalg.eigh)
    combination = eigh(total)[1][:, -1] if outputs > 1 else jnp.ones(1, inputs.dtype)

    def pull(block):
        linearised = block.linearised(inputs)
        left = residual(linearised.features, block.parameters, coefficients) @ combination
        cotangents = jnp.broadcast_to(left, linearised.features.shape)
        return linearised.pull_back(cotangents)

    pulled = sum_over_blocks(target, pull)
    ways = onto_sphere(jnp.concatenate([pulled, pulled.mean(0, keepdims=True)]))
    return jnp.concatenate([ways, -ways])


def _gains(target, inputs, candidates, coefficients, inverse):
    """The decrease of the squared residual for each candidate that is added to the guess."""

    def parts(block):
        features, others = block.features(candidates), block.features(inputs)
        left = residual(others, block.parameters, coefficients)
        return features @ left, features @ others.T, jnp.sum(features**2, axis=1)

    moments, cross, own = sum_over_blocks(target, parts)
    outside = own - jnp.sum((cross @ inverse) * cross, axis=1)
    return jnp.sum(moments**2, axis=1) / jnp.maximum(outside, 1e-4 * own)
