"""The law of data reconstruction at the paper's size: photographs of 32 x 32 pixels, d = 3072.

The weights are never in memory whole: at n = 100 and p = 10 d n they would be 37.7 GB. A pass makes
them again, block by block. DR Figures 1, 4, 5 and 6 are of this size; the saved results of the
repository are of 8 x 8 and 16 x 16 pixels.
"""

import functools
import math
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import jax.random as jr

from experiments.accelerator.engines import Ceilings, ceilings
from experiments.accelerator.parts import Measurement, Row, Setting, attempts, curves, timed
from experiments.data_reconstruction.natural_images import (
    Images,
    Pictures,
    frogs_and_trucks,
    train,
)
from jaxdp.attacks import RegeneratedWeights, reconstruct, reconstruction_error, span_residual
from jaxdp.attacks.objective import loss_and_gradient

# Features of a block: 1.2 GB of float32 at d = 3072, few enough launches and room for a hash.
_BLOCK = 100_000
_RATIOS = (10.0, 1.0, 2.0, 0.5, 4.0, 1.5)


def rows(setting: Setting) -> Iterator[Row]:
    """A pass at the paper's size, an attack at n = 100, then the curve over p at n = 10."""
    yield from attempts(setting, _calls(setting))


def _calls(setting: Setting) -> Iterator[Measurement]:
    smoke = setting.is_smoke
    side, few, many = (4, 2, 2) if smoke else (32, 10, 100)
    dim = 3 * side**2
    most, _ = ceilings(smoke)
    count = 10 * dim * many
    what = f"a pass of loss and gradient, n = {many}, d = {dim}, p = {count:,}"
    yield Measurement(what, lambda _: _pass(what, many, dim, count, most))
    yield _attack(setting, many, side, 10.0, jax.nn.relu, "ReLU")
    for ratio in (0.5,) if smoke else _RATIOS:
        yield _attack(setting, few, side, ratio, jax.nn.relu, "ReLU")
    yield _attack(setting, many, side, 10.0, jnp.tanh, "tanh")


def _pass(what: str, num_samples: int, dim: int, num_features: int, most: Ceilings) -> Row:
    """Products of the rows with V for the features, and of the residual with V for the gradient."""
    from jaxdp.attacks import RandomFeaturesTarget

    weights = RegeneratedWeights(jr.key(0), num_features, dim, block_size=_block(num_features))
    parameters = jr.normal(jr.key(1), (num_features,))
    target = RandomFeaturesTarget(weights, jax.nn.relu, parameters)
    inputs = jr.normal(jr.key(2), (num_samples, dim))
    call = jax.jit(loss_and_gradient)
    first, seconds = timed(lambda: call(target, inputs), seconds=3, most=5)
    # V is made twice: once for the coefficients, once for the gradient, with features both times.
    numbers = num_features * dim
    work = {"operations": 6 * num_samples * numbers, "normals": 2 * numbers, "bytes": 16 * numbers}
    share, bound = most.share(seconds, **work)
    return Row(what, seconds, "s a pass", share, bound, first)


def _block(num_features: int) -> int:
    return min(_BLOCK, num_features)


@functools.cache
def _pictures(num_samples: int, side: int, is_made_up: bool, data) -> Pictures:
    return frogs_and_trucks(Images(num_samples, side=side, made_up=is_made_up), data)


def _attack(setting: Setting, count: int, side: int, ratio: float, activation, name: str):
    num_features = round(ratio * count * 3 * side**2)
    is_made_up = setting.is_smoke or setting.data is None
    source = "made-up images" if is_made_up else "CIFAR-10"
    what = f"{name}, n = {count}, {side} x {side} pixels, p = {ratio:g} d n = {num_features:,}"

    def row(_):
        pictures = _pictures(count, side, is_made_up, setting.data)
        begun = time.perf_counter()
        given = {"key": jr.key(0), "block_size": _block(num_features)}
        model = train(pictures, num_features, activation, **given)
        trained = time.perf_counter() - begun
        # Near the threshold passes are many, and those of ten rows are short.
        limit = 200 if setting.is_smoke else 1500 if count < 100 else 400
        found = reconstruct(
            model.target, count, key=jr.key(1), max_passes=limit, progress=_Deadline(setting)
        )
        seconds = time.perf_counter() - begun - trained
        error = reconstruction_error(pictures.rows.inputs, found.inputs)
        residual = span_residual(pictures.inputs, found.inputs, model.target)
        note = (
            f"residual {residual:.2g}, loss {found.loss:.1e}, {found.num_passes:.0f} passes, "
            f"{found.status}; {seconds:.0f} s after {trained:.0f} s of training; {source}"
        )
        return Row(what, error, "error", note=note)

    return Measurement(what, row)


class _Deadline:
    """Progress of an attack, which ends it when the part's time is over."""

    def __init__(self, setting: Setting):
        self._setting = setting

    def __call__(self, passes, loss):
        if self._setting.seconds_left() < 0:
            raise TimeoutError(f"stopped after {float(passes):.0f} passes at a loss of {loss:.1e}")


def draw(found: list[Row]):
    """The error over the number of features in units of d n."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        if row.unit == "error" and not math.isnan(row.value):
            ratio = float(row.what.split("p = ")[1].split()[0])
            name = f"{row.what.split(' pixels')[0]} pixels"
            groups.setdefault(name, []).append((ratio, max(row.value, 1e-9)))
    figure, axes = curves(groups, "features p, in units of d n", "reconstruction error")
    axes.set_yscale("log")
    axes.axvline(1, color="#777777", linewidth=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(low / 2, 2 * high)
    axes.set_xticks(_RATIOS, [f"{ratio:g}" for ratio in _RATIOS])
    axes.minorticks_off()
    return figure
