r"""DP-GD without clipping, solved: in continuous time, with finite steps, and without noise.

With $\lambda_j$ the eigenvalues of K, $\tau = \eta k$ and $q_j = 1 - 2\eta\lambda_j/n$, coordinate
j of the kernel's eigenbasis has mean and variance

$$ \frac{(W^\top y)_j}{\lambda_j}(1 - e^{-2\lambda_j\tau/n}), \qquad
   \Sigma^2\,\frac{n}{4\lambda_j}(1 - e^{-4\lambda_j\tau/n}) $$

in the Ornstein-Uhlenbeck process PF (6.1), and after k finite steps the same with $1 - q_j^k$ and
$\eta(1 - q_j^{2k})/(1 - q_j^2)$. Source: PF (6.4), (6.5), (6.88) and the variance of its process;
Derived (finite steps): test_unclipped.

**Exits** from the no-clip set of PF (6.2). Residual i is a Gaussian process of mean $m_i(t)$ and
covariance

$$ R_i(s, t) = \sum_j W_{ij}^2\,\frac{\Sigma_j^2}{2\kappa_j}
   \bigl(e^{-\kappa_j(t-s)} - e^{-\kappa_j(t+s)}\bigr), \qquad s \le t, $$

and a path leaves the set when one of them first reaches $\pm a_i$, $a_i = C/(2\|\varphi_i\|)$. The
rate at one side is taken from the tangent approximation

$$ p(t) = \Bigl(-h'(t) + h(t)\,\frac{\partial_s R(s, t)|_{s=t^-}}{R(t, t)}\Bigr)\,
   \frac{e^{-h^2/2R}}{\sqrt{2\pi R}}, \qquad h = a \mp m, $$

exact for Brownian motion and a straight boundary and for rare exits. The probability is 1 -
exp(-sum) over the samples, as if they were independent, and at least the largest probability of one
sample's being outside at one time. Source: Durbin (1985), equation (3), with Broadie, Glasserman
and Kou (1997) for discrete times. Derived (the sum): test_exit_probability compares it with
simulation.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD, warn_if_unstable
from jaxdp.core.arrays import float_dtype
from jaxdp.core.numerics.precision import product
from jaxdp.core.trajectory import trajectory_of
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.base import AbstractTheory, require_dp_gd
from jaxdp.theory.features.modes import KernelModes, kernel_modes, record_times

# Least |q| in the interpolation between steps, for a mode that one step removes.
_LEAST_FACTOR = 1e-3
# -zeta(1/2)/sqrt(2 pi): at discrete times a boundary acts as if this many steps further out.
DISCRETE_SHIFT = 0.5826
_MIN_NODES = 256
_NODES_PER_RECORD = 4


class AbstractUnclipped(AbstractTheory):
    """A theory of DP-GD on features without clipping."""

    label: eqx.AbstractClassVar[str]  # the theory's name in tables and legends

    @abc.abstractmethod
    def _recorded(self, modes: KernelModes, algorithm: DPGD, limits, at_record, time) -> tuple:
        """Bias, variance, exit probability and distance to the interpolator at the records."""

    def read(self, problem, algorithm) -> tuple[AbstractFeatureProblem, DPGD]:
        require_dp_gd(problem, algorithm)
        return problem, algorithm

    def solve(self, reading, records):
        problem, algorithm = reading
        modes = kernel_modes(problem)
        at_record, time = record_times(algorithm, records)
        limits = modes.slope_limits(algorithm) / modes.loss.curvature_bound
        found = self._recorded(modes, algorithm, limits, at_record, time)
        names = "bias", "variance", "exit_probability", "interpolator_distance"
        risk = found[0] + found[1]
        return trajectory_of(
            modes.is_valid & algorithm.is_valid,
            time=time,
            risk=risk,
            final_risk=risk[-1],
            observables=dict(zip(names, found, strict=True)),
            label=self.label,
        )


class OrnsteinUhlenbeck(AbstractUnclipped):
    r"""Predict the test error of DP-GD without clipping for small steps, the diffusion PF (6.1).

    In closed form, and valid if no sample is clipped: "exit_probability" is the probability that a
    path leaves the no-clip set PF (6.2), as in (6.3). If clipping is common, use `GaussianClosure`.

    The path is gradient flow plus noise of mean zero (6.4). `variance` is the noise's part of the
    test error, (6.10); `interpolator_distance` is the flow's distance from the interpolator, the
    mean over test rows of $(\varphi(x)^\top(\hat\theta(t) - \theta^*))^2$ of (6.11). Their sum is
    the mean of $R(x)^2$ in (6.118), which bounds the excess risk. The distance leaves out modes
    with eigenvalues of at most n eps of the largest: an ill-conditioned kernel needs float64.
    Memory: 10 n^2 + 300 n numbers.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.OrnsteinUhlenbeck())
        >>> sorted(predicted.observables)
        ['bias', 'exit_probability', 'interpolator_distance', 'variance']
    """

    label: ClassVar[str] = "OU"

    def _recorded(self, modes, algorithm, limits, at_record, time):
        return _diffusion(modes, limits, algorithm.diffusion(modes.num_train), time)


class GradientFlow(AbstractUnclipped):
    """Predict the test error of gradient flow: no noise, no clipping, small steps.

    `exit_probability` is 0 until the flow leaves the no-clip set PF (6.2), then 1.

    Example:
        >>> from jaxdp.theory import GradientFlow
        >>> GradientFlow().label  # `OrnsteinUhlenbeck` shows a prediction
        'gradient flow'
    """

    label: ClassVar[str] = "gradient flow"

    def _recorded(self, modes, algorithm, limits, at_record, time):
        return _diffusion(modes, limits, jnp.zeros_like(algorithm.learning_rate), time)


class UnclippedRecursion(AbstractUnclipped):
    """Predict the test error of DP-GD without clipping after each of its T steps, exactly.

    `exit_probability` is the probability that a path would have been clipped. Steps beyond the
    stability limit diverge.

    Example:
        >>> from jaxdp.theory import UnclippedRecursion
        >>> UnclippedRecursion().label  # `OrnsteinUhlenbeck` shows a prediction
        'unclipped recursion'
    """

    label: ClassVar[str] = "unclipped recursion"

    def _recorded(self, modes, algorithm, limits, at_record, time):
        # The level of the line that calls `predict`.
        warn_if_unstable(algorithm, modes.stability_limit, stacklevel=7)
        rate, noise_std = algorithm.learning_rate, algorithm.noise_std(modes.num_train)
        return _finite_steps(modes, limits, rate, noise_std, at_record, time)


@eqx.filter_jit
def _diffusion(modes: KernelModes, limits, diffusion, time):
    dtype = float_dtype(modes, limits, diffusion, time)
    time = time.astype(dtype)
    rates = modes.loss.curvature_bound * modes.eigenvalues / modes.num_train
    one = jnp.ones_like(rates)
    process = Relaxation(rates, one, diffusion**2 * one)
    gain = decay_area(rates[None], time[:, None])
    variance = diffusion**2 * decay_area(2 * rates[None], time[:, None])
    found = _risk_and_exit(modes, gain, variance, diffusion**2 * time, process, limits, time)
    return *found, _distance(modes, jnp.exp(-rates[None] * time[:, None]))


@eqx.filter_jit
def _finite_steps(modes: KernelModes, limits, rate, noise_std, at_record, time):
    dtype = float_dtype(modes, limits, rate, noise_std)
    time, steps = time.astype(dtype), at_record.astype(dtype)[:, None]
    loss = modes.loss.curvature_bound * rate * modes.eigenvalues / modes.num_train  # 1 - q
    is_odd = at_record[:, None] % 2 == 1
    gain = rate * _geometric(loss[None], steps, is_odd)
    # 1 - q^2 = loss (2 - loss), and q^2 is never negative.
    square = loss * (2 - loss)
    variance = noise_std**2 * _geometric(square[None], steps, jnp.zeros((), bool))
    # Between whole steps each mode is interpolated by a continuous process.
    factor = jnp.maximum(jnp.abs(1 - loss), _LEAST_FACTOR)
    log_factor = jnp.where(factor > _LEAST_FACTOR, _log_size(loss), jnp.log(_LEAST_FACTOR))
    is_null = loss < 1e-6
    pull_factor = jnp.where(is_null, 1 + loss / 2, -log_factor / jnp.where(is_null, 1, loss))
    is_edge = jnp.abs(2 - loss) < 1e-6
    noise = jnp.where(is_edge, 1, 2 * pull_factor / jnp.where(is_edge, 1, 2 - loss))
    process = Relaxation(-log_factor / rate, pull_factor, noise_std**2 / rate * noise)
    limits = limits + DISCRETE_SHIFT * noise_std * modes.feature_norms
    unseen = noise_std**2 * steps[:, 0]
    found = _risk_and_exit(modes, gain, variance, unseen, process, limits, time)
    left = jnp.exp(jnp.where(steps > 0, steps * _log_size(loss)[None], 0))
    return *found, _distance(modes, jnp.where(is_odd & (loss[None] > 1), -left, left))


def _risk_and_exit(modes: KernelModes, gain, variance, unseen, process, limits, time):
    """Bias, variance and exit probability; each mode's mean is gain curvature pull / n."""
    bias = modes.bias(modes.loss.curvature_bound * gain * modes.pull[None] / modes.num_train)
    seen = product(variance, jnp.mean(modes.test_factor**2, axis=0))
    exits = exit_probability(modes, process, limits.astype(time.dtype), time)
    return bias, seen + jnp.mean(modes.unseen_norms) * unseen, exits


def _distance(modes: KernelModes, left):
    """Mean squared distance from the interpolator's predictions, a share `left` of the start's."""
    values = modes.eigenvalues
    least = values[0] * values.shape[0] * jnp.finfo(values.dtype).eps
    solution = jnp.where(values > least, modes.pull / jnp.where(values > least, values, 1), 0)
    gap = product(left * solution[None], modes.test_factor.T)
    return jnp.mean(gap**2, axis=1)


def _log_size(loss):
    """log|1 - loss|, accurate near 0 and near 2."""
    return jnp.log1p(jnp.where(loss < 1, -loss, loss - 2))


def _geometric(loss, steps, is_odd):
    """1 + q + ... + q^(steps - 1) for q = 1 - loss, accurate near q = 1 and for negative q."""
    is_null = jnp.abs(loss) * jnp.maximum(steps, 1) < 1e-6
    log_size = _log_size(loss)
    # No steps give 0, also at q = 0, whose logarithm is infinite.
    power_less_one = jnp.expm1(jnp.where(steps > 0, steps * log_size, 0))
    is_flipped = is_odd & (loss > 1)
    complement = jnp.where(is_flipped, 2 + power_less_one, -power_less_one)
    total = complement / jnp.where(is_null, 1, loss)
    return jnp.where(is_null, steps * (1 - (steps - 1) * loss / 2), total)


class Relaxation(eqx.Module):
    r"""The unclipped process as one Ornstein-Uhlenbeck process per mode.

    The mean coordinates are $g_j(t) (W^\top y)_j$ with $g_j' = (2/n)\,\beta_j e^{-\kappa_j t}$.
    """

    rate: Float[Array, " modes"]  # $\kappa_j$; may be negative
    pull_factor: Float[Array, " modes"]  # $\beta_j$, 1 in continuous time
    noise: Float[Array, " modes"]  # $\Sigma_j^2$ per unit of time


def decay_area(rate, time):
    r"""$\int_0^t e^{-\kappa s}\,ds$, also at a rate of zero and below."""
    exponent = rate * time
    is_small = jnp.abs(exponent) < 1e-6
    ratio = -jnp.expm1(-exponent) / jnp.where(is_small, 1, exponent)
    return time * jnp.where(is_small, 1 - exponent / 2, ratio)


def exit_probability(
    modes: KernelModes,
    process: Relaxation,
    limits: Float[Array, " train"],
    time: Float[Array, " records"],
) -> Float[Array, " records"]:
    """Probability that some residual has left $(-a_i, a_i)$ by each record."""
    starts_outside = jnp.any(jnp.abs(modes.train_labels) >= limits)
    per_record = max(_NODES_PER_RECORD, -(-_MIN_NODES // (time.shape[0] - 1)))
    nodes, weights = (part / 2 for part in np.polynomial.legendre.leggauss(per_record))
    squares = modes.factor**2
    # Axes are (times, modes), and (times, train) after projection.
    rate, pull_factor, noise = (
        each[None] for each in (process.rate, process.pull_factor, process.noise)
    )
    pull = modes.loss.curvature_bound * modes.pull[None] / modes.num_train

    def interval(carry, ends):
        total, outside = carry
        start, end = ends
        # The end is included: `outside` is evaluated there.
        at = start + (end - start) * jnp.append(jnp.asarray(nodes + 0.5, time.dtype), 1)
        decay = jnp.exp(-rate * at[:, None])
        gain = pull_factor * decay_area(rate, at[:, None])
        mean = product(gain * pull, modes.factor.T) - modes.train_labels[None]
        slope = product(pull_factor * decay * pull, modes.factor.T)
        variance = product(noise * decay_area(2 * rate, at[:, None]), squares.T)
        mixing = product(noise * (1 + decay**2) / 2, squares.T)
        rates, now = jnp.zeros(len(at), time.dtype), jnp.zeros((), time.dtype)
        for side in (1, -1):
            gap = limits[None] - side * mean
            rates += jnp.sum(_crossing_rate(gap, side * slope, variance, mixing), axis=1)
            now = jnp.maximum(now, jnp.max(_outside(gap, variance)))
        total += (end - start) * jnp.sum(jnp.asarray(weights, time.dtype) * rates[:-1])
        outside = jnp.maximum(outside, now)
        return (total, outside), jnp.maximum(-jnp.expm1(-total), outside)

    zero = jnp.zeros((), time.dtype)
    _, later = lax.scan(interval, (zero, zero), (time[:-1], time[1:]))
    probability = jnp.append(zero, later)
    return jnp.where(starts_outside | ~jnp.isfinite(probability), 1, probability)


def _crossing_rate(gap, slope, variance, mixing):
    """Durbin's p(t) at one side; the gap shrinks at the rate `slope`."""
    is_random = (variance > 0) & (gap > 0) & jnp.isfinite(gap)
    safe = jnp.where(is_random, variance, 1)
    gap = jnp.where(is_random, gap, 1)
    density = jnp.exp(-(gap**2) / (2 * safe)) / jnp.sqrt(2 * jnp.pi * safe)
    rate = jnp.maximum(slope + gap * mixing / safe, 0)
    # 0 if the density underflows, even if the rate overflows.
    return jnp.where(is_random & (density > 0), rate * density, 0)


def _outside(gap, variance):
    is_random = variance > 0
    beyond = ndtr(-gap / jnp.sqrt(jnp.where(is_random, variance, 1)))
    return jnp.where(is_random, beyond, (gap <= 0).astype(beyond.dtype))
