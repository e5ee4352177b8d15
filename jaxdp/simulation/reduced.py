r"""The distribution of Algorithm 1 on Gaussian inputs, from one radius per distinct eigenvalue.

Let $u = \theta - \theta^*$, $u^{(j)}$ its part in the block of the eigenvalue $\lambda_j$ of
multiplicity $d_j$, and $r_j = \|u^{(j)}\|$. A sample's part in the block is $\sqrt{\lambda_j}(g_j
e_j + w_j)$ with $e_j = u^{(j)}/r_j$, $g_j$ standard normal, $w_j \perp e_j$ and $q_j = \|w_j\|^2$
chi-square of $d_j - 1$ degrees, all independent. With the residual $\sum_j \sqrt{\lambda_j} g_j r_j
- z$, $\|x\|^2 = \sum_j \lambda_j (g_j^2 + q_j)$ and s their clipped residual times the capped step,

$$ p_j^2 = (r_j - s\sqrt{\lambda_j} g_j)^2 + s^2\lambda_j q_j, \qquad
   r_j'^2 = (p_j + \tau a_j)^2 + \tau^2 q_j', $$

where $\tau = 2C\sigma_k$ and the noise is split along ($a_j$ standard normal) and across ($q_j'$
chi-square of $d_j - 1$ degrees) the new direction. The distribution of r' given u depends on r
alone, so r is a Markov chain, with $R = \sum_j \lambda_j r_j^2 / 2$: exact for every number of
steps, dimension, clip norm and schedule. Random scales of the inputs are drawn for each sample;
Huber's loss cuts the residual. Derived: test_reduced checks it in distribution against `Iterates`
and against Algorithm 1 as printed.
"""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Key

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import in_jax, in_numpy
from jaxdp.core.checks import concrete
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.simulation.base import AbstractSimulator, length_of_pass
from jaxdp.simulation.driver import AbstractPassRuns, drive, ranges_of
from jaxdp.simulation.iterates import Iterates
from jaxdp.simulation.streams import overlap_chain, radial_chain
from jaxdp.simulation.streams.radial_chain import random_streams


class Reduced(AbstractSimulator):
    """A smaller simulation, exact in distribution, whose cost does not depend on the dimension.

    It covers linear regression on Gaussian inputs whose covariance has few distinct eigenvalues,
    and labels that follow one direction of isotropic ones (`LogisticRegression`). It has no
    parameters to return. Memory besides the result: 500 numbers a run.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(1_000_000, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> run = {"num_runs": 3, "key": jax.random.key(1), "simulator": jaxdp.Reduced()}
        >>> jaxdp.simulate(problem, algorithm, **run).risk.shape
        (3, 101)
    """

    has_parameters: ClassVar[bool] = False

    def reason_against(self, problem, algorithm):
        if not isinstance(problem, (LinearRegression, AbstractSignalProblem)):
            is_covered = Iterates().reason_against(problem, algorithm) is None
            came = type(problem).__name__ + ("; use Iterates()" if is_covered else "")
            return f"it needs Gaussian inputs (LogisticRegression, LinearRegression), got {came}"
        if not isinstance(algorithm, OnePassDPSGD):
            return f"it simulates OnePassDPSGD, got {type(algorithm).__name__}"
        if algorithm.batch_size > 1:
            size = algorithm.batch_size
            return f"its steps take one sample each; use Iterates() for batch_size = {size}"
        if isinstance(problem, AbstractSignalProblem):
            return None
        count = len(problem.blocks.sizes)
        if count > max(2, problem.dim // 2):
            return (
                "it needs at most half as many distinct eigenvalues, known without tracing, as "
                f"dimensions, got {count} of {problem.dim}; use Iterates()"
            )
        return None

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        ranges = ranges_of(length_of_pass(problem, algorithm), records, progress)
        chain, are_valid = overlap_chain, problem.is_valid & algorithm.is_valid
        if not isinstance(problem, AbstractSignalProblem):
            chain, are_valid = radial_chain, are_valid & in_numpy(problem.blocks.is_valid)
        rho = concrete(algorithm.rho)
        is_silent = rho is not None and bool(np.isinf(rho))
        is_noisy = not (is_silent or algorithm.learning_rate.is_constant)
        given = {"problem": problem, "algorithm": algorithm, "key": key, "num_runs": num_runs}
        given |= {"longest": ranges.longest, "is_noisy": is_noisy, "are_valid": in_jax(are_valid)}
        runs = _ChainRuns(chain=chain, **given)
        return drive(runs, ranges, keep_parameters=keep_parameters, progress=progress)


class _ChainRuns(AbstractPassRuns):
    """Runs of a Markov chain, given by its module, with a random stream for each run."""

    chain: Any = eqx.field(static=True)
    problem: LinearRegression | AbstractSignalProblem
    algorithm: OnePassDPSGD
    key: Key[Array, ""]
    num_runs: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)  # the most steps of a range
    is_noisy: bool = eqx.field(static=True)  # whether there may be noise before the last step's
    are_valid: Bool[Array, ""]  # found on the host if possible, not in the programs of the runs

    @property
    def is_valid(self):
        return self.are_valid

    def begin(self):
        state, reading = self.chain.begin(self.problem, self.algorithm, self.num_runs)
        return (random_streams(self.key, self.num_runs), state), reading

    def advance(self, state, starts, ends):
        streams, state = state
        given, bounds = (self.problem, self.algorithm, streams, state), (starts, ends)
        sizes = {"longest": self.longest, "is_noisy": self.is_noisy}
        state, reading = self.chain.advance(*given, bounds, **sizes)
        return (streams, state), reading

    def finish(self, state):
        return self.chain.final_risk(self.problem, self.algorithm, *state), None
