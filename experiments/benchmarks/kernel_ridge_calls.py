"""One fit in a process of its own, so that its peak memory is its own: prints a line of JSON.

`python -m experiments.benchmarks.kernel_ridge_calls CANDIDATE RECORDS DIM PROJECTIONS FEATURES`
"""

import json
import math
import pathlib
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

JAXDP, NUMPY, CHOLESKY = "jaxdp", "NumPy, float64", "joint Cholesky, float64"
_ROWS = 2048
_STD = 8.0


def table(num_samples: int, dim: int) -> tuple[Float[np.ndarray, "n dim"], Float[np.ndarray, " n"]]:
    """Uniform inputs, and labels within [-1, 1]."""
    generator = np.random.default_rng(0)
    inputs = generator.uniform(size=(num_samples, dim))
    return inputs, np.cos(inputs.sum(axis=1))


def jaxdp_fit(inputs, labels, num_projections: int, num_features: int):
    """The certified learner, its features computed in float32 on the device."""
    from jaxdp.kernels import Gaussian, PrivateKernelRidge

    learner = PrivateKernelRidge(
        Gaussian(1.0), num_projections, num_features, label_bound=1.0, input_bound=math.inf
    )
    return learner.fit(inputs, labels, epsilon=1.0, delta=1e-6, public_seed=0)


def numpy_fit(inputs, labels, num_projections: int, num_features: int):
    """The same design as a NumPy user writes it: float64, in blocks of rows, no certified noise."""
    generator = np.random.default_rng(0)
    frequencies = generator.normal(size=(num_features, inputs.shape[1]))
    weights = generator.normal(size=(2 * num_features, num_projections))
    weights /= math.sqrt(num_features * num_projections)

    def features(rows):
        phases = rows @ frequencies.T
        values = np.concatenate([np.cos(phases), np.sin(phases)], axis=1) @ weights
        return values / np.maximum(1, np.linalg.norm(values, axis=1, keepdims=True))

    starts = range(0, len(inputs), _ROWS)
    blocks = [(slice(start, start + _ROWS)) for start in starts]
    covariance, correlation = np.zeros((num_projections,) * 2), np.zeros(num_projections)
    for block in blocks:
        values = features(inputs[block])
        covariance += values.T @ values
        correlation += labels[block] @ values
    coefficients = _solved(covariance, correlation, len(inputs), generator)
    return lambda rows: np.concatenate(
        [
            features(rows[start : start + _ROWS]) @ coefficients
            for start in range(0, len(rows), _ROWS)
        ]
    )


def cholesky_fit(inputs, labels, num_projections: int, num_features: int):
    """PK Algorithm 1's own sampler: sample paths drawn jointly at the training inputs."""
    del num_features
    generator = np.random.default_rng(0)
    squares = (inputs**2).sum(axis=1)
    kernel = np.exp(-np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0) / 2)
    kernel[np.diag_indices(len(inputs))] += 1e-8
    factor = np.linalg.cholesky(kernel)
    values = factor @ generator.normal(size=(len(inputs), num_projections))
    values /= math.sqrt(num_projections)
    _solved(values.T @ values, labels @ values, len(inputs), generator)
    return lambda rows: rows[:, 0]


def _solved(covariance, correlation, num_samples: int, generator) -> Float[np.ndarray, " outputs"]:
    noise = generator.normal(size=covariance.shape) * _STD
    covariance = (covariance + (noise + noise.T) / 2) / num_samples
    correlation = (correlation + _STD * generator.normal(size=len(correlation))) / num_samples
    values, vectors = np.linalg.eigh(covariance)
    ridge = _STD * math.sqrt(2 * len(correlation)) / num_samples
    return vectors @ ((vectors.T @ correlation) / (np.maximum(values, 0) + ridge))


FITS: dict[str, Callable] = {JAXDP: jaxdp_fit, NUMPY: numpy_fit, CHOLESKY: cholesky_fit}


def _peak() -> int:
    """The most bytes that this process has held."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    # `getrusage` starts from the parent's memory, so it serves only without /proc.
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return 1024 * (found[0] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main(name: str, *sizes: str) -> None:
    """Fit twice (the first time with all that is compiled) and predict twice."""
    num_samples, dim, num_projections, num_features = map(int, sizes)
    inputs, labels = table(num_samples, dim)
    facts: dict[str, object] = {"before": _peak()}
    facts["seconds"], found = _twice(
        lambda: FITS[name](inputs, labels, num_projections, num_features)
    )
    facts["peak"] = _peak()
    facts["predictions"], values = _twice(lambda: np.asarray(found(inputs)))
    assert values.shape == labels.shape
    print(json.dumps(facts))


def _twice(call: Callable) -> tuple[list[float], Any]:
    """Seconds of each of two calls, and the second's result."""
    seconds, found = [], None
    for _ in range(2):
        started = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - started)
    return seconds, found


if __name__ == "__main__":
    main(*sys.argv[1:])
