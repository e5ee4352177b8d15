"""A report on how the clipped sum measures each weight's gradient, and its cost."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from jaxdp.clipping.arguments import records_of, require_loss, weights_of
from jaxdp.clipping.ghost.ghosts import choose_ghost
from jaxdp.clipping.ghost.traced_loss import refuse_mixing_layers, trace_loss
from jaxdp.clipping.ghost.weight_gradient import WeightGradient
from jaxdp.clipping.ghost.weight_uses import find_uses
from jaxdp.core.display import AbstractExplained, Explanation, Row

_FALLS_BACK = "falls back"
_NOT_READ = "not read by the loss"


class GradientForm(NamedTuple):
    """How the gradient of one weight is measured and summed, and its cost for one record.

    Attributes:
        name: the path of the weight in the model.
        shape: the shape of the weight.
        form: "product of norms" or "summed by row" (no per-record gradient is formed), "formed"
            (from one backward pass over the batch), "falls back" (to `vmap(grad)` of this weight),
            or "not read by the loss".
        gradient: number of multiplications of the gradient without privacy; None if it falls back.
        added: number of multiplications added by its norm and scaling.
        num_bytes: estimated temporary memory for one record.
    """

    name: str
    shape: tuple[int, ...]
    form: str
    gradient: int | None
    added: int
    num_bytes: int


class GradientForms(AbstractExplained, eqx.Module):
    """The answer of `explain`: how `clipped_gradient_sum` measures the gradient of each weight.

    Attributes:
        weights: a `GradientForm` for each weight, in the order of the model.

    Example:
        >>> from jaxdp.clipping.explanation import GradientForm, GradientForms
        >>> GradientForms((GradientForm("bias", (2,), "falls back", None, 4, 8),)).falls_back
        ('bias',)
    """

    weights: tuple[GradientForm, ...] = eqx.field(static=True)

    @property
    def falls_back(self) -> tuple[str, ...]:
        """The names of the weights whose gradients `vmap(grad)` forms."""
        return tuple(weight.name for weight in self.weights if weight.form == _FALLS_BACK)

    def _explanation(self):
        rows = []
        for weight in self.weights:
            taken = "" if weight.gradient is None else f"{weight.gradient:,} + "
            meaning = f"{taken}{weight.added:,} products, {weight.num_bytes / 1e3:,.1f} kB"
            rows.append(Row(weight.name, weight.form, "" if weight.form == _NOT_READ else meaning))
        notes = [
            "for one record: how many products the gradient takes without privacy, plus those of "
            "norm and scaling, and temporary memory"
        ]
        if self.falls_back:
            notes.append(
                f"{len(self.falls_back)} of {len(self.weights)} weights fall back: used in a "
                "branch or a nested loop, mixed with another weight before the record enters, or "
                "under a derivative rule of their own"
            )
        title = "How each weight's per-sample gradient is measured"
        return Explanation(title, tuple(rows), (*notes,))


def explain(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    input: PyTree[Array],
    target: PyTree[Array],
) -> GradientForms:
    """Explain how `clipped_gradient_sum` takes the norm of each weight's gradient, and its cost.

    Args:
        loss: `loss(model, input, target)` of one record, a scalar.
        model: a pytree whose inexact arrays are the weights.
        input: one record without a batch axis; only its shape is used.
        target: the label of the record.

    Returns:
        A form for each weight; `print` shows them as a table.

    Example:
        >>> import equinox as eqx, jax, jaxdp
        >>> model = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        >>> loss = lambda model, input, target: jax.numpy.sum((model(input) - target) ** 2)
        >>> forms = jaxdp.clipping.explain(loss, model, jax.numpy.ones(3), jax.numpy.zeros(2))
        >>> [weight.form for weight in forms.weights]
        ['product of norms', 'formed']
    """
    require_loss(loss)
    weights = weights_of(model)
    refuse_mixing_layers(model)
    records = records_of(input, target)
    batch = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), records)
    program = trace_loss(loss, model, *batch)
    found = find_uses(program)
    uses, forms = found.by_weight(), []
    for at, (path, weight) in enumerate(jax.tree_util.tree_leaves_with_path(weights)):
        name = jax.tree_util.keystr(path).lstrip(".") or "model"
        if at in uses:
            ghost = choose_ghost(WeightGradient(program, uses[at], {}))
            costs = ghost.form, *ghost.multiplications(), ghost.sizes()[0]
        elif at in found.not_covered:
            costs = _FALLS_BACK, None, 2 * weight.size, 4 * weight.size
        else:
            costs = _NOT_READ, 0, 0, 0
        forms.append(GradientForm(name, weight.shape, *costs))
    return GradientForms(tuple(forms))
