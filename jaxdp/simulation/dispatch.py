"""The verb `simulate`: picks a simulator and runs it."""

from jaxtyping import Array, Key

from jaxdp.algorithms.base import AbstractAlgorithm, require_pair
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.checks import NotCoveredError, require_count, require_key, require_kind
from jaxdp.core.progress import listening
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractProblem
from jaxdp.simulation.base import AbstractSimulator, Progress
from jaxdp.simulation.iterates import Iterates
from jaxdp.simulation.reduced import Reduced
from jaxdp.simulation.rows.function_space import FunctionSpace
from jaxdp.simulation.rows.networks import NetworkTraining

# Exact in distribution, cheapest first.
_DEFAULTS = FunctionSpace(), Reduced(), NetworkTraining(), Iterates()


def simulate(
    problem: AbstractProblem,
    algorithm: AbstractAlgorithm | PrivateOptimiser,
    *,
    key: Key[Array, ""],
    num_runs: int = 1,
    simulator: AbstractSimulator | None = None,
    records: int = 100,
    keep_parameters: bool = False,
    progress: Progress | bool | None = None,
) -> Trajectory:
    """Simulate private training: independent runs of an algorithm on a problem.

    Args:
        problem: the learning problem.
        algorithm: the algorithm; its `num_steps` must be a Python int. A `PrivateOptimiser` needs
            `noise=None`, and runs on features in `FunctionSpace` if linear, else in `Iterates`, and
            on a network (`Linearised`) in `NetworkTraining`.
        key: a `jax.random.key`; the same key gives the same runs, and run i is the same, up to
            rounding, for every num_runs.
        num_runs: number of runs, along the leading axis of the result.
        simulator: None takes the cheapest that is exact in distribution, covers the pair and has
            the parameters if they are to be kept.
        records: record j, from 0, is the state after floor(j n / records) of the n updates: a risk
            has records + 1 values.
        keep_parameters: whether to return the released iterates, (num_runs, dim), or (num_runs,
            dim, num_outputs) for a loss of several outputs.
        progress: True for a bar, or a function called on the host with the fraction done; not under
            `jit` or `vmap`.

    Returns:
        A trajectory with the runs along the leading axis of `risk` and `final_risk`.

    Raises:
        NotCoveredError: no simulator, or not this one, covers the pair.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> runs = jaxdp.simulate(problem, algorithm, num_runs=10, key=jax.random.key(0))
        >>> runs.risk.shape, runs.final_risk.shape
        ((10, 101), (10,))
    """
    require_pair(problem, algorithm)
    require_key(key)
    num_runs = require_count("num_runs", num_runs)
    records = require_count("records", records)
    require_kind("keep_parameters", keep_parameters, bool, "True or False")
    if simulator is not None:
        require_kind("simulator", simulator, AbstractSimulator, "one such as jaxdp.Iterates()")
    reasons = []
    for candidate in _DEFAULTS if simulator is None else (simulator,):
        name = type(candidate).__name__
        if keep_parameters and not candidate.has_parameters:
            if simulator is None:
                continue
            why = f"{name} has no parameters to return; use Iterates()"
            raise ValueError(f"expected keep_parameters=False: {why}")
        reason = candidate.reason_against(problem, algorithm)
        if reason is None:
            with listening(progress, "simulate") as report:
                return candidate.simulate(
                    problem,
                    algorithm,
                    key=key,
                    num_runs=num_runs,
                    records=records,
                    keep_parameters=keep_parameters,
                    progress=report,
                )
        reasons.append(f"{name}: {reason}")
    raise NotCoveredError(" | ".join(reasons))
