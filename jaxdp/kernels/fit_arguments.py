"""What every private learner asks of the arguments of its fit."""

import hashlib
import math
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import require_finite, require_positive, require_shape
from jaxdp.kernels.blocks import ROWS
from jaxdp.privacy.arguments import check_delta
from jaxdp.privacy.secret_noise import SecretNoise, check_noise_seed

_LEAST_RECORDS = 2
# Public seeds are below.
PUBLIC_SEEDS = 2**63


def training_table(
    inputs: Any, labels: Any
) -> tuple[Float[np.ndarray, "n dim"], Float[np.ndarray, " n"]]:
    """Inputs as a floating-point matrix and labels in float64, on the host.

    Raises:
        TypeError: one of them is not made of real numbers.
        ValueError: they are not n >= 2 rows and n labels, or not finite in the precision that
            features are computed in.
    """
    table, targets = _real("inputs", inputs), _real("labels", labels)
    if table.ndim != 2:
        raise ValueError(
            f"expected inputs of shape (records, columns), got {table.shape}; "
            "inputs.reshape(-1, 1) makes one column"
        )
    require_shape("labels", targets, (None,))
    if len(table) != len(targets):
        raise ValueError(f"expected one label for each of {len(table)} rows, got {len(targets)}")
    if len(table) < _LEAST_RECORDS or table.shape[1] < 1:
        raise ValueError(
            f"expected at least {_LEAST_RECORDS} records of at least one number, "
            f"got {table.shape[0]} of {table.shape[1]}"
        )
    require_finite("labels", targets)
    check_magnitudes(table)
    return table, targets.astype(np.float64)


def check_magnitudes(table: Float[Any, "n dim"]) -> None:
    """Raise ValueError unless all inputs are finite in the precision of the features."""
    dtype = jnp.asarray(table[:0]).dtype
    largest = float(jnp.finfo(dtype).max) if jnp.issubdtype(dtype, jnp.floating) else math.inf
    # A block at a time: a boolean as large as the table would be all the memory a fit needs.
    for start in range(0, len(table), ROWS):
        block = np.asarray(table[start : start + ROWS])
        require_finite("inputs", block)
        if np.abs(block).max(initial=0) > largest:
            raise ValueError(f"expected inputs of magnitude at most {largest:.3g}")


def clipped_labels(labels: Float[np.ndarray, " n"], bound: float) -> Float[np.ndarray, " n"]:
    """The labels within the bound; a warning to whoever fits where that changes any of them."""
    beyond = int(np.count_nonzero(np.abs(labels) > bound))
    if beyond:
        warnings.warn(
            f"{beyond} of {len(labels)} labels are beyond label_bound = {bound:g} and are clipped; "
            "this is for the curator alone: the number is not private",
            UserWarning,
            stacklevel=3,
        )
    return np.clip(labels, -bound, bound)


def check_budget(epsilon: Any, delta: Any) -> None:
    """Raise ValueError unless 0 < epsilon < infinity and 0 < delta < 1, or TypeError."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu"
        if not is_number:
            raise TypeError(f"expected {name} to be a number, got {value!r}")
    if not 0 < float(epsilon) < math.inf:
        raise ValueError(f"expected 0 < epsilon < infinity, got {epsilon}")
    check_delta(delta)


def require_positive_number(name: str, value: Any) -> None:
    """Raise TypeError unless it is a number, ValueError unless it is positive and finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected {name} to be a number, got {value!r}")
    require_positive(name, value)


def check_seeds(public_seed: Any, noise_seed: Any) -> None:
    """Raise TypeError or ValueError unless the seeds are ints, and not one and the same."""
    if isinstance(public_seed, bool) or not isinstance(public_seed, (int, np.integer)):
        raise TypeError(f"expected public_seed to be an int, got {type(public_seed).__name__}")
    if not 0 <= public_seed < PUBLIC_SEEDS:
        raise ValueError("expected 0 <= public_seed < 2^63, got one beyond")
    check_noise_seed(noise_seed)
    if noise_seed is not None and noise_seed == public_seed:
        raise ValueError(
            "expected noise_seed to differ from public_seed: the one is published, and the other "
            "takes the noise off"
        )


def noise_of_fit(
    table: Float[np.ndarray, "n dim"],
    targets: Float[np.ndarray, " n"],
    *,
    seeds: tuple[int, int | None],
    budget: tuple[float, float],
) -> SecretNoise:
    """The noise of one fit: with a seed, other records, budgets or features have other noise.

    Args:
        table, targets: the records.
        seeds: the public one and that of the noise.
        budget: epsilon and delta.
    """
    public_seed, noise_seed = seeds
    if noise_seed is None:
        return SecretNoise()
    hashed = hashlib.sha256(repr((table.shape, *map(float, budget), int(public_seed))).encode())
    for start in range(0, len(table), ROWS):
        hashed.update(np.ascontiguousarray(table[start : start + ROWS], np.float64).tobytes())
    hashed.update(np.ascontiguousarray(targets, np.float64).tobytes())
    return SecretNoise(int(noise_seed), hashed.digest())


def _real(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype in (np.float32, np.float64):
        return array
    # Half precisions that NumPy knows by name alone are widened too, and objects that are numbers.
    is_number = jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "biuO"
    try:
        if is_number:
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"expected {name} of real numbers, got {array.dtype}")
