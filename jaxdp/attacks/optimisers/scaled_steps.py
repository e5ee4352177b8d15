r"""Steps of momentum on the loss of a block, scaled by the curvature that its rows share.

For directions $u_i$ of the rows, the loss's Gauss-Newton form is about $\sum_{ij} C_{ij}\,u_i\cdot
u_j$ with $C_{ij} = \alpha_i\cdot\alpha_j\, \operatorname{tr}(J_i^\top J_j)/d$: rows are coupled if
the features' slopes are not centred (for ReLU, $C_{ij}$ is half of $C_{ii}$ between rows of equal
weight), and a row's own curvature falls with the square of its coefficient. Solving with C, n x n,
makes all rows equally fast. Derived: the form, and its gain over its diagonal, test_moves.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.attacks.base import AbstractBlock, AbstractTarget
from jaxdp.attacks.objective import block_products, residual, solve_coefficients
from jaxdp.attacks.optimisers.base import onto_sphere
from jaxdp.core.keys import numbered_key
from jaxdp.core.numerics.batching import solve_positive

# Least curvature of a row over the mean; below the square of the smallest relevant coefficient.
_LEAST_CURVATURE = 1e-9


class Scaling(NamedTuple):
    """The numbers that scale a step; `curvature_scaled` sets them."""

    step_size: Float[Array, ""]
    momentum: Float[Array, ""]
    damping: Float[Array, ""]
    longest_step: Float[Array, ""]


class Descent(NamedTuple):
    """The state of a descent: its rows, their velocity, the mean of the last blocks' losses."""

    inputs: Float[Array, "starts n dim"]
    velocity: Float[Array, "starts n dim"]
    loss: Float[Array, " starts"]


@eqx.filter_jit
def descend(
    target: AbstractTarget,
    state: Descent,
    scaling: Scaling,
    is_active: Bool[Array, " starts"],
    is_used: Bool[Array, "starts n"],
    *,
    order: Int[Array, " most"],
    num_steps: Int[Array, ""],
    num_known: Int[Array, ""],
    key: Key[Array, ""],
) -> Descent:
    """Steps on the blocks with these numbers; starts that are not active do not change."""

    def step(number, state):
        # Generated once for all starts.
        block = target.block(order[number])
        probe = numbered_key(key, number)
        moved = jax.vmap(
            lambda inputs, velocity, is_used: scaled_step(
                block, inputs, velocity, scaling, is_used, num_known=num_known, key=probe
            )
        )(state.inputs, state.velocity, is_used)
        late = number >= num_steps // 2
        total = state.loss + jnp.where(late, moved.loss / (num_steps - num_steps // 2), 0)
        return Descent(moved.inputs, moved.velocity, total)

    begun = state._replace(loss=jnp.zeros_like(state.loss))
    return chosen(is_active, lax.fori_loop(0, num_steps, step, begun), state)


@eqx.filter_jit
def chosen(is_first: Bool[Array, " starts"], first: Any, second: Any) -> Any:
    """A pytree with the first values of some starts, and the second ones of the others."""
    return jax.tree.map(
        lambda one, other: jnp.where(is_first.reshape(-1, *[1] * (one.ndim - 1)), one, other),
        first,
        second,
    )


def scaled_step(
    block: AbstractBlock,
    inputs: Float[Array, "n dim"],
    velocity: Float[Array, "n dim"],
    scaling: Scaling,
    is_used: Bool[Array, " n"],
    *,
    num_known: Int[Array, ""] | int,
    key: Key[Array, ""],
) -> Descent:
    """One step of one start; a step that is not finite is not taken."""
    linearised = block.linearised(inputs)
    # Rows without features have coefficients of zero, and nothing pulls them.
    features = jnp.where(is_used[:, None], linearised.features, 0)
    products = block_products(features, block.parameters)
    coefficients = solve_coefficients(products)
    left = residual(features, block.parameters, coefficients)
    is_free = (jnp.arange(len(inputs)) >= num_known)[:, None]
    pulled = tangent(inputs, linearised.pull_back(coefficients @ left.T))
    curvature = block.row_coupling(inputs, key=key) * (coefficients @ coefficients.T)
    direction = _solve_curvature(curvature, jnp.where(is_free, pulled, 0), is_free, scaling.damping)
    lengths = jnp.linalg.norm(direction, axis=1, keepdims=True)
    longest = scaling.longest_step * jnp.sqrt(inputs.shape[1]).astype(inputs.dtype)
    direction = direction * jnp.minimum(1, longest / jnp.maximum(lengths, longest / 2))
    moved = scaling.momentum * tangent(inputs, velocity) + scaling.step_size * direction
    reached = jnp.where(is_free, onto_sphere(inputs + moved), inputs)
    is_finite = jnp.isfinite(reached).all()
    return Descent(
        jnp.where(is_finite, reached, inputs),
        jnp.where(is_finite, moved, 0),
        jnp.sum(left**2) / products.power,
    )


def tangent(
    inputs: Float[Array, "n dim"], directions: Float[Array, "n dim"]
) -> Float[Array, "n dim"]:
    """The part of each row's direction that is orthogonal to the row."""
    lengths = jnp.sum(inputs**2, axis=1, keepdims=True)
    return directions - inputs * jnp.sum(inputs * directions, axis=1, keepdims=True) / lengths


def _solve_curvature(curvature, pulled, is_free, damping):
    """The scaled directions; fixed rows are decoupled from the others."""
    curvature = jnp.where(is_free & is_free.T, curvature, 0)
    own = jnp.diag(curvature)
    mean = jnp.sum(own) / jnp.sum(is_free)
    added = damping * own + jnp.where(is_free[:, 0], _LEAST_CURVATURE, 1) * mean
    return solve_positive(curvature + jnp.diag(added), pulled)
