"""`jaxdp reconstruct`: training rows read off trained parameters, and how many were found.

What is attacked are parameters from a file, or of a model that is trained here and now.
"""

import argparse
import dataclasses
import io
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import jaxdp
from jaxdp import attacks
from jaxdp.attacks import RandomFeaturesTarget, minimum_norm_parameters
from jaxdp.cli import output
from jaxdp.cli.output import check_file, settle
from jaxdp.cli.values import check_sizes, check_steps, flag
from jaxdp.core.checks import require_count, require_non_negative
from jaxdp.core.files.compressed_files import read_arrays
from jaxdp.core.files.whole_files import write_whole
from jaxdp.core.numerics.hermite import host_function, scaled_coefficients
from jaxdp.core.progress import waiting
from jaxdp.plots import plot_reconstruction
from jaxdp.problems import sphere_inputs
from jaxdp.theory import one_step_reconstruction_error

_FILES = {"rows": "found.npz", "picture": "reconstruct.png", "numbers": "reconstruct.json"}
_FOUND_BELOW = 0.1
_DEFAULTS = {"dim": 30, "num_samples": 10, "label_noise": 0.5}
_PRIVATE_DEFAULTS = {"delta": 1e-5, "num_steps": 1}
_FOREIGN_TO_A_MODEL = ("dim", "num_features", "label_noise", "epsilon", "delta", "num_steps")
# Of the root mean square of |phi|: so low that all but a few of a hundred gradients are clipped.
_CLIP_SHARE = 0.1


def reconstruct(options: argparse.Namespace) -> None:
    """Attack a model, score the attack where the rows are known, and write what was found."""
    for option in ("max_passes", "num_starts"):
        check_steps(require_count(flag(option), getattr(options, option)), flag(option))
    check_victim(options)
    victim_key, attack_key = output.seeded_keys(options, 2)
    files = output.prepared_files(options, _FILES)
    if options.model is not None:
        victim = read_victim(options)
    else:
        with waiting(False if options.quiet else None, "train"):
            victim = train_victim(options, victim_key)
    target, true = victim.target, victim.true_inputs
    started = time.perf_counter()
    found = attacks.reconstruct(
        target,
        victim.num_samples,
        key=attack_key,
        max_passes=options.max_passes,
        num_starts=options.num_starts,
        progress=False if options.quiet else None,
    )
    seconds = time.perf_counter() - started
    flips = _is_odd_or_even(options.activation)
    report = attacks.leak_report(
        target, found, true, allow_sign_flips=flips, found_below=_FOUND_BELOW
    )
    score = {} if true is None else _score(victim, true, found.inputs, flips, report.chance)
    summary = {
        "problem": "reconstruction",
        "options": output.described_options(options),
        **_numbers(victim, found),
        "seconds": seconds,
        "cost": victim.cost and vars(victim.cost),
        **score,
        "verdict": report.verdict.name.lower(),
        "applies": report.verdict.applies,
        "true_loss": report.true_loss,
    }
    rows: dict[str, Any] = {"inputs": np.asarray(found.inputs)}
    if true is not None:
        rows["true_inputs"] = true
    archive = io.BytesIO()
    np.savez_compressed(archive, **rows)
    write_whole(files["rows"], archive.getvalue())
    outputs = f" x {target.num_outputs} outputs" if target.num_outputs > 1 else ""
    heading = (
        f"{victim.num_samples} rows of {target.dim} numbers from {target.num_features} "
        f"{options.activation} features{outputs}"
    )
    levels = {"chance": score.get("chance_error"), "predicted": victim.predicted}
    figure = plot_reconstruction(
        found.inputs,
        true,
        levels={name: level for name, level in levels.items() if level is not None},
        allow_sign_flips=flips,
        title=heading,
    )
    output.write_picture(files["picture"], figure)
    lines = [heading, *victim.notes, *_lines(summary, flips), f"verdict: {report}"]
    output.finish(
        options, files, summary, lines + ([victim.cost] if victim.cost is not None else [])
    )


def _numbers(victim: "Victim", found) -> dict[str, Any]:
    """Sizes of what was attacked, and how the search ended."""
    target, count = victim.target, victim.num_samples
    return {
        "num_samples": count,
        "dim": target.dim,
        "num_features": target.num_features,
        "num_outputs": target.num_outputs,
        "ratio": target.num_features * target.num_outputs / (target.dim * count),
        "loss": float(found.loss),
        "converged": bool(found.converged),
        "status": str(found.status),
        "num_passes": float(found.num_passes),
    }


def _is_odd_or_even(name: str) -> bool:
    """Whether negated rows have the same span of features: then signs cannot be found."""
    activation, places = activation_named(name), np.linspace(0.1, 3, 30)
    here, there = np.asarray(activation(places)), np.asarray(activation(-places))
    return np.allclose(here, there) or np.allclose(here, -there)


def _score(
    victim: "Victim", true: np.ndarray, found: Any, flips: bool, chance: float | None
) -> dict[str, Any]:
    """Errors of the rows, and what rows drawn without looking at the model would have."""
    errors = attacks.row_errors(true, found, allow_sign_flips=flips)
    return {
        "error": float(errors.mean()),
        "rows_found": int((errors < _FOUND_BELOW).sum()),
        "row_errors": errors.tolist(),
        "chance_error": chance,
        "predicted_error": victim.predicted,
    }


def _lines(summary: dict[str, Any], flips: bool) -> list[str]:
    """The table: a name and a value in each line."""
    verdict = "converged" if summary["converged"] else f"not converged ({summary['status']})"
    rows = {
        "p/(dn)": f"{summary['ratio']:.3g}",
        "loss": f"{summary['loss']:.2e}  {verdict}",
        "passes": f"{summary['num_passes']:.0f} over all features, {summary['seconds']:.1f} s",
    }
    if "error" in summary:
        sign = ", up to sign" if flips else ""
        rows["error"] = f"{summary['error']:.3g}  (chance {summary['chance_error']:.2f}{sign})"
        if summary["predicted_error"] is not None:
            rows["error"] += f", predicted {summary['predicted_error']:.3g}"
        rows["rows found"] = f"{summary['rows_found']} of {summary['num_samples']} within .1"
    width = max(map(len, rows))
    return [f"{name:>{width}}  {value}" for name, value in rows.items()]


class Victim(NamedTuple):
    """A model that is attacked, and what is known of it besides.

    Attributes:
        target: what the attacker holds.
        num_samples: n.
        true_inputs: (n, d) on the sphere, to score by; None when unknown.
        cost: of private training; None without.
        predicted: the error that theory expects of an attack; None where it says nothing.
        notes: lines for the reader.
    """

    target: RandomFeaturesTarget
    num_samples: int
    true_inputs: np.ndarray | None = None
    cost: Any = None
    predicted: float | None = None
    notes: tuple[str, ...] = ()


def activation_named(name: str) -> Callable:
    """The function of an option --activation."""
    both = lambda values: jax.nn.relu(values) + jnp.tanh(values)  # noqa: E731
    return {"relu": jax.nn.relu, "tanh": jnp.tanh, "relu+tanh": both}[name]


def mean_square(activation: Callable) -> float:
    """E phi(Z)^2 of a standard normal Z."""
    _, (found,) = scaled_coefficients(host_function(activation), np.array([1.0]), 1)
    return float(found)


def check_victim(options: argparse.Namespace) -> None:
    """Fill in the defaults of what was not given, and refuse what does not go together."""
    if options.model is not None:
        settle(options, {}, dict.fromkeys(_FOREIGN_TO_A_MODEL, "does not go with a model"))
        if "num_samples" not in options:
            raise ValueError("expected --num-samples, how many rows to look for, with a model")
        return
    foreign = {"truth": "goes with a model: synthetic rows are known"}
    if "epsilon" in options:
        settle(options, _PRIVATE_DEFAULTS)
    else:
        foreign |= dict.fromkeys(_PRIVATE_DEFAULTS, "needs --epsilon")
    settle(options, _DEFAULTS, foreign)
    for name in ("dim", "num_samples"):
        require_count(name, getattr(options, name))
    settle(options, {"num_features": 10 * options.dim * options.num_samples})
    require_count("num_features", options.num_features)
    require_non_negative("label_noise", options.label_noise)
    check_sizes(
        the_weights=(options.num_features, options.dim),
        the_features=(options.num_features, options.num_samples),
        all_starts=(options.num_starts, options.num_samples, options.dim),
    )
    check_steps(getattr(options, "num_steps", 1))
    if options.num_features <= options.num_samples:
        raise ValueError(
            f"expected --num-features above --num-samples, got {options.num_features} and "
            f"{options.num_samples}: the features of any n rows span everything then"
        )


def read_victim(options: argparse.Namespace) -> Victim:
    """The model of a file.

    Raises:
        ValueError: a file is not what it should be.
    """
    weights, parameters = _arrays(options.model, "weights", "parameters")
    try:
        target = RandomFeaturesTarget(weights, activation_named(options.activation), parameters)
    except ValueError as error:
        raise ValueError(f"{options.model}: {error}") from None
    if "truth" not in options:
        return Victim(target, options.num_samples)
    true, notes = _true_inputs(options.truth, (options.num_samples, target.dim))
    return Victim(target, options.num_samples, true, notes=notes)


def train_victim(options: argparse.Namespace, key) -> Victim:
    """A model of synthetic rows, by interpolation or by private descent."""
    activation = activation_named(options.activation)
    rows_key, slope_key, noise_key, weights_key, training_key = jr.split(key, 5)
    inputs = sphere_inputs(options.num_samples, options.dim, key=rows_key)
    slope = jr.normal(slope_key, (options.dim,)) / options.dim**0.5
    noise = options.label_noise * jr.normal(noise_key, (options.num_samples,))
    labels = inputs @ slope + noise
    weights = jr.normal(weights_key, (options.num_features, options.dim)) / options.dim**0.5
    true = np.asarray(inputs)
    if "epsilon" not in options:
        parameters = minimum_norm_parameters(inputs, labels, weights, activation)
        target = RandomFeaturesTarget(weights, activation, parameters)
        return Victim(target, options.num_samples, true)
    algorithm = _private_algorithm(options, activation)
    problem = jaxdp.RandomFeatures.from_arrays(inputs, labels, inputs, labels, weights, activation)
    run = jaxdp.simulate(
        problem,
        algorithm,
        key=training_key,
        simulator=jaxdp.Iterates(),
        records=1,
        keep_parameters=True,
    ).check()
    assert run.parameters is not None
    target = RandomFeaturesTarget(weights, activation, run.parameters[0])
    release = dataclasses.replace(algorithm.release(), num_records=options.num_samples)
    cost: Any = jaxdp.account(release, delta=options.delta)
    predicted = None
    # Of one step from 0; of more, nothing is known.
    if options.num_steps == 1:
        sizes = options.dim, options.num_samples
        predicted = float(
            one_step_reconstruction_error(
                cost.mu, *sizes, activation, num_features=options.num_features
            )
        )
    return Victim(target, options.num_samples, true, cost, predicted)


def _private_algorithm(options: argparse.Namespace, activation: Callable) -> jaxdp.DPGD:
    """Descent whose rate and clip norm do not look at the data."""
    feature_norm = (options.num_features * mean_square(activation)) ** 0.5
    return jaxdp.DPGD.calibrated(
        options.epsilon,
        options.delta,
        # Half of what is stable for any rows of this norm.
        learning_rate=0.5 / feature_norm**2,
        clip_norm=_CLIP_SHARE * feature_norm,
        num_steps=options.num_steps,
    )


def _true_inputs(path: pathlib.Path, shape: tuple[int, int]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The rows to score by, scaled to the sphere on which rows are looked for."""
    (rows,) = _arrays(path, "inputs")
    if rows.shape != shape:
        raise ValueError(f"{path}: expected inputs of shape {shape}, (n, d), got {rows.shape}")
    rows = np.asarray(rows, np.float64)
    if not np.isfinite(rows).all():
        raise ValueError(f"{path}: expected finite inputs")
    constant = np.flatnonzero(np.ptp(rows, axis=1) == 0)
    if constant.size:
        raise ValueError(f"{path}: row {constant[0] + 1} of inputs is constant")
    norms = np.linalg.norm(rows, axis=1, keepdims=True) / shape[1] ** 0.5
    if abs(norms - 1).max() <= 1e-3:
        return rows / norms, ()
    spread = f"norms of rows over sqrt(d) are {norms.min():.3g} to {norms.max():.3g}"
    return rows / norms, (f"{path}: {spread}; scored by direction",)


def _arrays(path: pathlib.Path, *names: str) -> tuple[np.ndarray, ...]:
    """Arrays of an .npz file, by name."""
    check_file(path)
    try:
        there, found = read_arrays(path, names)
    except ValueError as error:
        raise ValueError(f"{path}: expected an .npz file of numbers: {error}") from None
    for name in names:
        if name not in found:
            raise ValueError(
                f"{path}: expected an array {name!r}, got {', '.join(there) or 'none'}"
            )
        if found[name].dtype.kind not in "iuf":
            raise ValueError(f"{path}: expected numbers in {name}, got {found[name].dtype}")
    return tuple(found.values())
