"""The algorithm itself, step by step, in all its dimensions."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from jaxdp.algorithms.base import AbstractOnePassAlgorithm
from jaxdp.algorithms.dp_gd import DPGD, warn_if_unstable
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.keys import run_keys
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractSampleProblem
from jaxdp.problems.rows.features import AbstractFeatureProblem, ReducedFeatures
from jaxdp.simulation.base import AbstractSimulator, length_of_pass
from jaxdp.simulation.driver import Chunks, drive, ranges_of
from jaxdp.simulation.rows.fixed_rows import simulate_on_rows
from jaxdp.simulation.rows.function_space import FunctionSpace
from jaxdp.simulation.streams.one_pass import OnePassRuns


class Iterates(AbstractSimulator):
    """The algorithm itself, step by step in `dim` dimensions: exact in law for whatever has steps.

    Memory beside problem and result: 10 numbers a run for each coordinate, row and test row, and on
    a stream ten times the random numbers of a chunk, 20 MB on a CPU.

    On features the observables are "clipped_fraction", "train_risk" (the mean training loss) and,
    for losses of classification, "accuracy" and "train_accuracy".

    Args:
        chunk_size: steps whose random numbers are drawn together; None sizes it to the cache. The
            values do not depend on it.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> how = {"num_runs": 3, "simulator": jaxdp.Iterates(), "keep_parameters": True}
        >>> jaxdp.simulate(problem, algorithm, key=jax.random.key(1), **how).parameters.shape
        (3, 200)
    """

    has_parameters: ClassVar[bool] = True
    chunk_size: int | None = eqx.field(static=True, converter=plain_number, default=None)

    def __check_init__(self):
        if self.chunk_size is not None:
            require_count("chunk_size", self.chunk_size)

    def reason_against(self, problem, algorithm):
        if isinstance(problem, AbstractSampleProblem):
            if not isinstance(algorithm, AbstractOnePassAlgorithm):
                return (
                    "samples one after the other need an algorithm that uses each once, such as "
                    f"OnePassDPSGD, got {type(algorithm).__name__}"
                )
            return None
        if isinstance(problem, AbstractFeatureProblem):
            reason = None
            if isinstance(algorithm, PrivateOptimiser):
                reason = algorithm.reason_not_simulated()
            elif not isinstance(algorithm, DPGD):
                return (
                    "features on fixed rows need a full-batch algorithm such as DPGD, or a "
                    f"PrivateOptimiser, got {type(algorithm).__name__}"
                )
            if reason is None and problem.num_features is None:
                instead = (
                    "use FunctionSpace() or problem.reduced()"
                    if FunctionSpace().reason_against(problem, algorithm) is None
                    else "give it weights, or simulate problem.reduced()"
                )
                reason = f"infinitely many features cannot be written down; {instead}"
            return reason
        return f"it needs a problem with samples or features, got {type(problem).__name__}"

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        how = {"keep_parameters": keep_parameters, "progress": progress}
        if isinstance(problem, AbstractFeatureProblem):
            explicit = _explicit(problem)
            if isinstance(algorithm, PrivateOptimiser):
                algorithm.require_rows(problem.num_train)
            else:
                warn_if_unstable(algorithm, explicit.stability_limit)
            return simulate_on_rows(
                explicit, algorithm, key=key, num_runs=num_runs, records=records, **how
            )
        ranges = ranges_of(length_of_pass(problem, algorithm), records, progress)
        numbers_per_step = num_runs * algorithm.batch_size * problem.dim
        chunks = Chunks.of(ranges, numbers_per_step, self.chunk_size)
        runs = OnePassRuns(problem, algorithm, run_keys(key, num_runs), chunks)
        return drive(runs, ranges, **how)


def _explicit(problem: AbstractFeatureProblem) -> ReducedFeatures:
    train, test = problem.train_features(), problem.test_features()
    unseen = jnp.zeros((problem.num_test, 0), test.dtype)
    labels = problem.train_labels, problem.test_labels
    return ReducedFeatures(train, test, unseen, *labels, problem.loss)
