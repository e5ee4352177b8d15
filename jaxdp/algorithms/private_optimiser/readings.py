"""A private optimiser as theory reads it: linear, as matrices, or Adam, as constants."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.algorithms.transformations.linear_state import AVERAGE, LinearState, linear_state
from jaxdp.algorithms.transformations.transformation import Transformation, optimiser_of
from jaxdp.core.checks import NotCoveredError, require_count, require_kind
from jaxdp.core.numerics.precision import on_host
from jaxdp.schedules import AbstractSchedule

_SHAPES = ((3, 2), (4,))
_HUGE, _TINY = 1e100, 1e-100
# For float64: an optimiser that computes or keeps its state in float32 is not recognised.
_TOLERANCE = 1e-7
# Typical sizes of random gradients, in addition to multiples of epsilon.
_SIZES = 10.0 ** np.arange(-12, 13, 4)
_EPSILONS = np.array([0.03, 0.3, 1, 3, 30])


def linear_state_of(algorithm: PrivateOptimiser) -> LinearState:
    r"""The matrices of a private optimiser whose steps are linear, an average included.

    With the row $F_\theta$ of the weight, $g_\theta$ and the share $\alpha_t$ of the new iterate,

    $$ a_{t+1} = (1 - \alpha_t)\, a_t + \alpha_t (F_\theta z_t + g_\theta\, \hat g_t). $$

    Numbers are float64 of NumPy; if the learning rate or the average is traced they are JAX arrays.
    Derived: test_linear_algorithm, against runs of `PrivateOptimiser` itself.

    Args:
        algorithm: a `PrivateOptimiser` whose optimiser `linear_state` covers.

    Returns:
        The optimiser's state, weight first; an average is the last component and the `output`.

    Raises:
        NotCoveredError: the optimiser is not linear; the message says why.
        TypeError: it is no PrivateOptimiser, or a number inside its optimiser is traced.

    Example:
        >>> import jaxdp, optax
        >>> sampler = jaxdp.privacy.FixedSizeBatches(num_records=40, batch_size=10)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 5.0, "num_steps": 20, "sampler": sampler}
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps)
        >>> jaxdp.algorithms.linear_state_of(algorithm).names
        ('weight',)
    """
    require_kind("algorithm", algorithm, PrivateOptimiser, "a PrivateOptimiser")
    found = linear_state(algorithm.transformation, int(algorithm.num_steps))
    return found if algorithm.average is None else with_average(found, algorithm.average)


def with_average(state: LinearState, average: AbstractAverage) -> LinearState:
    shares = _shares(average, state.num_steps)
    arrays = state.transitions, state.injections, state.initial, shares
    numbers: Any = jnp if any(isinstance(one, jax.Array) for one in arrays) else np
    count = max(len(state.transitions), len(shares))
    shares = numbers.asarray(shares)[:, None]
    above = numbers.concatenate([state.transitions, 0 * state.transitions[:, :, :1]], axis=2)
    kept = np.eye(state.size + 1)[-1]
    below = (1 - shares) * kept[None] + shares * above[:, 0]
    above = numbers.broadcast_to(above, (count, *above.shape[1:]))
    below = numbers.broadcast_to(below, (count, below.shape[-1]))
    moved = shares * state.injections[:, :1]
    injections = numbers.broadcast_to(state.injections, (len(moved), state.size))
    return LinearState(
        numbers.concatenate([above, below[:, None]], axis=1),
        numbers.concatenate([injections, moved], axis=1),
        numbers.concatenate([state.initial, state.initial[:1]]),
        (*state.names, AVERAGE),
        state.num_steps,
    )


def _shares(average: AbstractAverage, num_steps: int) -> np.ndarray | Array:
    """The shares of all steps, in float64; a single one if they are all equal."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(average)):
        return average.weight(jnp.arange(1, num_steps + 1), num_steps)
    with jax.ensure_compile_time_eval(), on_host():
        steps = jnp.arange(1, num_steps + 1)
        shares = np.asarray(average.weight(steps, num_steps), np.float64)
    return shares[:1] if np.all(shares == shares[0]) else shares


class AdamConstants(eqx.Module):
    r"""The constants of Adam.

    Attributes:
        b1: $\beta_1$, the decay of the mean of gradients.
        b2: $\beta_2$, the decay of the mean of their squares.
        eps: $\epsilon$, added to the root of the second mean.
        learning_rate: $\eta_t$ of each step, or one for all: float64 of NumPy, or as it is traced.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import adam_constants
        >>> print(f"{adam_constants(optax.adam(1e-3), num_steps=10).eps:.0e}")
        1e-08
    """

    b1: float = eqx.field(static=True)
    b2: float = eqx.field(static=True)
    eps: float = eqx.field(static=True)
    learning_rate: Float[Array | np.ndarray, " steps"]


def adam_constants(
    optimiser: PrivateOptimiser | Transformation | optax.GradientTransformation,
    num_steps: int | None = None,
) -> AdamConstants:
    r"""The constants of an optimiser that is Adam, found by probing it.

    Adam moves a weight by $-\eta_t\, \hat m_t / (\sqrt{\hat v_t} + \epsilon)$, with bias-corrected
    means of gradients and squares. A second gradient of zero multiplies the means by $\beta_1$ and
    $\beta_2$; constant gradients are their own means, so a huge one moves the weight by $-\eta_t$
    and a tiny one shows $\epsilon$. Then all steps are compared with Adam on random gradients of
    many sizes. Source: Kingma and Ba (2015), "Adam: a method for stochastic optimization",
    Algorithm 1.

    Args:
        optimiser: `optax.adam` with any constants and rates, or an optimiser equal to it on every
            coordinate. The learning rate of a factory may be traced; other numbers are concrete.
        num_steps: T; None for that of a private optimiser.

    Returns:
        The rates of all steps and the other constants.

    Raises:
        NotCoveredError: the optimiser is not Adam; the message says what differs.
        TypeError: it is no optimiser, or num_steps is missing.
        ValueError: num_steps is below 1.

    Example:
        >>> import optax
        >>> from jaxdp.algorithms import adam_constants
        >>> adam_constants(optax.adam(1e-3, b1=0.8), num_steps=10).b1
        0.8
    """
    if isinstance(optimiser, PrivateOptimiser):
        num_steps = int(optimiser.num_steps) if num_steps is None else num_steps
        optimiser = optimiser.transformation
    elif not isinstance(optimiser, Transformation):
        optimiser = Transformation(optimiser_of(optimiser, None))
    num_steps = require_count("num_steps", num_steps)
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(optimiser)):
        return _probed(optimiser, num_steps)
    other = optimiser.stand_in()
    found = _probed(other, num_steps)
    with jax.ensure_compile_time_eval(), on_host():
        given = np.asarray(_given_rates(other, num_steps), np.float64)
    if not _is_close(found.learning_rate, given):
        raise NotCoveredError("got a factory that changes the traced rate that it is given")
    rates = _given_rates(optimiser, num_steps)
    return AdamConstants(found.b1, found.b2, found.eps, rates)


def _given_rates(optimiser, num_steps):
    count = num_steps if isinstance(optimiser.learning_rate, AbstractSchedule) else 1
    return optimiser.rate_at(jnp.arange(count), jnp.result_type(float))


def _probed(optimiser: Transformation, num_steps: int) -> AdamConstants:
    with jax.ensure_compile_time_eval(), on_host():
        weights = jnp.zeros(1)
        try:
            state = optimiser.init(weights)
            if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(state)):
                raise NotCoveredError("got one with a traced number that is not its learning_rate=")
            if _means(state) is None:
                raise NotCoveredError("got one whose state holds no means as Adam's does")
            probes = [np.asarray(part) for part in _probes(optimiser, num_steps)]
        except NotCoveredError:
            raise
        # The optimiser is the user's, and may raise anything.
        except Exception as error:
            name = type(error).__name__
            raise NotCoveredError(
                f"got one that needs more than gradients, or whose constants are traced: {name}"
            ) from None
        decays, rates, tiny, further = probes
        if not np.all((decays >= 0) & (decays < 1)):
            raise NotCoveredError("got one whose means are not those of Adam")
        if not np.all(np.isfinite(rates)):
            raise NotCoveredError("got one that does not move by its rate under a huge gradient")
        if not rates[0]:
            raise NotCoveredError("got one whose first rate is zero, which hides its epsilon")
        # The denominator under a tiny gradient, and under one of the size of that denominator.
        least = max(_TINY * (rates[0] / tiny - 1), 0.0)
        if least <= _TINY * _TOLERANCE:
            least = 0.0
        elif not _is_close(float(further) * rates[0] - least, least):
            raise NotCoveredError("got one that adds a number inside the root, as eps_root does")
        rates = rates[:1] if np.all(np.abs(rates - rates[0]) <= 1e-12 * rates[0]) else rates
        found = AdamConstants(float(decays[0]), float(decays[1]), float(least), rates)
        if not _is_adam(optimiser, found, num_steps):
            raise NotCoveredError(_OTHER)
        return found


_OTHER = (
    "got one that does not move as Adam does on random gradients: Nesterov's step, weight decay, "
    "clipped gradients, a rounded state and masks are not covered"
)


def _means(state: Any) -> Any:
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, optax.ScaleByAdamState))
    found = [leaf for leaf in leaves if isinstance(leaf, optax.ScaleByAdamState)]
    return found[0] if len(found) == 1 else None


@eqx.filter_jit
def _probes(optimiser: Transformation, num_steps: int) -> tuple[Array, Array, Array, Array]:
    """Both decays, the rates of all steps, a tiny step, an inverse denominator over eta."""
    weights = jnp.zeros(1)
    start = optimiser.init(weights)

    def first(size):
        return optimiser.update(size * jnp.ones(1), start, weights)

    _, state = first(1.0)
    _, faded = optimiser.update(jnp.zeros(1), state, weights)
    means = [_means(one) for one in (state, faded)]
    before, after = (jnp.concatenate([one.mu, one.nu]) for one in means)

    def step(state, _):
        update, state = optimiser.update(_HUGE * jnp.ones(1), state, weights)
        return state, -update[0]

    rates = lax.scan(step, start, None, num_steps)[1]
    tiny = -first(_TINY)[0][0]
    # If nothing is added inside the root, this gradient doubles the denominator.
    size = _TINY * (rates[0] / tiny - 1)
    return after / before, rates, tiny, size / -first(size)[0][0]


def _is_adam(optimiser: Transformation, found: AdamConstants, num_steps: int) -> bool:
    sizes = np.concatenate([_SIZES, found.eps * _EPSILONS[: 5 if found.eps else 0]])
    rates = np.broadcast_to(found.learning_rate, num_steps)
    for shape in _SHAPES:
        draw = np.random.default_rng(0).standard_normal
        ones = (1,) * len(shape)
        # Some steps are a thousand times smaller than others.
        gradients = draw((num_steps, len(sizes), *shape)) * 10.0 ** draw((num_steps, 1, *ones))
        gradients *= sizes.reshape(-1, *ones)
        moved = np.asarray(_moves(optimiser, jnp.asarray(gradients), jnp.asarray(draw(shape))))
        if not _is_close(moved, _moves_of_adam(found, rates, gradients), np.abs(rates).max()):
            return False
    return True


@eqx.filter_jit
def _moves(optimiser, gradients, weights):
    runs = jnp.broadcast_to(weights, gradients.shape[1:])

    def step(state, gradient):
        move = jax.vmap(lambda one, state: optimiser.update(one, state, weights))
        updates, state = move(gradient, state)
        return state, updates

    return lax.scan(step, jax.vmap(optimiser.init)(runs), gradients)[1]


def _moves_of_adam(found, rates, gradients):
    first, second, moves = 0.0, 0.0, []
    for step, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), 1):
        first = found.b1 * first + (1 - found.b1) * gradient
        second = found.b2 * second + (1 - found.b2) * gradient**2
        root = np.sqrt(second / (1 - found.b2**step))
        moves.append(-rate * first / (1 - found.b1**step) / (root + found.eps))
    return np.stack(moves)


def _is_close(one, other, size=0.0):
    return bool(np.all(np.abs(one - other) <= _TOLERANCE * (np.abs(other) + size)))
