"""Beyond the theorems: how many features, a rougher kernel (beta < 1), and the dimension."""

from collections.abc import Sequence

import numpy as np

from experiments.private_kernel_learning.rates_runs import (
    CURVATURE,
    LABEL_NOISE,
    NUM_SAMPLES,
    Setting,
    best,
    class_runs,
    joint_noise,
    ridge_runs,
)
from experiments.private_kernel_learning.torus import Torus, synthesised
from experiments.private_kernel_learning.torus_learners import objective_risks
from jaxdp.theory import (
    KernelSpectrum,
    ReleaseNoise,
    effective_dimension,
    predicted_excess_risk,
    tuned_excess_risk,
)

_RIDGES = np.geomspace(1e-4, 1, 60)
_MOST_FEATURES = 600
_KNOWN = {"num_samples": NUM_SAMPLES, "label_noise": LABEL_NOISE}


def by_features(setting: Setting, source: float, counts: Sequence[int]):
    """Risk against M, ridge tuned: both losses' runs, what is predicted, what Lemma 14 bounds."""
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
    """Tuned, for the certified release, and where the second moment is known and u alone noisy."""
    spectrum = torus.spectrum(power)
    whole = tuned_excess_risk(spectrum, noise=joint_noise(level)).risk.total
    alone = ReleaseNoise(vector=2 / level)
    ridges = np.geomspace(1e-3, 1e2, 60) / level**0.5
    return whole, min(
        predicted_excess_risk(spectrum, ridge=ridge, noise=alone).total for ridge in ridges
    )


def predicted_in_known_basis(torus: Torus, level: float, power: float) -> float:
    """The certified release of the first d eigenfunctions, weighted by mu^power; all tuned.

    A known basis may be cut off, and what is lost no longer depends on the ridge. A flat weight
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
