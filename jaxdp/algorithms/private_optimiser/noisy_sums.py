r"""Noise on sums of clipped gradients: simulated in floating point, or secret and certified.

A sum at clip norm C is released with normal noise of standard deviation z times its sensitivity in
the arithmetic of the machine: C (1 + b), with the b that `sensitivity_excess` proves, where a
formula for real numbers would say C. Simulated noise is drawn by JAX from a key. Its float32
normals are 8.4 million numbers within 5.42 standard deviations: who knows all records but one can
tell from the last bits of a single weight what the last one is, and a value beyond 5.42 is a proof
that the record is there. Certified noise is an exact normal number, rounded with the sum to one
grid (`SecretNoise.noisy_integers`).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from jaxdp.clipping.two_part_sum import TwoPartSum, why_sums_are_unproved
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit

_LARGEST_INTEGER = 2.0**61


def simulated_noise(like: PyTree[Array], std: Any, *, key: Key[Array, ""]) -> PyTree[Array]:
    """Normals of JAX for every number of a pytree, in its types."""
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(key, max(1, len(leaves)))
    noise = [
        (std * jr.normal(key, leaf.shape, leaf.dtype)).astype(leaf.dtype)
        for leaf, key in zip(leaves, keys, strict=False)
    ]
    return jax.tree.unflatten(structure, noise)


def with_noise(total: TwoPartSum, noise: PyTree[Array]) -> PyTree[Float[Array, "..."]]:
    """The sum plus noise, in the precision of the sum: noise is added before it rounds."""
    return jax.tree.map(lambda high, low, noise: high + (low + noise), total.high, total.low, noise)


def with_secret_noise(
    total: TwoPartSum, std: float, *, bound: float, noise: SecretNoise
) -> PyTree[Float[np.ndarray, "..."]]:
    r"""The sum plus secret noise, as whole multiples of one unit, in float64 on the host.

    Each coordinate is rounded to the unit before it gets its noise. That moves neighbours apart by
    at most $\sqrt d$ units, which `std` has to cover (`widened_for_grid`).

    Args:
        total: the exact sum is high plus low.
        std: of the noise on every coordinate; public.
        bound: no coordinate of a true sum is larger; what lies beyond, or is not a number, would
            end in an error that tells of the data, and is brought within it.
        noise: its source.

    Raises:
        ValueError: the noise is so little that 64-bit integers do not hold the sum in its unit, or
            sums are not proved on the device that made this one.
    """
    unproved = why_sums_are_unproved(total)
    if unproved is not None:
        raise ValueError(f"expected sums with a proved bound for noise=SecretNoise(): {unproved}")
    unit = grid_unit(std)
    if bound > _LARGEST_INTEGER * unit:
        raise ValueError(
            f"expected noise that 64-bit sums can hold, got a standard deviation of {std:.3g} on "
            f"sums of up to {bound:.3g}"
        )
    leaves, structure = jax.tree.flatten(total.in_float64())
    within = [np.clip(np.nan_to_num(leaf), -bound, bound) for leaf in leaves]
    values = [np.rint(leaf / unit).astype(np.int64) for leaf in within]
    hidden = noise.hiding(std, *values)
    noisy = [
        hidden.noisy_integers(value, std / unit, f"sum of leaf {place}") * unit
        for place, value in enumerate(values)
    ]
    return jax.tree.unflatten(structure, noisy)


def widened_for_grid(std: float, multiplier: float, num_weights: int) -> float:
    r"""The standard deviation that also covers what rounding to its own grid adds to one record.

    $z(\Delta + \sqrt d\,u)$ for a sensitivity $\Delta$ and the unit u of the grid, which is at most
    $2^{-29}$ of the result.

    Args:
        std: $z\Delta$.
        multiplier: z > 0.
        num_weights: d.

    Raises:
        ValueError: the grid would take half of the noise.
    """
    share = multiplier * math.sqrt(num_weights) * 2.0**-29
    if share > 0.5:
        raise ValueError(
            f"expected a noise_multiplier below {2.0**28 / math.sqrt(num_weights):.3g} for "
            f"{num_weights} weights, got {multiplier}"
        )
    return std / (1 - share) * (1 + 2.0**-50)


def as_two_parts(total: PyTree[Array] | TwoPartSum) -> TwoPartSum:
    """A rounded sum as one in two parts."""
    if isinstance(total, TwoPartSum):
        return total
    return TwoPartSum(total, jax.tree.map(jnp.zeros_like, total))
