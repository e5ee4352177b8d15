"""The records of a step as a loss sees them: with the step's keys, and with a gradient at all."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.core.keys import numbered_key


def with_keys_of(records: PyTree[Array], step: Int[Array, ""]) -> PyTree[Array]:
    """Records whose keys are those of one step: what a loss draws from them is drawn anew.

    A record's key at a step is made from its own key and the number of the step alone, so a run
    that is resumed draws what one without a break does, and the gradient is still a function of
    that record.
    """

    def at_step(leaf):
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        keys = jax.vmap(lambda key: numbered_key(key, step))(leaf.ravel())
        return keys.reshape(leaf.shape)

    return jax.tree.map(at_step, records)


def require_gradient(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
) -> None:
    """Raise ValueError where the loss of one record has no derivative by any weight.

    So it is for a loss that ignores the model, stops every gradient or counts errors: a private
    optimiser would follow its noise. The loss is traced at the shape of one record, so the answer
    is the same for all data; a gradient that is zero by its numbers alone is not found.

    Args:
        loss: of one record, a scalar.
        model: its inexact arrays are the weights.
        inputs, targets: of all records, with a leading axis.
    """
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    sample = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (inputs, targets)
    )

    def gradient(cotangent, weights, sample):
        value, pull_back = jax.vjp(lambda w: loss(eqx.combine(w, rest), *sample), weights)
        return pull_back(cotangent.astype(value.dtype))

    one = jax.ShapeDtypeStruct((), jnp.float32)
    jaxpr = jax.make_jaxpr(gradient)(one, weights, sample).jaxpr
    # A gradient is linear in the cotangent: what does not depend on it is zero.
    reached = set(jaxpr.invars[:1])
    for equation in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    if not any(not isinstance(v, Literal) and v in reached for v in jaxpr.outvars):
        raise ValueError(
            "expected a loss with a gradient by the model's weights, got one that ignores them "
            "(or has stop_gradient, argmax or rounding between): training would follow the noise "
            "alone"
        )
