"""One step under privacy against epsilon, and what every panel of the figure is made of."""

import dataclasses
import math

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
    private_algorithm,
    sampled_problem,
    trained,
)
from jaxdp.privacy import error_lower_bound, gaussian_mu
from jaxdp.theory import last_iterate_reconstruction_errors, one_step_reconstruction_error
from jaxdp.theory.reconstruction.saturation import saturated_error


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


def problem_of(config: Config, number: int, *, width=None, dim=None, count=None):
    dim, count = dim or config.dim, count or config.num_samples
    num_features = max(round((width or config.width) * dim * count), 1)
    return sampled_problem(count, dim, num_features, key=jr.key(number))


def key_of(number: int, purpose: int) -> jax.Array:
    return jr.fold_in(jr.key(1000 + number), purpose)


def mu_of(epsilon: float) -> float:
    return math.inf if math.isinf(epsilon) else float(gaussian_mu(epsilon, DELTA))


def one_run(problem, algorithm, number: int):
    """Parameters, training error and test error of one run."""
    trajectory = trained(problem, algorithm, key=key_of(number, 0))
    assert trajectory.parameters is not None
    parameters = trajectory.parameters[0]
    gaps = problem.train_features() @ parameters - problem.train_labels
    return parameters, float(jnp.mean(gaps**2)), float(trajectory.final_risk[0])


def predicted_error(problem, algorithm) -> float:
    """The linearised prediction for these rows, through the curve that ends at chance."""
    errors = last_iterate_reconstruction_errors(problem, algorithm)
    return float(saturated_error(errors, RELU).mean())


def by_epsilon(config: Config) -> xarray.Dataset:
    """One step: attacks, law and bound; and what the model, trained longer as well, is good for."""
    names = ("error", "near", "informed", "train_error", "test_error", "local")
    found = [*(f"{name}_by_epsilon" for name in names), "long_train_error", "long_test_error"]
    axes = {"epsilon": config.epsilons, "run": config.num_runs}
    dataset = harness.empty(axes, {("epsilon", "run"): found})
    for number in range(config.num_runs):
        problem = problem_of(config, number)
        for row, epsilon in enumerate(config.epsilons):
            algorithm = private_algorithm(problem, mu_of(epsilon), 1, Choices())
            parameters, *risks = one_run(problem, algorithm, number)
            iterates = jnp.stack([jnp.zeros_like(parameters), parameters])
            errors = (
                error_of_attack(problem, parameters, config.attack, key=key_of(number, 1)),
                error_near_the_truth(problem, parameters, config.attack),
                error_of_informed_attack(
                    problem, iterates, algorithm, config.attack, key=key_of(number, 2)
                ),
                *risks,
                predicted_error(problem, algorithm),
            )
            for name, value in zip(names, errors, strict=True):
                dataset[f"{name}_by_epsilon"][row, number] = value
            algorithm = private_algorithm(problem, mu_of(epsilon), max(config.steps), Choices())
            _, train_error, test_error = one_run(problem, algorithm, number)
            dataset.long_train_error[row, number] = train_error
            dataset.long_test_error[row, number] = test_error
    mus = np.array([mu_of(epsilon) for epsilon in config.epsilons])
    size = config.dim, config.num_samples
    width = config.width * config.dim * config.num_samples
    law = {
        name: one_step_reconstruction_error(mus, *size, RELU, informed=informed, num_features=width)
        for name, informed in (("law", False), ("informed_law", True))
    }
    bounds = {
        name: [error_lower_bound(mu / 2, config.dim, num_guesses=guesses) for mu in mus]
        for name, guesses in (("bound", config.num_samples), ("informed_bound", 1))
    }
    return dataset.assign(
        {k: ("epsilon", line) for k, line in {**law, **bounds, "mu": mus}.items()}
    )
