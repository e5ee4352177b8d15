r"""Leading modes of a tangent kernel, with what they leave out.

The closures see a problem as modes of its training kernel. A network has as many of them as rows,
most of which learn nothing in the time of a private run. Here the leading ones are kept; of the
others each row keeps the squared norm: it counts where gradients are clipped, and noise piles up in
it on training and test rows alike, but nothing is learnt there.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.problems.rows.tangent_kernel import TangentKernel
from jaxdp.theory.features.modes import KernelModes

# Of the largest eigenvalue: below it, eigenvectors of a kernel in float32 are rounding.
_LEAST = 1e-5


class TangentModes(NamedTuple):
    """A linearised network in the leading modes of a kernel."""

    modes: KernelModes  # what the closures read
    # $Uw^{-1/2}$: coordinates c of the modes are the weights $w_0 + \sum_i (Uw^{-1/2}c)_i\nabla
    # f(w_0, x_i)$.
    basis: Float[np.ndarray, "train modes"]


def tangent_modes(
    problem: Linearised, kernel: TangentKernel, start: tuple[Array, Array], count: int
) -> TangentModes:
    """At most `count` leading modes of a kernel of a problem's rows, and what they leave out."""
    from scipy.linalg import eigh

    size = problem.num_train
    leading = size - min(count, size), size - 1
    found = eigh(kernel.train.astype(np.float64), subset_by_index=leading)
    values, vectors = (part[..., ::-1] for part in found)
    # Modes that are not above rounding are taken for part of the rest. They keep their places, so
    # that kernels of one size share what is compiled.
    values = np.where(values > _LEAST * values[0], values, 0)
    roots = np.sqrt(values)
    basis = vectors / np.where(roots > 0, roots, np.inf)
    factor, test_factor = vectors * roots, kernel.cross @ basis
    squares = np.diagonal(kernel.train)
    # Rounding may leave a small rest negative.
    train_rest = np.maximum(squares - (factor**2).sum(axis=1), 0)
    test_rest = np.maximum(kernel.test_squares - (test_factor**2).sum(axis=1), 0)
    dtype = float_dtype(problem.train_labels, start)
    labels = problem.train_labels, problem.test_labels
    modes = KernelModes(
        eigenvalues=jnp.asarray(values, dtype),
        factor=jnp.asarray(factor, dtype),
        pull=jnp.asarray(factor.T @ np.asarray(labels[0]), dtype),
        test_factor=jnp.asarray(test_factor, dtype),
        feature_norms=jnp.asarray(np.sqrt(squares), dtype),
        train_labels=labels[0],
        test_labels=labels[1],
        unseen=jnp.asarray(test_rest.mean(), dtype),
        is_valid=problem.is_valid,
        loss=problem.loss,
        # Norms alone are known of it, not how the rests of two rows correlate: means of losses need
        # no more, the spread over runs would.
        unseen_factor=jnp.asarray(np.sqrt(test_rest)[:, None], dtype),
        train_start=start[0],
        test_start=start[1],
        train_unseen=jnp.asarray(train_rest, dtype),
    )
    return TangentModes(modes, basis)
