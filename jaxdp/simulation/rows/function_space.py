r"""The distribution of private training on fixed features, from the kernel alone.

Source: the function-space form of PF Algorithm 1, $f \leftarrow f - (\eta/n)K w(f) + \text{noise}$
with the kernel as the noise's covariance. Derived: rotating the parameters (`ReducedFeatures`),
with which an optimiser commutes that is linear and equal for every coordinate; test_function_space
checks it path by path and in distribution against `Iterates`, test_everyday_simulation against
NumPy.
"""

from typing import ClassVar

import jax
from jax.core import Tracer

from jaxdp.algorithms.dp_gd import DPGD, warn_if_unstable
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.transformations.linear_state import linear_state
from jaxdp.core.checks import NotCoveredError
from jaxdp.core.keys import stream_key
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.simulation.base import AbstractSimulator
from jaxdp.simulation.rows.fixed_rows import simulate_on_rows


class FunctionSpace(AbstractSimulator):
    """Simulation of predictions alone, exact in distribution, for any number of features.

    It covers `DPGD`, and every `PrivateOptimiser` whose optimiser is linear (gradient descent with
    any schedule, momentum, averages), for any loss and infinite width. After one reduction of the
    features (`problem.reduced()`; pass its result as the problem to share it), a step costs 4 n
    min(n, p) operations a run. Batches of algorithms are made by `vmap` (also over `num_steps`).
    There are no parameters to return; observables are those of `Iterates`. Memory besides problem
    and result: 10 numbers a run for each row and test row, and 10 n^2.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, None, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.5, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> run = {"num_runs": 3, "key": jax.random.key(1), "simulator": jaxdp.FunctionSpace()}
        >>> jaxdp.simulate(problem, algorithm, **run).risk.shape
        (3, 101)
    """

    has_parameters: ClassVar[bool] = False

    def reason_against(self, problem, algorithm):
        if not isinstance(problem, AbstractFeatureProblem):
            return f"it needs features on fixed rows, got {type(problem).__name__}"
        if isinstance(algorithm, PrivateOptimiser):
            if (reason := algorithm.reason_not_simulated()) is not None:
                return reason
            reason, is_explicit = _reason_not_linear(algorithm), problem.num_features is not None
            return reason and reason + ("; use Iterates()" if is_explicit else "")
        if not isinstance(algorithm, DPGD):
            return f"it needs DPGD or a PrivateOptimiser, got {type(algorithm).__name__}"
        return None

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        if isinstance(algorithm, PrivateOptimiser):
            algorithm.require_rows(problem.num_train)
        reduced = problem.reduced()
        if isinstance(algorithm, DPGD):
            warn_if_unstable(algorithm, reduced.stability_limit)
        return simulate_on_rows(
            reduced,
            algorithm,
            # Apart from the keys of other simulators, so that two of them can share a key.
            key=stream_key(key, "FunctionSpace"),
            num_runs=num_runs,
            records=records,
            keep_parameters=keep_parameters,
            progress=progress,
        )


def _reason_not_linear(algorithm: PrivateOptimiser) -> str | None:
    """The reason why a rotation of the parameters would change the optimiser's steps, or None."""
    optimiser = algorithm.transformation
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(optimiser)):
        # Whether the factory's optimisers are linear does not depend on the rate.
        optimiser = optimiser.stand_in()
    try:
        linear_state(optimiser, int(algorithm.num_steps))
    except NotCoveredError as error:
        return str(error)
    # A number inside the optimiser is traced and cannot be checked.
    except TypeError as error:
        return f"it needs an optimiser known to be linear: {error}"
    return None
