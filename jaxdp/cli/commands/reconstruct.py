"""`jaxdp reconstruct`: training rows reconstructed from trained parameters."""

import argparse
import io
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import jaxdp
from jaxdp import attacks
from jaxdp.cli import output
from jaxdp.core.checks import require_count
from jaxdp.core.files import read_arrays, write_whole

_FILES = {"rows": "found.npz", "numbers": "reconstruct.json"}
_SYNTHETIC = {"dim": 30, "num_samples": 10}
# Standard deviation of the synthetic labels' noise.
_LABEL_NOISE = 0.5


def reconstruct(options: argparse.Namespace) -> None:
    """Attack a model, score the attack if the rows are known, and write the rows found."""
    _settle(options)
    training_key, attack_key = jr.split(jr.key(options.seed))
    files = output.prepared_files(options, _FILES)
    activation = {"relu": jax.nn.relu, "tanh": jnp.tanh}[options.activation]
    if options.model is None:
        true, target = _trained(options, activation, training_key)
    else:
        true, target = None, _read(options.model, activation)
    found = attacks.reconstruct(target, options.num_samples, key=attack_key)
    # An odd activation determines rows only up to their sign.
    signs = options.activation == "tanh"
    report = attacks.leak_report(target, found, true, allow_sign_flips=signs)
    rows: dict[str, Any] = {"inputs": np.asarray(found.inputs)}
    summary = {
        "problem": "reconstruction",
        "options": output.described_options(options),
        "num_samples": options.num_samples,
        "dim": target.dim,
        "num_features": target.num_features,
        "loss": float(found.loss),
        "converged": bool(found.converged),
        "verdict": report.verdict.name.lower(),
    }
    lines = [
        f"{options.num_samples} rows of {target.dim} numbers from {target.num_features} "
        f"{options.activation} features",
        f"loss {float(found.loss):.2e} after {float(found.num_passes):.0f} passes",
    ]
    if true is not None and report.errors is not None:
        rows["true_inputs"] = true
        error = float(report.errors.mean())
        summary |= {"error": error, "rows_found": report.num_found, "chance_error": report.chance}
        lines.append(f"error {error:.3g} (chance {report.chance:.3g})")
    archive = io.BytesIO()
    np.savez_compressed(archive, **rows)
    write_whole(files["rows"], archive.getvalue())
    output.finish(options, files, summary, [*lines, f"verdict: {report}"])


def _settle(options: argparse.Namespace) -> None:
    """Set default sizes of synthetic rows, or refuse sizes together with a model."""
    if options.model is not None:
        names = ("dim", "num_features")
        output.settle(options, {}, dict.fromkeys(names, "does not go with a model"))
        if "num_samples" not in options:
            raise ValueError("expected --num-samples, how many rows to look for, with a model")
        return
    output.settle(options, _SYNTHETIC)
    dim, count = options.dim, options.num_samples
    require_count("num_samples", count)
    output.settle(options, {"num_features": 10 * dim * count})
    width = options.num_features
    output.check_sizes(the_weights=(width, dim), the_features=(width, count))


def _read(path: pathlib.Path, activation) -> attacks.RandomFeaturesTarget:
    output.check_file(path)
    try:
        found = read_arrays(path)
        if not {"weights", "parameters"} <= found.keys():
            raise ValueError(f"got the arrays {', '.join(found) or 'none'}")
        return attacks.RandomFeaturesTarget(found["weights"], activation, found["parameters"])
    except (TypeError, ValueError) as error:
        wanted = "expected an .npz file of weights and parameters"
        raise ValueError(f"{path}: {wanted}: {error}") from None


def _trained(options, activation, key) -> tuple[np.ndarray, attacks.RandomFeaturesTarget]:
    """Draw synthetic rows with noisy linear labels, and interpolate them by a model."""
    dim, count = options.dim, options.num_samples
    rows_key, slope_key, noise_key, weights_key, _ = jr.split(key, 5)
    inputs = jaxdp.problems.sphere_inputs(count, dim, key=rows_key)
    slope = jr.normal(slope_key, (dim,)) / dim**0.5
    labels = inputs @ slope + _LABEL_NOISE * jr.normal(noise_key, (count,))
    weights = jr.normal(weights_key, (options.num_features, dim)) / dim**0.5
    parameters = attacks.minimum_norm_parameters(inputs, labels, weights, activation)
    return np.asarray(inputs), attacks.RandomFeaturesTarget(weights, activation, parameters)
