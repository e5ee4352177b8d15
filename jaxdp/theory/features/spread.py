r"""How much the test error differs from run to run, from the moments of the Gaussian closure.

Two parts. If the coordinates were normal with the closure's moments, the test error's variance
would be that of a quadratic form, with $b = M^\top(M\mu - y)/m$, $H = M^\top M/m$,

$$ 4b^\top Sb + 2\,\mathrm{tr}(HSHS) $$

(`readout.SquaredForm`). But a run with more noise clips more, and so forgets less. The variance is
also the sum of what each step's draws add to it,

$$ \sum_t p_t^\top Q_tp_t + 4\,\mathrm{tr}(P_tQ_tP_tS'_t) + 2\,\mathrm{tr}(P_tQ_tP_tQ_t), $$

where $Q_t$ is the covariance that step t injects, $S'_t$ the one that it finds, and $p_t$, $P_t$
the derivatives of the final mean test error in the mean and in the covariance after the step:
reverse differentiation through the closure. Without clipping the sum telescopes to the first
formula; with it the derivatives see that the moments of the clipped slopes change (`feedback`).

Derived: everyday DP-SGD, section 2c; test_spread.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.linear_recursion import LinearRecursion
from jaxdp.theory.features.modes import product


class Slope(eqx.Module):
    """Derivatives of a number in the moments, one for each place that is asked about."""

    mean: Float[Array, "places size modes *outputs"]
    leading: Float[Array, "places size size rank rank"]
    others: Float[Array, "places size size others"]


def feedback(
    closure: Closure,
    recursion: LinearRecursion,
    start: Moments,
    risk: Callable[[Moments], Float[Array, ""]],
    variance: Callable[[Moments], Float[Array, ""]],
    num_steps: int,
    places: Int[Array, " places"],
) -> tuple[Float[Array, " places"], Float[Array, " places"]]:
    """The variance of the test error after some steps, with feedback and without.

    The sum over the steps knows no correlations that the closure does not keep; so what is added to
    the Gaussian's variance is its difference from the same sum without feedback.
    Memory is that of the moments of about 2 sqrt(T) steps.

    Args:
        closure, recursion: of the run.
        start: the moments at its start.
        risk: mean test error of moments.
        variance: of the test error where the coordinates are normal with these moments.
        num_steps: T, known.
        places: after how many steps; each from 1 to T.

    Returns:
        The variance with feedback, and `variance` itself.
    """
    length = max(1, round(num_steps**0.5))
    firsts = jnp.arange(-(-num_steps // length)) * length
    outputs = max(1, start.mean[0, 0].size)

    def advance(moments, index):
        def step(moments):
            new = closure.step(moments, recursion, recursion.at(index))
            return jax.tree.map(lambda after, before: after.astype(before.dtype), new, moments)

        return lax.cond(index < num_steps, step, lambda moments: moments, moments)

    def stretch(moments, first):
        def step(moments, index):
            return advance(moments, index), moments

        return lax.scan(step, moments, first + jnp.arange(length))

    def back(carry, part):
        index, before, after = part
        slope, total, gaussian = carry
        is_place = places == index + 1

        def begin():
            begun, own = _begun(is_place, jax.grad(risk)(after), after, slope, outputs)
            found = variance(after)
            return (
                begun,
                jnp.where(is_place, found - own, total),
                jnp.where(is_place, found, gaussian),
            )

        slope, total, gaussian = lax.cond(is_place.any(), begin, lambda: (slope, total, gaussian))
        forces = closure.forces(before.mean[0], before.leading[0, 0], before.others[0, 0])
        noise = closure.injected(before, forces, recursion, recursion.at(index))
        found = jax.tree.map(jnp.subtract, after, noise)
        added = jax.vmap(lambda one: _variance(one, noise, found, outputs))(slope)
        total = total + jnp.where(index < num_steps, added, 0)
        _, pull = jax.vjp(lambda moments: advance(moments, index), before)
        return (_pulled(pull, slope), total, gaussian), None

    def back_stretch(carry, part):
        first, moments = part
        end, befores = stretch(moments, first)
        afters = jax.tree.map(
            lambda parts, last: jnp.concatenate([parts[1:], last[None]]), befores, end
        )
        indices = first + jnp.arange(length)
        return lax.scan(back, carry, (indices, befores, afters), reverse=True)[0], None

    def forward(moments, first):
        return stretch(moments, first)[0], moments

    _, starts = lax.scan(forward, start, firsts)
    nothing = jax.tree.map(lambda part: jnp.zeros((len(places), *part.shape), part.dtype), start)
    slope = Slope(nothing.mean, nothing.leading, nothing.others)
    carry = slope, nothing.clipped, nothing.clipped
    (_, total, gaussian), _ = lax.scan(back_stretch, carry, (firsts, starts), reverse=True)
    return total, gaussian


def _begun(is_place, here: Moments, after: Moments, slope: Slope, outputs):
    """The slopes with those of the places that lie here, and the sum's variance there."""
    begun = _symmetric(Slope(here.mean[None], here.leading[None], here.others[None]))

    def joined(old, new):
        return jnp.where(is_place.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    one = jax.tree.map(lambda part: part[0], begun)
    nothing = jax.tree.map(jnp.zeros_like, after)
    return jax.tree.map(joined, slope, begun), _variance(one, after, nothing, outputs)


def _pulled(pull, slope: Slope) -> Slope:
    """The slopes before a step, from those after it."""

    def one(slope):
        size = slope.others.shape[0]
        nothing = jnp.zeros((size, size), slope.mean.dtype), jnp.zeros((), slope.mean.dtype)
        (found,) = pull(Moments(slope.mean, slope.leading, slope.others, *nothing))
        return Slope(found.mean, found.leading, found.others)

    return _symmetric(jax.vmap(one)(slope))


def _symmetric(slope: Slope) -> Slope:
    """With halves of the derivatives in covariances and of their transposes."""
    turned = jnp.swapaxes(jnp.swapaxes(slope.leading, -4, -3), -2, -1)
    return Slope(
        slope.mean,
        (slope.leading + turned) / 2,
        (slope.others + jnp.swapaxes(slope.others, -3, -2)) / 2,
    )


def _variance(slope: Slope, noise: Moments, found: Moments, outputs: int) -> Float[Array, ""]:
    """What an injected covariance adds to the variance of a number with these derivatives."""
    rank = noise.leading.shape[-1]
    size = noise.others.shape[0]
    mean = slope.mean.reshape(*slope.mean.shape[:2], outputs)
    # Of the leading modes, all numbers of all of them as one vector.
    leading, added, others = (
        jnp.swapaxes(part, 1, 2).reshape(size * rank, size * rank)
        for part in (slope.leading, noise.leading, found.leading)
    )
    first = mean[:, :rank].reshape(size * rank, outputs)
    linear = jnp.sum(first * product(added, first))
    turned = product(leading, added)
    squares = jnp.sum(turned * product(leading, 2 * others + added).T)
    # Of the others, one small matrix a mode.
    first = mean[:, rank:]
    linear += jnp.einsum("ajo,abj,bjo->", first, noise.others, first)
    turned = jnp.einsum("abj,bcj->acj", slope.others, noise.others)
    rest = jnp.einsum("abj,bcj->acj", slope.others, 2 * found.others + noise.others)
    squares += jnp.sum(turned * jnp.swapaxes(rest, 0, 1))
    return linear + 2 * squares / outputs
