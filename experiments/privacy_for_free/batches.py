"""Many settings of DP-GD on one problem at once, and its interpolator, computed cheaply."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Key

import jaxdp
from jaxdp.problems.rows.features import ReducedFeatures

CALIBRATIONS = {
    "published": jaxdp.algorithms.PublishedCalibration(),
    "exact": jaxdp.algorithms.ExactCalibration(),
}

# From this many features per row on, the kernel, summed in float32, is well enough conditioned.
_WIDE = 1.5


def noise_per_root_time(epsilon: float, delta: float, calibration: str) -> float:
    r"""$\sigma/\sqrt{\eta T}$, a constant of either calibration: sigma at $\eta T = 1$."""
    chosen = CALIBRATIONS[calibration]
    return float(chosen.noise_scale(epsilon, delta, learning_rate=1.0, num_steps=1))


def steps_for(duration: float, stability_limit: float, fewest: int) -> int:
    r"""Number of steps that keeps $\eta$ below a third of the stability limit.

    Then an unclipped step shrinks a residual to no less than a third of it, and more steps do not
    change the risk visibly.
    """
    return max(fewest, math.ceil(3 * duration / stability_limit))


@eqx.filter_jit
def final_risks(
    problem: ReducedFeatures,
    durations: Float[Array, " settings"],
    clip_norms: Float[Array, " settings"],
    noises: Float[Array, " settings"],
    *,
    num_steps: int | Array,
    key: Key[Array, ""],
    num_runs: int = 1,
) -> tuple[Float[Array, "settings runs"], Float[Array, "settings runs"]]:
    r"""Test error of the released iterate, and the share of clipped gradients.

    All settings take the same number of steps, $\eta = \tau/T$, with the same normal draws.

    Args:
        problem: the rows.
        durations: $\tau = \eta T$.
        clip_norms: C.
        noises: $\sigma/\sqrt\tau$.
        num_steps: T, traced: all values share one compiled program.
        key: key of the noise.
        num_runs: independent runs of each setting.
    """

    def one(duration, clip_norm, noise):
        sigma = noise * jnp.sqrt(duration)
        algorithm = jaxdp.DPGD(duration / num_steps, clip_norm, jnp.asarray(num_steps), sigma)
        runs = jaxdp.simulate(problem, algorithm, key=key, num_runs=num_runs, records=1)
        return runs.final_risk, runs.observables["clipped_fraction"][..., -1]

    return jax.vmap(one)(durations, clip_norms, noises)


def risks_on_grid(
    problem: ReducedFeatures,
    durations: Float[np.ndarray, " times"],
    clip_norms: Float[np.ndarray, " clips"],
    noises: Float[np.ndarray, " noises"],
    *,
    stability_limit: float,
    fewest_steps: int,
    key: Key[Array, ""],
) -> tuple[Float[np.ndarray, "times clips noises"], Float[np.ndarray, "times clips noises"]]:
    """One run of every combination, with the necessary number of steps for each duration."""
    shape = (len(clip_norms), len(noises))
    clips, levels = (grid.ravel() for grid in np.meshgrid(clip_norms, noises, indexing="ij"))
    found = []
    for duration in durations:
        steps = steps_for(duration, stability_limit, fewest_steps)
        times = jnp.full(clips.shape, duration, float)
        settings = (times, jnp.asarray(clips, float), jnp.asarray(levels, float))
        values = final_risks(problem, *settings, num_steps=jnp.asarray(steps), key=key)
        found.append([np.asarray(value).reshape(shape) for value in values])
    risks, clipped = zip(*found, strict=True)
    return np.stack(risks), np.stack(clipped)


def interpolator_risk(problem: ReducedFeatures) -> float:
    r"""Test error of $\Phi^+ Y$, as `problem.interpolator_risk()`, in a fraction of its time.

    In float64, by QR, or by substitution for triangular features, instead of an SVD. The features
    must have full rank.
    """
    train, test = problem.host_features()
    labels = np.asarray(problem.train_labels, np.float64)
    if train.shape[0] == train.shape[1] and not np.triu(train, 1).any():
        solution = scipy.linalg.solve_triangular(train, labels, lower=True)
    else:
        orthonormal, upper = np.linalg.qr(train)
        solution = scipy.linalg.solve_triangular(upper, orthonormal.T @ labels)
    return float(np.mean((test @ solution - np.asarray(problem.test_labels, np.float64)) ** 2))


class AtWidth(NamedTuple):
    """A width's problem, and the test error of its interpolator."""

    width: float
    problem: ReducedFeatures
    interpolator_risk: float

    @classmethod
    def of(cls, width: float, problem: ReducedFeatures) -> "AtWidth":
        return cls(width, problem, interpolator_risk(problem))


def at_widths(
    limit: jaxdp.RandomFeatures, widths: Sequence[float], *, key: Key[Array, ""]
) -> Iterator[AtWidth]:
    """Problems that share rows and weights: a narrow one has the first weights of a wide one.

    Args:
        limit: the rows, at infinite width.
        widths: rising; infinity is allowed.
        key: key of the weights.
    """
    finite = [int(width) for width in widths if math.isfinite(width)]
    weights = jr.normal(key, (max(finite), limit.dim)) / np.sqrt(limit.dim)
    rows = limit.num_train + limit.num_test
    wide = [width for width in finite if width > _WIDE * rows]
    for width in finite:
        if width not in wide:
            problem = _with_weights(limit, weights[:width])
            yield AtWidth.of(float(width), problem.reduced())
    yield from _cumulative(limit, weights, wide)
    if math.inf in widths:
        yield AtWidth.of(math.inf, limit.reduced())


def _cumulative(limit: jaxdp.RandomFeatures, weights, widths: Sequence[int]) -> Iterator[AtWidth]:
    rows = limit.num_train + limit.num_test
    kernel, start = np.zeros((rows, rows)), 0
    for width in widths:
        kernel += np.asarray(_with_weights(limit, weights[start:width]).joint_kernel(), np.float64)
        start = width
        reduced = ReducedFeatures.from_kernel(kernel, limit.train_labels, limit.test_labels)
        yield AtWidth.of(float(width), reduced)


def _with_weights(limit: jaxdp.RandomFeatures, weights) -> jaxdp.RandomFeatures:
    return jaxdp.RandomFeatures.from_arrays(
        limit.train_inputs,
        limit.train_labels,
        limit.test_inputs,
        limit.test_labels,
        weights,
        limit.activation,
    )
