r"""The equations that a search follows where labels follow one direction, as logistic ones do.

No theorem names the best schedule there: a plan is what descents through these equations find. They
are those of `CoupledODE`, which predicts what was found once more, with an adaptive solver.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.planning.streams.setting import AbstractSetting
from jaxdp.problems.streams.signal import AbstractSignalProblem

# The remainder is at least 0 up to rounding, relative to 1 and to the noise that was shifted.
_ROUNDING = 1e-12


class SignalSetting(AbstractSetting):
    r"""Labels that follow one direction of isotropic inputs: the overlap p and the remainder w.

    With $e = \min(\tilde\eta, 2/(\ell\gamma))$ and the moments of the clipped slope

    $$ p' = -e\,a, \qquad w' = -2eD\,w + e^2\gamma M, \qquad K_c = (0, 4c^2\gamma^2/\rho^2). $$

    Source: `jaxdp.theory.streams.signal`; test_the_search_sees_what_the_theory_predicts.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    problem: AbstractSignalProblem  # with numbers in float64

    @property
    def cap(self):
        return 2 / (self.problem.loss.curvature_bound * self.gamma)

    @property
    def slope_scale(self):
        _, _, square = _at_the_start(self.problem)
        return jnp.sqrt(square)

    @property
    def num_steps(self):
        # A step costs hundreds of times as many operations as one of least squares.
        return 60

    @property
    def effort(self):
        # A minimum often lies where the rate meets the cap, in a kink that a descent nears slowly.
        return 2, 1e-7

    @property
    def start(self):
        return jnp.zeros((2,), jnp.result_type(self.gamma))

    def noise_strength(self, clip_scale):
        strength = 4 * (clip_scale * self.gamma / self.rho) ** 2
        return jnp.stack([jnp.zeros_like(strength), strength])

    def velocity(self, state, rate, clip_scale):
        overlap, remainder = state[0], jnp.maximum(state[1], 0)
        along, derivative, square = _moments(
            self.problem, jnp.stack([overlap, remainder, clip_scale])
        )
        rate = jnp.minimum(rate, self.cap)
        spread = rate**2 * self.gamma * square
        return jnp.stack([-rate * along, spread - 2 * rate * derivative * remainder])

    def is_possible(self, state):
        return state[1] > -_ROUNDING

    def risk(self, state):
        return self.problem.risk_at(state[0], jnp.maximum(state[1], 0))

    def grouped(self):
        return self


@jax.custom_jvp
def _moments(problem: AbstractSignalProblem, at: Float[Array, " three"]) -> Float[Array, " three"]:
    """The moments a, D, M of a slope at overlap, remainder and clip scale.

    Their derivatives are nine numbers, taken forward at once: a reverse pass through the search
    would else keep what hundreds of nodes of a quadrature computed at every step.
    """
    return _by_quadrature(problem, at)


@_moments.defjvp
def _moments_and_change(primals, tangents):
    problem, at = primals

    def twice(at):
        found = _by_quadrature(problem, at)
        return found, found

    slopes, found = jax.jacfwd(twice, has_aux=True)(at)
    return found, jnp.sum(slopes * tangents[1], axis=1)


def _by_quadrature(problem, at):
    found = problem.slope_moments(*at)
    return jnp.stack([found.along, found.derivative, found.square])


@eqx.filter_jit
def _at_the_start(problem):
    return _by_quadrature(problem, jnp.asarray([0, 0, jnp.inf]))
