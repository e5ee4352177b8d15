"""What Figures 1, 2 and 4 share: digits made ready, and networks trained on them.

Images are scaled by statistics of the training rows, and the number of steps is chosen by accuracy
on other rows; PF does both without paying for them, and so do these figures.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int

import jaxdp
from experiments.networks.classifiers import accuracy, cross_entropy, relu_network
from experiments.statements.privacy_for_free.published_scaling import published_column_scaling
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser, train
from jaxdp.data.mnist import Mnist
from jaxdp.data.standardisation import ColumnScaling, column_scaling
from jaxdp.privacy import PoissonSampler, ShuffledEpochs

NUM_CLASSES = 10
FOLDERS = {
    "data": "folder whose folder mnist has the four IDX files; else scikit-learn fetches them",
    "store": "folder where trained networks are kept, so that a run that was stopped goes on",
}
# A floor under the divisors, or none.
SCALINGS = {"floored": column_scaling, "published": published_column_scaling}


class Rows(NamedTuple):
    """Images, scaled, and their labels."""

    inputs: Float[Array, "rows pixels"]
    labels: Int[Array, " rows"]


class Digits(NamedTuple):
    """The rows that a network is trained on, chosen by and judged by."""

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
        r"""T such that $\eta T C = $ horizon $n \epsilon$, by which the noise of all steps goes."""
        duration = horizon * self.num_records * self.epsilon / self.clip_norm
        return max(1, round(duration / self.learning_rate))


class Outcome(NamedTuple):
    """Accuracies of a network, and how many steps it was trained for."""

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
    """Rows of the training set to train on, and its last ones to choose by.

    Parts of different numbers have different rows as far as there are enough.
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
    scale = jaxdp.PublishedCalibration().noise_scale(
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


def poisson(budget: Budget, num_steps: int, sampling_rate: float) -> jaxdp.PrivateOptimiser:
    """DP-SGD on Poisson batches with the noise that the numerical account asks for."""
    return _calibrated(budget, num_steps, PoissonSampler(budget.num_records, sampling_rate))


def _calibrated(budget: Budget, num_steps: int, sampler) -> jaxdp.PrivateOptimiser:
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
    """One object for a rate, so that the training loop is compiled once for it."""
    return optax.sgd(learning_rate)


def outcome(
    optimiser: jaxdp.PrivateOptimiser | NonPrivateOptimiser,
    task: Task,
    seed: int,
    *,
    microbatch_size: int | None = None,
) -> Outcome:
    """Train a network and measure it; networks and noise of one seed are the same for all noise."""
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


def best(outcomes: Iterable[Outcome]) -> Outcome:
    """The one of highest accuracy on the validation rows."""
    return max(outcomes, key=lambda one: one.validation)
