"""What `jaxdp reconstruct` attacks: parameters from a file, or of a model trained here and now."""

import argparse
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_DEFAULTS = {"dim": 30, "num_samples": 10, "label_noise": 0.5}
_PRIVATE_DEFAULTS = {"delta": 1e-5, "num_steps": 1}
# Of the root mean square of |phi|: so low that all but a few of a hundred gradients are clipped.
_CLIP_SHARE = 0.1


class Victim(NamedTuple):
    """What is attacked, and what is known of it besides.

    Attributes:
        target: what the attacker holds.
        num_samples: n.
        true_inputs: (n, d) on the sphere, to score by; None when unknown.
        cost: of private training; None without.
        predicted: the error that theory expects of an attack; None where it says nothing.
        notes: lines for the reader.
    """

    target: Any
    num_samples: int
    true_inputs: np.ndarray | None
    cost: Any
    predicted: float | None
    notes: tuple[str, ...]


def activation_named(name: str) -> Callable:
    """The function of an option --activation."""
    import jax
    import jax.numpy as jnp

    return {"relu": jax.nn.relu, "tanh": jnp.tanh, "relu+tanh": _relu_and_tanh}[name]


def _relu_and_tanh(values):
    import jax
    import jax.numpy as jnp

    return jax.nn.relu(values) + jnp.tanh(values)


def read_victim(options: argparse.Namespace) -> Victim:
    """The model of a file.

    Raises:
        ValueError: a file is not what it should be, or n is not given.
    """
    from jaxdp.attacks import RandomFeaturesTarget

    if "num_samples" not in options:
        raise ValueError("expected --num-samples, how many rows to look for, with a model")
    weights, parameters = _arrays(options.model, "weights", "parameters")
    try:
        target = RandomFeaturesTarget(weights, activation_named(options.activation), parameters)
    except ValueError as error:
        raise ValueError(f"{options.model}: {error}") from None
    true, notes = None, ()
    if "truth" in options:
        true, notes = _true_inputs(options.truth, (options.num_samples, target.dim))
    return Victim(target, options.num_samples, true, None, None, notes)


def train_victim(options: argparse.Namespace, key) -> Victim:
    """A model of synthetic rows, by interpolation or by private descent; fills in the defaults."""
    import jax.random as jr

    import jaxdp
    from jaxdp.attacks import RandomFeaturesTarget, minimum_norm_parameters
    from jaxdp.problems import sphere_inputs

    _settle(options)
    activation, algorithm = activation_named(options.activation), None
    if "epsilon" in options:
        algorithm = _private_algorithm(options, activation)
    rows_key, slope_key, noise_key, weights_key, training_key = jr.split(key, 5)
    inputs = sphere_inputs(options.num_samples, options.dim, key=rows_key)
    slope = jr.normal(slope_key, (options.dim,)) / options.dim**0.5
    noise = options.label_noise * jr.normal(noise_key, (options.num_samples,))
    labels = inputs @ slope + noise
    weights = jr.normal(weights_key, (options.num_features, options.dim)) / options.dim**0.5
    if algorithm is None:
        parameters = minimum_norm_parameters(inputs, labels, weights, activation)
        target = RandomFeaturesTarget(weights, activation, parameters)
        return Victim(target, options.num_samples, np.asarray(inputs), None, None, ())
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
    cost = jaxdp.account(algorithm, delta=options.delta)
    predicted = _predicted(options, cost.mu, activation)
    return Victim(target, options.num_samples, np.asarray(inputs), cost, predicted, ())


def _settle(options: argparse.Namespace) -> None:
    """Fill in the defaults of what was not given, and check the sizes."""
    from jaxdp.cli.output import settle
    from jaxdp.cli.sizes import check_sizes, check_steps
    from jaxdp.core.checks import require_count, require_non_negative

    foreign = {"truth": "goes with a model: synthetic rows are known"}
    if "epsilon" in options:
        settle(options, _PRIVATE_DEFAULTS, {})
    else:
        foreign |= {name: "needs --epsilon" for name in _PRIVATE_DEFAULTS}
    settle(options, _DEFAULTS, foreign)
    for name in ("dim", "num_samples"):
        require_count(name, getattr(options, name))
    settle(options, {"num_features": 10 * options.dim * options.num_samples}, {})
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


def _private_algorithm(options: argparse.Namespace, activation):
    """Descent whose rate and clip norm do not look at the data."""
    import jaxdp
    from jaxdp.core.numerics.hermite import host_function, scaled_coefficients

    _, (mean_square,) = scaled_coefficients(host_function(activation), np.array([1.0]), 1)
    feature_norm = float(options.num_features * mean_square) ** 0.5
    return jaxdp.DPGD.calibrated(
        options.epsilon,
        options.delta,
        # Half of what is stable for any rows of this norm.
        learning_rate=0.5 / feature_norm**2,
        clip_norm=_CLIP_SHARE * feature_norm,
        num_steps=options.num_steps,
    )


def _predicted(options: argparse.Namespace, mu: Any, activation) -> float | None:
    """Of one step from 0; of more, nothing is known."""
    from jaxdp.theory import one_step_reconstruction_error

    if options.num_steps > 1:
        return None
    sizes = options.dim, options.num_samples
    error = one_step_reconstruction_error(mu, *sizes, activation, num_features=options.num_features)
    return float(error)


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
    notes = ()
    if abs(norms - 1).max() > 1e-3:
        notes = (
            f"{path}: norms of rows over sqrt(d) are {norms.min():.3g} to {norms.max():.3g}; "
            "scored by direction",
        )
    return rows / norms, notes


def _arrays(path: pathlib.Path, *names: str) -> tuple[np.ndarray, ...]:
    """Arrays of an .npz file, by name."""
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("not an archive")
        with np.load(path, allow_pickle=False) as archive:
            found = {name: np.asarray(archive[name]) for name in names if name in archive}
            present = ", ".join(archive) or "none"
    except MemoryError:
        raise
    except Exception as error:
        # What reading an archive may raise has no common name.
        raise ValueError(f"{path}: expected an .npz file of numbers: {error}") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path}: expected an array {missing[0]!r}, got {present}")
    for name, value in found.items():
        if value.dtype.kind not in "iuf":
            raise ValueError(f"{path}: expected numbers in {name}, got {value.dtype}")
    return tuple(found.values())
