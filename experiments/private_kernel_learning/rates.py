r"""How the excess risk of private kernel learning falls with privacy: PK's theorems on the torus.

x-axes are $n\mu$, n times the mu of the Gaussian noise, for $n\epsilon$: at a given delta the two
differ by a factor. n is 10^9, so that only privacy matters, except in one part, in which n itself
varies, without privacy and at a fixed mu. Every learner is tuned as an oracle would, unless the
rule of Theorem 11 is named. Theory is `predicted_excess_risk`; published exponents are those of
`random_projection_rate`, sharper ones those of `filtered_noise_rate`.
"""

import dataclasses

import numpy as np
import xarray

from experiments import harness
from experiments.private_kernel_learning import rates_runs
from experiments.private_kernel_learning.rates_claims import checks as checks
from experiments.private_kernel_learning.rates_claims import summary as summary
from experiments.private_kernel_learning.rates_drawing import plot as plot
from experiments.private_kernel_learning.rates_runs import Setting
from experiments.private_kernel_learning.torus import Torus

SQUARED = ("random projection", "Theorem 11", "Fourier features")
LOGISTIC = ("random projection", "Fourier features", "no projection", "functional")


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes; each part has its own grid, and all but the one over n have the same number of runs.

    Attributes:
        samples: n, without privacy.
        budget_samples: n at a fixed mu, `budget_mu`.
        num_sample_runs: number of runs for each of the two.
    """

    capacity: float = 0.5
    sources: tuple[float, ...] = (0.55, 0.95)
    num_points: int = 2048
    levels: tuple[float, ...] = (300, 750, 1900, 4800, 12000, 30000)
    frequencies: tuple[int, ...] = (8, 32, 128, 400)
    logistic_points: int = 256
    logistic_features: int = 200
    logistic_levels: tuple[float, ...] = (1e3, 3e3, 1e4, 3e4, 1e5)
    feature_level: float = 3000.0
    counts: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512)
    rough_capacity: float = 0.3
    rough_source: float = 0.55
    powers: tuple[float, ...] = (1.0, 0.8, 0.6, 0.4)
    power_levels: tuple[float, ...] = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
    num_power_runs: int = 2
    dim_points: tuple[int, ...] = (16, 64, 256, 1024, 4096, 16384)
    samples: tuple[int, ...] = (100, 400, 1600, 6400, 25600)
    budget_mu: float = 1.0
    budget_samples: tuple[int, ...] = (400, 1200, 3600, 10800)
    num_sample_runs: int = 48
    num_runs: int = 16
    seed: int = 0

    smoke = harness.size(
        num_points=512,
        levels=(300, 1000, 3300),
        frequencies=(8, 64),
        logistic_points=128,
        logistic_features=64,
        logistic_levels=(1e3, 1e4),
        feature_level=1000.0,
        counts=(8, 32, 128),
        powers=(1.0, 0.6),
        power_levels=(1e3, 1e5, 1e7),
        num_power_runs=1,
        dim_points=(16, 64, 256),
        samples=(100, 400, 1600),
        budget_samples=(400, 1600),
        num_sample_runs=16,
        num_runs=8,
    )


def run(config: Config) -> xarray.Dataset:
    """Runs and predictions of every part."""
    makers = (_squared, _logistic, _features, _powers, _dims, _samples)
    return xarray.merge([make(config) for make in makers]).assign_attrs(
        num_samples=rates_runs.NUM_SAMPLES,
        capacity=config.capacity,
        rough_capacity=config.rough_capacity,
        rough_source=config.rough_source,
        feature_level=config.feature_level,
        budget_mu=config.budget_mu,
    )


def _cells(config: Config, levels: tuple[float, ...], points: int, seed: int, name: str):
    """The setting of each source and level, with the source."""
    cells = [(source, level) for source in config.sources for level in levels]
    for number, (source, level) in enumerate(harness.track(cells, f"{name} {{}}".format)):
        torus = Torus.power_law(config.capacity, source, points)
        yield source, Setting(torus, level, config.num_runs, config.seed + seed + number)


def _squared(config: Config) -> xarray.Dataset:
    cells = _cells(config, config.levels, config.num_points, 0, "squared loss")
    more = config.capacity, config.frequencies
    found = [rates_runs.squared_loss(setting, source, *more) for source, setting in cells]
    shape = len(config.sources), len(config.levels)
    runs = np.array([[risks[name] for name in SQUARED] for risks, _, _ in found])
    names = list(found[0][1])
    predicted = np.array([[risks[name] for name in names] for _, risks, _ in found])
    safe, safe_predicted = (np.array([at[i] for _, _, at in found]) for i in (0, 1))
    dims = ("source", "level")
    return harness.dataset(
        {"source": config.sources, "level": config.levels, "learner": SQUARED, "formula": names},
        {
            (*dims, "learner", "run"): {"squared": runs.reshape(*shape, 3, -1)},
            (*dims, "formula"): {"squared_predicted": predicted.reshape(*shape, -1)},
            (*dims, "run"): {"outside": safe.reshape(*shape, -1)},
            dims: {"outside_predicted": safe_predicted.reshape(shape)},
        },
    )


def _logistic(config: Config) -> xarray.Dataset:
    levels = config.logistic_levels
    cells = _cells(config, levels, config.logistic_points, 1000, "logistic loss")
    found = [rates_runs.logistic_loss(one, config.logistic_features) for _, one in cells]
    shape = len(config.sources), len(levels)
    runs = np.array([[risks[name] for name in LOGISTIC] for risks, _ in found])
    names = list(found[0][1])
    predicted = np.array([[risks[name] for name in names] for _, risks in found])
    dims = ("source", "logistic_level")
    axes = {"source": config.sources, "logistic_level": levels}
    return harness.dataset(
        {**axes, "objective": LOGISTIC, "quadratic": names},
        {
            (*dims, "objective", "run"): {"logistic": runs.reshape(*shape, len(LOGISTIC), -1)},
            (*dims, "quadratic"): {"logistic_predicted": predicted.reshape(*shape, -1)},
        },
    )


def _features(config: Config) -> xarray.Dataset:
    source = config.sources[0]
    torus = Torus.power_law(config.capacity, source, config.num_points // 2)
    setting = Setting(torus, config.feature_level, config.num_runs, config.seed + 2000)
    runs = rates_runs.by_features(setting, source, config.counts)
    squared, logistic, predicted, bounds = runs
    return harness.dataset(
        {"loss": ["squared", "logistic"], "count": config.counts},
        {
            ("loss", "count", "run"): {"by_count": np.stack([squared, logistic])},
            "count": {"count_predicted": predicted, "count_bound": bounds},
        },
    )


def _powers(config: Config) -> xarray.Dataset:
    torus = Torus.power_law(config.rough_capacity, config.rough_source, 2 * config.num_points)
    spectrum = torus.spectrum()
    few = config.power_levels[: config.num_power_runs]
    runs = np.full((len(config.powers), len(config.power_levels), config.num_runs), np.nan)
    for i, power in enumerate(config.powers):
        for j, level in enumerate(few):
            setting = Setting(torus, level, config.num_runs, config.seed + 3000 + j)
            runs[i, j] = rates_runs.power_runs(setting, power)
    predicted = [
        [rates_runs.predicted_by_power(torus, level, power) for level in config.power_levels]
        for power in config.powers
    ]
    canonical = [rates_runs.least_canonical(spectrum, x, np.inf) for x in config.power_levels]
    weights = (0.0, 1.1 * config.rough_capacity)
    known = [
        [rates_runs.predicted_in_known_basis(torus, x, weight) for x in config.power_levels]
        for weight in weights
    ]
    dims = ("power", "power_level")
    return harness.dataset(
        {
            "power": config.powers,
            "power_level": config.power_levels,
            "noisy": ["C and u", "u alone"],
            "weight": weights,
        },
        {
            ("weight", "power_level"): {"known_basis": known},
            (*dims, "run"): {"by_power": runs},
            (*dims, "noisy"): {"power_predicted": np.array(predicted)},
            "power_level": {"power_canonical": canonical},
        },
    )


def _dims(config: Config) -> xarray.Dataset:
    few = Torus.power_law(config.capacity, config.sources[0], config.dim_points[0])
    setting = Setting(few, config.feature_level, config.num_runs, config.seed + 4000)
    found = rates_runs.by_dim(setting, config.capacity, config.dim_points, 512)
    projected, predicted, whole, whole_predicted = found
    return harness.dataset(
        {"linear": ["projected", "unprojected"], "dim": [x - 1 for x in config.dim_points]},
        {
            ("linear", "dim", "run"): {"by_dim": np.stack([projected, whole])},
            ("linear", "dim"): {"dim_predicted": np.stack([predicted, whole_predicted])},
        },
    )


def _samples(config: Config) -> xarray.Dataset:
    found: dict[str, list] = {"samples": [], "budget_samples": []}
    for number, source in enumerate(harness.track(config.sources, "exponents of n, r = {}".format)):
        torus = Torus.power_law(config.capacity, source, config.num_points // 2)
        seed = config.seed + 5000 + 100 * number
        for place, count in enumerate(config.samples):
            setting = Setting(torus, np.inf, config.num_sample_runs, seed + place, count)
            risks = rates_runs.without_privacy(setting, source, config.capacity)
            found["samples"].append(risks)
        for place, count in enumerate(config.budget_samples):
            level = count * config.budget_mu
            setting = Setting(torus, level, config.num_sample_runs, seed + 50 + place, count)
            found["budget_samples"].append(rates_runs.at_fixed_budget(setting))
    parts = {}
    for axis, name in (("samples", "by_samples"), ("budget_samples", "by_budget")):
        shape = len(config.sources), len(getattr(config, axis))
        runs, predicted = (np.array([cell[place] for cell in found[axis]]) for place in (0, 1))
        parts[("source", axis, "sample_run")] = {name: runs.reshape(*shape, -1)}
        parts[("source", axis)] = {f"{name}_predicted": predicted.reshape(shape)}
    axes = {"source": config.sources, "samples": config.samples}
    return harness.dataset(axes | {"budget_samples": config.budget_samples}, parts)


claims = harness.claims_of(checks)
harness.main(__name__)
