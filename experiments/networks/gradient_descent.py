r"""Full-batch gradient descent on the square loss, without noise: how the attacked networks learn.

DR trains them by up to $10^6$ steps of $10^{-5}$. Here the step is a share of the largest stable
one, computed from the curvature during training: hundreds of steps along the same gradient flow.
This training is not private; `DPGD` and `PrivateOptimiser` are.
"""

import enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float, PyTree

from jaxdp.core.numerics.precision import full_products
from jaxdp.losses import Squared

_LOSS = Squared()
# Steps between two estimates of the curvature, and products of each; the first has no start.
_CHUNK = 25
_PRODUCTS, _FIRST_PRODUCTS = 4, 20
_HALVINGS = 20


class DescentStatus(enum.IntEnum):
    """End of a descent.

    Attributes:
        CONVERGED: the loss is at most the tolerance.
        MAX_STEPS: the loss is above the tolerance after all allowed steps.
        STALLED: no step lowers it any more: the rounding floor, or a loss that is not finite.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2


class Descent(eqx.Module):
    """Result of `gradient_descent`.

    Attributes:
        model: the model after the last step.
        loss: its mean square error, over records and outputs.
        num_steps: number of steps made.
        learning_rate: learning rate of the last step, for that mean.
        status: a `DescentStatus`.
    """

    model: PyTree
    loss: float
    num_steps: int
    learning_rate: float
    status: DescentStatus

    def check(self) -> "Descent":
        """Returns this descent; raises RuntimeError if the tolerance was not met."""
        if self.status is not DescentStatus.CONVERGED:
            ending = self.status.name.lower().replace("_", " ")
            raise RuntimeError(
                f"gradient descent: {ending} after {self.num_steps} steps, loss {self.loss:.3g}"
            )
        return self


def gradient_descent(
    model: PyTree,
    inputs: Float[Any, "records in"],
    labels: Float[Any, "records outputs"],
    *,
    tolerance: float = 1e-7,
    max_steps: int = 100_000,
    share: float = 0.25,
) -> Descent:
    r"""Train every weight of a model by gradient descent, until its loss is at most a tolerance.

    The loss is $\frac{1}{nk}\sum_{ij}(f_j(x_i) - y_{ij})^2$, the mean that DR's step of $10^{-5}$
    refers to. With J the Jacobian of all outputs by all weights its Gauss-Newton matrix is
    $\frac{2}{nk}J^\top J$, and gradient descent is stable below $2/\lambda_{max}$ of it; the step
    is a `share` of that, by power iteration on $JJ^\top$, updated during training. A share of 1/2
    or less does not overshoot. The final weights differ from the gradient flow's (and DR's tiny
    steps') in proportion to the share: by less than half of it, relative to how far they moved, in
    a network small enough for its features to move much.
    Derived: test_the_path_is_that_of_many_tiny_steps.

    Args:
        model: takes one input to its outputs; all its inexact arrays are trained.
        inputs, labels: all records.
        tolerance: loss at which training stops, >= 0.
        max_steps: largest number of steps.
        share: step over the largest stable one, in (0, 1); smaller follows the flow more closely.
    """
    inputs, labels = (jnp.asarray(rows, float) for rows in (inputs, labels))
    # Any start will do unless a symmetry makes it orthogonal to the wanted direction.
    direction = jnp.cos(jnp.arange(labels.size, dtype=labels.dtype) ** 2).reshape(labels.shape)
    direction, _ = _curvature(model, inputs, direction, jnp.asarray(_FIRST_PRODUCTS))
    loss, rate, num_steps, halvings = float(_loss(model, inputs, labels)), 0.0, 0, 0
    while loss > tolerance and num_steps < max_steps and halvings < _HALVINGS:
        direction, curvature = _curvature(model, inputs, direction, jnp.asarray(_PRODUCTS))
        # No weight moves any output, as with dead neurons only.
        if not float(curvature) > 0:
            halvings = _HALVINGS
            break
        steepness = _LOSS.curvature_bound * float(curvature)
        rate = share * 2**-halvings * 2 * labels.size / steepness
        # As arrays, so that all chunks share one compilation.
        count = jnp.asarray(min(_CHUNK, max_steps - num_steps), jnp.int32)
        numbers = jnp.asarray(rate, labels.dtype), jnp.asarray(tolerance, labels.dtype)
        moved, taken, after = _advance(model, inputs, labels, *numbers, count)
        # If the curvature has grown within the chunk, it is made again with shorter steps.
        if not float(after) < loss:
            halvings += 1
            continue
        model, loss, num_steps = moved, float(after), num_steps + int(taken)
    status = DescentStatus.MAX_STEPS if loss > tolerance else DescentStatus.CONVERGED
    if not np.isfinite(loss) or (status and halvings == _HALVINGS):
        status = DescentStatus.STALLED
    return Descent(model, loss, num_steps, rate, status)


def _split(model, inputs):
    """The weights, and all records' outputs as a function of them."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def outputs(weights):
        with full_products():
            return jax.vmap(eqx.combine(weights, rest))(inputs)

    return weights, outputs


@eqx.filter_jit
def _curvature(model, inputs, direction, count):
    r"""Power iteration on $JJ^\top$ from a direction: the new one, and the eigenvalue."""
    weights, outputs = _split(model, inputs)
    _, pull = jax.vjp(outputs, weights)

    def product(_, state):
        direction = state[0] / jnp.linalg.norm(state[0])
        _, direction = jax.jvp(outputs, (weights,), pull(direction))
        return direction, jnp.linalg.norm(direction)

    return lax.fori_loop(0, count, product, (direction, jnp.zeros((), direction.dtype)))


@eqx.filter_jit
def _loss(model, inputs, labels):
    weights, outputs = _split(model, inputs)
    return jnp.mean(_LOSS.value(outputs(weights), labels))


@eqx.filter_jit
def _advance(model, inputs, labels, rate, tolerance, count):
    """Up to `count` steps, fewer if the tolerance is met: the model, their number, its loss."""
    weights, outputs = _split(model, inputs)

    def step(state):
        weights, taken, _ = state
        found, pull = jax.vjp(outputs, weights)
        (gradient,) = pull(_LOSS.slope(found, labels) * (1 / labels.size))
        is_done = jnp.mean(_LOSS.value(found, labels)) <= tolerance
        size = jnp.where(is_done, 0, rate)
        weights = jax.tree.map(lambda weight, slope: weight - size * slope, weights, gradient)
        return weights, taken + ~is_done, is_done

    def goes_on(state):
        return (state[1] < count) & ~state[2]

    start = (weights, jnp.zeros((), jnp.int32), jnp.asarray(False))
    weights, taken, _ = lax.while_loop(goes_on, step, start)
    _, rest = eqx.partition(model, eqx.is_inexact_array)
    return eqx.combine(weights, rest), taken, jnp.mean(_LOSS.value(outputs(weights), labels))
