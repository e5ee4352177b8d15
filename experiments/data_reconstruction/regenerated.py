r"""The attack on images with V never in memory: a block of features at a time, made from a key.

The same weights, parameters and start twice, each in a process of its own: with V as an array, and
as `RegeneratedWeights`; the optimiser cuts an array into blocks of its own, so the steps differ. At
full size (d = 3072, n = 100, p = 10 d n) V would take 37.7 GB; here the same code runs at d = 192.
The victim is trained before, elsewhere: the peaks are the attacker's.
"""

import dataclasses
import functools
import multiprocessing
import pathlib
import resource
from concurrent.futures import ProcessPoolExecutor

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import (
    Images,
    attack,
    frogs_and_trucks,
    match,
    train,
)
from experiments.harness import Check
from experiments.harness.drawing import BLUE, RED, tidy
from jaxdp.attacks import RandomFeaturesTarget, RegeneratedWeights
from jaxdp.attacks.objective import loss_and_gradient

_WAYS = ("V in memory", "V regenerated")
_FOUND = 0.01
# The block, its hash and its features.
_MOST_BLOCKS = 3
# Of kibibytes, which Linux counts in.
_KILO = 1024


@dataclasses.dataclass(frozen=True)
class Config:
    """The images, p / (d n), and how many blocks V comes in.

    Blocks of about d n / 2 features: steps on larger ones have too little noise to leave where
    images are missing, and the attack stalls there.
    """

    images: Images = dataclasses.field(default_factory=lambda: Images(num_samples=50))
    width: float = 10.0
    num_blocks: int = 20
    max_passes: int = 1500
    seed: int = 0

    smoke = harness.size(images=Images(4, side=4, made_up=True), num_blocks=4, max_passes=300)

    paper = harness.size(images=Images(num_samples=100, side=32))


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Attack with V in memory and without."""
    pictures = frogs_and_trucks(config.images, data)
    num_samples, dim = pictures.rows.inputs.shape
    weights = _weights(config)
    given = {"key": jr.key(config.seed), "block_size": weights.block_size}
    target = train(pictures, weights.num_features, jax.nn.relu, **given).target
    ends = {}
    for way in harness.track(_WAYS, str):
        # A new process each: a peak can only rise.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            call = functools.partial(_alone, config, way == _WAYS[0], np.asarray(target.parameters))
            ends[way] = process.submit(call).result()
    names = ["peak", "before", "temporary", "seconds", "passes", "loss"]
    errors = [match(pictures, ends[way]["inputs"]).errors for way in _WAYS]
    facts = {"num_samples": num_samples, "dim": dim, "num_features": weights.num_features}
    facts |= {"weight_bytes": 4 * dim * weights.num_features, "num_blocks": weights.num_blocks}
    dataset = harness.dataset(
        {"way": _WAYS},
        {
            "way": {name: [ends[way][name] for way in _WAYS] for name in names},
            ("way", "image"): {"row_errors": np.stack(errors)},
        },
        facts,
    )
    return harness.in_units(dataset, peak="B", before="B", temporary="B", seconds="s")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The images are found all the same, and V's memory is saved."""
    errors = dataset.row_errors.mean("image")
    size, ways = dataset.attrs["weight_bytes"], [dataset.sel(way=way) for way in _WAYS]
    held = [one.temporary.item() for one in ways]
    seconds = [one.seconds.item() for one in ways]
    share = _MOST_BLOCKS / dataset.attrs["num_blocks"]
    return [
        Check(
            f"the images are found without V in memory (error below {_FOUND})",
            f"{errors[1].item():.1e}; {errors[0].item():.1e} with it",
            bool((errors < _FOUND).all()),
        ),
        Check(
            f"without V in memory one evaluation of loss and gradient holds less than "
            f"{_MOST_BLOCKS:g} of V's {dataset.attrs['num_blocks']} blocks beside what it is given",
            f"{held[1] / 1e6:.2f} MB, {held[1] / size:.1%} of V; with it, V included, "
            f"{(size + held[0]) / 1e6:.1f} MB; {seconds[1] / seconds[0]:.1f} times the time",
            held[1] < share * size,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and both runs in numbers."""
    head = ["", "peak of the process, MB", "before the attack, MB", "temporaries, MB", "seconds"]
    head, rows = [*head, "passes", "seconds a pass", "loss", "error"], []
    for way in dataset.way.values:
        at = dataset.sel(way=way)
        peak, before, held = (at[one].item() / 1e6 for one in ("peak", "before", "temporary"))
        cells = [str(way), f"{peak:.1f}", f"{before:.1f}", f"{held:.2f}"]
        cells += [f"{at.seconds.item():.1f}", f"{at.passes.item():.0f}"]
        cells += [f"{(at.seconds / at.passes).item():.2f}", f"{at.loss.item():.1e}"]
        rows.append([*cells, f"{at.row_errors.mean().item():.1e}"])
    text = (
        f"{dataset.num_samples} images, d = {dataset.dim}, p = {dataset.attrs['num_features']}, V "
        f"of {dataset.attrs['weight_bytes'] / 1e6:.1f} MB in {dataset.attrs['num_blocks']} blocks. "
        "Peaks are of whole processes, the compiler's memory included, which is most of them; "
        "temporaries are XLA's count for one evaluation of loss and gradient, on all features at "
        "once where V is in memory. Seconds include compilation."
    )
    return text + "\n\n" + harness.table(head, rows)


def plot(dataset: xarray.Dataset) -> Figure:
    """Memory and time of both, and the errors of all images."""
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    memory, seconds, errors = figure.subplots(1, 3)
    colors = [RED, BLUE]
    size = dataset.attrs["weight_bytes"] / 1e6
    memory.bar(_WAYS, dataset.temporary / 1e6, color=colors, width=0.5)
    style = {"color": "w", "edgecolor": RED, "hatch": "//", "width": 0.5}
    memory.bar(_WAYS[:1], [size], bottom=dataset.temporary[:1] / 1e6, **style)
    middle = float(dataset.temporary[0]) / 1e6 + size / 2
    memory.annotate("V", (0, middle), ha="center", color=RED, backgroundcolor="w")
    memory.set_ylabel("MB")
    tidy(memory, "held for loss and gradient")
    seconds.bar(_WAYS, dataset.seconds, color=colors, width=0.5)
    seconds.set_ylabel("seconds")
    tidy(seconds, "time of the attack")
    for way, color in zip(_WAYS, colors, strict=True):
        values = np.sort(dataset.row_errors.sel(way=way))
        errors.plot(np.arange(1, len(values) + 1), values, ".-", color=color, label=way)
    errors.set_yscale("log")
    errors.set_xlabel("image, by error")
    errors.set_ylabel("error")
    tidy(errors, "what is found")
    errors.legend(frameon=False, fontsize="small")
    return figure


def _weights(config: Config) -> RegeneratedWeights:
    num_features = round(config.width * config.images.dim * config.images.num_samples)
    block_size = -(-num_features // config.num_blocks)
    key = jr.key(config.seed)
    return RegeneratedWeights(key, num_features, config.images.dim, block_size=block_size)


def _alone(config: Config, in_memory: bool, parameters: np.ndarray) -> dict:
    """The attack, in this process alone, and what it took."""
    before = _peak()
    weights = _weights(config)
    target = RandomFeaturesTarget(
        weights.materialise() if in_memory else weights, jax.nn.relu, jnp.asarray(parameters)
    )
    key, count = jr.fold_in(jr.key(config.seed), 1), config.images.num_samples
    found = attack(target, count, key=key, max_passes=config.max_passes)
    peak = _peak()
    compiled = jax.jit(loss_and_gradient).lower(target, jnp.asarray(found.inputs)).compile()
    analysis = compiled.memory_analysis()
    return {
        "peak": peak,
        "before": before,
        "temporary": analysis.temp_size_in_bytes if analysis else np.nan,
        "seconds": found.seconds,
        "passes": found.num_passes,
        "loss": found.loss,
        "inputs": found.inputs,
    }


def _peak() -> float:
    """Bytes: the most that this process has held."""
    return _KILO * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


claims = harness.claims_of(checks)
harness.main(__name__)
