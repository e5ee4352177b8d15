r"""How much test loss and accuracy differ from run to run with the softmax loss.

`ModewiseClosure` takes different modes to be uncorrelated, which serves means. For a variance over
runs it is too coarse: the size of a Poisson batch moves all modes together, and the pull back mixes
them. Here the variance of a test measure R, the mean loss or the accuracy, has two parts,

$$ \mathrm{Var}\,R = \sum_t p_t^\top Q_t p_t + \mathrm{Var}\,(R - p_T^\top\delta_T). $$

The first is what is linear in the run's deviation $\delta_T$ from the mean: $p_T$ is the derivative
of the expected R in the mean, $p_t$ that after step t, found backwards through the mean clipped
gradient, and $Q_t$ the covariance that step t draws; all of them know how modes are correlated. The
rest is a few percent to a third of the variance; it is taken over draws of the head from the
closure's law, which are joint over the test rows, and the same in every call. In Hermite's series
of R the two parts are uncorrelated.

With 128 draws, of which the rest alone has an error, the standard deviation is sampled to 2 % where
the rest is a third of the variance.
Derived: here; test_everyday_agreement (against simulated runs).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxdp.losses.gaussian.softmax import CorrelatedSlope, floor_of, root_of
from jaxdp.theory.features.linear_recursion import LinearRecursion
from jaxdp.theory.features.modes import KernelModes, of_rows, product, sum_over_rows

# Of the expected loss, whose derivatives are then summed over the test rows.
_NUM_NODES = 54


def fixed_draws(modes: KernelModes, count: int) -> Float[np.ndarray, "draws coordinates outputs"]:
    """Standard normal heads, always the same, in the coordinates of the test rows."""
    width = len(modes.eigenvalues) + modes.unseen_factor.shape[1]
    shape = count, width, *modes.outputs
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def spread_over_runs(
    modes: KernelModes,
    recursion: LinearRecursion,
    slopes_of: Callable[[Array, Array], CorrelatedSlope],
    mean: Float[Array, "steps size modes outputs"],
    covariance: Float[Array, "steps size size modes outputs outputs"],
    unseen: Float[Array, "steps size size"],
    places: Int[Array, " places"],
    draws: Float[Array, "draws coordinates outputs"],
) -> Float[Array, "places 2"]:
    """Standard deviations of the test loss and of the accuracy after `places` steps.

    `slopes_of` finds the moments of the clipped slopes of the training rows from mean and
    covariance of the weights; the closure's moments are those before the first step and after each.
    """
    output, count = recursion.output, modes.num_train

    def begin(place):
        moments = mean[place, output], covariance[place, output, output]
        return _at_end(modes, *moments, unseen[place, output, output], draws)

    begun, rest = lax.map(begin, places)
    # All places and measures side by side, so that one product per step carries them back.
    begun = jnp.moveaxis(begun, 2, 0).reshape(len(modes.eigenvalues), rest.size, -1)
    starts = jnp.repeat(places, 2)[None, None, :, None]
    size = recursion.size

    def back(carry, part):
        pulls, total = carry
        index, before_mean, before_covariance = part
        fresh = jnp.zeros_like(pulls).at[output].set(begun)
        pulls = jnp.where(starts == index + 1, fresh, pulls)
        update = recursion.at(index)
        slopes = slopes_of(before_mean, before_covariance)
        flat = jnp.moveaxis(pulls, 0, 1).reshape(len(begun), -1)
        on_rows = product(modes.factor, flat).reshape(count, size, rest.size, -1)
        sampled = jnp.einsum("a,nafk->nfk", update.sampling, on_rows)
        turned = jnp.einsum("a,nafk->nfk", update.gradient, on_rows)
        own = jnp.sum(product(sampled, slopes.second_moment) * sampled, axis=(0, 2))
        joint = jnp.einsum("nfk,nk->f", sampled, slopes.mean) ** 2
        drawn = (recursion.own - recursion.joint) * own + recursion.joint * joint
        noise = jnp.tensordot(update.noise, pulls, 1)
        total += update.share * drawn / count**2 + jnp.sum(noise**2, axis=(0, 2))
        turned = product(turned, slopes.derivative).reshape(count, -1)
        moved = sum_over_rows(modes.factor, turned).reshape(begun.shape) / count
        pulls = jnp.tensordot(update.transition.T, pulls, 1).at[0].add(moved)
        return (pulls, total), None

    start = jnp.zeros((size, *begun.shape), begun.dtype), jnp.zeros(rest.size, begun.dtype)
    parts = jnp.arange(len(mean) - 1), mean[:-1, 0], covariance[:-1, 0, 0]
    (_, linear), _ = lax.scan(back, start, parts, reverse=True)
    return jnp.sqrt(linear.reshape(rest.shape) + rest)


def _at_end(modes: KernelModes, mean, covariance, unseen, draws):
    """Derivatives of each measure in the mean weights, and the variance that is not linear in them.

    What is linear in the coordinates that training never sees is in the second: they have noise of
    one variance, and nothing carries it back.
    """
    loss: Any = modes.loss
    labels, count = modes.test_labels, len(modes.test_labels)
    spread = of_rows(modes.test_factor, covariance)
    identity = jnp.eye(mean.shape[-1], dtype=mean.dtype)
    spread = spread + (unseen * modes.unseen_norms)[:, None, None] * identity
    centre = product(modes.test_factor, mean)

    def expected(centre):
        rows = centre, spread, labels
        values = loss.expected_value(*rows, num_nodes=_NUM_NODES)
        # Its derivatives need all nodes: with 54 they are 20 to 30 % off.
        shares = loss.correct_probability(*rows)
        return jnp.stack([jnp.mean(values), jnp.mean(shares)])

    slopes = jax.jacrev(expected)(centre)
    seen = product(modes.test_factor.T, slopes)
    away = product(modes.unseen_factor.T, slopes)
    width, floor = len(mean), floor_of(mean)
    trace = jnp.trace(covariance, axis1=1, axis2=2)
    root = root_of(covariance, floor * trace + jnp.finfo(mean.dtype).tiny)
    steps = jnp.einsum("jkl,djl->djk", root, draws[:, :width])
    others = jnp.sqrt(unseen) * draws[:, width:]
    logits = centre[None] + product(modes.test_factor, steps)
    logits = logits + product(modes.unseen_factor, others)
    drawn = loss.value(logits, labels[None]), loss.correct_share(logits, labels[None])
    drawn = jnp.stack([jnp.sum(each, axis=1) / count for each in drawn], axis=1)
    linear = jnp.einsum("djk,qjk->dq", steps, seen) + jnp.einsum("djk,qjk->dq", others, away)
    rest = jnp.var(drawn - linear, axis=0, ddof=1)
    return seen, rest + unseen * jnp.sum(away**2, axis=(1, 2))
