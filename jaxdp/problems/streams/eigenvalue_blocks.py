"""The distinct eigenvalues of a covariance, by which a problem falls into a few blocks.

Only how often each comes is fixed when a problem is made, because it sets shapes. All else is
derived where it is used, from the spectrum and the target as they then are.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jaxdp.core.arrays import as_float, in_jax


class Blocks(eqx.Module):
    """The distinct eigenvalues of a covariance, and how much of the target lies in each block."""

    eigenvalues: Float[Array, " blocks"]  # the distinct values
    # Their multiplicities, which set shapes and so are known when a loop is compiled.
    sizes: tuple[int, ...] = eqx.field(static=True)
    squared_target: Float[Array, " blocks"]  # squared norm of the target within each block
    is_valid: Bool[Array, ""]  # whether the values of a traced spectrum are equal within each block


def multiplicities_of(spectrum: Float[Array, " dim"]) -> tuple[int, ...] | None:
    """How often each distinct eigenvalue comes, rising; None for a traced spectrum."""
    if isinstance(spectrum, Tracer):
        return None
    _, counts = np.unique(np.asarray(spectrum), return_counts=True)
    return tuple(counts.tolist())


def blocks_of(
    spectrum: Float[Array, " dim"],
    target: Float[Array, " dim"],
    multiplicities: tuple[int, ...] | None,
) -> Blocks:
    """The blocks of a spectrum that has these multiplicities; of one coordinate each for None."""
    if multiplicities is None:
        ones = (1,) * len(spectrum)
        return Blocks(spectrum, ones, target**2, in_jax(np.True_))
    of = _traced_blocks if isinstance(spectrum, Tracer) else _known_blocks
    return of(spectrum, target, multiplicities)


def _known_blocks(spectrum, target, sizes: tuple[int, ...]) -> Blocks:
    values, member, counts = np.unique(
        np.asarray(spectrum), return_inverse=True, return_counts=True
    )
    if tuple(counts.tolist()) != sizes:
        raise ValueError(
            f"expected eigenvalues that come {_few(sizes)} times, as those that the problem was "
            f"made with, got some that come {_few(counts.tolist())} times; use "
            "problem.replace(spectrum=...), which groups them anew"
        )
    squared = _squares(target, member, len(sizes))
    return Blocks(as_float(values), sizes, squared, in_jax(np.True_))


@functools.partial(jax.jit, static_argnums=2)
def _squares(target, member, num_blocks: int) -> Float[Array, " blocks"]:
    """The squared norm of the target within each block, as one program."""
    return jax.ops.segment_sum(target**2, member, num_segments=num_blocks)


def _traced_blocks(spectrum, target, sizes: tuple[int, ...]) -> Blocks:
    """The blocks of a traced spectrum, rising: equal values are neighbours once it is sorted."""
    # One block is in any order, and a sort is compiled as long as all the rest.
    order = np.arange(len(spectrum)) if len(sizes) == 1 else jnp.argsort(spectrum)
    member = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    values = spectrum[order]
    firsts = values[np.cumsum((0, *sizes[:-1]))]
    apart = values - firsts[member]
    sums = jax.ops.segment_sum(apart, member, num_segments=len(sizes))
    # Zero, but each coordinate of a block has its share of the derivative.
    shares = sums / np.asarray(sizes, spectrum.dtype)
    blocks = jnp.zeros(len(member), jnp.int32).at[order].set(member)
    squared = jax.ops.segment_sum(target**2, blocks, num_segments=len(sizes))
    return Blocks(firsts + shares, sizes, squared, jnp.all(apart == 0))


def _few(counts) -> str:
    shown = ", ".join(str(count) for count in counts[:6])
    return f"({shown}, ...)" if len(counts) > 6 else f"({shown})"
