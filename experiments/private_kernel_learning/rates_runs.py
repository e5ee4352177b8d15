"""The runs behind the rates: learners on the torus over levels of privacy, feature counts, kernels.

A learner is tuned as an oracle: its ridge (and number of frequencies) has the least mean risk over
the runs. n is 10^9 unless said otherwise: the level of privacy alone limits learning.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.torus import (
    Table,
    Torus,
    drawn_classes,
    drawn_table,
    objective_risks,
    output_risks,
    ridge_risks,
    synthesised,
)
from experiments.statements.private_kernel_learning.lower_bounds import canonical_excess_risk
from experiments.statements.private_kernel_learning.rates import random_projection_rate
from jaxdp.kernels.release.joint_release import JointNoise
from jaxdp.theory import (
    KernelSpectrum,
    ReleaseNoise,
    effective_dimension,
    predicted_excess_risk,
    tuned_excess_risk,
)

NUM_SAMPLES = 10**9
LABEL_NOISE = 0.5
# Of the logistic loss near score 0: its curvature, by which it is a squared loss.
CURVATURE = 1 / 4
SPAN = np.geomspace(0.2, 5, 11)
_Runs = Float[np.ndarray, " runs"]
_Features = Callable[[np.random.Generator], Float[np.ndarray, "points outputs"]]
_RIDGES = np.geomspace(1e-4, 1, 60)
_MOST_FEATURES = 600
_KNOWN = {"num_samples": NUM_SAMPLES, "label_noise": LABEL_NOISE}
# Rows of norm near 1 are hardly ever longer: without privacy nothing has to be clipped.
_UNCLIPPED = 4.0
_SAMPLE_RIDGES = np.geomspace(5, 1e-2, 60)


class Setting(NamedTuple):
    """A torus, a level of privacy n mu, how many runs, their seed, and n."""

    torus: Torus
    level: float
    num_runs: int
    seed: int
    num_samples: int = NUM_SAMPLES


def joint_noise(level: float) -> ReleaseNoise:
    """The certified learner's noise on the averages, for features and labels within 1."""
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
    """Each learner's runs with the squared loss, and the theory of them."""
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
    """Each learner's runs with the logistic loss, and the theory of two of them."""
    torus, spectrum, level = setting.torus, setting.torus.spectrum(), setting.level
    everything = synthesised(np.diag(np.sqrt(spectrum.eigenvalues)))
    ridges = np.geomspace(2, 1e-2, 60) * level ** (-1 / 2) * CURVATURE

    def equivalent(ridge: float, noise: ReleaseNoise) -> float:
        known = {"num_samples": NUM_SAMPLES, "label_noise": CURVATURE**-0.5, "noise": noise}
        risk = predicted_excess_risk(spectrum, ridge=ridge / CURVATURE, **known)
        return CURVATURE / 2 * risk.total

    objective = [equivalent(x, ReleaseNoise(vector=2 / level / CURVATURE)) for x in ridges]
    output = [equivalent(x, ReleaseNoise(coefficients=2 / (level * x))) for x in ridges]
    near = ridges[np.argmin(objective)] * SPAN[1:-1:2]
    far = ridges[np.argmin(output)] * SPAN[1:-1:2]
    waves = num_features // 2
    learners = {
        "random projection": (objective_risks, lambda rng: torus.paths(num_features, rng), near),
        "Fourier features": (objective_risks, lambda rng: _fourier(torus, waves, rng), near / 2),
        "no projection": (objective_risks, lambda _: everything, near),
        "functional": (output_risks, lambda _: everything, far),
    }
    runs = {name: class_runs(setting, *learner) for name, learner in learners.items()}
    predicted = {"no projection": min(objective), "functional": min(output)}
    return {name: best(values) for name, values in runs.items()}, predicted


def least_canonical(
    spectrum: KernelSpectrum, level: float, num_samples: float = NUM_SAMPLES
) -> float:
    """The canonical estimator's risk at its best number of terms, with the right sensitivity."""
    most = len(spectrum.eigenvalues)
    terms = map(int, np.unique(np.geomspace(1, most, 200).astype(int)))
    known = {"num_samples": num_samples, "label_noise": LABEL_NOISE}
    return min(
        canonical_excess_risk(spectrum, num_terms=n, noise=2 * n**0.5 / level, **known).total
        for n in terms
    )


def best(runs: Float[np.ndarray, "runs ridges"]) -> _Runs:
    """The column of least mean."""
    return runs[:, runs.mean(axis=0).argmin()]


def _fourier(torus: Torus, count: int, rng: np.random.Generator):
    return torus.fourier_features(torus.fourier_counts(count, rng))


def _repeated(setting: Setting, once: Callable) -> Float[np.ndarray, "runs ridges"]:
    seeds = np.random.SeedSequence(setting.seed).spawn(setting.num_runs)
    return np.array([once(np.random.default_rng(seed)) for seed in seeds])


def by_features(setting: Setting, source: float, counts: Sequence[int]):
    """Risk against M, ridge tuned: both losses' runs, the prediction, and Lemma 14's bound."""
    torus, spectrum = setting.torus, setting.torus.spectrum()
    squared, logistic, predicted, bounds = [], [], [], []
    for count in counts:
        risks = _over_ridges(spectrum, setting.level, num_projections=count)
        ridges = _RIDGES[np.argmin(risks)] * np.geomspace(0.2, 4, 9)

        def paths(rng, count=count):
            return torus.paths(count, rng)

        squared.append(best(ridge_runs(setting, paths, ridges)))
        logistic.append(best(class_runs(setting, objective_risks, paths, ridges * CURVATURE / 2)))
        predicted.append(min(risks))
        bounds.append(min(norm_bound(spectrum, source, setting.level, count, x) for x in _RIDGES))
    return np.array(squared), np.array(logistic), np.array(predicted), np.array(bounds)


def norm_bound(
    spectrum: KernelSpectrum, source: float, level: float, count: float, ridge: float
) -> float:
    r"""$\lambda^{2r} + \lambda N/M + M/(\lambda(n\epsilon)^2)$. Source: PK Lemmas 13 and 14.

    Constants are 1 and n is infinite.
    """
    dim = float(effective_dimension(spectrum.eigenvalues, ridge))
    return ridge ** (2 * source) + ridge * dim / count + count / (ridge * level**2)


def power_runs(setting: Setting, power: float):
    """Risk of the learner whose kernel has the eigenvalues mu^power; M from theory."""
    torus = setting.torus
    tuned = tuned_excess_risk(torus.spectrum(power), noise=joint_noise(setting.level), **_KNOWN)
    count = min(round(tuned.num_projections), _MOST_FEATURES)
    ridges = tuned.ridge * np.geomspace(0.2, 3, 9)
    return best(ridge_runs(setting, lambda rng: torus.paths(count, rng, power), ridges))


def predicted_by_power(torus: Torus, level: float, power: float) -> tuple[float, float]:
    """Tuned risks of the certified release, and with a known second moment and only u noisy."""
    spectrum = torus.spectrum(power)
    whole = tuned_excess_risk(spectrum, noise=joint_noise(level)).risk.total
    alone = ReleaseNoise(vector=2 / level)
    ridges = np.geomspace(1e-3, 1e2, 60) / level**0.5
    return whole, min(
        predicted_excess_risk(spectrum, ridge=ridge, noise=alone).total for ridge in ridges
    )


def predicted_in_known_basis(torus: Torus, level: float, power: float) -> float:
    """The certified release of the first d eigenfunctions, weighted by mu^power; all tuned.

    A known basis may be cut off, and then the loss no longer depends on the ridge. A flat weight
    (power 0) gives u the noise of the canonical estimator, but makes the coefficients large, which
    multiply the noise on C.
    """
    spectrum, weights = torus.spectrum(), torus.spectrum(power).eigenvalues
    found = []
    for half in np.unique(np.geomspace(1, len(torus.eigenvalues) // 4, 24).astype(int)):
        count = 2 * int(half) + 1
        kept = np.where(np.arange(len(weights)) < count, weights, 0.0)
        known = KernelSpectrum(kept / kept.sum(), spectrum.squared_target)
        ridges = np.geomspace(1e-7, 10, 24) * known.eigenvalues[count - 1]
        noise = joint_noise(level)
        found += [
            predicted_excess_risk(known, ridge=ridge, num_outputs=count, noise=noise).total
            for ridge in ridges
        ]
    return min(found)


def by_dim(setting: Setting, capacity: float, points: Sequence[int], most_outputs: int):
    r"""The linear kernel on $x = (\sqrt{\mu_l}\phi_l)_{l<d}$, |x| = 1: random projection, and none.

    The target is the same function of the first coordinates at every d. Without projection the
    d-by-d second moment is released; it is run up to `most_outputs` and predicted beyond.
    """
    few = Torus.power_law(capacity, 0.5, points[0])
    projected, predicted, whole, whole_predicted = [], [], [], []
    for count in points:
        torus = _embedded(few, capacity, count)
        spectrum, here = torus.spectrum(), setting._replace(torus=torus)
        tuned = tuned_excess_risk(spectrum, noise=joint_noise(setting.level), **_KNOWN)
        features = round(tuned.num_projections)

        def paths(rng, torus=torus, features=features):
            return torus.paths(features, rng)

        projected.append(best(ridge_runs(here, paths, tuned.ridge * np.geomspace(0.3, 3, 7))))
        predicted.append(tuned.risk.total)
        risks = _over_ridges(spectrum, setting.level, num_outputs=count - 1)
        whole_predicted.append(min(risks))
        whole.append(np.full(setting.num_runs, np.nan))
        if count <= most_outputs:
            everything = synthesised(np.diag(np.sqrt(spectrum.eigenvalues)))
            ridges = _RIDGES[np.argmin(risks)] * np.geomspace(0.2, 3, 7)
            whole[-1] = best(ridge_runs(here, lambda _, rows=everything: rows, ridges))
    return tuple(map(np.array, (projected, predicted, whole, whole_predicted)))


def _embedded(few: Torus, capacity: float, num_points: int) -> Torus:
    """The target of a small torus on a larger one."""
    large = Torus.power_law(capacity, 0.5, num_points)
    coefficients = np.zeros(num_points - 1)
    coefficients[: len(few.coefficients)] = few.coefficients
    return large._replace(
        coefficients=coefficients, values=synthesised(coefficients[:, None])[:, 0]
    )


def _over_ridges(spectrum: KernelSpectrum, level: float, **sizes) -> list[float]:
    noise = joint_noise(level)
    return [
        predicted_excess_risk(spectrum, ridge=ridge, noise=noise, **sizes, **_KNOWN).total
        for ridge in _RIDGES
    ]


def without_privacy(
    setting: Setting, source: float, capacity: float
) -> tuple[Float[np.ndarray, " runs"], float]:
    """Runs and the predicted risk without noise, at Theorem 11's M for n (constants 1)."""
    rate, num_samples = random_projection_rate(source, capacity), setting.num_samples
    assert rate.ridge is not None
    assert rate.projections is not None
    count = math.ceil(num_samples**rate.projections.samples)
    ridges = _SAMPLE_RIDGES * num_samples**-rate.ridge.samples
    known = {"num_projections": count, "num_samples": num_samples, "label_noise": LABEL_NOISE}
    spectrum = setting.torus.spectrum()
    predicted = [predicted_excess_risk(spectrum, ridge=x, **known).total for x in ridges]
    near = ridges[np.argmin(predicted)] * SPAN
    paths = lambda rng: setting.torus.paths(count, rng)  # noqa: E731
    runs = ridge_runs(setting._replace(level=math.inf), paths, near, _UNCLIPPED)
    return best(runs), min(predicted)


def at_fixed_budget(setting: Setting) -> tuple[Float[np.ndarray, " runs"], float]:
    """The same of the private learner, at the M and ridge of the least predicted risk."""
    known = {"num_samples": setting.num_samples, "label_noise": LABEL_NOISE}
    noise = joint_noise(setting.level)
    tuned = tuned_excess_risk(setting.torus.spectrum(), noise=noise, **known)
    count = min(round(tuned.num_projections), setting.torus.num_points // 2)
    runs = ridge_runs(setting, lambda rng: setting.torus.paths(count, rng), tuned.ridge * SPAN)
    return best(runs), tuned.risk.total
