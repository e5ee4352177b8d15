"""Shared parts of Figures 1, 2 and 4: prepared digits, and networks trained on them.

Images are scaled by statistics of the training rows, and the number of steps is chosen by accuracy
on other rows. As in PF, the budget pays for neither.
"""

import functools
import hashlib
import json
import pathlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int

import jaxdp
from experiments.harness.mnist import Mnist
from experiments.networks.classifiers import accuracy, cross_entropy, relu_network
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser, train
from jaxdp.core.files import write_whole
from jaxdp.data.standardisation import ColumnScaling, column_scaling
from jaxdp.privacy import PoissonSampler, ShuffledEpochs
from jaxdp.sweeps.program import versions_and_devices

NUM_CLASSES = 10
FOLDERS = {
    "data": "folder whose folder mnist has the four IDX files; else scikit-learn fetches them",
    "store": "folder where trained networks are kept, so that a run that was stopped goes on",
}


def published_column_scaling(rows: np.ndarray) -> ColumnScaling:
    """Scaling of each column by its standard deviation + 1e-8, as in PF's experiments.

    A pixel that is dark in all training rows is multiplied by 1e8. This ruins the prediction of
    every other image that lights it: most images, if training rows are few.
    """
    deviations = rows.std(axis=0, dtype=np.float64)
    return ColumnScaling(rows.mean(axis=0, dtype=np.float64), 1 / (deviations + 1e-8))


# A floor under the divisors, or none.
SCALINGS = {"floored": column_scaling, "published": published_column_scaling}


class Rows(NamedTuple):
    """Images, scaled, and their labels."""

    inputs: Float[Array, "rows pixels"]
    labels: Int[Array, " rows"]


class Digits(NamedTuple):
    """The rows for training, for validation and for the test."""

    train: Rows
    validation: Rows
    test: Rows


class Task(NamedTuple):
    """A network and the digits that it is trained on."""

    digits: Digits
    width: int
    num_hidden: int = 1


class Budget(NamedTuple):
    """epsilon and delta, and the optimiser's settings other than the noise and T."""

    epsilon: float
    num_records: int
    learning_rate: float
    clip_norm: float = 1.0

    @property
    def delta(self) -> float:
        """1/n, as in PF."""
        return 1 / self.num_records

    def num_steps(self, horizon: float) -> int:
        r"""T such that $\eta T C = $ horizon $n \epsilon$, which fixes the noise of all steps."""
        duration = horizon * self.num_records * self.epsilon / self.clip_norm
        return max(1, round(duration / self.learning_rate))


class Outcome(NamedTuple):
    """Accuracies of a network, and its number of training steps."""

    validation: float
    test: float
    num_steps: int


def prepare(
    mnist: Mnist,
    num_train: int,
    num_validation: int,
    scaling: Callable[[np.ndarray], ColumnScaling] = column_scaling,
    *,
    part: int = 0,
) -> Digits:
    """Rows of the training set to train on, its last ones for validation, and the test rows.

    Different `part` numbers give different rows, as far as there are enough.
    """
    images, labels = mnist.train_images, mnist.train_labels
    room = len(images) - num_validation - num_train
    if room < 0:
        raise ValueError(
            f"expected at least {num_train} + {num_validation} training images, got {len(images)}"
        )
    first = part * num_train % (room + 1)
    chosen = slice(first, first + num_train)
    scale = scaling(images[chosen])

    def rows(images, labels) -> Rows:
        return Rows(jnp.asarray(scale(images)), jnp.asarray(labels))

    return Digits(
        rows(images[chosen], labels[chosen]),
        rows(images[-num_validation:], labels[-num_validation:]),
        rows(mnist.test_images, mnist.test_labels),
    )


def published(budget: Budget, num_steps: int) -> jaxdp.PrivateOptimiser:
    """DP-GD with the noise of PF Proposition 3.2."""
    # The noise multiplier is 2 sigma / sqrt(eta), free of eta.
    scale = jaxdp.algorithms.PublishedCalibration().noise_scale(
        budget.epsilon, budget.delta, learning_rate=1.0, num_steps=num_steps
    )
    return jaxdp.PrivateOptimiser(
        sgd(budget.learning_rate),
        clip_norm=budget.clip_norm,
        noise_multiplier=2 * scale,
        num_steps=num_steps,
        sampler=ShuffledEpochs(budget.num_records, budget.num_records),
    )


def exact(budget: Budget, num_steps: int) -> jaxdp.PrivateOptimiser:
    """DP-GD with the least noise that keeps the same budget."""
    sampler = ShuffledEpochs(budget.num_records, budget.num_records)
    return _calibrated(budget, num_steps, sampler)


@functools.cache
def poisson(budget: Budget, num_steps: int, sampling_rate: float) -> jaxdp.PrivateOptimiser:
    """DP-SGD on Poisson batches; the search for its noise takes seconds and is cached."""
    return _calibrated(budget, num_steps, PoissonSampler(budget.num_records, sampling_rate))


def descent(learning_rate: float, num_steps: int) -> NonPrivateOptimiser:
    """Gradient descent on full batches, without privacy."""
    return NonPrivateOptimiser(sgd(learning_rate), num_steps)


def _calibrated(budget: Budget, num_steps: int, sampler) -> jaxdp.PrivateOptimiser:
    with warnings.catch_warnings():
        # The paper's delta is 0.001, for 1,000 images too.
        warnings.filterwarnings("ignore", "delta = .* is at least 1/n")
        return jaxdp.PrivateOptimiser.calibrated(
            sgd(budget.learning_rate),
            budget.epsilon,
            budget.delta,
            clip_norm=budget.clip_norm,
            num_steps=num_steps,
            sampler=sampler,
        )


@functools.cache
def sgd(learning_rate: float) -> optax.GradientTransformation:
    """One object per rate, so that the training loop is compiled once per rate."""
    return optax.sgd(learning_rate)


def outcome(
    optimiser: jaxdp.PrivateOptimiser | NonPrivateOptimiser,
    task: Task,
    seed: int,
    *,
    microbatch_size: int | None = None,
) -> Outcome:
    """Train a network and measure it; the seed fixes the network and the normal draws."""
    digits, key = task.digits, jr.key(seed)
    model = relu_network(
        digits.train.inputs.shape[1],
        task.width,
        NUM_CLASSES,
        num_hidden=task.num_hidden,
        key=key,
    )
    trained = train(
        optimiser,
        cross_entropy,
        model,
        *digits.train,
        key=key,
        microbatch_size=microbatch_size,
    ).model
    validation, test = (float(accuracy(trained, *rows)) for rows in digits[1:])
    return Outcome(validation, test, int(optimiser.num_steps))


class Trainer:
    """Networks trained on digits, kept on disk so that a stopped run resumes.

    One small file per network, named by a hash of its settings and written atomically.
    `jaxdp.sweep` keeps cells that JAX can trace; here every network has its own number of steps,
    and its noise comes from a numerical account on the host.

    Args:
        folder: folder of the files, made if absent; None keeps nothing.
        microbatch_size: number of gradients in memory at once.

    Attributes:
        seconds: training time of all the networks, including earlier sessions.
    """

    def __init__(self, folder: pathlib.Path | None, microbatch_size: int | None = None):
        self.folder, self.microbatch_size, self.seconds = folder, microbatch_size, 0.0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        versions = {name: text for name, text in versions_and_devices().items() if name != "device"}
        self._program = pathlib.Path(__file__).read_text() + str(sorted(versions.items()))

    def outcome(self, task: Task, seed: int, make: Callable, *settings: Any) -> Outcome:
        """The outcome of a network: read, or trained now and kept.

        Args:
            task: the network and its digits.
            seed: seed of the network and the noise.
            make: function from the settings to an optimiser.
            settings: budgets and numbers.
        """
        # The first rows distinguish sets of the same size.
        first = [(len(rows.labels), np.asarray(rows.inputs[:9]).tobytes()) for rows in task.digits]
        facts = self._program, first, *task[1:], seed, make.__name__, settings
        name = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
        path = None if self.folder is None else self.folder / f"{name}.json"
        if path is not None and path.exists():
            saved = json.loads(path.read_text())
            self.seconds += saved["seconds"]
            return Outcome(**saved["outcome"])
        started = time.monotonic()
        found = outcome(make(*settings), task, seed, microbatch_size=self.microbatch_size)
        seconds = time.monotonic() - started
        self.seconds += seconds
        if path is not None:
            saved = {"outcome": found._asdict(), "seconds": seconds}
            write_whole(path, json.dumps(saved).encode())
        return found

    def best(
        self, task: Task, seed: int, make: Callable, budget: Budget, horizons, *settings: Any
    ) -> Outcome:
        """The outcome of highest accuracy on the validation rows, over numbers of steps."""
        lengths = sorted({budget.num_steps(horizon) for horizon in horizons})
        outcomes = [self.outcome(task, seed, make, budget, steps, *settings) for steps in lengths]
        return max(outcomes, key=lambda one: one.validation)
