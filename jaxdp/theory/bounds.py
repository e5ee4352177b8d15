r"""Bounds on the deterministic equivalent that follow few equations.

For every spectrum lower <= tight lower <= R <= tight upper <= upper; all five coincide when the
data are isotropic. Source: AC (5) = (42) and (65). Lemma 15's proof prints tr(Sigma^2) >=
lambda_max tr(Sigma) where <= is meant; the bounds themselves stand.
"""

import diffrax
import jax.numpy as jnp

from jaxdp.problems.linear import LinearRegression
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.coupled_ode import integrate
from jaxdp.theory.linear_modes import Modes, eigen_modes, require_one_pass


class UpperBound(AbstractTheory):
    """One equation: descent at lambda_min, gradient noise at lambda_max. Source: AC (5).

    Args:
        adjoint: as for `CoupledODE`.
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        spectrum = problem.spectrum
        modes = _single(problem, descent=spectrum.min(), diffusion=spectrum.max())
        options = {"records": records, "adjoint": self.adjoint, "label": "upper bound"}
        return integrate(modes, problem, algorithm, **options)


class LowerBound(AbstractTheory):
    """One equation: descent at lambda_max, gradient noise at 1. Source: AC (5).

    Args:
        adjoint: as for `CoupledODE`.
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        modes = _single(problem, descent=problem.spectrum.max(), diffusion=jnp.ones(()))
        options = {"records": records, "adjoint": self.adjoint, "label": "lower bound"}
        return integrate(modes, problem, algorithm, **options)


class TightUpperBound(AbstractTheory):
    """Descent at lambda_min beside the coupled risk's own clipping. Source: AC (65), R-bar'.

    Args:
        adjoint: as for `CoupledODE`.
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        modes = _beside_coupled(problem, descent=problem.spectrum.min())
        options = {"records": records, "adjoint": self.adjoint, "label": "tight upper bound"}
        return integrate(modes, problem, algorithm, **options)


class TightLowerBound(AbstractTheory):
    """Descent at lambda_max beside the coupled risk's own clipping. Source: AC (65), R-underbar'.

    Args:
        adjoint: as for `CoupledODE`.
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        modes = _beside_coupled(problem, descent=problem.spectrum.max())
        options = {"records": records, "adjoint": self.adjoint, "label": "tight lower bound"}
        return integrate(modes, problem, algorithm, **options)


def _single(problem: LinearRegression, *, descent, diffusion) -> Modes:
    """One mode that is the risk itself."""
    one = jnp.ones(1, problem.spectrum.dtype)
    return Modes(
        descent=descent[None],
        diffusion=diffusion[None],
        initial=_initial_risk(problem)[None],
        weights=one,
        readout=one,
    )


def _beside_coupled(problem: LinearRegression, *, descent) -> Modes:
    """The coupled modes, which set the clipping, and one more that is reported."""
    coupled = eigen_modes(problem)
    mean_square = jnp.mean(problem.spectrum**2)
    return Modes(
        descent=jnp.append(coupled.descent, descent),
        diffusion=jnp.append(coupled.diffusion, mean_square),
        initial=jnp.append(coupled.initial, _initial_risk(problem)),
        weights=jnp.append(coupled.weights, 0),
        readout=jnp.append(jnp.zeros_like(coupled.weights), 1),
    )


def _initial_risk(problem: LinearRegression):
    return jnp.sum(problem.blocks.eigenvalues * problem.blocks.squared_target) / 2
