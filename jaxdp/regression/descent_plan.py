r"""The plan of a private descent: how many steps, how long, clipped where, in which coordinates.

A plan is made from public numbers and private outputs alone: n, the budget, a noisy spectrum and a
noisy scale of the labels. In the coordinates $\theta = P w$ the loss has curvatures $h_j$ along
modes j, and a step with rate $\eta$, momentum $\beta$ and clip norm $C = c\,\sigma\sqrt D$,
$D = \sum_j h_j$ being the mean of $|P x|^2$, is

$$ v \gets \beta v + m(c)\,h\,e + \xi, \quad e \gets e - \eta v, \quad
   \xi \sim N(0, (2 C \sqrt T / (n \mu))^2) $$

for the error e of a mode: T steps share $\mu^2$. Clipping slows by m(c), which for a normal
residual is $\mathrm{erf}(c/\sqrt 2)$ (AC Lemma 11). Errors, and the variance of the average over
the last half of the steps, follow from the responses of this recursion to an error at the start and
to noise at one step: no sampling error is in it, which privacy does not change, nor what clipping
does to labels that are not normal. So the largest clip whose risk is near the least one is taken.
Derived: test_bias_and_variance_of_the_average_are_those_of_the_recursion.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# The grid that is searched.
_NUM_STEPS = (5, 10, 20, 40, 80)
_RATES = (0.25, 0.5, 1.0)
# A clip that is larger is taken if its risk is at most this factor and this share of the labels'
# variance worse: labels are seldom normal, and a clipped mean of skewed ones is not their mean.
# But it must not cost more than this share of what is learnt: where that is little, so is what may
# be given away of it.
_FACTOR, _SLACK, _GAIN = 1.1, 0.003, 0.03
# How much of the labels' variance is explained is unknown: half of it, evenly over the modes.
_SIGNAL = 0.5
# What the largest curvature that is thought possible (`Spectrum.upper`) is scaled to. A descent
# diverges at 2 (1 + momentum) over its rate, so that one of more than twice as much still ends.
_TOP = 0.9


class DescentPlan(NamedTuple):
    """Settings of a private descent.

    Attributes:
        transform: P, (p, p).
        typical_norm: of P x, the root of D.
        clip: c, in standard deviations of the slope at a row of typical norm.
        is_one_pass: whether every step has rows of its own.
        predicted_risk: half the excess mean squared error over the best linear function, in units
            of the labels' variance.
        noise_std: of each weight, in units of a slope's size: what the noise of the steps makes it.
    """

    transform: Float[np.ndarray, "features features"]
    typical_norm: float
    num_steps: int
    rate: float
    momentum: float
    clip: float
    is_one_pass: bool
    predicted_risk: float
    noise_std: Float[np.ndarray, " features"]


class Curvature(NamedTuple):
    """What clipping at c leaves of a loss's mean curvature, and the clips worth trying.

    `at_the_end` is the factor of `share` that the last steps have, which forget the noise of
    others.
    """

    share: Callable[[float], float]
    clips: tuple[float, ...]
    at_the_end: float


SQUARED = Curvature(
    lambda clip: math.erf(clip / math.sqrt(2)), (0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.0), 1.0
)
# s (1 - s) is .25 at a logit of 0, .2 at one and .05 at three, which classes that are told apart
# well come to. Slopes are at most 1; half of that is typical.
LOGISTIC = Curvature(lambda clip: 0.2 * min(1.0, clip / 0.5), (0.1, 0.2, 0.35, 0.5, 0.7), 0.25)


class Spectrum(NamedTuple):
    """What is known of the second moments of the features in coordinates A x.

    Attributes:
        values, vectors: estimates of eigenvalues, and eigenvectors as columns.
        upper: what the eigenvalues are at the most.
        noise: what is left of the noise in an estimate.
        base: A.
    """

    values: Float[np.ndarray, " features"]
    vectors: Float[np.ndarray, "features features"]
    upper: Float[np.ndarray, " features"]
    noise: float
    base: Float[np.ndarray, "features features"]


def shrunk(
    moments: Float[np.ndarray, "features features"],
    noise_std: float,
    base: Float[np.ndarray, "features features"],
) -> Spectrum:
    r"""The spectrum of noisy second moments, less their noise.

    The noise has the standard deviation $\sigma$ on the diagonal, and $\sqrt 2$ times less off it.

    The noise spreads eigenvalues about their mean by $\sigma^2 (p + 1) / 2$; what is more than
    that is the data's. So the eigenvalues are drawn towards their mean by that share (Ledoit and
    Wolf, 2004, with a known noise in place of the sampling error). The mean itself has p times
    less noise. What a direction has at the most is what the noisy matrix has there: its largest
    eigenvalue is larger than that of the data, but for three deviations of the noise in one
    direction, and no more than $|A|^2$, rows being of norm at most one. A few directions may be far
    above the mean that all are drawn to.
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
    signal: float = _SIGNAL,
) -> DescentPlan:
    r"""The settings of least predicted risk, for the budget mu of all steps together.

    Args:
        dampings: $\tau$ of the coordinates $P = (\Sigma + \tau)^{-1/2}$, in units of the noise in
            an eigenvalue; infinity for $P \propto 1$.
        momenta: to choose from.
        num_outputs: k: noise is on that many columns of weights.
        signal: the share of the labels' variance that a linear function explains.
    """
    values, vectors, upper, noise, base = spectrum
    rates, clips = (part.ravel() for part in np.meshgrid(_RATES, curvature.clips))
    shares = np.array([curvature.share(clip) for clip in clips])[:, None]
    # A step of one pass needs a row.
    choices = [steps for steps in _NUM_STEPS if not is_one_pass or steps <= num_samples]
    best: dict[float, tuple] = {}
    for damping, momentum in itertools.product(dampings, momenta):
        level = values.max() if math.isinf(damping) else values + damping * noise
        damped = np.broadcast_to(level, values.shape)
        damped = damped * float((upper / damped).max()) / _TOP
        modes = values / damped
        # Momentum makes a step longer by 1 / (1 - momentum).
        rate = (rates / 2 if momentum else rates)[:, None]
        errors, echoes = _responses(shares * modes, max(_NUM_STEPS), rate, momentum)
        for num_steps in choices or [num_samples]:
            # The mean square of the errors that are averaged, at least the square of their mean:
            # with momentum they change sign, and at which curvature they cancel is not known.
            bias = np.mean(errors[num_steps // 2 : num_steps] ** 2, axis=0)
            variance = _of_the_average(echoes, num_steps)
            # In units of the labels' variance: C = clip * scale * root of D. In one pass a mean is
            # over T times fewer rows, each of which is noised once.
            std = 2 * clips * math.sqrt(modes.sum()) / (num_samples * mu)
            std = std * (num_steps if is_one_pass else math.sqrt(num_steps))
            noisy = std**2 * num_outputs * (variance @ modes)
            for place, risk in enumerate((signal * np.mean(bias, axis=1) + noisy) / 2):
                clip = float(clips[place])
                if clip not in best or risk < best[clip][0]:
                    how = num_steps, float(rate[place, 0]), momentum
                    best[clip] = float(risk), how, damped, std[place]
    least = min(found[0] for found in best.values())
    most = min(_FACTOR * least + _SLACK, least + _GAIN * (signal / 2 - least))
    clip = max(clip for clip in best if best[clip][0] <= max(most, least))
    risk, (num_steps, rate, momentum), damped, std = best[clip]
    transform = (vectors / np.sqrt(damped)) @ vectors.T @ base
    typical = math.sqrt((values / damped).sum())
    modes = curvature.share(clip) * curvature.at_the_end * values / damped
    responses = _responses(modes[None], num_steps, np.array([[rate]]), momentum)
    variance = _of_the_average(responses[1], num_steps)
    noise_std = np.linalg.norm(base.T @ vectors * std * np.sqrt(variance[0] / damped), axis=1)
    how = num_steps, rate, momentum, clip, is_one_pass
    return DescentPlan(transform, typical, *how, risk, noise_std)


def _responses(
    modes: Float[np.ndarray, "settings modes"],
    num_steps: int,
    rate: Float[np.ndarray, "settings 1"],
    momentum: float,
) -> tuple[Float[np.ndarray, "steps settings modes"], Float[np.ndarray, "steps settings modes"]]:
    """The errors after each step, for one of 1 at the start; and for noise of 1 in the first."""
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
    """The variance of the average over the last half of T steps, for noise of variance 1.

    `sums` are those of the responses to noise in the first step, from that step on.
    """
    first = num_steps // 2
    # Noise of step s, from 1, is in the iterates from max(first + 1, s) to the last.
    begun = np.arange(1, num_steps + 1)
    shares = sums[num_steps - begun + 1] - sums[np.maximum(first + 1 - begun, 0)]
    return np.sum(shares**2, axis=0) / (num_steps - first) ** 2
