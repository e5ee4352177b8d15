r"""The numbers that a plan of one-pass DP-SGD depends on, in float64.

A plan does not see d and n apart, only $\gamma = d/n$, nor the target, only the part of the risk in
each eigenspace of the covariance.
"""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.problems.linear import LinearRegression

# A search follows at most so many modes.
_MOST_MODES = 32


class Setting(eqx.Module):
    r"""A problem of linear regression, its number of samples and its privacy.

    Many settings of one number of modes are one setting whose arrays have a leading axis.

    Attributes:
        gamma: $\gamma = d/n$.
        rho: of the $\rho$-GDP guarantee; infinite without privacy.
        label_noise: $\zeta$.
        eigenvalues: the distinct ones of the covariance.
        weights: $w_i = \lambda_i d_i/d$, with which modes make up the risk.
        initial: $D_i(0)$, so that $R(0) = \sum_i w_i D_i(0)$.
        refinement: by how much more steps the largest eigenvalue asks for, in a search.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    label_noise: Float[Any, ""]
    eigenvalues: Float[Any, " modes"]
    weights: Float[Any, " modes"]
    initial: Float[Any, " modes"]
    refinement: int = eqx.field(static=True, default=1)

    @property
    def initial_risk(self) -> Float[Any, ""]:
        """R(0)."""
        return (self.weights * self.initial).sum(-1)

    @property
    def label_variance(self) -> Float[Any, ""]:
        r"""$V = 2R(0) + \zeta^2$, the second moment of a label."""
        return 2 * self.initial_risk + self.label_noise**2

    @property
    def cap(self) -> Float[Any, ""]:
        r"""$2/\gamma$, the learning rate beyond which a sample's step is cut off."""
        return 2 / self.gamma

    @property
    def is_isotropic(self) -> bool:
        """Whether all eigenvalues are one."""
        return self.eigenvalues.shape[-1] == 1

    def isotropic(self) -> "Setting":
        """The setting of the same initial risk whose eigenvalues are all 1."""
        one = np.ones(1)
        return Setting(self.gamma, self.rho, self.label_noise, one, one, one * self.initial_risk)

    def grouped(self) -> "Setting":
        """As a search sees it: neighbouring eigenvalues joined where there are very many.

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

    def noise_strength(self, clip_scale: Float[Any, ""]) -> Float[Any, ""]:
        r"""$K = 2c^2\gamma^2/\rho^2$: noise that is still to come adds $K\tilde\eta^2$ to R."""
        return 2 * (clip_scale * self.gamma / self.rho) ** 2


def setting_of(problem: LinearRegression, num_samples: float, rho: float) -> Setting:
    """The setting of a problem, with concrete numbers."""
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
