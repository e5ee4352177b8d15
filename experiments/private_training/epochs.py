"""The same private training by several libraries: time, peak memory, and accuracy during the run.

All draw Poisson batches: opacus by one mask per step, jax_privacy by its sampler. Their loaders of
single records would take longer.
"""

import functools
import importlib.util
import math
import os
import pathlib
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import jaxdp
import jaxdp.algorithms
from experiments.benchmarks.clipping_tasks import optional
from experiments.networks.classifiers import cross_entropy, digit_layers
from experiments.private_training.models import answers, model_of

JAXDP, GHOST, HOOKS, JAX_PRIVACY = "jaxdp", "opacus, ghost", "opacus, hooks", "jax_privacy"
# A batch has room for its mean size plus this many standard deviations; the account includes the
# overflow.
_DEVIATIONS = 7
_PARTS = 20


class Job(NamedTuple):
    """One run of one model by one library.

    Attributes:
        folder: folder of a file `<name>.npy` for each array of `Rows`.
        model, library: names.
        every: number of steps between two stops.
        seed: seed of weights, batches and noise.
        on_one_core: pins the process to one core: torch threads that wait for each other on a busy
            machine would count as work.
    """

    folder: pathlib.Path
    model: str
    library: str
    batch_size: int
    learning_rate: float
    momentum: float
    clip_norm: float
    noise_multiplier: float
    num_steps: int
    every: int
    seed: int
    on_one_core: bool = False

    @property
    def room(self) -> int:
        """The largest number of records in a batch."""
        return math.ceil(self.batch_size + _DEVIATIONS * math.sqrt(self.batch_size))

    def sampler(self, num_records: int) -> jaxdp.privacy.PoissonSampler:
        """The sampler of the batches."""
        rate = self.batch_size / num_records
        return jaxdp.privacy.PoissonSampler(num_records, rate, min(self.room, num_records + 1))

    def optimiser(self, num_records: int) -> jaxdp.PrivateOptimiser:
        """The private optimiser, whose account has the privacy cost."""
        return jaxdp.PrivateOptimiser(
            functools.partial(optax.sgd, momentum=self.momentum),
            learning_rate=self.learning_rate,
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            num_steps=self.num_steps,
            sampler=self.sampler(num_records),
        )

    def stops(self) -> list[bool]:
        """For each step, True if a stop follows it."""
        steps = range(1, self.num_steps + 1)
        return [step % self.every == 0 or step == self.num_steps for step in steps]


class Rows(NamedTuple):
    """A model's inputs for training and for the test, and the digits as labels."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    def write(self, folder: pathlib.Path) -> None:
        """A file for each array."""
        for name, one in self._asdict().items():
            np.save(folder / f"{name}.npy", one)

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Rows":
        """The rows in these files."""
        return cls(*(np.load(folder / f"{name}.npy") for name in cls._fields))


def measured(job: Job) -> dict[str, Any]:
    """Wall and processor seconds between stops, accuracy at each, and this process's peak memory.

    The first stop is before the first step. The seconds exclude evaluation.
    """
    if job.on_one_core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows, laps, accuracies, begun = Rows.read(job.folder), [], [], _clocks()

    def stop(answer: Callable[[np.ndarray], Any]) -> None:
        nonlocal begun
        laps.append((_clocks() - begun).tolist())
        parts = [np.asarray(answer(part)) for part in np.array_split(rows.test, _PARTS)]
        accuracies.append(float(np.mean(np.concatenate(parts) == rows.test_labels)))
        begun = _clocks()

    LIBRARIES[job.library](job, rows, stop)
    # Kilobytes; bytes on a Mac.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"laps": laps, "accuracies": accuracies, "peak_bytes": peak}


def _clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def _start(job: Job, rows: Rows) -> Any:
    """The model before the first step."""
    return model_of(job.model, rows.train.shape[-1], key=jr.key(job.seed))


def _jaxdp(job: Job, rows: Rows, stop: Callable) -> None:
    def evaluate(model):
        stop(functools.partial(answers, model))
        return {}

    jaxdp.train(
        job.optimiser(len(rows.train)),
        cross_entropy,
        _start(job, rows),
        rows.train,
        rows.train_labels,
        key=jr.fold_in(jr.key(job.seed), 1),
        evaluate=evaluate,
        every=job.every,
    )


def _jax_privacy(job: Job, rows: Rows, stop: Callable) -> None:
    batches, clipping, noise = (
        optional(f"jax_privacy.{name}")
        for name in ("batch_selection", "clipping", "noise_addition")
    )
    ours = job.optimiser(len(rows.train))
    gradient = clipping.clipped_grad(
        cross_entropy,
        l2_clip_norm=job.clip_norm,
        batch_argnums=(1, 2),
        keep_batch_dim=False,
        normalize_by=job.batch_size,
    )
    privatizer = noise.gaussian_privatizer(
        stddev=float(ours.nominal_std_of_mean), prng_key=jr.key(job.seed)
    )
    optimiser = optax.chain(privatizer, optax.sgd(job.learning_rate, job.momentum))
    inputs, labels = jnp.asarray(rows.train), jnp.asarray(rows.train_labels)

    @jax.jit
    def step(model, state, places):
        data = inputs[places], labels[places]
        mean = gradient(model, *data, is_padding_example=places < 0)
        change, state = optimiser.update(mean, state)
        return optax.apply_updates(model, change), state

    model = _start(job, rows)
    state = optimiser.init(model)
    stop(functools.partial(answers, model))
    sampler = batches.CyclicPoissonSampling(job.batch_size / len(labels), job.num_steps)
    drawn = sampler.batch_iterator(len(labels), rng=job.seed)
    for is_stop, places in zip(job.stops(), drawn, strict=True):
        model, state = step(model, state, batches.pad_to_multiple_of(places, job.room))
        if is_stop:
            jax.block_until_ready(model)
            stop(functools.partial(answers, model))


def _opacus(mode: str, job: Job, rows: Rows, stop: Callable) -> None:
    torch, opacus = optional("torch"), optional("opacus")
    torch.manual_seed(job.seed)
    inputs, labels = torch.from_numpy(rows.train), torch.from_numpy(rows.train_labels).long()
    module: Any = torch.nn.Sequential(*digit_layers(torch.nn, torch.nn.Tanh))
    sgd = torch.optim.SGD(module.parameters(), lr=job.learning_rate, momentum=job.momentum)
    data = torch.utils.data.TensorDataset(inputs, labels)
    # A list of the model, the optimiser, the loss if the mode has its own, and a loader.
    model, optimiser, *criterion, _ = opacus.PrivacyEngine().make_private(
        module=module,
        optimizer=sgd,
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=torch.utils.data.DataLoader(data, batch_size=job.batch_size),
        noise_multiplier=job.noise_multiplier,
        max_grad_norm=job.clip_norm,
        grad_sample_mode=mode,
    )
    loss_of = criterion[0] if criterion else torch.nn.CrossEntropyLoss()

    def answer(part):
        with torch.no_grad():
            return module(torch.from_numpy(part)).argmax(dim=1).numpy()

    stop(answer)
    for is_stop in job.stops():
        (places,) = torch.nonzero(
            torch.rand(len(labels)) < job.batch_size / len(labels), as_tuple=True
        )
        optimiser.zero_grad()
        loss_of(model(inputs[places]), labels[places]).backward()
        optimiser.step()
        if is_stop:
            stop(answer)


def is_installed(library: str) -> bool:
    """True if a library is installed."""
    return importlib.util.find_spec(library.split(",")[0]) is not None


LIBRARIES: dict[str, Callable[[Job, Rows, Callable], None]] = {
    JAXDP: _jaxdp,
    GHOST: functools.partial(_opacus, "ghost"),
    HOOKS: functools.partial(_opacus, "hooks"),
    JAX_PRIVACY: _jax_privacy,
}
