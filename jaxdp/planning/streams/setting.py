"""The numbers on which a plan of one-pass DP-SGD depends, and the equations of its search."""

import abc
import dataclasses
from typing import Any, ClassVar, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.checks import NotCoveredError, require_host, require_kind
from jaxdp.core.numerics.precision import on_host
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory.streams.modes import Modes, eigen_modes, gradient_moments

_MOST_MODES = 32  # most modes in a search
_TINY = 1e-300
_LEAST_SCALE = 0.05  # least scale of inputs whose cap bounds the rates
_ROUNDING = 1e-12  # the remainder is at least 0 up to this rounding


class AbstractSetting(eqx.Module):
    r"""A problem on a stream, its number of samples and its privacy, as equations of a state y.

    As in `CoupledODE` $y' = v(y, \tilde\eta)$; noise still to come adds $K_c\,\tilde\eta^2$ to y.
    """

    gamma: eqx.AbstractVar[Float[Any, ""]]  # $\gamma = d/n$
    rho: eqx.AbstractVar[Float[Any, ""]]  # of the $\rho$-GDP guarantee; infinite without privacy

    @property
    @abc.abstractmethod
    def cap(self) -> Float[Any, ""]:
        """The learning rate beyond which every sample's step is capped."""

    @property
    @abc.abstractmethod
    def slope_scale(self) -> Float[Any, ""]:
        """The size of the loss's slopes at the start, the unit of clip scales."""

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """The least sufficient number of Runge-Kutta steps."""

    @property
    @abc.abstractmethod
    def effort(self) -> tuple[int, float]:
        """Number of descents of a fit, and their tolerance relative to the risk."""

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
        """v at a state, possible or not, and at a rate before its cap."""

    @abc.abstractmethod
    def is_possible(self, state: Float[Array, " parts"]) -> Bool[Array, ""]:
        """Whether some parameters have this state; if not, the integration failed."""

    @abc.abstractmethod
    def risk(self, state: Float[Array, " parts"]) -> Float[Array, ""]:
        """R at a state."""

    @abc.abstractmethod
    def grouped(self) -> "AbstractSetting":
        """The setting for a search, with neighbouring eigenvalues joined if there are many."""

    def without_privacy(self):
        r"""The setting at $\rho = \infty$."""
        return dataclasses.replace(self, rho=np.float64(np.inf))


class Setting(AbstractSetting):
    """Linear regression, one $D_i$ per mode; may be stacked along a leading axis of all arrays."""

    gamma: Float[Any, "*#cells"]
    rho: Float[Any, "*#cells"]
    modes: Modes  # one per distinct eigenvalue, as `CoupledODE` follows them
    refinement: int = eqx.field(static=True, default=1)  # factor of the steps

    @property
    def initial_risk(self) -> Float[Any, "*cells"]:
        """R(0)."""
        return (self.modes.weights * self.modes.initial).sum(-1)

    @property
    def label_variance(self) -> Float[Any, "*cells"]:
        r"""$V = 2R(0) + \zeta^2$, the second moment of a label."""
        return self.modes.second_moment(self.initial_risk)

    @property
    def is_least_squares(self) -> bool:
        """Whether inputs are Gaussian and the loss is half the square."""
        return self.modes.scales is None and self.modes.loss is None

    @property
    def is_isotropic(self) -> bool:
        """Whether all eigenvalues are one up to rounding, and none is zero."""
        return self.modes.descent.shape[-1] == 1 and np.allclose(self.modes.descent, 1, rtol=1e-4)

    @property
    def caps(self) -> Float[Any, "*cells"]:
        r"""$2/(\gamma s)$ for each scale s of the inputs: the caps of a sample's step."""
        scales = 1.0 if self.modes.scales is None else self.modes.scales.values
        return 2 / (self.modes.curvature_bound * self.gamma * scales)

    @property
    def cap(self):
        if self.modes.scales is None:
            return self.caps
        return jnp.minimum(jnp.max(self.caps), 2 / (self.gamma * _LEAST_SCALE))

    @property
    def slope_scale(self):
        root, loss = self.label_variance**0.5, self.modes.loss
        return root if loss is None else jnp.minimum(root, loss.slope_bound)

    @property
    def num_steps(self):
        return 400 * self.refinement if self.is_least_squares else 200

    @property
    def effort(self):
        return 4, 1e-10 if self.is_least_squares else 1e-9

    @property
    def start(self):
        return self.modes.initial

    def isotropic(self) -> "Setting":
        """The setting of the same initial risk whose eigenvalues are all 1."""
        one = np.ones(1)
        return Setting(
            self.gamma, self.rho, _followed(self.modes, one, one, one * self.initial_risk)
        )

    def grouped(self) -> "Setting":
        modes = self.modes
        # Fixed steps are stable up to an eigenvalue.
        refinement = 1 if modes.descent.max() <= 5 else 4
        if len(modes.descent) <= _MOST_MODES:
            return dataclasses.replace(self, refinement=refinement)
        logs = np.log(modes.descent)
        edges = np.linspace(logs.min(), logs.max(), _MOST_MODES + 1)[1:-1]
        places = np.digitize(logs, edges)

        def joined(values):
            return np.bincount(places, values, minlength=_MOST_MODES)

        shares, weights = joined(modes.weights / modes.descent), joined(modes.weights)
        risks = joined(modes.weights * modes.initial)
        is_there = weights > 0
        shares, weights, risks = (values[is_there] for values in (shares, weights, risks))
        followed = _followed(modes, weights / shares, weights, risks / weights)
        return Setting(self.gamma, self.rho, followed, refinement)

    def noise_strength(self, clip_scale: Float[Any, ""]) -> Float[Any, ""]:
        r"""$K = 2c^2\gamma^2/\rho^2$."""
        return 2 * (clip_scale * self.gamma / self.rho) ** 2

    def velocity(self, state, rate, clip_scale):
        risk = jnp.maximum(self.risk(state), _TINY)
        clip, rates = NormClip(clip_scale), jnp.minimum(rate, self.caps)
        moments = gradient_moments(self.modes, clip, risk, rates, self.gamma)
        return self.modes.descent * (moments.diffusion - 2 * moments.descent * state)

    def is_possible(self, state):
        return self.risk(state) > 0

    def risk(self, state):
        return jnp.sum(self.modes.weights * state)


def is_least_squares(setting: AbstractSetting) -> TypeGuard[Setting]:
    """Whether a setting is that of least squares on Gaussian inputs."""
    return isinstance(setting, Setting) and setting.is_least_squares


def setting_of(problem: LinearRegression, num_samples: float, rho: float) -> Setting:
    """The setting of linear regression with concrete numbers."""
    with on_host():
        # In the problem's own precision, so that a search starts where the theory does.
        modes = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), eigen_modes(problem))
    # Directions without inputs have neither risk nor learning.
    is_seen = modes.descent > 0
    kept = (values[is_seen] for values in (modes.descent, modes.weights, modes.initial))
    return Setting(np.float64(problem.dim / num_samples), np.float64(rho), _followed(modes, *kept))


def _followed(
    modes: Modes,
    eigenvalues: Float[np.ndarray, " kept"],
    weights: Float[np.ndarray, " kept"],
    initial: Float[np.ndarray, " kept"],
) -> Modes:
    """Modes with these eigenvalues, weights and initial risks."""
    return dataclasses.replace(
        modes,
        descent=eigenvalues,
        diffusion=eigenvalues,
        initial=initial,
        weights=weights,
        readout=weights,
        quadratics={},
    )


def require_least_squares(problem: Any, asked: str) -> None:
    """Raise unless a problem is least squares on Gaussian inputs with concrete numbers."""
    came = None
    if isinstance(problem, AbstractSignalProblem):
        came = type(problem).__name__
    elif isinstance(problem, LinearRegression) and problem.input_scales is not None:
        came = "input_scales"
    elif isinstance(problem, LinearRegression) and problem.loss.square_curvature != 1:
        came = f"the loss {type(problem.loss).__name__}"
    if came is not None:
        raise NotCoveredError(
            f"{asked} is for least squares on Gaussian inputs (LinearRegression without "
            f"input_scales), got {came}; jaxdp.plan without uncertainty covers it"
        )
    require_kind("problem", problem, LinearRegression, "a LinearRegression")
    require_host("problem", problem)


class SignalSetting(AbstractSetting):
    r"""Labels that follow one direction of isotropic inputs: the overlap p and the remainder w.

    $p' = -e\,a$, $w' = -2eD\,w + e^2\gamma M$ and $K_c = (0, 4c^2\gamma^2/\rho^2)$, with
    $e = \min(\tilde\eta, 2/(\ell\gamma))$ and the moments of the clipped slope. Source:
    `jaxdp.theory.streams.signal`; test_the_search_sees_what_the_theory_predicts.
    """

    gamma: Float[Any, ""]
    rho: Float[Any, ""]
    problem: AbstractSignalProblem  # with numbers in float64
    num_steps: ClassVar[int] = 60  # a step costs hundreds of steps of least squares
    # A minimum is often at the kink where the rate meets the cap: descent is slow there.
    effort: ClassVar[tuple[int, float]] = 2, 1e-7

    @property
    def cap(self):
        return 2 / (self.problem.loss.curvature_bound * self.gamma)

    @property
    def slope_scale(self):
        _, _, square = _at_the_start(self.problem)
        return jnp.sqrt(square)

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


# A reverse pass through the search would store all nodes of the quadrature at every step.
@jax.custom_jvp
def _moments(problem: AbstractSignalProblem, at: Float[Array, " three"]) -> Float[Array, " three"]:
    """a, D, M at overlap, remainder and clip scale; their nine derivatives are taken forward."""
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
