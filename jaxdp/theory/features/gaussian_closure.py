"""DP-GD with clipping, predicted step by step by the Gaussian closure."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxdp.algorithms.stability import warn_if_unstable
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.coverage import require_dp_gd
from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.modes import as_trajectory, kernel_modes, record_times

DEFAULT_RANK = 256


class GaussianClosure(AbstractTheory):
    r"""Expected test error of DP-GD with clipping, for T finite steps.

    The closure treats the iterates as Gaussian. Without clipping, and without noise, it is exact.
    Else the simulated mean lies within about 1 % of it, from no clipping to nearly everything
    clipped, where n >= 10 d; at n = 3 d and noise beyond the signal it falls 2 % short.

    Costs T steps of O(n rank^2 + n r) after one eigendecomposition; for very many steps
    `ClippedDiffusion` is cheaper. `jax.grad` with respect to learning rate, clip norm or noise
    keeps records + T/records copies of the moments; a traced `num_steps` can be differentiated
    through forward only.

    Args:
        rank: how many leading modes keep their covariances in full; the others keep variances. At
            256 the expected test error differs by at most .1 % from the full closure in every
            case tried (n up to 2000; tanh and ReLU; equal and unequal row norms), at 0 by .9 %.
            A rank of min(n, p) or more is the full closure.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.GaussianClosure(rank=8))
        >>> sorted(predicted.observables)
        ['bias', 'clipped_fraction', 'variance']
    """

    rank: int = eqx.field(static=True, converter=plain_number, default=DEFAULT_RANK)

    def __check_init__(self):
        require_rank(self.rank)

    def covers(self, problem, algorithm):
        return require_dp_gd(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        modes = kernel_modes(problem)
        warn_if_unstable(algorithm, modes.stability_limit)
        return _predict(modes, algorithm, records, self.rank)


def require_rank(rank: int) -> None:
    """Raise unless the number of modes with covariances is a Python int >= 0."""
    require_count("rank", rank, least=0)


@eqx.filter_jit
def _predict(modes, algorithm, records: int, rank: int):
    dtype = float_dtype(modes, algorithm)
    closure = Closure(modes, modes.slope_limits(algorithm).astype(dtype), rank)
    rate = algorithm.learning_rate.astype(dtype)
    noise_std = algorithm.noise_std(modes.num_train).astype(dtype)
    at_record, time = record_times(algorithm, records)
    longest = -(-algorithm.num_steps // records)

    @jax.checkpoint
    def step(moments):
        new = closure.step(moments, rate, noise_std)
        return jax.tree.map(lambda after, before: after.astype(before.dtype), new, moments)

    @jax.checkpoint
    def record(moments: Moments, bounds):
        start, last = bounds
        moments = lax.fori_loop(
            0,
            longest,
            lambda index, moments: lax.cond(
                start + index < last, step, lambda moments: moments, moments
            ),
            moments,
        )
        return moments, (closure.bias(moments), closure.variance(moments), moments.clipped)

    start = closure.start(dtype)
    _, (bias, variance, clipped) = lax.scan(record, start, (at_record[:-1], at_record[1:]))
    zero = jnp.zeros(1, dtype)
    bias = jnp.concatenate([closure.bias(start)[None], bias])
    variance = jnp.concatenate([zero, variance])
    # The coordinates that training never sees only collect noise.
    variance += noise_std**2 * at_record * modes.unseen
    share = jnp.concatenate([zero, clipped]) / jnp.maximum(at_record, 1)
    return as_trajectory(
        modes,
        algorithm,
        time=time,
        bias=bias,
        variance=variance,
        observables={"clipped_fraction": share},
        label="Gaussian closure",
    )
