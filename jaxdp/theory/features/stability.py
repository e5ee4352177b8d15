r"""Limits of stability, beyond which predictions of DP-SGD cannot be trusted.

A run's deviation from the mean weights moves by the mean derivative of the clipped gradient,
$B = W^\top\mathrm{diag}(D)W/n$ (`closed_moments`): along B's eigenvector of the largest eigenvalue
$\beta$, by $L = F + g e_0^\top\beta$. If L has an eigenvalue beyond 1 (for gradient descent,
$\eta\beta > 2$), deviations grow from step to step, and runs have non-Gaussian cycles. Clipped rows
have $D_i = 0$, and all have $D_i \le c$, the loss's curvature: without clipping and with the
squared loss, $\beta = c\lambda/n$ for the kernel's largest eigenvalue $\lambda$, and with much
clipping rates many times as large are stable. With k outputs D is the mean over the k - 1
directions in which the softmax varies.

By Poincaré's inequality a variance $v_i$ of the predictions adds at most
$v_iE[s_i'^2] \le cD_iv_i$ to the mean square of the slope $s_i$. So with the draw of batches the
top mode's second moment moves by at most

$$ L \otimes L + a\,\frac{c\beta\max_i|\varphi_i|^2}{n}\, gg^\top \otimes e_0e_0^\top,
   \qquad a = (1 - q)/q. $$

Beyond 1 and with little clipping, rare runs may dominate the predicted mean. Derived: here;
test_stability ($\beta$, and simulations beyond the limit without clipping), test_everyday (against
the exact second moment for one feature).
"""

import warnings
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.checks import concrete
from jaxdp.core.numerics.precision import product
from jaxdp.theory.features.linear_recursion import LinearRecursion
from jaxdp.theory.features.modes import KernelModes, sum_over_rows

# Number of squarings of a matrix for its largest eigenvalue, and the error.
_SQUARINGS, _ROUNDING = 12, 5e-3
# With a smaller clipped share of the rows, sampling noise may grow without a limit.
_LITTLE_CLIPPED = 0.5


class Steepest(eqx.Module):
    r"""The largest eigenvalue of $B = W^\top\mathrm{diag}(D)W/n$ over the steps of a run.

    Each step of the run makes one step of the power iteration, from the direction that the last one
    found, as B changes little from step to step. The value is never above the eigenvalue, and was
    at most 4 % below it where eigenvalues are nearly equal.
    """

    value: Float[Array, ""]
    direction: Float[Array, " modes"]  # of length 1

    @classmethod
    def start(cls, count: int, dtype) -> Self:
        """Nothing seen yet, in a direction mostly along the leading mode."""
        sizes = 1 / (1 + jnp.arange(count, dtype=dtype))
        return cls(jnp.zeros((), dtype), sizes / jnp.linalg.norm(sizes))

    def after(
        self,
        factor: Float[Array, "train modes"],
        derivative: Float[Array, " train"],
        outputs: tuple[int, ...],
    ) -> Self:
        """The value with that of one more step, whose slopes have this derivative, or this mean
        derivative over several outputs.
        """
        moved = lax.stop_gradient(derivative) * product(factor, self.direction)
        # The softmax does not vary with a common shift of the k outputs.
        moved *= outputs[0] / (outputs[0] - 1) if outputs else 1
        moved = sum_over_rows(factor, moved) / len(factor)
        size = jnp.sqrt(jnp.sum(moved**2))
        tiny = jnp.finfo(size.dtype).tiny
        # Nothing moves if all rows are clipped for certain.
        direction = jnp.where(size > tiny, moved / jnp.maximum(size, tiny), self.direction)
        return type(self)(jnp.maximum(self.value, size), direction)


class Growth(eqx.Module):
    """The largest factor by which one step multiplies the top mode."""

    mean: Float[Array, ""]  # without the draw of batches
    square: Float[Array, ""]  # root of the second moment's factor, with the draw of batches

    def is_unstable(self, clipped: Float[Array, ""]) -> Array:
        """Whether a limit is passed, given the clipped share of the rows."""
        in_square = (self.square > 1 + _ROUNDING) & (clipped < _LITTLE_CLIPPED)
        return (self.mean > 1 + _ROUNDING) | in_square


@eqx.filter_jit
def growth(modes: KernelModes, recursion: LinearRecursion, steepest: Float[Array, ""]) -> Growth:
    """The growth if the mean derivative of the gradient has this largest eigenvalue."""
    updates, size = recursion.updates, recursion.size
    step = updates.transition.at[:, :, 0].add(updates.gradient * steepest)
    curvature, norm = modes.loss.curvature_bound, jnp.max(modes.feature_norms)
    drawn = recursion.own * steepest * curvature * norm**2 / modes.num_train
    square = jax.vmap(jnp.kron)(step, step)
    added = jax.vmap(jnp.kron)(updates.sampling, updates.sampling)
    square = square.at[:, :, 0].add(drawn * updates.share[:, None] * added)
    return Growth(_radius(step), jnp.sqrt(_radius(square.reshape(-1, size**2, size**2))))


def warn_beyond_stability(found: Growth, clipped: Float[Array, ""]) -> None:
    """Warn if a limit is passed; for traced numbers only the status shows it."""
    mean, square, share = concrete(found.mean), concrete(found.square), concrete(clipped)
    if mean is None or square is None or share is None or mean.ndim:
        return
    if mean > 1 + _ROUNDING:
        text = (
            f"a step multiplies deviations along the top mode by {mean:.3g} > 1: "
            "simulations were up to 30 % away from predictions beyond this limit"
        )
    elif square > 1 + _ROUNDING and share < _LITTLE_CLIPPED:
        text = (
            f"the noise of the batches may grow: a factor of {square:.3g} > 1 a step, with "
            f"{share:.1%} of the rows clipped; the predicted mean may be that of rare runs"
        )
    else:
        return
    # The level of the line that calls `predict`.
    warnings.warn(f"expected a smaller learning rate: {text}", UserWarning, stacklevel=5)


def _radius(matrices: Float[Array, "steps size size"]) -> Float[Array, ""]:
    """The largest eigenvalue of any of the matrices."""

    def square(_, carry):
        matrices, logarithm = carry
        size = _size(matrices)
        matrices = matrices / size[:, None, None]
        matrices = jnp.matmul(matrices, matrices, precision=Precision.HIGHEST)
        return matrices, 2 * (logarithm + jnp.log(size))

    start = matrices, jnp.zeros(len(matrices), matrices.dtype)
    matrices, logarithm = lax.fori_loop(0, _SQUARINGS, square, start)
    return jnp.max(jnp.exp((logarithm + jnp.log(_size(matrices))) / 2**_SQUARINGS))


def _size(matrices):
    return jnp.maximum(jnp.max(jnp.abs(matrices), axis=(1, 2)), jnp.finfo(matrices.dtype).tiny)
