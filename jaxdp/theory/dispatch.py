"""The verb `predict`: picks a theory and asks it."""

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
from jaxdp.theory.features.modewise_closure import ModewiseClosure
from jaxdp.theory.features.tangent_closure import TangentClosure
from jaxdp.theory.streams.coupled_ode import CoupledODE
from jaxdp.theory.streams.discrete_recursion import DiscreteRecursion
from jaxdp.theory.streams.volterra import DiscreteVolterra


def predict(
    problem: AbstractProblem,
    algorithm: AbstractAlgorithm | PrivateOptimiser,
    *,
    theory: AbstractTheory | None = None,
    records: int = 100,
) -> Trajectory:
    """What theory says will happen, without sampling.

    Args:
        problem: what is learnt.
        algorithm: how it is learnt; rates, clip and noise may be traced, sizes of batches and of
            samplers may not.
        theory: None takes the first that covers the pair: `CoupledODE` for samples one by one,
            `DiscreteRecursion` for batches, `DiscreteVolterra` for correlated noise,
            `GaussianClosure` for features on fixed rows, with the softmax loss `ModewiseClosure`,
            `TangentClosure` for all weights of a network.
        records: record j is the state after floor(j n / records) of the n updates, j from 0 to
            `records`: a risk of records + 1 values, the first before any update.

    Returns:
        One trajectory: `risk` at each `time`, `final_risk` of what is released, and `std` where the
        theory predicts how runs differ.

    Raises:
        NotCoveredError: no theory, or not this one, covers the pair; names each that was asked,
            and why it does not.

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
    # A reason has semicolons of its own; one that several theories give is said once.
    raise NotCoveredError(
        " | ".join(f"{', '.join(names)}: {reason}" for reason, names in theories_by_reason.items())
    )


def _defaults(problem, algorithm) -> tuple[AbstractTheory, ...]:
    """The theories to ask, in this order."""
    if isinstance(algorithm, CorrelatedDPSGD):
        return (DiscreteVolterra(),)
    if isinstance(problem, Linearised):
        return (TangentClosure(),)
    on_rows = isinstance(problem, AbstractFeatureProblem)
    if isinstance(algorithm, OnePassDPSGD) and not on_rows:
        return (DiscreteRecursion() if algorithm.batch_size > 1 else CoupledODE(),)
    # The first is for the softmax loss alone, whose outputs it knows to be correlated.
    return (ModewiseClosure(), GaussianClosure())
