"""Is it right there? Numbers with stored float64 values, computed again on a device.

`known_numbers.json` has the results of the same code in float64 on a CPU; `python -m
experiments.accelerator.known_numbers` writes it. The tests hold most of these functions to closed
forms, quadratures and other implementations; here the question is whether a device's float32
(products of TensorFloat-32 or bfloat16, fast functions, other orders of sums) gives the same.

A tolerance is relative to the larger of the number and the scale that its group states. Products of
TensorFloat-32 have relative errors of about 3e-4, of bfloat16 2e-3: in a group at 2e-5 neither can
have entered unseen.
"""

import functools
import json
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import jaxdp
from experiments.accelerator.parts import Measurement, Row, Setting, attempts
from jaxdp import losses
from jaxdp.kernels import Gaussian, Laplace, Matern

STORED = pathlib.Path(__file__).with_suffix(".json")
_EXACT, _SUMS = 1e-9, 2e-5


class Group(NamedTuple):
    """A function that computes numbers of one kind, and how far they may be off.

    The tolerance is relative to the larger of a number and the scale; `why` says what it is for.
    """

    numbers: Callable[[], dict[str, Any]]
    tolerance: float
    scale: float
    why: str


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Normals that float32 holds exactly, so that every precision is given the same input."""
    drawn = np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)
    # As float64, or they would stay float32 where float64 values are computed.
    return drawn.astype(np.float64)


def _streams() -> dict[str, Any]:
    """Predictions of one-pass DP-SGD by differential equations and recursions."""
    isotropic = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    powers = jaxdp.LinearRegression.power_law(200, condition_number=50.0, label_noise=0.5)
    heavy = jaxdp.InputScales((0.5, 1.5), (0.5, 0.5))
    scaled = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3).replace(input_scales=heavy)
    huber = isotropic.replace(loss=losses.Huber(0.7))
    logistic = jaxdp.LogisticRegression(500, signal=2.0)
    root, flat = jaxdp.Polynomial(3.0, power=0.5), jaxdp.Constant(1.5)
    falling = jaxdp.Hyperbolic(4.0, knee=0.2)
    steps = {"clip_scale": 1.0, "rho": 1.0, "num_steps": 10_000}
    found = {}
    for name, problem, schedule, more in (
        ("front page", isotropic, root, {}),
        ("constant rate", isotropic, flat, {}),
        ("knee", isotropic, falling, {}),
        ("small clip", isotropic, root, {"clip_scale": 0.1}),
        ("beyond the cap", isotropic, jaxdp.Polynomial(60.0, power=0.5), {"clip_scale": 0.05}),
        ("hardly private", isotropic, root, {"rho": 20.0}),
        ("power law", powers, root, {"num_steps": 5000}),
        ("scaled inputs", scaled, root, {}),
        ("Huber", huber, root, {}),
        ("logistic", logistic, root, {}),
    ):
        algorithm = jaxdp.OnePassDPSGD(schedule, **steps | more)
        predicted = jaxdp.predict(problem, algorithm, records=2)
        found[f"{name}: half way"], found[f"{name}: end"] = predicted.risk[1], predicted.final_risk
    algorithm = jaxdp.OnePassDPSGD(root, **steps)
    for theory in (jaxdp.LowerBound(), jaxdp.UpperBound(), jaxdp.Fluctuations()):
        predicted = jaxdp.predict(isotropic, algorithm, theory=theory, records=2)
        found[type(theory).__name__] = predicted.final_risk
    found["deviation of the risk"] = predicted.final_std
    batches = jaxdp.OnePassDPSGD(root, **steps | {"num_steps": 100}, batch_size=100)
    found["batches of 100"] = jaxdp.predict(isotropic, batches, records=2).final_risk
    return found


@functools.cache
def _rows(loss: Any, classes: int) -> jaxdp.FixedFeatures:
    inputs = _draw(90, 12) / np.sqrt(12)
    if classes > 2:
        labels = np.arange(90) % classes
    elif classes == 2:
        labels = np.where(inputs[:, 0] > 0, 1.0, -1.0)
    else:
        labels = inputs[:, :3].sum(axis=1)
    parts = inputs[:60], labels[:60], inputs[60:], labels[60:]
    return jaxdp.FixedFeatures.from_arrays(*parts, loss=loss)


def _features() -> dict[str, Any]:
    """Predictions of DP-SGD on fixed features."""
    import optax

    sampler = jaxdp.privacy.FixedSizeBatches(60, 60)
    steps = {"clip_norm": 0.5, "noise_multiplier": 4.0, "num_steps": 40, "sampler": sampler}
    momentum = functools.partial(optax.sgd, momentum=0.9)
    found = {}
    for name, problem, optimiser, rate in (
        ("squared", _rows(losses.Squared(), 0), optax.sgd, 0.3),
        ("squared, momentum", _rows(losses.Squared(), 0), momentum, 0.05),
        ("logistic", _rows(losses.Logistic(), 2), momentum, 0.2),
        ("softmax", _rows(losses.Softmax(4), 4), optax.sgd, 0.5),
        ("Adam", _rows(losses.Squared(), 0), optax.adam, 0.02),
    ):
        algorithm = jaxdp.PrivateOptimiser(optimiser, learning_rate=rate, **steps)
        predicted = jaxdp.predict(problem, algorithm, records=2)
        found[f"{name}: risk"] = predicted.final_risk
        for observable in ("clipped_fraction", "train_risk", "accuracy", "variance"):
            if observable in predicted.observables:
                found[f"{name}: {observable}"] = predicted.observables[observable][-1]
    problem, algorithm = _rows(losses.Squared(), 0), jaxdp.DPGD(0.2, 0.5, 60, 0.5)
    for theory in (jaxdp.OrnsteinUhlenbeck(), jaxdp.UnclippedRecursion(), jaxdp.GradientFlow()):
        name, given = type(theory).__name__, algorithm
        if isinstance(theory, jaxdp.GradientFlow):
            given = algorithm.replace(noise_scale=0.0)
        found[name] = jaxdp.predict(problem, given, theory=theory, records=2).final_risk
    return found


def _networks() -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    """Losses of one sample, weights and batches of small networks whose weights NumPy draws."""
    words = np.arange(6 * 5).reshape(6, 5) % 7
    yield "dense", _dense, [_draw(20, 30), _draw(30), _draw(30, 4)], _draw(6, 20)
    yield "convolution", _convolution, [_draw(5, 3, 3, 3), _draw(5, 4)], _draw(6, 3, 8, 8)
    yield "attention", _attention, [_draw(7, 8), _draw(3, 8, 8), _draw(8, 4)], words


def _cross_entropy(logits, target):
    return jax.nn.logsumexp(logits) - logits[target]


def _dense(weights, row, target):
    first, bias, last = weights
    return _cross_entropy(jnp.tanh(row @ first / 4 + bias) @ last / 5, target)


def _convolution(weights, image, target):
    kernels, last = weights
    maps = jax.lax.conv_general_dilated(image[None], kernels / 5, (1, 1), "SAME")[0]
    return _cross_entropy(jax.nn.relu(maps).mean((1, 2)) @ last, target)


def _attention(weights, words, target):
    table, turned, last = weights
    tokens = table[words]
    queries, keys, values = (tokens @ part / 3 for part in turned)
    mixed = jax.nn.softmax(queries @ keys.T / 3) @ values
    return _cross_entropy((tokens + mixed).mean(0) @ last / 3, target)


def _clipped_sums() -> dict[str, Any]:
    """Norms of per-sample gradients, and entries of their clipped sums."""
    found = {}
    # The products of these losses are the networks' own: by default a GPU rounds them to TF32.
    with jax.default_matmul_precision("highest"):
        for name, *given in _batches():
            total, norms = jaxdp.clipped_gradient_sum(*given, clip_norm=1.0)
            leaves = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(total)])
            found |= {f"{name}: norm of gradient {i}": norms[i] for i in range(4)}
            found[f"{name}: norm of the sum"] = jnp.sqrt(jnp.sum(leaves**2))
            waves = jnp.cos(jnp.arange(leaves.size))
            found[f"{name}: waves of the sum"] = jnp.sum(waves * leaves)
    return found


def _clips() -> dict[str, Any]:
    """Norms of single records after clipping, by losses whose own products are not exact.

    However a loss's products are rounded, one record has to add a vector as long as the clip norm.
    It does not if a norm or a sum is rounded like them.
    """
    found = {}
    for name, loss, weights, inputs, targets in _batches():
        for i in range(4):
            one = (loss, weights, inputs[i : i + 1], targets[i : i + 1])
            total, _ = jaxdp.clipped_gradient_sum(*one, clip_norm=1e-2)
            squares = [np.sum(np.asarray(leaf, float) ** 2) for leaf in jax.tree.leaves(total)]
            found[f"{name}: record {i}"] = np.sqrt(sum(squares))
    return found


def _batches() -> Iterator[tuple[Any, ...]]:
    """The networks' names, losses, weights, inputs and targets."""
    for name, loss, weights, inputs in _networks():
        targets = jnp.arange(len(inputs)) % 4
        yield name, loss, jax.tree.map(jnp.asarray, weights), jnp.asarray(inputs), targets


def _kernels() -> dict[str, Any]:
    """Kernels between rows, and a ridge solution."""
    rows, found = jnp.asarray(_draw(8, 5)), {}
    for kernel in (Gaussian(1.3), Laplace(2.0), Matern(1.5, 1.5)):
        gram = kernel(rows, rows)
        name = type(kernel).__name__
        found[f"{name}: entry"], found[f"{name}: sum"] = gram[0, 1], gram.sum()
    features = jnp.asarray(_draw(40, 100) / 10)
    labels = np.where(features[:, 0] > 0, 1.0, -1.0)
    parts = features[:30], labels[:30], features[30:], labels[30:]
    problem = jaxdp.FixedFeatures.from_arrays(*parts)
    found["largest stable rate"] = problem.reduced().stability_limit()
    found["norm of features"] = problem.reduced().feature_norms()[0]
    return found


def _quadratures() -> dict[str, Any]:
    """Moments of clipped slopes for Gaussian predictions, and Hermite coefficients."""
    found = {}
    for name, loss in (("Huber", losses.Huber(0.5)), ("logistic", losses.Logistic())):
        given = (jnp.asarray(value) for value in (0.7, 1.3, 1.0, 0.4))
        slope = loss.clipped_slope(*given)
        found[f"{name}: mean slope"] = slope.mean
        found[f"{name}: mean derivative"] = slope.derivative
        found[f"{name}: expected value"] = loss.expected_value(*map(jnp.asarray, (0.7, 1.3, 1.0)))
    softmax = losses.Softmax(4)
    mean, root = jnp.asarray(_draw(4)), jnp.asarray(_draw(4, 6)) / 2
    covariance = jnp.matmul(root, root.T, precision="highest")
    slope = softmax.clipped_slope_correlated(mean, covariance, jnp.asarray(1), jnp.asarray(0.3))
    found["softmax: mean slope"] = slope.mean[0]
    found["softmax: derivative"] = slope.derivative[0, 0]
    found["softmax: expected value"] = softmax.expected_value(mean, covariance, jnp.asarray(1))
    found["softmax: accuracy"] = softmax.correct_probability(mean, covariance, jnp.asarray(1))
    for order, value in enumerate(jaxdp.problems.hermite_coefficients(jnp.tanh, 3)):
        found[f"Hermite coefficient {order} of tanh"] = value
    return found


def _calibrations() -> dict[str, Any]:
    """Privacy arithmetic of concrete numbers: on the host, in float64, whatever the device is."""
    privacy = jaxdp.privacy
    found = {"mu of (1, 1e-5)": privacy.gaussian_mu(1.0, 1e-5)}
    found["mu of (8, 1e-8)"] = privacy.gaussian_mu(8.0, 1e-8)
    found["epsilon of 1-GDP"] = privacy.gaussian_epsilon(1.0, 1e-5)
    found["delta of 2-GDP at 3"] = privacy.gaussian_delta(2.0, 3.0)
    found["epsilon of zCDP"] = privacy.zcdp_epsilon(0.5, 1e-6)
    return found


def _calibrated() -> dict[str, Any]:
    """Noise that a budget asks for, as descriptions hold it."""
    exact = jaxdp.DPGD.calibrated(2.0, 1e-5, learning_rate=0.1, clip_norm=1.0, num_steps=100)
    one = jaxdp.OnePassDPSGD.calibrated(
        2.0, 1e-5, learning_rate=jaxdp.Constant(1.0), clip_scale=1.0, num_steps=100
    )
    return {"noise of DP-GD": exact.noise_scale, "rho of one pass": one.rho}


def _traced_calibrations() -> dict[str, Any]:
    """The same arithmetic traced, in the device's own precision."""
    privacy = jaxdp.privacy
    traced = jax.jit(
        lambda epsilon, delta, mu: (
            privacy.gaussian_mu(epsilon, delta),
            privacy.gaussian_epsilon(mu, delta),
            privacy.gaussian_delta(mu, epsilon),
        )
    )
    at = traced(*(jnp.asarray(value) for value in (1.0, 1e-5, 1.0)))
    return dict(zip(("mu", "epsilon", "delta"), at, strict=True))


def _reconstruction() -> dict[str, Any]:
    """The loss of a guess at rows, and whether rows are found, on weights that NumPy draws."""
    from jaxdp.attacks import RandomFeaturesTarget, reconstruct, reconstruction_error
    from jaxdp.attacks.objective import relative_loss

    count, dim = 3, 8
    rows = _draw(count, dim)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.sqrt(dim)
    weights = _draw(10 * count * dim, dim) / np.sqrt(dim)
    parameters = np.maximum(rows @ weights.T, 0).T @ [1.0, -1.0, 0.5]
    target = RandomFeaturesTarget(jnp.asarray(weights), jax.nn.relu, jnp.asarray(parameters))
    guess = jnp.asarray(np.roll(rows, 1, axis=1))
    found = reconstruct(target, count, key=jr.key(0), max_passes=2000)
    error = reconstruction_error(rows, found.inputs)
    return {"loss of a guess": relative_loss(target, guess), "rows are found": error < 0.01}


GROUPS = {
    "streams": Group(_streams, 2e-4, 1e-3, "adaptive steps in float32"),
    "features": Group(_features, 3e-4, 1e-2, "40 steps of moments in float32"),
    "clipped sums": Group(_clipped_sums, _SUMS, 1e-2, "full products"),
    "clips": Group(_clips, 2e-6, 1e-3, "roundings of float32"),
    "kernels": Group(_kernels, _SUMS, 1e-3, "full products"),
    "quadratures": Group(_quadratures, 5e-5, 1e-2, "erf and exp of the device"),
    "calibrations": Group(_calibrations, _EXACT, 1e-12, "float64 on the host"),
    "calibrated noise": Group(_calibrated, 1e-6, 1e-12, "rounded to float32"),
    "traced calibrations": Group(_traced_calibrations, 1e-3, 1e-5, "erf in float32"),
    "reconstruction": Group(_reconstruction, 1e-4, 1e-2, "full products"),
}


def compared(name: str, stored: dict[str, float], found: dict[str, Any]) -> Row:
    """The row of one group: how far its worst number is off."""
    group = GROUPS[name]
    wanted = {key: stored[f"{name}: {key}"] for key in found}
    off = {
        key: abs(float(value) - wanted[key]) / max(abs(wanted[key]), group.scale)
        for key, value in found.items()
    }
    # NaN is farther than any number.
    worst = max(off, key=lambda key: math.inf if math.isnan(off[key]) else off[key])
    is_wrong = not off[worst] <= group.tolerance
    note = f"{len(off)} numbers, largest error of {worst}; "
    note += f"{group.tolerance:.0e} allowed: {group.why}"
    return Row(name, off[worst], "relative error", note=note, is_wrong=is_wrong)


def rows(setting: Setting) -> Iterator[Row]:
    """Each group against its float64 values, then whether one key gives equal bits twice."""
    stored, names = json.loads(STORED.read_text()), list(GROUPS)
    if setting.is_smoke:
        # The tests run the others in float64 on a CPU, which takes minutes.
        names = ["clipped sums", "clips", "kernels", "calibrations"]
    groups = [
        Measurement(name, functools.partial(compared, name, stored), GROUPS[name].numbers)
        for name in names
    ]
    yield from attempts(setting, groups, workers=len(groups))
    repeated = functools.partial(_repeated, _norms if setting.is_smoke else _engines)
    yield from attempts(setting, [Measurement("equal bits twice", lambda _: repeated())])


def _norms() -> dict[str, Any]:
    """Norms of per-sample gradients."""
    sums = jaxdp.clipped_gradient_sum
    return {name: sums(*given, clip_norm=1.0)[1] for name, *given in _batches()}


def _engines() -> dict[str, Any]:
    """Results of simulators and theories, and the norms."""
    problem = jaxdp.LinearRegression.isotropic(50, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 100)
    found: dict[str, Any] = {"CoupledODE": jaxdp.predict(problem, algorithm).risk}
    for simulator in (jaxdp.Iterates(), jaxdp.Reduced(), jaxdp.HomogenizedSDE()):
        given = {"num_runs": 4, "simulator": simulator, "records": 5}
        runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), **given)
        found[type(simulator).__name__] = runs.risk
    rows = _rows(losses.Squared(), 0)
    descent = jaxdp.DPGD(0.2, 0.5, 40, 0.5)
    found["FunctionSpace"] = jaxdp.simulate(rows, descent, key=jr.key(0), num_runs=4).risk
    found["GaussianClosure"] = jaxdp.predict(rows, descent).risk
    return found | _norms()


def _repeated(made: Callable[[], dict[str, Any]]) -> Row:
    """The same calls twice, compiled anew in between, compared to the bit."""
    first = jax.device_get(made())
    jax.clear_caches()
    second = jax.device_get(made())
    others = [name for name in first if not np.array_equal(first[name], second[name])]
    note = f"not of {', '.join(others)}" if others else f"of {len(first)} engines"
    return Row("equal bits twice", float(not others), "", note=note, is_wrong=bool(others))


def draw(found: list[Row]):
    """The largest error of each group."""
    from matplotlib.figure import Figure

    shown = [row for row in found if row.unit == "relative error"]
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    axes = figure.subplots()
    names = [row.what for row in shown]
    for index, row in enumerate(shown):
        limit = GROUPS[row.what].tolerance
        axes.plot(limit, index, "|", color="#777777", markersize=14)
        color = "#D55E00" if row.is_wrong else "#0072B2"
        axes.plot(max(row.value, 1e-17), index, "o", color=color)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("largest relative error against float64 (bar: what is allowed)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Write the float64 values, computed on this machine's CPU."""
    with jax.enable_x64():
        made = {name: group.numbers() for name, group in GROUPS.items()}
    found = {f"{name}: {key}": float(x) for name, one in made.items() for key, x in one.items()}
    STORED.write_text(json.dumps(found, indent=1) + "\n")
    print(len(found), "numbers")


if __name__ == "__main__":
    main()
