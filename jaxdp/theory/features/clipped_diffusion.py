"""The Gaussian closure of DP-GD with clipping in the limit of small steps."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.numerics.precision import product
from jaxdp.core.trajectory import trajectory_of
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.base import AbstractTheory, require_dp_gd
from jaxdp.theory.features.closed_moments import Closure
from jaxdp.theory.features.gaussian_closure import DEFAULT_RANK
from jaxdp.theory.features.modes import kernel_modes, record_times
from jaxdp.theory.solver import Tolerances, require_adjoint, solve


class Flow(eqx.Module):
    """Mean and covariance of the coordinates, and the clipped share integrated over time."""

    mean: Float[Array, " modes"]
    leading: Float[Array, "rank rank"]
    others: Float[Array, " others"]
    clipped: Float[Array, ""]


def _largest_error(error: Flow):
    """The largest entry: a root mean square hides errors of the mean behind many covariances."""
    return jnp.max(
        jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(error) if part.size])
    )


_TOLERANCES = Tolerances((1e-9, 1e-12), (1e-6, 1e-8), _largest_error, max_steps=2**14)


class ClippedDiffusion(AbstractTheory):
    r"""Predict the test error of DP-GD with clipping for many small steps, the diffusion PF (3.5).

    The limit of `GaussianClosure`. Learning rate and steps matter only through $\tau = \eta T$ and
    the noise: the cost does not grow with T, and `num_steps` may be traced in forward and reverse
    mode. Memory: 25 n^2 numbers, and min(n, rank)^2 more for each record.

    Args:
        rank: number of leading modes with full covariances, as for `GaussianClosure`.
        adjoint: how diffrax differentiates the solution. The default serves `jax.grad`;
            `diffrax.ForwardMode()` serves `jax.jvp` and `jax.jacfwd`.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> theory = jaxdp.ClippedDiffusion()
        >>> predicted = jaxdp.predict(problem, algorithm, theory=theory, records=2)
        >>> predicted.risk.shape, bool(predicted.final_risk < predicted.risk[0])
        ((3,), True)
    """

    rank: int = eqx.field(static=True, converter=plain_number, default=DEFAULT_RANK)
    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def __check_init__(self):
        require_count("rank", self.rank, least=0)
        require_adjoint(self.adjoint)

    def read(self, problem, algorithm) -> tuple[AbstractFeatureProblem, DPGD]:
        require_dp_gd(problem, algorithm)
        return problem, algorithm

    def solve(self, reading, records):
        problem, algorithm = reading
        modes = kernel_modes(problem)
        at_record, time = record_times(algorithm, records)
        diffusion = algorithm.diffusion(modes.num_train)
        # Nothing that is compiled sees the number of steps.
        bias, variance, clipped, stopped = _solve(
            modes,
            modes.slope_limits(algorithm),
            algorithm.duration,
            diffusion,
            at_record / jnp.asarray(algorithm.num_steps, float),
            self.rank,
            self.adjoint,
        )
        variance = variance + diffusion**2 * time * modes.unseen
        risk = bias + variance
        return trajectory_of(
            modes.is_valid & algorithm.is_valid,
            time=time,
            risk=risk,
            final_risk=risk[-1],
            observables={"bias": bias, "variance": variance, "clipped_fraction": clipped},
            label="clipped diffusion",
            stopped=stopped,
        )


@eqx.filter_jit
def _solve(modes, limits, duration, diffusion, share, rank: int, adjoint):
    dtype = float_dtype(modes, limits, duration, diffusion)
    # Coordinates in which the largest eigenvalue is 1: predictions and moments are of order one.
    largest = modes.eigenvalues[0]
    largest = jnp.where(largest > 0, largest, 1)
    scaled = eqx.tree_at(
        lambda tree: (tree.factor, tree.test_factor),
        modes,
        (modes.factor / jnp.sqrt(largest), modes.test_factor / jnp.sqrt(largest)),
    )
    closure = Closure(scaled, limits.astype(dtype), rank)
    rate = duration * largest

    def velocity(_, flow: Flow) -> Flow:
        found = _velocity(closure, flow, diffusion)
        scaled = jax.tree.map(lambda part: (rate * part).astype(dtype), found)
        # The clipped share is summed over the share of the time.
        return eqx.tree_at(lambda tree: tree.clipped, scaled, found.clipped.astype(dtype))

    rank, count = closure.rank, modes.eigenvalues.shape[0]
    start = Flow(
        jnp.zeros(count, dtype),
        jnp.zeros((rank, rank), dtype),
        jnp.zeros(count - rank, dtype),
        jnp.zeros((), dtype),
    )
    flow, stopped = solve(
        velocity, start, share.astype(dtype), tolerances=_TOLERANCES, adjoint=adjoint
    )
    test = scaled.test_factor
    test_leading = product(test[:, :rank].T, test[:, :rank]) / test.shape[0]
    variance = jnp.sum(test_leading[None] * flow.leading, axis=(1, 2))
    variance += jnp.sum(jnp.mean(test[:, rank:] ** 2, axis=0)[None] * flow.others, axis=1)
    clipped = flow.clipped / jnp.where(share > 0, share, 1)
    return scaled.bias(flow.mean), variance, clipped, stopped


def _velocity(closure: Closure, flow: Flow, diffusion) -> Flow:
    forces = closure.forces(flow.mean, flow.leading, flow.others)
    identity = jnp.eye(closure.rank, dtype=forces.leading.dtype)
    decay = product(forces.leading, flow.leading)
    return Flow(
        -forces.pull,
        diffusion**2 * identity - decay - decay.T,
        diffusion**2 - 2 * forces.others * flow.others,
        forces.clipped,
    )
