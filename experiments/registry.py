"""Every figure and benchmark: one line each. A new one is a module and a line here."""

import importlib
import pathlib
from types import ModuleType
from typing import NamedTuple


class Entry(NamedTuple):
    """A module with Config, run, checks, claims, summary and plot.

    Attributes:
        paper: its folder.
        name: name of the module, and of the files of its result.
        shows: its subject, in one line.
        paper_size: size with `--paper`; None if the default is the paper's size, or the paper has
            nothing of the kind.
    """

    paper: str
    name: str
    shows: str
    paper_size: str | None = None

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return f"experiments.{self.paper}.{self.name}"

    @property
    def file(self) -> pathlib.Path:
        """The saved result, in the folder of results."""
        return pathlib.Path(self.paper, f"{self.name}.nc")

    def load(self) -> ModuleType:
        """The module, imported now."""
        return importlib.import_module(self.module)


_AC, _PF, _PK, _DR, _STATEMENTS, _EVERYDAY, _TABLES, _FORECAST, _NETWORKS, _SPEED = (
    "aggressive_clipping",
    "privacy_for_free",
    "private_kernel_learning",
    "data_reconstruction",
    "statements",
    "everyday_dp_sgd",
    "private_regression",
    "forecast",
    "private_training",
    "benchmarks",
)

FIGURES = (
    Entry(_AC, "fig01_clipped_moments", "the two factors through which clipping enters the theory"),
    Entry(_AC, "fig02_risk_curves", "simulated risk, the coupled ODE and its bounds over time"),
    Entry(_AC, "fig03_clip_and_rate", "the released risk over clip and learning rate"),
    Entry(_AC, "fig04_schedules", "schedules against each other as n grows"),
    Entry(_AC, "constant_clip", "a constant clip against clips that grow with ln n"),
    Entry(_AC, "small_gamma", "the exponents of Theorems 6 and 7"),
    Entry(_AC, "power_law_spectra", "the risk's exponents where eigenvalues are power laws"),
    Entry(_AC, "real_tables", "the theory on real tables and on Gaussian rows like them"),
    Entry(_PF, "fig01_mnist_width", "accuracy on MNIST against width", "50,000 records"),
    Entry(_PF, "fig02_mnist_samples", "accuracy on MNIST against samples", "50,000 records"),
    Entry(_PF, "fig03_random_features", "random features of any width under DP-GD"),
    Entry(_PF, "fig04_mnist_hyperparameters", "time and clip norm on MNIST", "50,000 records"),
    Entry(_PF, "excess_risk", "what Theorem 1 bounds, against n, d and epsilon"),
    Entry(_PF, "theorem_rates", "the lemmas behind it, and its hyper-parameters beside tuned ones"),
    Entry(_PK, "fig01_synthetic", "test error against epsilon and M, synthetic data"),
    Entry(_PK, "fig03_year_prediction", "the same, songs", "songs one by one"),
    Entry(_PK, "uci_tables", "every learner on real tables"),
    Entry(_PK, "rates", "how the excess risk falls with privacy, on the torus"),
    Entry(_PK, "basis_selection", "which functions a random projection keeps"),
    Entry(_DR, "fig01_cifar_thresholds", "two thresholds on CIFAR-10", "d = 3072, n = 100"),
    Entry(_DR, "fig03_sphere_thresholds", "the same on the sphere", "10 seeds, 10,000 passes"),
    Entry(_DR, "fig04_signs", "whether the sign of a row is found", "d = 3072, n = 100"),
    Entry(_DR, "fig05_networks", "the threshold of networks", "d = 3072, n = 10"),
    Entry(_DR, "fig06_multiclass_images", "images of ten classes", "d = 3072, n = 100"),
    Entry(_DR, "known_rows", "all rows but one are known"),
    Entry(_DR, "under_privacy", "what epsilon, T, p and C do to the attack"),
    Entry(_DR, "private_images", "photographs read off one private step"),
    Entry(_STATEMENTS, "lemmas", "the sides of lemmas in NumPy, beside their limits"),
    Entry(_EVERYDAY, "mnist_classification", "DP-SGD on digits, predicted, against epsilon"),
    Entry(_EVERYDAY, "steps_batches_clip", "where steps, batch size and clip norm matter"),
    Entry(_EVERYDAY, "multi_pass", "full batches against one pass over the rows, at equal rho"),
    Entry(_EVERYDAY, "correlated_noise", "one pass with correlated noise, all iterates released"),
    Entry(_EVERYDAY, "noise_over_steps", "a plan's noise over the steps, beside the others' noise"),
    Entry(_EVERYDAY, "price_of_tuning", "a plan, paid tuning and tuning that is not paid for"),
)

BENCHMARKS = (
    Entry(_TABLES, "leaderboard", "private regression of tables, against all one can install"),
    Entry(_TABLES, "coverage", "coverage of the intervals of coefficients, on simulated tables"),
    Entry(_FORECAST, "stand_ins", "forecasts from public rows", "24 cells, 200 trials"),
    Entry(_FORECAST, "networks", "private training of all weights, predicted"),
    Entry(_NETWORKS, "published_digits", "DP-SGD on digits at epsilon 2.93, as published"),
    Entry(_SPEED, "simulators", "time of a step of Algorithm 1"),
    Entry(_SPEED, "ode_grid", "time of 10,000 predictions"),
    Entry(_SPEED, "per_sample_clipping", "the sum of clipped per-sample gradients"),
    Entry(_SPEED, "private_kernel_ridge", "a private kernel ridge regression"),
    Entry(_SPEED, "reconstruction", "passes and seconds of the attack"),
    Entry(_SPEED, "planning", "a plan against random search by single runs"),
    Entry(_SPEED, "secret_noise", "what noise that is exact and secret costs"),
)

ENTRIES = FIGURES + BENCHMARKS


def entry(name: str) -> Entry:
    """The entry of this name.

    Raises:
        ValueError: there is none.
    """
    for one in ENTRIES:
        if one.name == name:
            return one
    raise ValueError(f"expected one of {[one.name for one in ENTRIES]}, got {name!r}")
