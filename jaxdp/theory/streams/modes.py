r"""The linear modes of one-pass DP-SGD, which all its theories integrate.

Each mode obeys, with $R = \sum_i w_i D_i$,

$$ D_i' = -2 a_i\, A(R)\, D_i + b_i\,\gamma\, N(R) + 2c^2\gamma^2\tilde\sigma^2, $$

and the theories differ in their modes (a, b, w). For Gaussian inputs and least squares
$A = g\,\mu_c(R)$ and $N = g^2\nu_c(R) P$, with $P = R + \zeta^2/2$ and
$g = \min(\tilde\eta, 2/(\gamma B))$, the limit of min(eta_k, 2/|x|^2); the noise is not capped.

**Inputs of random scale**, $x = \sqrt s\,\Sigma^{1/2} g$ with $E[s] = 1$. Given s and
$u = \theta - \theta^*$, the residual $x^\top u - z$ is $N(0, v_s)$ with $v_s = 2sR + \zeta^2$, and
$\|x\|^2/d \to s$. Clipping the gradient's norm at $c\sqrt d$ cuts the residual at
$l_s = c/\sqrt s$, to $\psi$; the capped rate is $g_s = \min(\tilde\eta, 2/(\gamma B s))$. By
Stein's identity, up to a matrix of rank one,

$$ E[x\,\psi \mid s] = s\,\mu(l_s/\sqrt{v_s})\,\Sigma u, \qquad
   E[x x^\top \psi^2 \mid s] \to s\,\nu(l_s/\sqrt{v_s})\, v_s\,\Sigma, $$
$$ A = E_s[s\, g_s\, \mu(l_s/\sqrt{v_s})], \qquad
   N = E_s[s\, g_s^2\, \nu(l_s/\sqrt{v_s})\, v_s/2]. $$

**Another loss** has $\psi$ for its slope, cut at $c/\sqrt s$: $s\,\mu$ becomes $s\,E[\psi'(r)]$ and
$\nu v_s$ becomes $E[\psi(r)^2]$ with $r \sim N(0, v_s)$; the cap is $2/(\gamma B s)$ over
`curvature_bound`. Huber's, of width w, cuts the residual at $\min(w, c/\sqrt s)$.

A falls and N rises with R, which is all that proofs of bounds use of $\mu_c$ and $\nu_c$. Source:
AC (62) for s = 1. Derived (scales, Huber): test_gradient_moments.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.arrays import as_float, in_jax, in_numpy
from jaxdp.core.checks import require_kind
from jaxdp.losses import AbstractResidualLoss
from jaxdp.problems.streams.input_scales import InputScales
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.theory.streams.one_pass_rate import capped_share

# Names of observables that every theory of modes has.
_TAKEN = ("clipped_fraction", "capped_fraction", "distance")


class Modes(eqx.Module):
    """The modes that a theory follows, and the problem's other parameters.

    Differences between problems are in arrays: equal numbers of modes share a compilation.
    """

    descent: Float[Array, " modes"]  # a_i, how fast each mode decays
    diffusion: Float[Array, " modes"]  # b_i, how strongly the gradient's noise drives it
    initial: Float[Array, " modes"]  # D_i(0)
    weights: Float[Array, " modes"]  # w_i, of the risk that sets the clipping
    readout: Float[Array, " modes"]  # weights of the reported risk
    dim: Float[Array, ""]  # d
    label_noise: Float[Array, ""]  # zeta
    mean_square: Float[Array, ""]  # tr(Sigma^2) / d
    loss: AbstractResidualLoss | None  # None for least squares
    scales: InputScales | None  # distribution of the inputs' scale; None if it is 1
    is_valid: Bool[Array, ""]  # whether the problem's traced parameters are in range
    quadratics: dict[str, Float[Array, " modes"]]  # weights of further observables
    curvature_bound: Any  # the loss's, which sets the cap on a step

    def second_moment(self, risk: Float[Array, "*levels"]) -> Float[Array, "*levels"]:
        r"""The residual's variance $2P = 2R + \zeta^2$."""
        return 2 * risk + self.label_noise**2

    def levels(self, dtype) -> tuple[Any, Any]:
        """Values and probabilities of the inputs' scale; (1, 1) if it is constant."""
        if self.scales is None:
            return 1.0, 1.0
        return self.scales.values.astype(dtype), self.scales.weights.astype(dtype)

    def risk(self, state: Float[Array, " modes"]) -> Float[Array, ""]:
        """The risk that sets the clipping; rounding cannot make it negative."""
        return jnp.maximum(jnp.sum(self.weights * state), 0)

    def observed(self, states: Float[Array, "*records modes"]) -> dict[str, Any]:
        """The quadratics at one state or at many records."""
        return {
            name: jnp.sum(lax.broadcast_to_rank(weights, states.ndim) * states, axis=-1)
            for name, weights in self.quadratics.items()
        }


def eigen_modes(problem: LinearRegression) -> Modes:
    r"""One mode per distinct eigenvalue: $D_i = d\,\langle\theta-\theta^*, \omega\rangle^2/2$.

    The mean is over the eigenvalue's block of d_i directions omega; w_i = lambda_i d_i/d, and
    $D_i(0) = d\,\|\theta^*_i\|^2/(2 d_i)$ with the target's part in the block.

    Source: AC (62), where D_i(0) is printed with a further factor lambda_i; that contradicts R =
    (1/d) sum lambda_i D_i and is wrong by hundreds of standard errors in simulation.
    """
    blocks, dim = problem.blocks, problem.dim
    spectrum, eigenvalues, squared = in_numpy(
        (problem.spectrum, blocks.eigenvalues, blocks.squared_target)
    )
    sizes = np.asarray(blocks.sizes, eigenvalues.dtype)
    # As XLA divides by a scalar, bit for bit.
    share = 1 / np.asarray(dim, eigenvalues.dtype)
    found = in_jax(
        {
            "initial": dim * squared / (2 * sizes),
            "weights": eigenvalues * sizes * share,
            "dim": np.asarray(dim, spectrum.dtype),
            "mean_square": (spectrum**2).mean(),
            "is_valid": problem.is_valid & in_numpy(blocks.is_valid),
            "quadratics": {"distance": 2 * sizes * share},
        }
    )
    return Modes(
        descent=blocks.eigenvalues,
        diffusion=blocks.eigenvalues,
        readout=found["weights"],
        label_noise=problem.label_noise,
        loss=None if problem.loss.square_curvature == 1 else problem.loss,
        scales=problem.input_scales,
        curvature_bound=problem.loss.curvature_bound,
        **found,
    )


def direction_modes(
    problem: LinearRegression, quadratics: dict[str, Float[Array, " dim"]]
) -> Modes:
    """One mode per direction of the eigenbasis, for weighted sums of (theta_j - theta*_j)^2."""
    dim = problem.dim
    share = problem.spectrum / dim
    two = 2 / jnp.full_like(problem.spectrum, dim)
    return dataclasses.replace(
        eigen_modes(problem),
        descent=problem.spectrum,
        diffusion=problem.spectrum,
        initial=dim * problem.target**2 / 2,
        weights=share,
        readout=share,
        quadratics={"distance": two} | {name: two * m for name, m in quadratics.items()},
    )


def checked_quadratics(quadratics: Any) -> dict[str, Float[Array, " dim"]]:
    """Weights by name as arrays; raises for names of other observables."""
    require_kind("quadratics", quadratics, dict, "a dictionary from names to weights")
    for name in quadratics:
        require_kind("a name of quadratics", name, str, "a text")
        if name in _TAKEN:
            raise ValueError(f"expected other names of quadratics than {_TAKEN}, got {name!r}")
    return {name: as_float(weights, name) for name, weights in quadratics.items()}


class GradientMoments(NamedTuple):
    """Means of a step's gradients."""

    descent: Float[Array, ""]  # A, capped rate times scale times descent factor
    diffusion: Float[Array, ""]  # N times `share`
    clipped: Float[Array, ""]  # the probability that a gradient is clipped


def gradient_moments(
    modes: Modes,
    clip: NormClip,
    risk: Float[Array, ""],
    rates: Float[Array, "*levels"],
    share: Float[Array, ""] | float,
) -> GradientMoments:
    """The two moments of a sample's clipped and capped gradient, averaged over the inputs' scale.

    `rates` has one capped rate per scale; `share` is d over the samples of a step or, in continuous
    time, gamma.
    """
    values, weights = modes.levels(risk.dtype)
    second_moment = modes.second_moment(values * risk)
    if modes.loss is None:
        descent, variance = clip.moments(values * second_moment)
        square, clipped = variance * second_moment, 1 - descent
    else:
        # The residual is a centred normal; |x| is sqrt(s d).
        zero = jnp.zeros_like(second_moment)
        limits = jnp.broadcast_to(clip.scale / values**0.5, zero.shape)
        slope = modes.loss.clipped_slope(zero, second_moment, zero, limits)
        descent, square, clipped = slope.derivative, slope.square, slope.clipped
    pull = weights * values * rates
    push = weights * values * rates**2 * share
    return GradientMoments(
        jnp.sum(pull * descent), jnp.sum(push * square) / 2, jnp.sum(weights * clipped)
    )


def are_valid(modes: Modes, algorithm: OnePassDPSGD) -> Bool[Array, ""]:
    """Whether the parameters of both are in range; known ones are checked on the host."""
    return in_jax(in_numpy(modes.is_valid) & algorithm.is_valid)


def shares_so_far(
    modes: Modes,
    algorithm: OnePassDPSGD,
    time: Float[Array, " records"],
    clipped_area: Float[Array, " records"],
) -> dict[str, Float[Array, " records"]]:
    """The fractions of samples that were clipped and capped up to each time, as observables."""
    return {
        "clipped_fraction": clipped_area / jnp.where(time > 0, time, 1),
        "capped_fraction": _capped_fraction(modes, algorithm, time),
    }


def _capped_fraction(modes: Modes, algorithm: OnePassDPSGD, time: Float[Array, " records"]):
    r"""Expected share of the samples up to each time whose step is capped at $2/\|x\|^2$.

    The error is about 0.002 if $\mathrm{tr}(\Sigma)^2/\mathrm{tr}(\Sigma^2) \ge 10$, 0.03 if it is
    1. Derived: test_capped_fraction_matches_simulation.
    """

    def threshold(nodes):
        rate = algorithm.learning_rate(nodes) * algorithm.aspect_ratio(modes.dim)
        # 2 / eta_k in units of d, the mean of |x|^2.
        positive = jnp.maximum(rate, jnp.finfo(time.dtype).tiny)
        return 2 / (modes.curvature_bound * positive * algorithm.batch_size)

    variance = 2 * modes.mean_square / (9 * modes.dim)
    scales = None if modes.scales is None else modes.levels(time.dtype)
    moments = {"mean": 1 - variance, "deviation": jnp.sqrt(variance)}
    return capped_share(threshold, time, **moments, scales=scales)
