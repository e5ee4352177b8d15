r"""The equations that a search follows where inputs have random scales, or the loss is Huber's.

No theorem names the best schedule there: a plan is what descents through these equations find. They
are those of `CoupledODE`, which predicts what was found once more, with an adaptive solver.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.planning.streams.equations.setting import AbstractSetting, Setting

_TINY = 1e-300
# Rates beyond the cap of inputs of a smaller scale are not looked at.
_LEAST_SCALE = 0.05


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
