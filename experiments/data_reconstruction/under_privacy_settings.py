"""The settings of private training other than epsilon: steps, width, clip norm; and d and n."""

import numpy as np
import xarray

from experiments.data_reconstruction.private_training import (
    RELU,
    Choices,
    error_near_the_truth,
    error_of_attack,
    iterates_at,
    private_algorithm,
    strongest_combination,
)
from experiments.data_reconstruction.under_privacy_runs import (
    Config,
    key_of,
    mu_of,
    one_run,
    predicted_error,
    problem_of,
)
from jaxdp.theory import mu_at_reconstruction_error, one_step_reconstruction_error

_RECORDS = 12


def by_steps(config: Config) -> xarray.Dataset:
    shape = len(config.step_epsilons), len(config.steps), config.num_runs
    last, combined, local = (np.empty(shape) for _ in range(3))
    for number in range(config.num_runs):
        problem = problem_of(config, number)
        for row, epsilon in enumerate(config.step_epsilons):
            for column, num_steps in enumerate(config.steps):
                algorithm = private_algorithm(problem, mu_of(epsilon), num_steps, Choices())
                steps = np.unique(np.geomspace(1, num_steps, _RECORDS).round().astype(int))
                iterates = iterates_at(problem, algorithm, list(steps), key=key_of(number, 0))
                std = float(algorithm.noise_std(problem.num_train))
                together = strongest_combination(iterates, list(steps), std)
                place = row, column, number
                for found, parameters in ((last, iterates[-1]), (combined, together)):
                    found[place] = error_of_attack(
                        problem, parameters, config.attack, key=key_of(number, 1)
                    )
                local[place] = predicted_error(problem, algorithm)
    dims = ("step_epsilon", "num_steps", "run")
    named = {"last_iterate": last, "all_iterates": combined, "last_iterate_predicted": local}
    return xarray.Dataset(
        {name: (dims, runs) for name, runs in named.items()},
        {"step_epsilon": list(config.step_epsilons), "num_steps": list(config.steps)},
    )


def _one_step_error(config: Config, problem, mu: float, number: int, choices: Choices) -> tuple:
    algorithm = private_algorithm(problem, mu, 1, choices)
    parameters, *_ = one_run(problem, algorithm, number)
    error = error_of_attack(problem, parameters, config.attack, key=key_of(number, 1))
    return error, predicted_error(problem, algorithm)


def by_width(config: Config) -> xarray.Dataset:
    shape = len(config.width_epsilons), len(config.widths), config.num_runs
    error, law = np.empty(shape), np.empty(shape[:2])
    for column, width in enumerate(config.widths):
        for number in range(config.num_runs):
            problem = problem_of(config, number, width=width)
            for row, epsilon in enumerate(config.width_epsilons):
                place = row, column, number
                mu = mu_of(epsilon)
                error[place], _ = _one_step_error(config, problem, mu, number, Choices())
        for row, epsilon in enumerate(config.width_epsilons):
            law[row, column] = one_step_reconstruction_error(
                mu_of(epsilon),
                config.dim,
                config.num_samples,
                RELU,
                num_features=round(width * config.dim * config.num_samples),
            )
    dims = ("width_epsilon", "width")
    return xarray.Dataset(
        {"error_by_width": ((*dims, "run"), error), "law_by_width": (dims, law)},
        {"width_epsilon": list(config.width_epsilons), "width": list(config.widths)},
    )


def by_clip(config: Config) -> xarray.Dataset:
    shape = len(config.clip_shares), config.num_runs
    error, local = np.empty(shape), np.empty(shape)
    for number in range(config.num_runs):
        problem = problem_of(config, number)
        for row, share in enumerate(config.clip_shares):
            error[row, number], local[row, number] = _one_step_error(
                config, problem, mu_of(config.clip_epsilon), number, Choices(clip_share=share)
            )
    return xarray.Dataset(
        {
            "error_by_clip": (("clip_share", "run"), error),
            "predicted_by_clip": (("clip_share", "run"), local),
            "clip_epsilon": config.clip_epsilon,
        },
        {"clip_share": list(config.clip_shares)},
    )


def by_law(config: Config) -> xarray.Dataset:
    """The minimum near the truth, and the attack, where the law predicts given errors."""
    shape = len(config.laws), len(config.law_errors), config.num_runs
    near, error = np.empty(shape), np.empty(shape)
    for row, (dim, count) in enumerate(config.laws):
        num_features = config.width * dim * count
        mus = mu_at_reconstruction_error(
            np.array(config.law_errors), dim, count, RELU, num_features=num_features
        )
        for number in range(config.num_runs):
            problem = problem_of(config, number, dim=dim, count=count)
            for column, mu in enumerate(mus):
                algorithm = private_algorithm(problem, float(mu), 1, Choices())
                parameters, *_ = one_run(problem, algorithm, number)
                place = row, column, number
                near[place] = error_near_the_truth(problem, parameters, config.attack)
                error[place] = error_of_attack(
                    problem, parameters, config.attack, key=key_of(number, 1)
                )
    dims = ("case", "law_error", "run")
    return xarray.Dataset(
        {"near_by_law": (dims, near), "error_by_law": (dims, error)},
        {
            "case": [f"d = {dim}, n = {count}" for dim, count in config.laws],
            "law_error": list(config.law_errors),
        },
    )
