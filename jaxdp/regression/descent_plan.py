r"""The plan of a private descent: number and size of steps, clip norm and coordinates.

A plan uses public numbers and private outputs alone. In coordinates $\theta = P w$ the loss has
curvatures $h_j$ along modes j, and the error e of a mode follows, with rate $\eta$, momentum
$\beta$ and clip norm $C = c\,\sigma\sqrt D$, where $D = \sum_j h_j$ is the mean of $|P x|^2$ and T
steps share $\mu^2$,

$$ v \gets \beta v + m(c)\,h\,e + \xi, \quad e \gets e - \eta v, \quad
   \xi \sim N(0, (2 C \sqrt T / (n \mu))^2). $$

Clipping slows by m(c), which is $\mathrm{erf}(c/\sqrt 2)$ for a normal residual (AC Lemma 11).
Errors, and the variance of the average over the last half of the steps, follow from the responses
to an initial error and to the noise of one step. Left out are the sampling error and the bias of
clipping labels that are not normal: so the plan has the largest clip whose risk is near the least
one. Derived: test_bias_and_variance_of_the_average_are_those_of_the_recursion.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_NUM_STEPS = (5, 10, 20, 40, 80)  # the grid of the search
_RATES = (0.25, 0.5, 1.0)
# A larger clip is chosen, against the bias from skewed labels, if its risk is worse by at most this
# factor and share of the labels' variance, and by at most this share of what is learnt.
_FACTOR, _SLACK, _GAIN = 1.1, 0.003, 0.03
SIGNAL = 0.5  # assumed explained share of the labels' variance, spread evenly over the modes
_SURE = 0.55  # share of the curvature of classes that is left when predictions are sure
_ABOVE = 1.5  # largest curvature of a direction over the mean one, for rates
_TOP = 0.9  # scaled largest possible curvature; descents diverge only beyond twice that


class DescentPlan(NamedTuple):
    """Settings of a private descent."""

    transform: Float[np.ndarray, "features features"]  # P
    typical_norm: float  # of P x, the root of D
    num_steps: int
    rate: float
    momentum: float
    clip: float  # c, in standard deviations of the slope at a row of typical norm
    is_one_pass: bool  # whether every step has its own rows
    # Half the excess mean squared error over the best linear function, over the labels' variance.
    predicted_risk: float
    values: Float[np.ndarray, " modes"]  # mean squares of the features along the axes
    units: Float[np.ndarray, " modes"]  # lengths in P x of these axes

    @property
    def largest_mode(self) -> float:
        """The largest mean square of P x in a direction."""
        return float((self.values * self.units**2).max())


class Curvature(NamedTuple):
    """Share of a loss's mean curvature that clipping at c leaves, and the clips worth trying."""

    share: Callable[[float], float]
    clips: tuple[float, ...]
    top: float = 1.0  # the largest curvature, against which rates are chosen


def normal_law(clip: float) -> tuple[float, float]:
    """The share of normal residuals within a clip, and the mean square of the clipped ones."""
    inside = math.erf(clip / math.sqrt(2))
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return inside, inside - 2 * clip * density + clip**2 * (1 - inside)


SQUARED = Curvature(lambda clip: normal_law(clip)[0], (0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.0))


def of_classes(variance: float) -> Curvature:
    """The curvature of bounded slopes of classes, for the mean variance of a row's own class.

    At a share p of the second class the variance is p (1 - p). It falls as predictions get sure.
    """
    # w p (1 - p) with the weight w = 1 / (2 max(p, 1 - p)) of the slopes, written by the variance.
    first = variance / (1 + math.sqrt(max(0.0, 1 - 4 * variance)))
    share = _SURE * first
    return Curvature(lambda clip: share * min(1.0, clip / 0.5), (0.5, 0.7), _ABOVE * first)


class Spectrum(NamedTuple):
    """The known second moments of the features in coordinates A x."""

    values: Float[np.ndarray, " features"]  # estimated eigenvalues
    vectors: Float[np.ndarray, "features features"]  # eigenvectors as columns
    upper: Float[np.ndarray, " features"]  # upper bounds of the eigenvalues
    noise: float  # remaining noise in an estimate
    base: Float[np.ndarray, "modes features"]  # A


def shrunk(
    moments: Float[np.ndarray, "features features"],
    noise_std: float,
    base: Float[np.ndarray, "features features"],
) -> Spectrum:
    r"""The spectrum of noisy second moments, without their noise.

    The noise has standard deviation $\sigma$ on the diagonal and $\sigma/\sqrt 2$ off it. It
    spreads eigenvalues about their mean by $\sigma^2 (p + 1) / 2$; the rest of the spread is the
    data's, and they shrink towards their mean by that share (Ledoit and Wolf, 2004, with a known
    noise). Upper bounds are the noisy eigenvalues plus three standard deviations in one direction,
    at most $|A|^2$ for rows of norm at most one.
    """
    size = len(moments)
    raw, vectors = np.linalg.eigh(moments)
    mean = max(float(raw.mean()), 0.1 / size)
    spread = float(np.mean((raw - raw.mean()) ** 2))
    kept = max(0.0, 1 - noise_std**2 * (size + 1) / 2 / max(spread, 1e-300))
    values = np.maximum(mean + kept * (raw - raw.mean()), 0.0)
    noise = kept * noise_std * math.sqrt(size) + 1e-4 * mean
    upper = np.minimum(raw + 3 * noise_std, np.linalg.norm(base, 2) ** 2)
    return Spectrum(values, vectors, np.maximum(upper, values), noise, base)


def planned(
    spectrum: Spectrum,
    *,
    num_samples: int,
    mu: float,
    curvature: Curvature,
    dampings: tuple[float, ...],
    momenta: tuple[float, ...],
    num_outputs: int = 1,
    is_one_pass: bool = False,
    signal: float = SIGNAL,
) -> DescentPlan:
    r"""Return the settings of least predicted risk, for the budget mu of all steps together.

    `dampings` are choices of $\tau$ in $P = (\Sigma + \tau)^{-1/2}$, in units of the noise in an
    eigenvalue (infinity: $P \propto 1$), `momenta` of the momentum; noise is on `num_outputs`
    columns of weights; a linear function explains the share `signal` of the labels' variance.
    """
    values, vectors, upper, noise, base = spectrum
    rates, clips = (part.ravel() for part in np.meshgrid(_RATES, curvature.clips))
    shares = np.array([curvature.share(clip) for clip in clips])[:, None]
    choices = [steps for steps in _NUM_STEPS if not is_one_pass or steps <= num_samples]
    best: dict[float, tuple] = {}
    for damping, momentum in itertools.product(dampings, momenta):
        level = values.max() if math.isinf(damping) else values + damping * noise
        damped = np.broadcast_to(level, values.shape)
        damped = damped * float((upper / damped).max()) / _TOP
        modes = values / damped
        # Momentum makes a step longer by 1 / (1 - momentum).
        rate = (rates / (2 if momentum else 1) / curvature.top)[:, None]
        errors, echoes = _responses(shares * modes, max(_NUM_STEPS), rate, momentum)
        for num_steps in choices or [num_samples]:
            # The mean square, at least the squared mean, of the averaged errors: with momentum
            # these change sign, and cancel at unknown curvatures.
            bias = np.mean(errors[num_steps // 2 : num_steps] ** 2, axis=0)
            variance = _of_the_average(echoes, num_steps)
            # C = clip * scale * root of D, in units of the labels' variance. In one pass a mean
            # has T times fewer rows, and each row one noise.
            std = 2 * clips * math.sqrt(modes.sum()) / (num_samples * mu)
            std = std * (num_steps if is_one_pass else math.sqrt(num_steps))
            noisy = std**2 * num_outputs * (variance @ modes)
            for place, risk in enumerate((signal * np.mean(bias, axis=1) + noisy) / 2):
                clip = float(clips[place])
                if clip not in best or risk < best[clip][0]:
                    how = num_steps, float(rate[place, 0]), momentum
                    best[clip] = float(risk), how, damped, std[place]
    least = min(found[0] for found in best.values())
    most = min(_FACTOR * least + _SLACK, least + _GAIN * (max(signal, SIGNAL) / 2 - least))
    clip = max(clip for clip in best if best[clip][0] <= max(most, least))
    risk, (num_steps, rate, momentum), damped, std = best[clip]
    transform = (vectors / np.sqrt(damped)).T @ base
    typical = math.sqrt((values / damped).sum())
    how = num_steps, rate, momentum, clip, is_one_pass
    return DescentPlan(transform, typical, *how, risk, values, damped**-0.5)


def errors_and_echoes(
    plan: DescentPlan, modes: Float[np.ndarray, " modes"]
) -> tuple[Float[np.ndarray, " modes"], Float[np.ndarray, "steps modes"]]:
    """The rest of an initial error in the average, and its response to each step's noise."""
    first = plan.num_steps // 2
    errors, echoes = _responses(modes[None], plan.num_steps, np.array([[plan.rate]]), plan.momentum)
    shares = _shares_of_the_average(echoes, plan.num_steps)
    return np.mean(errors[first:, 0], axis=0), shares[:, 0]


def variance_of_an_iterate(
    plan: DescentPlan, modes: Float[np.ndarray, " modes"]
) -> Float[np.ndarray, " modes"]:
    """The variance of the last iterate, for noise of variance 1 in each step."""
    _, sums = _responses(modes[None], plan.num_steps, np.array([[plan.rate]]), plan.momentum)
    return np.sum(np.diff(sums[:, 0], axis=0) ** 2, axis=0)


def _responses(
    modes: Float[np.ndarray, "settings modes"],
    num_steps: int,
    rate: Float[np.ndarray, "settings 1"],
    momentum: float,
) -> tuple[Float[np.ndarray, "steps settings modes"], Float[np.ndarray, "steps settings modes"]]:
    """The errors after each step, for an initial error of 1; and for noise of 1 in the first."""
    error, speed = np.ones_like(modes), np.zeros_like(modes)
    echo, echo_speed = np.zeros_like(modes), np.zeros_like(modes)
    errors, echoes = [], [echo]
    for step in range(num_steps):
        speed = momentum * speed + modes * error
        error = error - rate * speed
        errors.append(error)
        echo_speed = momentum * echo_speed + modes * echo + (step == 0)
        echo = echo - rate * echo_speed
        echoes.append(echo)
    return np.array(errors), np.cumsum(echoes, axis=0)


def _of_the_average(
    sums: Float[np.ndarray, "steps settings modes"], num_steps: int
) -> Float[np.ndarray, "settings modes"]:
    """The variance of the average, for noise of variance 1, by cumulative sums of responses."""
    return np.sum(_shares_of_the_average(sums, num_steps) ** 2, axis=0)


def _shares_of_the_average(
    sums: Float[np.ndarray, "steps settings modes"], num_steps: int
) -> Float[np.ndarray, "steps settings modes"]:
    """The response of the average to noise of 1 in each step."""
    first = num_steps // 2
    # Noise of step s, from 1, is in the iterates from max(first + 1, s) to the last.
    begun = np.arange(1, num_steps + 1)
    shares = sums[num_steps - begun + 1] - sums[np.maximum(first + 1 - begun, 0)]
    return shares / (num_steps - first)
