"""The settings of private training other than epsilon: steps, width, clip norm; and d and n."""

import numpy as np
import xarray

from experiments import harness
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
    axes = {"step_epsilon": config.step_epsilons, "num_steps": config.steps, "run": config.num_runs}
    names = ["last_iterate", "all_iterates", "last_iterate_predicted"]
    dataset = harness.empty(axes, {tuple(axes): names})
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
                for name, parameters in zip(names, (iterates[-1], together), strict=False):
                    dataset[name][place] = error_of_attack(
                        problem, parameters, config.attack, key=key_of(number, 1)
                    )
                dataset.last_iterate_predicted[place] = predicted_error(problem, algorithm)
    return dataset


def _one_step_error(config: Config, problem, mu: float, number: int, choices: Choices) -> tuple:
    algorithm = private_algorithm(problem, mu, 1, choices)
    parameters, *_ = one_run(problem, algorithm, number)
    error = error_of_attack(problem, parameters, config.attack, key=key_of(number, 1))
    return error, predicted_error(problem, algorithm)


def by_width(config: Config) -> xarray.Dataset:
    cell = ("width_epsilon", "width")
    dataset = harness.empty(
        {"width_epsilon": config.width_epsilons, "width": config.widths, "run": config.num_runs},
        {(*cell, "run"): ["error_by_width"], cell: ["law_by_width"]},
    )
    for column, width in enumerate(config.widths):
        for number in range(config.num_runs):
            problem = problem_of(config, number, width=width)
            for row, epsilon in enumerate(config.width_epsilons):
                error, _ = _one_step_error(config, problem, mu_of(epsilon), number, Choices())
                dataset.error_by_width[row, column, number] = error
        for row, epsilon in enumerate(config.width_epsilons):
            dataset.law_by_width[row, column] = one_step_reconstruction_error(
                mu_of(epsilon),
                config.dim,
                config.num_samples,
                RELU,
                num_features=round(width * config.dim * config.num_samples),
            )
    return dataset


def by_clip(config: Config) -> xarray.Dataset:
    axes = {"clip_share": config.clip_shares, "run": config.num_runs}
    dataset = harness.empty(axes, {tuple(axes): ["error_by_clip", "predicted_by_clip"]})
    for number in range(config.num_runs):
        problem = problem_of(config, number)
        for row, share in enumerate(config.clip_shares):
            error, predicted = _one_step_error(
                config, problem, mu_of(config.clip_epsilon), number, Choices(clip_share=share)
            )
            dataset.error_by_clip[row, number] = error
            dataset.predicted_by_clip[row, number] = predicted
    return dataset.assign(clip_epsilon=config.clip_epsilon)


def by_law(config: Config) -> xarray.Dataset:
    """The minimum near the truth, and the attack, where the law predicts given errors."""
    cases = [f"d = {dim}, n = {count}" for dim, count in config.laws]
    axes = {"case": cases, "law_error": config.law_errors, "run": config.num_runs}
    dataset = harness.empty(axes, {tuple(axes): ["near_by_law", "error_by_law"]})
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
                dataset.near_by_law[place] = error_near_the_truth(
                    problem, parameters, config.attack
                )
                dataset.error_by_law[place] = error_of_attack(
                    problem, parameters, config.attack, key=key_of(number, 1)
                )
    return dataset
