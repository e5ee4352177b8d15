"""The function `predict`, which chooses a theory and runs it."""

from jaxdp.algorithms.base import AbstractAlgorithm, require_pair
from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.checks import NotCoveredError, require_count, require_kind
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.features.gaussian_closure import GaussianClosure
from jaxdp.theory.features.mean_path import MeanPath
from jaxdp.theory.features.modewise_closure import ModewiseClosure
from jaxdp.theory.streams.coupled_ode import CoupledODE, DiscreteRecursion
from jaxdp.theory.streams.volterra import DiscreteVolterra


def predict(
    problem: AbstractProblem,
    algorithm: AbstractAlgorithm | PrivateOptimiser,
    *,
    theory: AbstractTheory | None = None,
    records: int = 100,
) -> Trajectory:
    """Predict the risk over time from theory, without sampling.

    Args:
        problem: the problem that is learnt.
        algorithm: the algorithm; rates, clip norm and noise may be traced, batch sizes may not.
        theory: the theory to use. By default the theory of its kind: `CoupledODE` for single
            samples, `DiscreteRecursion` for batches, `DiscreteVolterra` for correlated
            noise; on fixed rows `ModewiseClosure` for the softmax loss and `GaussianClosure` for
            others; `MeanPath` for all weights of a network.
        records: number of intervals between recorded states, default 100. Record j is the state
            after floor(j n / records) of the n updates, so the risk has records + 1 values.

    Returns:
        One trajectory: `risk` at each `time`, `final_risk` of the release, and `std` over runs if
        the theory predicts it.

    Raises:
        NotCoveredError: no theory covers the pair; lists each candidate with the reason.
        ValueError: the numbers do not fit, such as those of rows and of the sampler's records.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> predicted = jaxdp.predict(problem, algorithm)
        >>> print(f"from {predicted.risk[0]:.3f} to {predicted.final_risk:.4f}")
        from 0.500 to 0.0972
    """
    require_pair(problem, algorithm)
    records = require_count("records", records)
    if theory is not None:
        require_kind("theory", theory, AbstractTheory, "one such as jaxdp.CoupledODE()")
    theories_by_reason: dict[str, list[str]] = {}
    for asked in _defaults(problem, algorithm) if theory is None else (theory,):
        try:
            reading = asked.read(problem, algorithm)
        except NotCoveredError as error:
            theories_by_reason.setdefault(str(error), []).append(type(asked).__name__)
        else:
            return asked.solve(reading, records)
    # Reasons contain semicolons. A reason that several theories share appears once.
    raise NotCoveredError(
        " | ".join(f"{', '.join(names)}: {reason}" for reason, names in theories_by_reason.items())
    )


def _defaults(problem, algorithm) -> tuple[AbstractTheory, ...]:
    if isinstance(algorithm, CorrelatedDPSGD):
        return (DiscreteVolterra(),)
    if isinstance(problem, Linearised):
        return (MeanPath(),)
    on_rows = isinstance(problem, AbstractFeatureProblem)
    if isinstance(algorithm, OnePassDPSGD) and not on_rows:
        return (DiscreteRecursion() if algorithm.batch_size > 1 else CoupledODE(),)
    # The first covers only the softmax loss, and models its correlated outputs.
    return (ModewiseClosure(), GaussianClosure())
