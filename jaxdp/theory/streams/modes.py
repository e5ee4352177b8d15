r"""The linear modes of one-pass DP-SGD, which all its theories integrate, and its learning rate.

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

A falls and N rises with R, which is all that proofs of bounds use of $\mu_c$ and $\nu_c$.
Source: AC (62) for s = 1. Derived (scales, Huber): test_gradient_moments.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.arrays import as_float, in_jax, in_numpy
from jaxdp.core.checks import require_kind
from jaxdp.core.trajectory import record_steps
from jaxdp.losses import AbstractResidualLoss
from jaxdp.problems.streams.input_scales import InputScales
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.schedules import AbstractSchedule
from jaxdp.theory.solver import SLOW_AT_THE_END, Instant, Tolerances, solve

# Names of observables that every theory of modes has.
_TAKEN = ("clipped_fraction", "capped_fraction", "distance")
# Enough for a rate of 10^5, for which stability limits an explicit solver's step.
MAX_STEPS = 2**17
# Quadrature nodes of an interval between two records.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class Modes(eqx.Module):
    """A theory's modes and the problem's parameters, in arrays for a shared compilation."""

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

    It is a mean over the eigenvalue's block of d_i directions omega, with w_i = lambda_i d_i/d.
    Source: AC (62), where $D_i(0) = d\,\|\theta^*_i\|^2/(2 d_i)$ is printed with a further factor
    lambda_i; that contradicts R = (1/d) sum lambda_i D_i and simulation.
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
    """Moments of clipped and capped gradients, averaged over input scales, one rate for each."""
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
    r"""The fractions of samples that were clipped and capped up to each time, as observables.

    The capped one misses about 0.002 if $\mathrm{tr}(\Sigma)^2/\mathrm{tr}(\Sigma^2) \ge 10$, 0.03
    if it is 1. Derived: test_capped_fraction_matches_simulation.
    """

    def threshold(nodes):
        rate = algorithm.learning_rate(nodes) * algorithm.aspect_ratio(modes.dim)
        # 2 / eta_k in units of d, the mean of |x|^2.
        positive = jnp.maximum(rate, jnp.finfo(time.dtype).tiny)
        return 2 / (modes.curvature_bound * positive * algorithm.batch_size)

    variance = 2 * modes.mean_square / (9 * modes.dim)
    scales = None if modes.scales is None else modes.levels(time.dtype)
    moments = {"mean": 1 - variance, "deviation": jnp.sqrt(variance)}
    return {
        "clipped_fraction": clipped_area / jnp.where(time > 0, time, 1),
        "capped_fraction": capped_share(threshold, time, **moments, scales=scales),
    }


def energy_tolerances(norm: Callable[[PyTree], Array]) -> Tolerances:
    """Tolerances for energies of modes, whose risks may be as small as 1e-9."""
    return Tolerances((1e-8, 1e-15), (1e-6, 1e-13), norm, MAX_STEPS)


def recorded_pass(
    algorithm: OnePassDPSGD, records: int
) -> tuple[OnePassDPSGD, Float[Array, " records"]]:
    """The algorithm with a traced length, for a shared compilation, and the record times."""
    traced, dtype = algorithm.with_traced_length(), jnp.result_type(float)
    steps = record_steps(algorithm.num_steps, records).astype(dtype)
    # As XLA divides by a scalar, bit for bit.
    return traced, in_jax(steps * (1 / in_numpy(traced.num_steps).astype(dtype)))


class OnePassRate(NamedTuple):
    r"""The learning rate, capped at $2/(\ell\|x\|^2)$ for gradients, with a kink below the cap."""

    schedule: AbstractSchedule  # $\tilde\eta$
    gamma: Float[Array, ""]  # d over the number of samples
    cap: Float[Array, "*levels"]  # the largest rate of a gradient, for inputs of each scale
    starts_above: Bool[Array, "*levels"]  # whether the schedule is above the cap at time 0
    last_square: Float[Array, ""]  # $\tilde\eta^2(1)$
    # Times at which the rate is not smooth; those of leaving the cap are last.
    kinks: Float[Array, " kinks"]

    @classmethod
    def of(
        cls,
        algorithm: OnePassDPSGD,
        dim: Any,
        dtype: Any,
        *,
        curvature_bound: float,
        scales: Any = 1.0,
    ) -> "OnePassRate":
        r"""The rate of an algorithm on inputs $x = \sqrt s\,\Sigma^{1/2} g$ of scales s."""
        schedule = algorithm.learning_rate
        gamma = algorithm.aspect_ratio(dim).astype(dtype)
        cap = 2 / (curvature_bound * gamma * algorithm.batch_size) / scales
        kinks = jnp.append(schedule.kinks.astype(dtype), leaves_cap(schedule, cap))
        starts_above = schedule(jnp.zeros((), dtype)) > cap
        last_square = schedule(jnp.ones((), dtype)) ** 2
        return cls(schedule, gamma, cap, starts_above, last_square, kinks)

    def capped(self, instant: Instant) -> Float[Array, "*levels"]:
        """The rate of a gradient, for inputs of each scale."""
        has_left = instant.passed[-self.cap.size :].reshape(self.cap.shape)
        return jnp.where(self.starts_above & ~has_left, self.cap, self.schedule(instant.time))

    def square_to_come(self, time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        r"""$\tilde\eta^2(t) - \tilde\eta^2(1)$."""
        return self.schedule(time) ** 2 - self.last_square

    def solve(self, velocity, start, time, tolerances: Tolerances, adjoint, read=None):
        """`solver.solve` on a clock that slows down toward the end of the pass."""
        given = {"tolerances": tolerances, "adjoint": adjoint, "read": read, "kinks": self.kinks}
        return solve(velocity, start, time, clock=SLOW_AT_THE_END, **given)


def leaves_cap(schedule: AbstractSchedule, cap: Float[Array, "*caps"]) -> Float[Array, "*caps"]:
    """The times at which a falling learning rate meets each cap, kinks of the equations; else 2."""

    def halve(_, ends):
        above, below = ends
        middle = (above + below) / 2
        over = schedule(middle) > cap
        return jnp.where(over, middle, above), jnp.where(over, below, middle)

    start, end = jnp.zeros_like(cap), jnp.ones_like(cap)
    _, time = lax.fori_loop(0, 60, halve, (start, end))
    meets = (schedule(start) > cap) & (schedule(end) < cap)
    return lax.stop_gradient(jnp.where(meets, time, 2))


def capped_share(
    threshold: Callable[[Float[Array, "intervals nodes"]], Float[Array, "intervals nodes"]],
    time: Float[Array, " records"],
    *,
    mean: Any,
    deviation: Any,
    scales: Any = None,
) -> Float[Array, " records"]:
    r"""Expected share of the samples up to each time whose step is capped; 0 at time 0.

    A sample's step is capped if $\|x\|^2/d$ exceeds a threshold that changes with time. The cube
    root of that weighted chi-square of d degrees is taken as Gaussian (Satterthwaite, Wilson and
    Hilferty): its variance is $2/(9d)$ for isotropic inputs, $2\,\mathrm{tr}(\Sigma^2)/(9d^2)$ for
    others of mean eigenvalue 1, and its mean is 1 less that variance. The error for isotropic
    inputs is 0.002 for d >= 10, 0.01 for d = 2. Derived: test_signal_ode.
    """
    width = jnp.diff(time)
    nodes = time[:-1, None] + width[:, None] * (_NODES + 1).astype(time.dtype)[None] / 2
    limits = threshold(nodes)
    if scales is None:
        share = ndtr((mean - jnp.cbrt(limits)) / deviation)
    else:
        values, weights = (part[None, None] for part in scales)
        excess = (mean - jnp.cbrt(limits[..., None] / values)) / deviation
        share = jnp.sum(weights * ndtr(excess), axis=-1)
    areas = width * jnp.sum(share * _WEIGHTS.astype(time.dtype)[None], axis=1) / 2
    total = jnp.concatenate([jnp.zeros_like(areas[:1]), jnp.cumsum(areas)])
    return total / jnp.where(time > 0, time, 1)
