r"""What the proof of PF Theorem 1 bounds, along $n = d^{5/4}$, and (4.3) beside tuned runs.

At infinite width, on rows of the sphere (Assumption 1), in the middle of the theorem's range: how
far the interpolator moves when a row is left out (Lemma 6.5), the kernel's spectrum (Lemma C.3),
how far gradient flow stopped at $\tau$ of (4.3) is from the interpolator (6.11), what the noise of
(4.3) adds (6.10), and the test error of DP-GD with those hyper-parameters and with tuned ones.
Tuning is by the mean *test* error, which is not privatised.
"""

import dataclasses
import math

import jax.random as jr
import numpy as np
import xarray

import jaxdp
from experiments import harness
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    interpolator_risk,
    noise_per_root_time,
    risks_on_grid,
)
from experiments.privacy_for_free.theorem_rates_checks import checks as checks
from experiments.privacy_for_free.theorem_rates_checks import summary as summary
from experiments.privacy_for_free.theorem_rates_drawing import plot as plot
from experiments.statements.privacy_for_free.leave_one_out import leave_one_out
from experiments.statements.privacy_for_free.theorem_scaling import theorem_scaling
from jaxdp.problems import ReducedFeatures, sphere_inputs

# Of the closed forms that do not see the number of steps.
_STEPS = 100


@dataclasses.dataclass(frozen=True)
class Config:
    r"""Sizes: n is $d^{5/4}$, delta 1/n.

    Attributes:
        times, clips: the grid of $\tau p/d$ and $C/\sqrt p$ over which each size is tuned.
        num_seeds: data sets of each size, with one run of each setting.
    """

    dims: tuple[int, ...] = (10, 20, 40, 80, 160)
    exponent: float = 1.25
    num_test: int = 500
    epsilon: float = 4.0
    times: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    fewest_steps: int = 12
    num_seeds: int = 4
    seed: int = 8

    smoke = harness.size(
        dims=(10, 20, 40), num_test=200, times=(2.0, 8.0), clips=(0.01, 0.1), num_seeds=3
    )

    def num_train(self, dim: int) -> int:
        """n."""
        return round(dim**self.exponent)


def run(config: Config) -> xarray.Dataset:
    """Every size and seed."""
    trial = ("dim", "seed")
    measured = ["row_shift", "above", "below", "least", "distance", "noise", "free_noise"]
    measured += ["exit_probability", "interpolator", "theorem_risk"]
    axes = {
        "dim": config.dims,
        "seed": range(config.num_seeds),
        "time": config.times,
        "clip_scale": config.clips,
        "calibration": CALIBRATIONS,
    }
    dataset = harness.empty(axes, {trial: measured, tuple(axes): ["risk"]})
    cells = [(dim, seed) for dim in config.dims for seed in range(config.num_seeds)]
    for dim, seed in harness.track(cells, "d = {0[0]}, seed {0[1]}".format):
        row_key, key = jr.split(jr.fold_in(jr.fold_in(jr.key(config.seed), dim), seed))
        sizes = config.num_train(dim), config.num_test, dim, None
        problem = jaxdp.RandomFeatures.sample(*sizes, inputs=sphere_inputs, key=row_key).reduced()
        at = {"dim": dim, "seed": seed}
        for name, value in _measured(config, problem, dim).items():
            dataset[name].loc[at] = value
        dataset.risk.loc[at], dataset.theorem_risk.loc[at] = _risks(config, problem, dim, key)
    facts = {"epsilon": config.epsilon, "exponent": config.exponent}
    num_train = [config.num_train(dim) for dim in config.dims]
    return dataset.assign_coords(num_train=("dim", num_train)).assign_attrs(facts)


def _measured(config: Config, problem: ReducedFeatures, dim: int) -> dict[str, float]:
    """What needs no run, in units that see no p."""
    num_train = problem.num_train
    algorithm = theorem_scaling(
        config.epsilon,
        1 / num_train,
        num_train=num_train,
        dim=dim,
        num_features=None,
        num_steps=_STEPS,
    )
    theory = jaxdp.OrnsteinUhlenbeck()
    last = {
        name: float(values[-1])
        for name, values in jaxdp.predict(
            problem, algorithm, theory=theory, records=1
        ).observables.items()
    }
    gap = problem.spectral_gap(dim)
    test = np.concatenate([np.asarray(problem.test_factor), np.asarray(problem.unseen_factor)], 1)
    free = float(algorithm.diffusion(num_train)) ** 2 * float(algorithm.duration)
    return {
        "row_shift": float(leave_one_out(problem).shift.max()),
        "above": gap.above,
        "below": gap.below,
        "least": float(problem.kernel_eigenvalues()[-1]),
        "distance": last["interpolator_distance"],
        "noise": last["variance"],
        "free_noise": free * float(np.mean(np.sum(test**2, axis=1))),
        "exit_probability": last["exit_probability"],
        "interpolator": interpolator_risk(problem),
    }


def _risks(config: Config, problem: ReducedFeatures, dim: int, key):
    """Test errors over the grid, (times, clips, calibrations), and that of (4.3)."""
    square = math.log(problem.num_train) ** 2
    delta = 1 / problem.num_train
    noises = [noise_per_root_time(config.epsilon, delta, name) for name in CALIBRATIONS]
    risks, _ = risks_on_grid(
        problem,
        np.asarray([*config.times, square]) * dim,
        np.asarray([*config.clips, square]),
        np.asarray(noises),
        stability_limit=problem.stability_limit(),
        fewest_steps=config.fewest_steps,
        key=key,
    )
    return risks[:-1, :-1], risks[-1, -1, list(CALIBRATIONS).index("published")]


claims = harness.claims_of(checks)
harness.main(__name__)
