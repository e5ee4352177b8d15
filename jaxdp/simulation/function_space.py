r"""The law of full-batch private gradient descent, from the kernel alone.

Source: the function-space form of PF Algorithm 1, $f \leftarrow f - (\eta/n)K w(f) + \text{noise}$
with the kernel as the noise's covariance. Derived: rotating the parameters (`ReducedFeatures`);
test_function_space checks it path by path and in law against `Iterates`.
"""

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.algorithms.pair import require_pair
from jaxdp.algorithms.stability import warn_if_unstable
from jaxdp.core.keys import stream_key
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.features import AbstractFeatureProblem
from jaxdp.simulation.base import AbstractSimulator
from jaxdp.simulation.fixed_rows import simulate_on_rows


class FunctionSpace(AbstractSimulator):
    """Exact in law, at a cost per step that does not see the number of features.

    After one reduction of the features (`problem.reduced()`; pass its result as the problem to
    share it between calls), a step costs 4 n min(n, p) operations a run, and the coordinates that
    only the test rows see are drawn once per record. It covers infinite width, batches of
    algorithms by `vmap` (of unequal `num_steps` too), and has no parameters to return.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, None, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.5, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> runs = jaxdp.simulate(
        ...     problem,
        ...     algorithm,
        ...     num_runs=3,
        ...     key=jax.random.key(1),
        ...     simulator=jaxdp.FunctionSpace(),
        ... )
        >>> problem.num_features is None, runs.risk.shape
        (True, (3, 101))
    """

    def covers(self, problem, algorithm):
        require_pair(problem, algorithm)
        if not isinstance(problem, AbstractFeatureProblem):
            return f"it needs features on fixed rows, got {type(problem).__name__}"
        if not isinstance(algorithm, AbstractFullBatchAlgorithm):
            return f"it needs a full-batch algorithm such as DPGD, got {type(algorithm).__name__}"
        return None

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        if keep_parameters:
            raise ValueError(
                "expected keep_parameters=False: FunctionSpace knows the function and not the "
                "parameters; use Iterates()"
            )
        reduced = problem.reduced()
        warn_if_unstable(algorithm, reduced.stability_limit)
        return simulate_on_rows(
            reduced,
            algorithm,
            # Apart from the keys of other simulators, so that two of them can share a key.
            key=stream_key(key, "FunctionSpace"),
            num_runs=num_runs,
            records=records,
            keep_parameters=False,
            progress=progress,
        )
