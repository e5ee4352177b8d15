"""The runs behind the rates: learners on the torus over levels of privacy, feature counts, kernels.

A learner is tuned as an oracle: its ridge (and number of frequencies) has the least mean risk over
the runs. n is 10^9 unless said otherwise: the level of privacy alone limits learning.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.torus import Table, Torus, drawn_table, synthesised
from experiments.private_kernel_learning.torus_learners import (
    drawn_classes,
    objective_risks,
    output_risks,
    ridge_risks,
)
from experiments.statements.private_kernel_learning.lower_bounds import canonical_excess_risk
from experiments.statements.private_kernel_learning.rates import random_projection_rate
from jaxdp.kernels.release.joint_release import JointNoise
from jaxdp.theory import KernelSpectrum, ReleaseNoise, predicted_excess_risk, tuned_excess_risk

NUM_SAMPLES = 10**9
LABEL_NOISE = 0.5
# Of the logistic loss near score 0: its curvature, by which it is a squared loss.
CURVATURE = 1 / 4
SPAN = np.geomspace(0.2, 5, 11)
_Runs = Float[np.ndarray, " runs"]
_Features = Callable[[np.random.Generator], Float[np.ndarray, "points outputs"]]


class Setting(NamedTuple):
    """A torus, a level of privacy n mu, how many runs, their seed, and n."""

    torus: Torus
    level: float
    num_runs: int
    seed: int
    num_samples: int = NUM_SAMPLES


def joint_noise(level: float) -> ReleaseNoise:
    """What the certified learner adds to the averages, for features and labels within 1."""
    noise = JointNoise.calibrated(level, 1.0)
    return ReleaseNoise(noise.covariance, noise.correlation)


def ridge_runs(
    setting: Setting, features: _Features, ridges, bound: float = 1.0
) -> Float[np.ndarray, "runs ridges"]:
    """Excess risks of the certified ridge learner; features are clipped to the bound."""

    def once(rng):
        table = drawn_table(setting.torus, setting.num_samples, LABEL_NOISE, rng)
        return ridge_risks(
            setting.torus, table, features(rng), ridges, bound=bound, level=setting.level, rng=rng
        )

    return _repeated(setting, once)


def class_runs(
    setting: Setting, learner: Callable, features: _Features, ridges
) -> Float[np.ndarray, "runs ridges"]:
    """Excess logistic risks of `objective_risks` or `output_risks`."""

    def once(rng):
        table: Table = drawn_classes(setting.torus, setting.num_samples, rng)
        return learner(setting.torus, table, features(rng), ridges, level=setting.level, rng=rng)

    return _repeated(setting, once)


def squared_loss(setting: Setting, source: float, capacity: float, frequencies: Sequence[int]):
    """Each learner's runs with the squared loss, and what theory says of them."""
    torus, spectrum = setting.torus, setting.torus.spectrum()
    noise = joint_noise(setting.level)
    known = {"num_samples": NUM_SAMPLES, "label_noise": LABEL_NOISE}
    tuned = tuned_excess_risk(spectrum, noise=noise, **known)
    features = min(round(tuned.num_projections), torus.num_points // 2)
    ridges = tuned.ridge * SPAN

    def paths(rng):
        return torus.paths(features, rng)

    projection = ridge_runs(setting, paths, np.append(ridges, 2 * tuned.ridge))
    safe = predicted_excess_risk(
        spectrum, ridge=2 * tuned.ridge, num_projections=features, noise=noise, **known
    )
    theorem = random_projection_rate(source, capacity).choice(setting.level, 1.0)
    count = int(min(theorem[1], torus.num_points // 2))
    fourier = [
        best(ridge_runs(setting, lambda rng, count=count: _fourier(torus, count, rng), ridges))
        for count in frequencies
    ]
    runs = {
        "random projection": best(projection[:, :-1]),
        "Theorem 11": ridge_runs(setting, lambda rng: torus.paths(count, rng), theorem[:1])[:, 0],
        "Fourier features": min(fourier, key=np.mean),
    }
    predicted = {
        "random projection": tuned.risk.total,
        "canonical": least_canonical(spectrum, setting.level),
    }
    return runs, predicted, (projection[:, -1], safe.total)


def logistic_loss(setting: Setting, num_features: int):
    """Each learner's runs with the logistic loss, and what theory says of two of them."""
    torus, spectrum, level = setting.torus, setting.torus.spectrum(), setting.level
    everything = synthesised(np.diag(np.sqrt(spectrum.eigenvalues)))
    ridges = np.geomspace(2, 1e-2, 60) * level ** (-1 / 2) * CURVATURE

    def equivalent(ridge: float, noise: ReleaseNoise) -> float:
        risk = predicted_excess_risk(
            spectrum,
            ridge=ridge / CURVATURE,
            num_samples=NUM_SAMPLES,
            label_noise=CURVATURE**-0.5,
            noise=noise,
        )
        return CURVATURE / 2 * risk.total

    objective = [equivalent(x, ReleaseNoise(vector=2 / level / CURVATURE)) for x in ridges]
    output = [equivalent(x, ReleaseNoise(coefficients=2 / (level * x))) for x in ridges]
    near = ridges[np.argmin(objective)] * SPAN[1:-1:2]
    far = ridges[np.argmin(output)] * SPAN[1:-1:2]
    runs = {
        "random projection": class_runs(
            setting, objective_risks, lambda rng: torus.paths(num_features, rng), near
        ),
        "Fourier features": class_runs(
            setting, objective_risks, lambda rng: _fourier(torus, num_features // 2, rng), near / 2
        ),
        "no projection": class_runs(setting, objective_risks, lambda _: everything, near),
        "functional": class_runs(setting, output_risks, lambda _: everything, far),
    }
    predicted = {"no projection": min(objective), "functional": min(output)}
    return {name: best(values) for name, values in runs.items()}, predicted


def least_canonical(
    spectrum: KernelSpectrum, level: float, num_samples: float = NUM_SAMPLES
) -> float:
    """The canonical estimator's risk at its best number of terms, with the right sensitivity."""
    most = len(spectrum.eigenvalues)
    terms = np.unique(np.geomspace(1, most, 200).astype(int))
    return min(
        canonical_excess_risk(
            spectrum,
            num_terms=int(count),
            num_samples=num_samples,
            label_noise=LABEL_NOISE,
            noise=2 * count**0.5 / level,
        ).total
        for count in terms
    )


def best(runs: Float[np.ndarray, "runs ridges"]) -> _Runs:
    """The column of least mean."""
    return runs[:, runs.mean(axis=0).argmin()]


def _fourier(torus: Torus, count: int, rng: np.random.Generator):
    return torus.fourier_features(torus.fourier_counts(count, rng))


def _repeated(setting: Setting, once: Callable) -> Float[np.ndarray, "runs ridges"]:
    seeds = np.random.SeedSequence(setting.seed).spawn(setting.num_runs)
    return np.array([once(np.random.default_rng(seed)) for seed in seeds])
