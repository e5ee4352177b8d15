r"""Reconstruction from privately trained random features: the effect of epsilon, T, p and C.

Not a figure of DR: its attack on `DPGD`, with the law of `jaxdp.theory.reconstruction.error` and
the bound that holds for any attack. Rows are uniform on the sphere, features are ReLU, and the
choices of the training do not read the data (`private_training`).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray

from experiments import harness
from experiments.data_reconstruction.private_training import (
    DELTA,
    RELU,
    Attack,
    Choices,
    error_near_the_truth,
    error_of_attack,
    error_of_informed_attack,
    iterates_at,
    private_algorithm,
    sampled_problem,
    strongest_combination,
    trained,
)
from experiments.data_reconstruction.under_privacy_claims import checks as checks
from experiments.data_reconstruction.under_privacy_claims import plot as plot
from experiments.data_reconstruction.under_privacy_claims import summary as summary
from jaxdp.privacy import error_lower_bound, gaussian_mu
from jaxdp.theory import (
    last_iterate_reconstruction_errors,
    mu_at_reconstruction_error,
    one_step_reconstruction_error,
)
from jaxdp.theory.reconstruction.error import saturated_error

_RECORDS = 12


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes; `widths` and `width` are p over d n, `laws` are (d, n) of the last panel."""

    dim: int = 20
    num_samples: int = 5
    width: int = 20
    num_runs: int = 8
    num_starts: int = 16
    max_passes: int = 1000
    epsilons: tuple[float, ...] = (1, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    steps: tuple[int, ...] = (1, 10, 30, 100, 300)
    step_epsilons: tuple[float, ...] = (3000, 30_000, math.inf)
    widths: tuple[float, ...] = (0.5, 1, 1.5, 2, 4, 10, 20, 40)
    width_epsilons: tuple[float, ...] = (10_000, math.inf)
    clip_shares: tuple[float, ...] = (0.1, 0.5, 1, 2, 4, 8)
    clip_epsilon: float = 10_000
    laws: tuple[tuple[int, int], ...] = ((10, 5), (20, 1), (20, 5), (40, 5))
    law_errors: tuple[float, ...] = (0.03, 0.1, 0.2, 0.4, 0.8)

    smoke = harness.size(
        dim=6,
        num_samples=3,
        num_runs=5,
        num_starts=8,
        max_passes=300,
        epsilons=(10, 1000, 100_000),
        steps=(1, 300),
        step_epsilons=(10_000, math.inf),
        widths=(0.5, 20),
        clip_shares=(0.5, 8),
        laws=((6, 3),),
        law_errors=(0.03, 0.4),
    )

    @property
    def attack(self) -> Attack:
        return Attack(self.num_starts, self.max_passes)


def run(config: Config) -> xarray.Dataset:
    """Every panel's runs; run number i has the same rows and the same noise in all of them."""
    parts = [_by_epsilon, _by_steps, _by_width, _by_clip, _by_law]
    found = [part(config) for part in harness.track(parts, lambda part: part.__name__)]
    dataset = xarray.merge(found)
    dataset.attrs = {
        "delta": DELTA,
        "adjacency": "replace-one",
        "dim": config.dim,
        "num_samples": config.num_samples,
        "width": config.width,
        "choices": "learning rate 1 / (|V|_op^2 d), C = share * sqrt(p / 2): from V, d and p alone",
    }
    return dataset


def _measured(config: Config, axes: dict, names: Sequence[str], cell: Callable) -> xarray.Dataset:
    """Results of `cell(number, *values)` by name, for every run and all values of the axes."""
    dims = (*axes, "run")
    dataset = harness.empty({**axes, "run": config.num_runs}, {dims: names})
    for place in np.ndindex(dataset[names[0]].shape):
        values = (axis[at] for axis, at in zip(axes.values(), place, strict=False))
        for name, value in zip(names, cell(place[-1], *values), strict=True):
            dataset[name][place] = value
    return dataset


@functools.lru_cache(maxsize=64)
def _problem(config: Config, number: int, *, width=None, dim=None, count=None):
    dim, count = dim or config.dim, count or config.num_samples
    num_features = max(round((width or config.width) * dim * count), 1)
    return sampled_problem(count, dim, num_features, key=jr.key(number))


def _key(number: int, purpose: int) -> jax.Array:
    return jr.fold_in(jr.key(1000 + number), purpose)


def _mu(epsilon: float) -> float:
    return math.inf if math.isinf(epsilon) else float(gaussian_mu(epsilon, DELTA))


def _one_run(problem, algorithm, number: int):
    """Parameters, training error and test error of one run."""
    trajectory = trained(problem, algorithm, key=_key(number, 0))
    assert trajectory.parameters is not None
    parameters = trajectory.parameters[0]
    gaps = problem.train_features() @ parameters - problem.train_labels
    return parameters, float(jnp.mean(gaps**2)), float(trajectory.final_risk[0])


def _predicted(problem, algorithm) -> float:
    """The linearised prediction for these rows, through the curve that ends at chance."""
    errors = last_iterate_reconstruction_errors(problem, algorithm)
    return float(saturated_error(errors, RELU).mean())


def _attacked(config: Config, problem, parameters, number: int) -> float:
    return error_of_attack(problem, parameters, config.attack, key=_key(number, 1))


def _by_epsilon(config: Config) -> xarray.Dataset:
    """One step: attacks, law and bound; and the model's errors, also after longer training."""

    def cell(number: int, epsilon: float) -> tuple[float, ...]:
        problem = _problem(config, number)
        algorithm = private_algorithm(problem, _mu(epsilon), 1, Choices())
        parameters, *risks = _one_run(problem, algorithm, number)
        iterates = jnp.stack([jnp.zeros_like(parameters), parameters])
        informed = error_of_informed_attack(
            problem, iterates, algorithm, config.attack, key=_key(number, 2)
        )
        near = error_near_the_truth(problem, parameters, config.attack)
        errors = _attacked(config, problem, parameters, number), near, informed
        longer = private_algorithm(problem, _mu(epsilon), max(config.steps), Choices())
        _, *long_risks = _one_run(problem, longer, number)
        return *errors, *risks, _predicted(problem, algorithm), *long_risks

    names = ("error", "near", "informed", "train_error", "test_error", "local")
    names = (*(f"{name}_by_epsilon" for name in names), "long_train_error", "long_test_error")
    dataset = _measured(config, {"epsilon": config.epsilons}, names, cell)
    mus = np.array([_mu(epsilon) for epsilon in config.epsilons])
    dim, count = config.dim, config.num_samples
    width = config.width * dim * count
    lines = {"mu": mus}
    for prefix, is_informed, guesses in (("", False, count), ("informed_", True, 1)):
        lines[f"{prefix}law"] = one_step_reconstruction_error(
            mus, dim, count, RELU, informed=is_informed, num_features=width
        )
        bounds = [error_lower_bound(mu / 2, dim, num_guesses=guesses) for mu in mus]
        lines[f"{prefix}bound"] = np.array(bounds)
    return dataset.assign({name: ("epsilon", line) for name, line in lines.items()})


def _by_steps(config: Config) -> xarray.Dataset:
    def cell(number: int, epsilon: float, num_steps: int) -> tuple[float, ...]:
        problem = _problem(config, number)
        algorithm = private_algorithm(problem, _mu(epsilon), num_steps, Choices())
        steps = list(np.unique(np.geomspace(1, num_steps, _RECORDS).round().astype(int)))
        iterates = iterates_at(problem, algorithm, steps, key=_key(number, 0))
        std = float(algorithm.noise_std(problem.num_train))
        together = strongest_combination(iterates, steps, std)
        errors = (_attacked(config, problem, one, number) for one in (iterates[-1], together))
        return *errors, _predicted(problem, algorithm)

    axes = {"step_epsilon": config.step_epsilons, "num_steps": config.steps}
    names = ("last_iterate", "all_iterates", "last_iterate_predicted")
    return _measured(config, axes, names, cell)


def _by_width(config: Config) -> xarray.Dataset:
    def cell(number: int, epsilon: float, width: float) -> tuple[float]:
        problem = _problem(config, number, width=width)
        algorithm = private_algorithm(problem, _mu(epsilon), 1, Choices())
        parameters, *_ = _one_run(problem, algorithm, number)
        return (_attacked(config, problem, parameters, number),)

    axes = {"width_epsilon": config.width_epsilons, "width": config.widths}
    size = config.dim, config.num_samples
    law = [
        [
            one_step_reconstruction_error(
                _mu(epsilon), *size, RELU, num_features=round(width * math.prod(size))
            )
            for width in config.widths
        ]
        for epsilon in config.width_epsilons
    ]
    found = _measured(config, axes, ["error_by_width"], cell)
    return found.assign(law_by_width=(tuple(axes), np.array(law, np.float64)))


def _by_clip(config: Config) -> xarray.Dataset:
    def cell(number: int, share: float) -> tuple[float, float]:
        problem = _problem(config, number)
        mu, choices = _mu(config.clip_epsilon), Choices(clip_share=share)
        algorithm = private_algorithm(problem, mu, 1, choices)
        parameters, *_ = _one_run(problem, algorithm, number)
        return _attacked(config, problem, parameters, number), _predicted(problem, algorithm)

    names = ("error_by_clip", "predicted_by_clip")
    dataset = _measured(config, {"clip_share": config.clip_shares}, names, cell)
    return dataset.assign(clip_epsilon=config.clip_epsilon)


def _by_law(config: Config) -> xarray.Dataset:
    """The minimum near the truth, and the attack, against the error that the law predicts."""
    sizes = {f"d = {dim}, n = {count}": (dim, count) for dim, count in config.laws}

    def cell(number: int, case: str, error: float) -> tuple[float, float]:
        dim, count = sizes[case]
        problem = _problem(config, number, dim=dim, count=count)
        features = config.width * dim * count
        mu = mu_at_reconstruction_error(error, dim, count, RELU, num_features=features)
        algorithm = private_algorithm(problem, float(mu), 1, Choices())
        parameters, *_ = _one_run(problem, algorithm, number)
        near = error_near_the_truth(problem, parameters, config.attack)
        return near, _attacked(config, problem, parameters, number)

    axes = {"case": list(sizes), "law_error": config.law_errors}
    return _measured(config, axes, ("near_by_law", "error_by_law"), cell)


claims = harness.claims_of(checks)
harness.main(__name__)
