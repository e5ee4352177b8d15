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
    r"""What an attack found.

    Attributes:
        inputs: the rows of the best start, on the sphere of radius $\sqrt d$; known ones first, as
            they were given.
        loss: $\|\theta - \Phi^\top\alpha\|^2/\|\theta\|^2$ there, in float64; on a
            TPU, which has none, computed by the host.
        converged: whether that loss is at most the tolerance.
        num_passes: full-pass equivalents, of all starts.
        status: why the best start ended; `CONVERGED` where `converged` is true, and only there.
        losses: of each start, in the precision of the target.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import RegeneratedWeights, RandomFeaturesTarget, reconstruct
        >>> weights = RegeneratedWeights(jax.random.key(0), num_features=40, dim=3)
        >>> target = RandomFeaturesTarget(weights, jax.nn.relu, np.ones(40))
        >>> found = reconstruct(target, 1, key=jax.random.key(1), max_passes=20)
        >>> found.inputs.shape, found.converged
        ((1, 3), False)
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
    r"""Look for n inputs whose features span the trained parameters.

    Above $p = dn$ features they are the training inputs, in some order; below, others do as well.
    A row counts by its coefficient in the parameters: one of coefficient near 0 may be missing
    where the loss has converged, and of equal rows one is found. Odd and even activations leave
    the signs of rows open, and a polynomial its rows themselves: their features span too little.
    With fewer rows than there were the loss stays high; rows too many are of no weight. After
    noisy training no rows have a loss of zero: compare losses, and ask for more starts.

    The search runs on the host, compiling as it goes: call it outside `jit` and `vmap`.

    Args:
        target: what the attacker holds.
        num_samples: n, how many inputs there were.
        key: of the starts and of the optimiser.
        optimiser: None for `CurvatureScaledMomentum()`.
        max_passes: full-pass equivalents for each start, at most; evaluating where it begins and
            ends takes 2 at least, and the loss in float64 is counted as one pass more.
        num_starts: independent starts, side by side; the best is returned.
        known_inputs: m < n inputs that the attacker knows, (m, d); held fixed.
        tolerance: of the relative loss.
        progress: True for a bar, False for none, None for one in a terminal or a notebook; or a
            function, called on the host with the passes so far and the best loss.

    Returns:
        The rows of the best start, their loss, and how the search ended.

    Raises:
        ValueError: p <= n, where any inputs span everything.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import RandomFeaturesTarget, minimum_norm_parameters
        >>> from jaxdp.attacks import reconstruct, reconstruction_error
        >>> from jaxdp.problems import sphere_inputs
        >>> rows = sphere_inputs(2, 5, key=jax.random.key(0))
        >>> weights = jax.random.normal(jax.random.key(1), (100, 5)) / np.sqrt(5)
        >>> parameters = minimum_norm_parameters(rows, np.array([1.0, -1.0]), weights, jax.nn.relu)
        >>> target = RandomFeaturesTarget(weights, jax.nn.relu, parameters)
        >>> found = reconstruct(target, 2, key=jax.random.key(2))
        >>> print(f"{found.converged}, error {reconstruction_error(rows, found.inputs):.2f}")
        True, error 0.00
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
            f"{num_samples}: the features of any n inputs span all parameters, and nothing is "
            "learnt of them"
        )
    known = _known_rows(known_inputs, num_samples, target)
    # A network may have been drawn from the same key: its weights would be the starts.
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
    return Reconstruction(
        inputs=inputs,
        loss=loss,
        converged=loss <= tolerance,
        num_passes=attempt.num_passes + 1.0,
        status=_status(Ending(int(attempt.status[best])), loss, tolerance),
        losses=attempt.loss,
    )


@contextlib.contextmanager
def _listening(progress: Progress | bool | None, most_passes: float) -> Iterator[Progress | None]:
    """The function that is told of passes and the loss; a bar shows the share of all passes."""
    if callable(progress):
        yield progress
        return
    with listening(is_seen() if progress is None else progress, "reconstruct") as told:

        def share_told(passes: float, loss: float) -> None:
            assert told is not None
            told(min(passes / most_passes, 1.0))

        yield None if told is None else share_told
        if told is not None:
            # It may have converged long before the last pass.
            told(1.0)


def _status(ending: Ending, loss: float, tolerance: float) -> Ending:
    """The optimiser's word, unless the loss in float64 is on another side of the tolerance."""
    if loss <= tolerance:
        return Ending.CONVERGED
    # It stopped for a loss that is below the tolerance only in the precision of the target.
    return Ending.STALLED if ending is Ending.CONVERGED else ending


def require_target(target: Any) -> None:
    """Raise TypeError unless the target is one, and known on the host."""
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
