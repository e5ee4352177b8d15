"""Reconstructing the training inputs from trained parameters. Source: DR (11) and Section 5."""

import contextlib
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import checked_loss
from jaxdp.attacks.optimisers.base import AbstractOptimiser, Ending, Progress, onto_sphere
from jaxdp.attacks.optimisers.curvature_scaled import CurvatureScaledMomentum
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import (
    require_count,
    require_finite,
    require_key,
    require_positive,
    require_shape,
)
from jaxdp.core.display import AbstractExplained, Explanation, Row, in_words
from jaxdp.core.keys import purpose_key, run_keys, stream_key
from jaxdp.core.progress import is_seen, listening


class Reconstruction(AbstractExplained, eqx.Module):
    r"""The result of a reconstruction attack.

    Attributes:
        inputs: the rows of the best start, on the sphere of radius $\sqrt d$; known ones first.
        loss: $\|\theta - \Phi^\top\alpha\|^2/\|\theta\|^2$ at these rows, in float64.
        converged: whether that loss is at most the tolerance.
        num_passes: full-pass equivalents of all starts together.
        status: reason why the best start ended; `CONVERGED` exactly if `converged`.
        losses: loss of each start, in the precision of the target.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import RandomFeaturesTarget, reconstruct
        >>> target = RandomFeaturesTarget(np.ones((40, 3)), jax.nn.relu, np.ones(40))
        >>> reconstruct(target, 1, key=jax.random.key(1), max_passes=20).inputs.shape
        (1, 3)
    """

    inputs: Float[Array, "n dim"]
    loss: float
    converged: bool
    num_passes: float
    status: Ending
    losses: Float[Array, " starts"]

    def _explanation(self):
        rows = (
            Row("inputs", in_words(self.inputs, is_record=True), "of the best start"),
            Row("loss", in_words(self.loss), "squared distance to the parameters, relative"),
            Row("converged", in_words(self.converged), "whether the loss is at most the tolerance"),
            Row("num_passes", in_words(self.num_passes), "passes over the model, of all starts"),
            Row("status", str(self.status), "why the best start ended"),
            Row("losses", in_words(self.losses), "of each start"),
        )
        return Explanation("Reconstruction", rows)


def reconstruct(
    target: AbstractTarget,
    num_samples: int,
    *,
    key: Key[Array, ""],
    optimiser: AbstractOptimiser | None = None,
    max_passes: float = 2000,
    num_starts: int = 1,
    known_inputs: Any = None,
    tolerance: float = 1e-7,
    progress: Progress | bool | None = None,
) -> Reconstruction:
    """Reconstruct n training inputs: search rows whose features span the trained parameters.

    Above $p = dn$ features the result is the training inputs, in some order; below, other rows fit
    too. A row whose coefficient in the parameters is near 0 may be missing, and equal rows are
    found once. Odd and even activations leave the signs of rows open, a polynomial the rows. If n
    is too small the loss stays high; surplus rows get no weight. After noisy training the loss does
    not reach zero: compare losses, and use more starts. Call it outside `jit` and `vmap`.

    Args:
        target: the target of the attack.
        num_samples: n < p, number of training inputs; larger n raise ValueError.
        key: random key of the starts and of the optimiser.
        optimiser: None for `CurvatureScaledMomentum()`.
        max_passes: limit on the full-pass equivalents of each start, at least 2 for the first and
            last evaluation; the loss in float64 counts as one pass more.
        num_starts: number of independent starts, run side by side; the best is returned.
        known_inputs: m < n known inputs, (m, d), held fixed.
        tolerance: bound on the relative loss.
        progress: True for a bar, False for none, None for one in a terminal or a notebook; or a
            function, called on the host with the passes so far and the best loss.

    Returns:
        The rows of the best start, their loss, and the reason why the search ended.

    Raises:
        ValueError: p <= n; any rows then explain the parameters.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import reconstruct, span_target
        >>> weights = np.random.default_rng(0).normal(size=(100, 5))
        >>> target = span_target(np.eye(2, 5), weights, jax.nn.relu)
        >>> reconstruct(target, 2, key=jax.random.key(2)).converged
        True
    """
    require_target(target)
    optimiser = CurvatureScaledMomentum() if optimiser is None else optimiser
    if not isinstance(optimiser, AbstractOptimiser):
        raise TypeError(
            "expected an optimiser such as jaxdp.attacks.LevenbergMarquardt(), got "
            f"{getattr(optimiser, '__name__', type(optimiser).__name__)}"
        )
    require_key(key)
    num_samples = require_count("num_samples", num_samples)
    num_starts = require_count("num_starts", num_starts)
    require_positive("max_passes", max_passes)
    require_positive("tolerance", tolerance)
    if target.num_features <= num_samples:
        raise ValueError(
            f"expected more features than samples, got p = {target.num_features} and n = "
            f"{num_samples}: the features of any n inputs span all parameters, and the attack "
            "learns nothing about them"
        )
    known = _known_rows(known_inputs, num_samples, target)
    # With the user's own key, the starts could equal a network's weights drawn from it.
    key = stream_key(key, "reconstruct")
    with _listening(progress, max_passes * num_starts) as told:
        attempt = optimiser.minimise(
            target,
            _starts(known, num_samples, target.dim, run_keys(purpose_key(key, "init"), num_starts)),
            key=purpose_key(key, "sampling"),
            max_passes=max_passes,
            tolerance=tolerance,
            num_known=len(known),
            progress=told,
        )
    losses = np.asarray(attempt.loss, np.float64)
    best = int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))
    inputs = attempt.inputs[best]
    loss = checked_loss(target, inputs)
    status = Ending(int(attempt.status[best]))
    if loss <= tolerance:
        status = Ending.CONVERGED
    elif status is Ending.CONVERGED:
        # The loss was below the tolerance only in the precision of the target.
        status = Ending.STALLED
    return Reconstruction(
        inputs=inputs,
        loss=loss,
        converged=loss <= tolerance,
        num_passes=attempt.num_passes + 1.0,
        status=status,
        losses=attempt.loss,
    )


@contextlib.contextmanager
def _listening(progress: Progress | bool | None, most_passes: float) -> Iterator[Progress | None]:
    """The progress function for passes and the loss; a bar shows the share of all passes."""
    if callable(progress):
        yield progress
        return
    with listening(is_seen() if progress is None else progress, "reconstruct") as told:

        def share_told(passes: float, loss: float) -> None:
            assert told is not None
            told(min(passes / most_passes, 1.0))

        yield None if told is None else share_told
        if told is not None:
            # The search may have converged long before the last pass.
            told(1.0)


def require_target(target: Any) -> None:
    """Raise TypeError unless the value is a target with known (not traced) arrays."""
    if not isinstance(target, AbstractTarget):
        raise TypeError(f"expected a target of jaxdp.attacks, got {type(target).__name__}")
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(target)):
        raise TypeError(
            "reconstruct decides on the host what to do next: call it outside jit and vmap, with "
            "num_starts for several starts at once"
        )


def _known_rows(known_inputs: Any, num_samples: int, target: AbstractTarget) -> Array:
    dtype = target.parameters.dtype
    if known_inputs is None:
        return jnp.zeros((0, target.dim), dtype)
    known = as_float(known_inputs, "known_inputs")
    require_shape("known_inputs", known, (None, target.dim))
    require_finite("known_inputs", known)
    if len(known) >= num_samples:
        raise ValueError(
            f"expected fewer known inputs than the {num_samples} samples, got {len(known)}"
        )
    return known.astype(dtype)


@eqx.filter_jit
def _starts(known, num_samples, dim, keys):
    shape = num_samples - len(known), dim
    free = jax.vmap(lambda key: onto_sphere(jr.normal(key, shape, known.dtype)))(keys)
    fixed = jnp.broadcast_to(known, (len(keys), *known.shape))
    return jnp.concatenate([fixed, free], axis=1)
