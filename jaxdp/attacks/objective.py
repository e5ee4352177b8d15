r"""The attack's loss: the share of $\theta$ outside the span of the guessed inputs' features.

With $\Phi$ the features of the guess and $\alpha$ the least-squares coefficients, the loss is
$\|\theta - \Phi^\top\alpha\|^2/\|\theta\|^2$, DR (11), as a sum of squares: $\theta^\top\theta -
v^\top\alpha$ cancels in float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.attacks.base import AbstractBlock, AbstractTarget
from jaxdp.core.numerics.batching import solve_positive
from jaxdp.core.numerics.precision import in_float64

# Added to the Gram matrix, in units of the rounding of its mean diagonal, so that it has a Cholesky
# factor even if two rows coincide.
_RIDGE = 8.0
# Number of features of a block in float64.
_WIDE_ROWS = 65536


class Evaluation(NamedTuple):
    r"""The loss at a guess, its gradient in the inputs, and the coefficients $\alpha$."""

    loss: Float[Array, ""]
    gradient: Float[Array, "n dim"]
    coefficients: Float[Array, "n outputs"]


class Products(NamedTuple):
    r"""$K = \Phi\Phi^\top$, $v = \Phi\theta$ and $\|\theta\|^2$ for all features or a block."""

    gram: Float[Array, "n n"]
    moments: Float[Array, "n outputs"]
    power: Float[Array, ""]


def loss_and_gradient(target: AbstractTarget, inputs: Float[Array, "n dim"]) -> Evaluation:
    r"""The loss and its gradient, in two passes over the blocks and memory for one of them.

    $\partial L/\partial x_i = -2 J_i^\top R\alpha_i/\|\theta\|^2$, R = $\theta - \Phi^\top\alpha$:
    the coefficients minimise the loss, so their change has no effect. Source: DR Appendix D.
    Derived: for several outputs, test_objective.
    """
    if target.num_blocks == 1:
        block = target.block(0)
        linearised = block.linearised(inputs)
        products = block_products(linearised.features, block.parameters)
        coefficients = solve_coefficients(products)
        power, pulled = _residual_parts(linearised, block.parameters, coefficients)
    else:
        products = accumulate_products(target, inputs)
        coefficients = solve_coefficients(products)
        power, pulled = sum_over_blocks(
            target,
            lambda block: _residual_parts(block.linearised(inputs), block.parameters, coefficients),
        )
    return Evaluation(power / products.power, -2 * pulled / products.power, coefficients)


def relative_loss(target: AbstractTarget, inputs: Float[Array, "n dim"]) -> Float[Array, ""]:
    """The loss without its gradient, in one pass for one block and two for several."""
    if target.num_blocks == 1:
        block = target.block(0)
        features = block.features(inputs)
        products = block_products(features, block.parameters)
        coefficients = solve_coefficients(products)
        return jnp.sum(residual(features, block.parameters, coefficients) ** 2) / products.power
    products = accumulate_products(target, inputs)
    coefficients = solve_coefficients(products)

    def power(block):
        return jnp.sum(residual(block.features(inputs), block.parameters, coefficients) ** 2)

    return sum_over_blocks(target, power) / products.power


def checked_loss(target: AbstractTarget, inputs: Float[Array, "n dim"]) -> float:
    """The loss in float64, block by block; computed on the host if the device has no float64."""
    with in_float64():
        wide = target.widened().in_blocks(_WIDE_ROWS)
        return float(_compiled_loss(wide, jnp.asarray(inputs, jnp.float64)))


_compiled_loss = eqx.filter_jit(relative_loss)


def accumulate_products(target: AbstractTarget, inputs: Float[Array, "n dim"]) -> Products:
    return sum_over_blocks(
        target, lambda block: block_products(block.features(inputs), block.parameters)
    )


def sum_over_blocks(target: AbstractTarget, of_block: Callable[[AbstractBlock], Any]) -> Any:
    """The sum of a function over a target's blocks, one at a time."""

    def add(sums, index):
        return jax.tree.map(jnp.add, sums, of_block(target.block(index))), None

    shapes = jax.eval_shape(lambda: of_block(target.block(0)))
    zeros = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)
    return lax.scan(add, zeros, jnp.arange(target.num_blocks))[0]


def solve_coefficients(products: Products) -> Float[Array, "n outputs"]:
    r"""$\alpha = K^{-1}v$, by Cholesky."""
    return solve_positive(_ridged(products.gram), products.moments)


def ridged_inverse(gram: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """$K^{-1}$, with the rounding-sized ridge of `solve_coefficients`."""
    return solve_positive(_ridged(gram), jnp.eye(len(gram), dtype=gram.dtype))


def residual(features, parameters, coefficients) -> Float[Array, "rows outputs"]:
    r"""$\theta - \Phi^\top\alpha$ in a block."""
    return parameters - jnp.matmul(features.T, coefficients, precision=Precision.HIGHEST)


def block_products(features, parameters) -> Products:
    # At full precision, because rounding here becomes rounding of the coefficients.
    return Products(
        jnp.matmul(features, features.T, precision=Precision.HIGHEST),
        jnp.matmul(features, parameters, precision=Precision.HIGHEST),
        jnp.sum(parameters**2),
    )


def _ridged(gram):
    ridge = _RIDGE * jnp.finfo(gram.dtype).eps * jnp.trace(gram) / len(gram)
    return gram + ridge * jnp.eye(len(gram), dtype=gram.dtype)


def _residual_parts(linearised, parameters, coefficients):
    """The squared residual, and the residual pulled back to the inputs."""
    left = residual(linearised.features, parameters, coefficients)
    return jnp.sum(left**2), linearised.pull_back(coefficients @ left.T)
