r"""The equations that a search follows beyond least squares on Gaussian inputs.

No theorem names the best schedule there: a plan is what descents through these equations find. They
are those of `CoupledODE`, which predicts what was found once more, with an adaptive solver.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.losses import HalfSquared
from jaxdp.planning.streams.equations.setting import AbstractSetting, Setting, setting_of
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem

_TINY = 1e-300
# Rates beyond the cap of inputs of a smaller scale are not looked at.
_LEAST_SCALE = 0.05
# The remainder is at least 0 up to rounding, relative to 1 and to the noise that was shifted.
_ROUNDING = 1e-12


class ScaledSetting(AbstractSetting):
    r"""Linear regression on inputs of random scale, or with Huber's loss.

    Given a scale s the residual has the variance $v_s = 2sR + \zeta^2$ and is cut at $l_s = \min(w,
    c/\sqrt s)$; with $e_s = \min(\tilde\eta, 2/(\gamma s))$ and means over s

    $$ D_i' = \lambda_i\Bigl(-2\,E[s\,e_s\,\mu(l_s/\sqrt{v_s})]\,D_i
       + \gamma\,E[s\,e_s^2\,\nu(l_s/\sqrt{v_s})\,v_s/2]\Bigr). $$

    Source: `jaxdp.theory.streams.modes`. Derived: test_the_search_sees_what_the_theory_predicts.

    Attributes:
        plain: the same problem with s = 1 and least squares.
        values, weights: of the scale.
        slope_bound: w; infinite for least squares.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    plain: Setting
    values: Float[Any, " levels"]
    weights: Float[Any, " levels"]
    slope_bound: Float[Any, ""]

    @property
    def cap(self):
        return 2 / (self.gamma * jnp.maximum(jnp.min(self.values), _LEAST_SCALE))

    @property
    def slope_scale(self):
        return jnp.minimum(self.plain.slope_scale, self.slope_bound)

    @property
    def num_steps(self):
        return 200

    @property
    def effort(self):
        return 4, 1e-9

    @property
    def start(self):
        return self.plain.start

    def noise_strength(self, clip_scale):
        return self.plain.noise_strength(clip_scale)

    def velocity(self, state, rate, clip_scale):
        risk = jnp.maximum(self.risk(state), _TINY)
        variances = 2 * self.values * risk + self.plain.label_noise**2
        cuts = jnp.minimum(self.slope_bound, clip_scale / jnp.sqrt(self.values))
        ratios = cuts / jnp.sqrt(variances)
        rates = jnp.minimum(rate, 2 / (self.gamma * self.values))
        pull = self.weights * self.values * rates
        descent = jnp.sum(pull * descent_factor(ratios))
        spread = self.gamma * jnp.sum(pull * rates * variance_factor(ratios) * variances) / 2
        return self.plain.eigenvalues * (spread - 2 * descent * state)

    def is_possible(self, state):
        return self.plain.is_possible(state)

    def risk(self, state):
        return self.plain.risk(state)

    def grouped(self):
        return eqx.tree_at(lambda each: each.plain, self, self.plain.grouped())

    def without_privacy(self):
        quiet = self.plain.without_privacy()
        return eqx.tree_at(lambda each: (each.rho, each.plain), self, (quiet.rho, quiet))


class SignalSetting(AbstractSetting):
    r"""Labels that follow one direction of isotropic inputs: the overlap p and the remainder w.

    With $e = \min(\tilde\eta, 2/(\ell\gamma))$ and the moments of the clipped slope

    $$ p' = -e\,a, \qquad w' = -2eD\,w + e^2\gamma M, \qquad K_c = (0, 4c^2\gamma^2/\rho^2). $$

    Source: `jaxdp.theory.streams.signal_ode`. Derived:
    test_the_search_sees_what_the_theory_predicts.

    Attributes:
        problem: with numbers in float64.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    problem: AbstractSignalProblem

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

    def without_privacy(self):
        return eqx.tree_at(lambda each: each.rho, self, np.float64(np.inf))


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


def stream_setting_of(
    problem: LinearRegression | AbstractSignalProblem, num_samples: float, rho: float
) -> AbstractSetting:
    """The setting of any problem on a stream, with concrete numbers.

    Raises:
        ValueError: there is nothing to learn.
    """
    if isinstance(problem, AbstractSignalProblem):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), problem)
        return SignalSetting(np.float64(problem.dim / num_samples), np.float64(rho), wide)
    plain = setting_of(problem, num_samples, rho)
    if not plain.initial_risk > 0:
        raise ValueError("expected a problem with something to learn, got a target of zero")
    is_squared, scales = isinstance(problem.loss, HalfSquared), problem.input_scales
    if is_squared and scales is None:
        return plain
    one = np.ones(1)
    values, weights = (one, one) if scales is None else (scales.values, scales.weights)
    return ScaledSetting(
        plain.gamma,
        plain.rho,
        plain,
        np.asarray(values, np.float64),
        np.asarray(weights, np.float64),
        np.float64(np.inf) if is_squared else np.asarray(problem.loss.slope_bound, np.float64),
    )
