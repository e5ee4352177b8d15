"""Bounds on the deterministic equivalent that follow few equations.

For every spectrum lower <= tight lower <= R <= tight upper <= upper, with equality for isotropic
data. Source: AC (5) = (42) and (65). Lemma 15's proof prints tr(Sigma^2) >= lambda_max tr(Sigma)
where <= is meant; the bounds are right.
"""

import abc
import dataclasses
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import in_jax, in_numpy
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.theory.base import AbstractTheory, require_linear_pass
from jaxdp.theory.solver import require_adjoint
from jaxdp.theory.streams.coupled_ode import integrate
from jaxdp.theory.streams.modes import Modes, eigen_modes


class AbstractModalTheory(AbstractTheory):
    """A theory of one-pass DP-SGD that integrates linear modes."""

    label: eqx.AbstractClassVar[str]  # the theory's name in tables and legends
    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def __check_init__(self):
        require_adjoint(self.adjoint)

    @abc.abstractmethod
    def modes(self, problem: LinearRegression) -> Modes:
        """The modes to integrate."""

    def read(self, problem, algorithm) -> tuple[Modes, OnePassDPSGD]:
        require_linear_pass(problem, algorithm)
        return self.modes(problem), algorithm

    def solve(self, reading, records):
        modes, algorithm = reading
        return integrate(modes, algorithm, records, self.adjoint, label=self.label)


class UpperBound(AbstractModalTheory):
    """An upper bound on the predicted risk, from one differential equation.

    Descent is at lambda_min, gradient noise at lambda_max. Source: AC (5).

    Args:
        adjoint: how diffrax differentiates the solution, as in `CoupledODE`.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.power_law(100, condition_number=2.0, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> from jaxdp.theory import TightLowerBound, TightUpperBound
        >>> tight = TightLowerBound(), jaxdp.CoupledODE(), TightUpperBound()
        >>> theories = jaxdp.LowerBound(), *tight, jaxdp.UpperBound()
        >>> final = [jaxdp.predict(problem, algorithm, theory=each).final_risk for each in theories]
        >>> sorted(final) == final
        True
    """

    label: ClassVar[str] = "upper bound"

    def modes(self, problem):
        spectrum = in_numpy(problem.spectrum)
        return _single(problem, descent=spectrum.min(), diffusion=spectrum.max())


class LowerBound(AbstractModalTheory):
    """A lower bound on the predicted risk, from one differential equation.

    Descent is at lambda_max, gradient noise at 1. Source: AC (5).

    Args:
        adjoint: how diffrax differentiates the solution, as in `CoupledODE`.

    Example:
        >>> import jaxdp
        >>> jaxdp.LowerBound().label  # `UpperBound` shows all four
        'lower bound'
    """

    label: ClassVar[str] = "lower bound"

    def modes(self, problem):
        one = np.ones((), jnp.result_type(float))
        return _single(problem, descent=in_numpy(problem.spectrum).max(), diffusion=one)


class TightUpperBound(AbstractModalTheory):
    """A tighter upper bound, solved together with the coupled risk.

    Descent is at lambda_min, clipping is that of the coupled risk. Source: AC (65), R-bar'.

    Args:
        adjoint: how diffrax differentiates the solution, as in `CoupledODE`.

    Example:
        >>> import jaxdp
        >>> jaxdp.theory.TightUpperBound().label  # `UpperBound` shows all four
        'tight upper bound'
    """

    label: ClassVar[str] = "tight upper bound"

    def modes(self, problem):
        return _beside_coupled(problem, descent=problem.spectrum.min())


class TightLowerBound(AbstractModalTheory):
    """A tighter lower bound, solved together with the coupled risk.

    Descent is at lambda_max, clipping is that of the coupled risk. Source: AC (65), lower R'.

    Args:
        adjoint: how diffrax differentiates the solution, as in `CoupledODE`.

    Example:
        >>> import jaxdp
        >>> jaxdp.theory.TightLowerBound().label  # `UpperBound` shows all four
        'tight lower bound'
    """

    label: ClassVar[str] = "tight lower bound"

    def modes(self, problem):
        return _beside_coupled(problem, descent=problem.spectrum.max())


def _single(problem: LinearRegression, *, descent, diffusion) -> Modes:
    """One mode that is the risk itself."""
    one = in_jax(np.ones(1, problem.spectrum.dtype))
    descent, diffusion, initial = in_jax(
        tuple(each[None] for each in (descent, diffusion, in_numpy(_initial_risk(problem))))
    )
    return dataclasses.replace(
        eigen_modes(problem),
        descent=descent,
        diffusion=diffusion,
        initial=initial,
        weights=one,
        readout=one,
        quadratics={},
    )


def _beside_coupled(problem: LinearRegression, *, descent) -> Modes:
    """The coupled modes, which set the clipping, and one more that is reported."""
    coupled = eigen_modes(problem)
    return dataclasses.replace(
        coupled,
        descent=jnp.append(coupled.descent, descent),
        diffusion=jnp.append(coupled.diffusion, coupled.mean_square),
        initial=jnp.append(coupled.initial, _initial_risk(problem)),
        weights=jnp.append(coupled.weights, 0),
        readout=jnp.append(jnp.zeros_like(coupled.weights), 1),
        quadratics={},
    )


def _initial_risk(problem: LinearRegression):
    return _half_of_sum(problem.blocks.eigenvalues, problem.blocks.squared_target)


@jax.jit
def _half_of_sum(eigenvalues, squares):
    return jnp.sum(eigenvalues * squares) / 2
