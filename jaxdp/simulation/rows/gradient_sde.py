r"""The diffusions behind full-batch private gradient descent: sampled paths, through diffrax.

With constant noise $\Sigma = 2C\sigma/n$ and $\tau = \eta T$:

$$ d\Theta = -\nabla\mathcal L_C(\Theta)\,dt + \Sigma\,dB \quad (3.5), \qquad
   d\hat\Theta = -\nabla\mathcal L(\hat\Theta)\,dt + \Sigma\,dB \quad (6.1), $$

the second, with the unclipped loss, an Ornstein-Uhlenbeck process. Coordinates that training does
not see (`ReducedFeatures`) are Brownian motions, drawn at the records.
"""

import math
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import lineax
from jax.core import Tracer

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.keys import purpose_key, run_keys, stream_key
from jaxdp.core.numerics.precision import full_products, product
from jaxdp.core.trajectory import Trajectory, trajectory_of
from jaxdp.problems.rows.features import AbstractFeatureProblem, ReducedFeatures, reason_not_squared
from jaxdp.simulation.base import AbstractSimulator, known_length
from jaxdp.simulation.driver import announced, average_so_far, ranges_of

_LEAST_STEPS, _MOST_STEPS = 200, 1_000_000
# Steps within the time n / (2 lambda_max) of the fastest mode.
_STEPS_PER_TIME = 4


class AbstractGradientSDE(AbstractSimulator):
    """Paths of one of the two diffusions, in the coordinates that training sees."""

    has_parameters: ClassVar[bool] = False
    is_clipped: eqx.AbstractClassVar[bool]
    num_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)

    def __check_init__(self):
        if self.num_steps is not None:
            require_count("num_steps", self.num_steps)

    def reason_against(self, problem, algorithm):
        if not isinstance(problem, AbstractFeatureProblem):
            return f"PF (3.5) needs features on fixed rows, got {type(problem).__name__}"
        if not isinstance(algorithm, DPGD):
            return f"PF (3.5) is the limit of DPGD, got {type(algorithm).__name__}"
        return reason_not_squared(problem)

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        length = known_length(algorithm)
        reduced = problem.reduced()
        ranges = ranges_of(length, records, progress)
        num_steps = self.num_steps or _enough_steps(reduced, algorithm)
        per_record = -(-num_steps // (len(ranges.steps) - 1))
        # Apart from the keys of other simulators, so that two of them can share a key.
        keys = run_keys(stream_key(key, "gradient SDE"), num_runs)
        shares, is_clipped = ranges.steps / length, jnp.asarray(self.is_clipped)
        paths = _paths(reduced, algorithm, is_clipped, keys, shares, ranges.slots, per_record)
        return announced(paths, progress)


class ClippedSDE(AbstractGradientSDE):
    """Paths of the diffusion PF (3.5), the limit of `DPGD` for small steps at one noise.

    Memory besides problem and result: 20 numbers a run for each row and test row, and 10 n^2.

    Args:
        num_steps: number of steps of the path, rounded up to a whole number per record; None takes
            enough for the fastest mode of the kernel.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> run = {"num_runs": 3, "records": 2, "key": jax.random.key(1)}
        >>> paths = jaxdp.simulation.ClippedSDE()
        >>> jaxdp.simulate(problem, algorithm, simulator=paths, **run).risk.shape
        (3, 3)
    """

    is_clipped: ClassVar[bool] = True


class OrnsteinUhlenbeckSDE(AbstractGradientSDE):
    """Paths of the unclipped diffusion PF (6.1), which `OrnsteinUhlenbeck` solves exactly.

    `clipped_fraction` counts the samples that clipping would have changed.

    Args:
        num_steps: see `ClippedSDE`.

    Example:
        >>> import jaxdp
        >>> jaxdp.simulation.OrnsteinUhlenbeckSDE().is_clipped  # use: see `ClippedSDE`
        False
    """

    is_clipped: ClassVar[bool] = False


def _enough_steps(problem: ReducedFeatures, algorithm: DPGD) -> int:
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((problem, algorithm))):
        why = "because the learning rate or the features are traced"
        raise TypeError(f"expected num_steps of the diffusion as a Python int, {why}; got None")
    fastest = problem.stability_limit() / 2
    wanted = _STEPS_PER_TIME * float(algorithm.duration) / fastest
    if not wanted <= _MOST_STEPS:
        most = _MOST_STEPS / _STEPS_PER_TIME * fastest
        raise ValueError(
            f"expected a duration eta T below {most:.3g}, which {_MOST_STEPS} steps resolve, got "
            f"{float(algorithm.duration):.3g}; pass num_steps to take longer ones"
        )
    return max(_LEAST_STEPS, math.ceil(wanted))


@eqx.filter_jit
def _paths(problem: ReducedFeatures, algorithm, is_clipped, keys, shares, slots, per_record: int):
    """Paths over [0, tau]; record j is the state at the share shares[slots[j]] of the time."""
    dtype = float_dtype(problem, algorithm)
    times = shares.astype(dtype) * algorithm.duration
    inner = jnp.arange(per_record, dtype=dtype) / per_record
    grid = times[:-1, None] + jnp.diff(times)[:, None] * inner[None]
    grid = jnp.append(grid.reshape(-1), times[-1])
    norms, diffusion = problem.feature_norms(), algorithm.diffusion(problem.num_train)
    seen, unseen = problem.train_factor.shape[1], problem.unseen_factor.shape[1]

    def slopes(state):
        predictions = product(problem.train_factor, state)
        unclipped = problem.loss.slope(predictions, problem.train_labels)
        clipped, touched = algorithm.clipped_slopes(unclipped, norms)
        return jnp.where(is_clipped, clipped, unclipped), jnp.mean(touched, dtype=dtype)

    def drift(time, state, _):
        return -product(problem.train_factor.T, slopes(state)[0]) / problem.num_train

    def noise(time, state, _):
        return lineax.DiagonalLinearOperator(jnp.full(seen, diffusion, dtype))

    def one_run(key):
        path_key, unseen_key = jr.split(purpose_key(key, "noise"))
        path = diffrax.UnsafeBrownianPath(
            jax.ShapeDtypeStruct((seen,), dtype), path_key, diffrax.SpaceTimeLevyArea
        )

        def save(time, state, _):
            return product(problem.test_factor, state), slopes(state)[1]

        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(noise, path)),
            # Strong order 1.5 for additive noise, and order 2 without noise.
            diffrax.SRA1(),
            grid[0],
            grid[-1],
            None,
            jnp.zeros(seen, dtype),
            saveat=diffrax.SaveAt(ts=times, fn=save),
            stepsize_controller=diffrax.StepTo(grid),
            max_steps=len(grid),
            adjoint=diffrax.ForwardMode(),
            throw=False,
        )
        predictions, touched = solution.ys  # pyright: ignore[reportGeneralTypeIssues]
        steps = diffusion * jnp.sqrt(jnp.diff(times, prepend=times[:1]))
        brownian = jnp.cumsum(
            steps[:, None] * jr.normal(unseen_key, (len(times), unseen), dtype), axis=0
        )
        predictions = predictions + product(brownian, problem.unseen_factor.T)
        risks = jnp.mean(problem.loss.value(predictions, problem.test_labels[None]), axis=1)
        return risks, touched, solution.result != diffrax.RESULTS.successful

    # For the solver's own sums over its stages.
    with full_products():
        risks, touched, stopped = jax.vmap(one_run)(keys)
    fraction = average_so_far(touched, times)
    risks = risks[:, slots]
    return trajectory_of(
        problem.is_valid & algorithm.is_valid,
        time=times[slots],
        risk=risks,
        final_risk=risks[:, -1],
        observables={"clipped_fraction": fraction[:, slots]},
        stopped=stopped,
        label="SDE",
    )
