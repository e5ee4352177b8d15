r"""The numbers that a plan of one-pass DP-SGD depends on, in float64.

A plan does not see d and n apart, only $\gamma = d/n$, nor the target, only the part of the risk in
each eigenspace of the covariance. A search over schedules asks a setting for its equations; those
of least squares on Gaussian inputs are here, the others in `scaled_setting` and `signal_setting`.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.problems.streams.linear import LinearRegression

# A search follows at most so many modes.
_MOST_MODES = 32
_TINY = 1e-300


class AbstractSetting(eqx.Module):
    r"""A problem on a stream, its number of samples and its privacy, as equations of a state.

    Without the private noise the state y obeys $y' = v(y, \tilde\eta)$; noise of clip scale c that
    is still to come adds $K_c\,\tilde\eta^2$ to it, and the risk is a function of y.

    Attributes:
        gamma: $\gamma = d/n$.
        rho: of the $\rho$-GDP guarantee; infinite without privacy.
    """

    gamma: eqx.AbstractVar[Float[Any, ""]]
    rho: eqx.AbstractVar[Float[Any, ""]]

    @property
    @abc.abstractmethod
    def cap(self) -> Float[Any, ""]:
        """The learning rate beyond which every sample's step is cut off."""

    @property
    @abc.abstractmethod
    def slope_scale(self) -> Float[Any, ""]:
        """The size of the loss's slopes at the start, to which clip scales are compared."""

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """How many steps of Runge and Kutta's method are enough, at least."""

    @property
    @abc.abstractmethod
    def effort(self) -> tuple[int, float]:
        """How many descents a fit makes, and by which share of the risk the last step may gain."""

    @property
    @abc.abstractmethod
    def start(self) -> Float[Any, " parts"]:
        """y(0)."""

    @abc.abstractmethod
    def noise_strength(self, clip_scale: Float[Any, ""]) -> Float[Any, "*parts"]:
        r"""$K_c$: noise that is still to come adds $K_c\,\tilde\eta^2$ to the state."""

    @abc.abstractmethod
    def velocity(
        self, state: Float[Array, " parts"], rate: Float[Array, ""], clip_scale: Float[Array, ""]
    ) -> Float[Array, " parts"]:
        """v, of a state that may be no possible one, at a rate that is not capped yet."""

    @abc.abstractmethod
    def is_possible(self, state: Float[Array, " parts"]) -> Bool[Array, ""]:
        """Whether a state is one of some parameters: what fails is an error of the integration."""

    @abc.abstractmethod
    def risk(self, state: Float[Array, " parts"]) -> Float[Array, ""]:
        """R of a state."""

    @abc.abstractmethod
    def grouped(self) -> "AbstractSetting":
        """Neighbouring eigenvalues joined where there are very many, for a search."""

    @abc.abstractmethod
    def without_privacy(self) -> "AbstractSetting":
        r"""The setting at $\rho = \infty$."""


class Setting(AbstractSetting):
    r"""Least squares on Gaussian inputs, its number of samples and its privacy.

    The state has a $D_i$ for each distinct eigenvalue. Many settings of one number of modes are one
    setting whose arrays have a leading axis.

    Attributes:
        gamma: $\gamma = d/n$.
        rho: of the $\rho$-GDP guarantee; infinite without privacy.
        label_noise: $\zeta$.
        eigenvalues: the distinct ones of the covariance.
        weights: $w_i = \lambda_i d_i/d$, with which modes make up the risk.
        initial: $D_i(0)$, so that $R(0) = \sum_i w_i D_i(0)$.
        refinement: by how much more steps the largest eigenvalue asks for, in a search.
    """

    gamma: Float[Any, "*#cells"]
    rho: Float[Any, "*#cells"]
    label_noise: Float[Any, "*#cells"]
    eigenvalues: Float[Any, "*#cells modes"]
    weights: Float[Any, "*#cells modes"]
    initial: Float[Any, "*#cells modes"]
    refinement: int = eqx.field(static=True, default=1)

    @property
    def initial_risk(self) -> Float[Any, "*cells"]:
        """R(0)."""
        return (self.weights * self.initial).sum(-1)

    @property
    def label_variance(self) -> Float[Any, "*cells"]:
        r"""$V = 2R(0) + \zeta^2$, the second moment of a label."""
        return 2 * self.initial_risk + self.label_noise**2

    @property
    def cap(self) -> Float[Any, "*cells"]:
        r"""$2/\gamma$, the learning rate beyond which a sample's step is cut off."""
        return 2 / self.gamma

    @property
    def slope_scale(self):
        return self.label_variance**0.5

    @property
    def num_steps(self):
        return 400 * self.refinement

    @property
    def effort(self):
        return 4, 1e-10

    @property
    def start(self):
        return self.initial

    @property
    def is_isotropic(self) -> bool:
        """Whether all eigenvalues are one."""
        return self.eigenvalues.shape[-1] == 1

    def isotropic(self) -> "Setting":
        """The setting of the same initial risk whose eigenvalues are all 1."""
        one = np.ones(1)
        return Setting(self.gamma, self.rho, self.label_noise, one, one, one * self.initial_risk)

    def grouped(self) -> "Setting":
        """The setting that a search sees: neighbouring eigenvalues joined if there are very many.

        Steps of one size are stable up to an eigenvalue: where the largest is large there are more.
        """
        refinement = 1 if self.eigenvalues.max() <= 5 else 4
        if len(self.eigenvalues) <= _MOST_MODES:
            return dataclasses.replace(self, refinement=refinement)
        logs = np.log(self.eigenvalues)
        edges = np.linspace(logs.min(), logs.max(), _MOST_MODES + 1)[1:-1]
        places = np.digitize(logs, edges)

        def joined(values):
            return np.bincount(places, values, minlength=_MOST_MODES)

        shares, weights = joined(self.weights / self.eigenvalues), joined(self.weights)
        risks = joined(self.weights * self.initial)
        is_there = weights > 0
        eigenvalues = weights[is_there] / shares[is_there]
        initial = risks[is_there] / weights[is_there]
        return Setting(
            self.gamma,
            self.rho,
            self.label_noise,
            eigenvalues,
            weights[is_there],
            initial,
            refinement,
        )

    def without_privacy(self) -> "Setting":
        return eqx.tree_at(lambda each: each.rho, self, np.float64(np.inf))

    def noise_strength(self, clip_scale: Float[Any, ""]) -> Float[Any, ""]:
        r"""$K = 2c^2\gamma^2/\rho^2$: noise that is still to come adds $K\tilde\eta^2$ to R."""
        return 2 * (clip_scale * self.gamma / self.rho) ** 2

    def velocity(self, state, rate, clip_scale):
        rate = jnp.minimum(rate, self.cap)
        power = jnp.maximum(self.risk(state), _TINY) + self.label_noise**2 / 2
        ratio = clip_scale / jnp.sqrt(2 * power)
        spread = rate**2 * self.gamma * variance_factor(ratio) * power
        return self.eigenvalues * (spread - 2 * rate * descent_factor(ratio) * state)

    def is_possible(self, state):
        return self.risk(state) > 0

    def risk(self, state):
        return jnp.sum(self.weights * state)


def setting_of(problem: LinearRegression, num_samples: float, rho: float) -> Setting:
    """The setting of least squares on Gaussian inputs, with concrete numbers.

    Input scales and the loss are not looked at: callers ask `require_least_squares`, or add them.
    """
    blocks = problem.blocks
    sizes = np.asarray(blocks.sizes, np.float64)
    eigenvalues = np.asarray(blocks.eigenvalues, np.float64)
    # Rounding of a float32 spectrum is not a share of the risk.
    eigenvalues = eigenvalues * problem.dim / (eigenvalues @ sizes)
    initial = problem.dim * np.asarray(blocks.squared_target, np.float64) / (2 * sizes)
    # Where inputs never point there is neither risk nor learning.
    is_seen = eigenvalues > 0
    return Setting(
        gamma=np.float64(problem.dim / num_samples),
        rho=np.float64(rho),
        label_noise=np.asarray(problem.label_noise, np.float64),
        eigenvalues=eigenvalues[is_seen],
        weights=(eigenvalues * sizes / problem.dim)[is_seen],
        initial=initial[is_seen],
    )
