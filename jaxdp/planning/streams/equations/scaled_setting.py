r"""The equations that a search follows where inputs have random scales, or the loss is no square.

No theorem names the best schedule there: a plan is what descents through these equations find. They
are those of `CoupledODE`, which predicts what was found once more, with an adaptive solver.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from jaxdp.losses import AbstractResidualLoss
from jaxdp.planning.streams.equations.setting import AbstractSetting, Setting

_TINY = 1e-300
# Rates beyond the cap of inputs of a smaller scale are not looked at.
_LEAST_SCALE = 0.05


class ScaledSetting(AbstractSetting):
    r"""Linear regression on inputs of random scale, or with another loss than the squared one.

    Given a scale s the residual r has the variance $v_s = 2sR + \zeta^2$, and the loss's slope
    $\psi(r)$ is cut at $c/\sqrt s$; with $e_s = \min(\tilde\eta, 2/(c_2\gamma s))$, $c_2$ its
    curvature, and means over s

    $$ D_i' = \lambda_i\Bigl(-2\,E[s\,e_s\,\psi'(r)]\,D_i
       + \gamma\,E[s\,e_s^2\,\psi(r)^2/2]\Bigr). $$

    Source: `jaxdp.theory.streams.modes`. Derived: test_the_search_sees_what_the_theory_predicts.

    Attributes:
        plain: the same problem with s = 1 and least squares.
        values, weights: of the scale.
        loss: of residuals, its numbers in float64.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    plain: Setting
    values: Float[Any, " levels"]
    weights: Float[Any, " levels"]
    loss: AbstractResidualLoss

    @property
    def cap(self):
        steepness = self.loss.curvature_bound * self.gamma
        return 2 / (steepness * jnp.maximum(jnp.min(self.values), _LEAST_SCALE))

    @property
    def slope_scale(self):
        return jnp.minimum(self.plain.slope_scale, self.loss.slope_bound)

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
        zero, limits = jnp.zeros_like(variances), clip_scale / jnp.sqrt(self.values)
        slope = self.loss.clipped_slope(zero, variances, zero, limits)
        rates = jnp.minimum(rate, 2 / (self.loss.curvature_bound * self.gamma * self.values))
        pull = self.weights * self.values * rates
        descent = jnp.sum(pull * slope.derivative)
        spread = self.gamma * jnp.sum(pull * rates * slope.square) / 2
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
