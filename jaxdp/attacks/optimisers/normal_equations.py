r"""The Gauss-Newton equations of the loss in all rows at once, (d n)^2 numbers.

When row i moves by $\delta_i$ the residual $P^\perp\theta$ changes by
$-P^\perp\sum_i J_i\delta_i\alpha_i^\top$ to first order, with J_i the Jacobian of the row's
features, and by a term that vanishes with the residual and is left out.
Source: Golub and Pereyra (1973), variable projection; Kaufman (1975), without that term.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Bool, Float

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import accumulate_products, residual, solve_coefficients

_product = functools.partial(jnp.matmul, precision=Precision.HIGHEST)


def normal_equations(
    target: AbstractTarget, inputs: Float[Array, "n dim"], is_free: Bool[Array, " n"]
) -> tuple[Float[Array, "unknowns unknowns"], Float[Array, " unknowns"]]:
    r"""M and b of $M\delta = b$, tangent to the sphere; zero for rows that are held fixed.

    $M_{ij} = (\alpha_i\cdot\alpha_j)\,T_i J_i^\top P^\perp J_j T_j$ and
    $b_i = T_i J_i^\top R\,\alpha_i$ with R the residual and $T_i = I - x_i x_i^\top/|x_i|^2$.
    Derived: for several outputs, test_levenberg_marquardt.

    Args:
        target: what the attacker holds; the Jacobian of one of its blocks is in memory.
        inputs: where the equations hold; no row zero.
        is_free: which rows may move.
    """
    count, dim = inputs.shape
    products = accumulate_products(target, inputs)
    alpha = solve_coefficients(products)

    def add(sums, index):
        block = target.block(index)
        linearised = block.linearised(inputs)
        jacobian = _jacobian(linearised.push_forward, inputs)
        left = residual(linearised.features, block.parameters, alpha)
        parts = (
            _product(jacobian, jacobian.T),
            _product(linearised.features, jacobian.T),
            linearised.pull_back(_product(alpha, left.T)),
        )
        return jax.tree.map(jnp.add, sums, parts), None

    unknowns = count * dim
    shapes = (unknowns, unknowns), (count, unknowns), (count, dim)
    zeros = tuple(jnp.zeros(shape, inputs.dtype) for shape in shapes)
    (squares, mixed, pulled), _ = lax.scan(add, zeros, jnp.arange(target.num_blocks))
    projected = squares - _product(mixed.T, solve_coefficients(products._replace(moments=mixed)))
    weights = jnp.where(is_free[:, None] & is_free[None], _product(alpha, alpha.T), 0)
    blocks = projected.reshape(count, dim, count, dim) * weights[:, None, :, None]
    units = inputs / jnp.linalg.norm(inputs, axis=1, keepdims=True)
    blocks = _tangent(units, _tangent(units, blocks).transpose(2, 3, 0, 1))
    slope = jnp.where(is_free[:, None], pulled, 0)
    slope = slope - units * jnp.sum(units * slope, axis=1, keepdims=True)
    return blocks.reshape(unknowns, unknowns), slope.reshape(unknowns)


def _jacobian(push_forward, inputs) -> Float[Array, "unknowns rows"]:
    """Derivatives of a block's features; a row's features depend on that row alone."""
    count, dim = inputs.shape
    basis = jnp.eye(dim, dtype=inputs.dtype)
    pushed = jax.vmap(lambda unit: push_forward(jnp.broadcast_to(unit, inputs.shape)))(basis)
    return jnp.swapaxes(pushed, 0, 1).reshape(count * dim, -1)


def _tangent(units, blocks):
    """Row blocks (n, d, n, d) without what lies along each row."""
    along = jnp.einsum("ia,iajb->ijb", units, blocks, precision=Precision.HIGHEST)
    return blocks - units[:, :, None, None] * along[:, None]
