r"""Means over Gaussian inputs whose labels follow the logistic model that is fitted to them.

Let $z$ and h be independent standard normals, the parts of an input along the target $\theta^*$ and
along the rest of $\theta$. With $S = |\theta^*|$, the overlap $p = \langle\theta, \theta^*
\rangle/S$ and the remainder $w = |\theta|^2 - p^2$ the signal and the prediction are

$$ f^* = S z, \qquad f = p z + \sqrt w\,h, \qquad y = \pm1, \quad P(y \mid x) = \sigma(y f^*), $$

and $\psi$ is the slope $-y\,\sigma(-y f)$ clipped at $\pm k$. Descent and its noise depend on

$$ D = E[\psi'(f)], \qquad E[\psi z] = p D - S H, \quad H = E[\sigma'(f^*)\,h(f)], \qquad E[\psi^2],
$$

with $h(f) = \min(\sigma(f), k) + \min(\sigma(-f), k)$; the second is Stein's identity for z, which
acts on $\psi$ and on the distribution of the label. All are integrals over f of functions that are
smooth except at $|f| = |\ln(1/k - 1)|$, the kink of the clip, where the range is divided; the mean
over the label given f is that of a logistic sigmoid of a Gaussian. The nodes of
`jaxdp.losses.logistic` resolve the bend at f = 0.

The excess risk is a sum of two errors, of length and of direction, and neither cancels:

$$ E[\ln(1 + e^{-yf})] - E[\ln(1 + e^{-yf^*})]
   = E\bigl[D_A(|\theta| g, S g)\bigr] + S\,E[\sigma'(S g)]\,(|\theta| - p), $$

where g is a standard normal, $A(m) = \ln(1 + e^{-m})$ and $D_A(m, m^*) = A(m) - A(m^*) - A'(m^*)(m
- m^*) \ge 0$. For $\theta$ only enters through the distribution of f, which is that of $|\theta|
g$, and through $E[\sigma(f^*) f] = S p\,E[\sigma'(f^*)]$.

Errors for S from 0.1 to 20 and k from 0.02 to 1: in float64 below 1e-9 (1e-13 up to S = 3), in
float32 below 1e-5, relative to the number itself, or for the moment along z to its two parts.
Derived: test_well_specified_logistic.

**A logistic sigmoid as a mixture of normal distribution functions.** A logistic variable is a
normal one of random deviation 2K, where K has Kolmogorov's distribution (Andrews and Mallows 1974,
Stefanski 1991). So $\sigma(x) = E[\Phi(x/2K)]$, and for a Gaussian argument

$$ E[\sigma(m + \sqrt v\,h)] = E\bigl[\Phi(m/\sqrt{4K^2 + v})\bigr], $$

where 16 nodes of Gauss's rule for ln K give $\sigma$ and $\sigma'$ to 3e-11 everywhere. Derived:
test_well_specified_logistic.
"""

import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxdp.losses.base import alike, along_last
from jaxdp.losses.logistic import crossing_of, nodes_of_arcsinh

# The normal's mass beyond this is 6e-14.
_DEVIATIONS = 7.5
# Nodes on each side of the kink, and on the whole half-line.
_NUM_NODES, _NUM_RISK_NODES = 24, 40
# A kink beyond this counts as infinite.
_FARTHEST = 1e4
# Smaller deviations do not bend the arcsinh of the nodes.
_LEAST_SCALE = 0.1
# For the divergence as an integral between two logits that are less than 1 apart.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(6))
_NODES = _NODES + 0.5
_NUM_DEVIATIONS = 16
# Outside these values K has a probability of less than 1e-15.
_LEAST, _LARGEST = 0.08, 4.5
_GRID = 400
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


class SignalSlope(eqx.Module):
    r"""Moments of a clipped slope for labels that follow a signal.

    The signal $f^* = S z$ and the prediction f are jointly Gaussian, z is standard normal, and the
    slope is a function $\psi$ of f and of a label that depends on $f^*$.

    Attributes:
        along: $E[\psi z]$.
        derivative: $E[\partial\psi/\partial f]$; by Stein's identity also $E[\psi h]/\sqrt w$ with
            the part $\sqrt w\,h$ of the prediction that is independent of the signal.
        square: $E[\psi^2]$.
        clipped: the probability that the slope is clipped.
    """

    along: Float[Array, "*shape"]
    derivative: Float[Array, "*shape"]
    square: Float[Array, "*shape"]
    clipped: Float[Array, "*shape"]


def well_specified_slope(
    overlap: Float[Array, "*shape"],
    remainder: Float[Array, "*shape"],
    signal: Float[Array, "*#shape"],
    limit: Float[Array, "*#shape"],
) -> SignalSlope:
    """Moments of the clipped slope of the logistic loss at p, w >= 0, S > 0 and k in [0, inf]."""
    overlap, remainder, signal, limit = alike(overlap, remainder, signal, limit)
    length, cosine, square_sine = _polar(overlap, remainder)
    crossing = jnp.clip(crossing_of(limit), -_FARTHEST, _FARTHEST)
    scale = jnp.maximum(length, signal * jnp.abs(cosine))
    g, measure = _halves(scale, jnp.abs(crossing), length)
    f, signals = length[..., None] * g, (signal * cosine)[..., None] * g
    # Given the prediction: the probability that the label has its sign, and the mean of sigma'.
    right, steepness = sigmoid_moments(signals, (signal**2 * square_sine)[..., None])
    wrong = 1 - right
    level = limit[..., None]
    of_right = jnp.minimum(jax.nn.sigmoid(-f), level)
    of_wrong = jnp.minimum(jax.nn.sigmoid(f), level)
    # Nodes of the first half are nearer to 0 than the kink: all are clipped or none.
    is_outer = jnp.arange(2 * _NUM_NODES) >= _NUM_NODES
    is_outer = lax.broadcast_to_rank(is_outer, g.ndim)
    wrong_is_clipped = jnp.where(is_outer, level < 1, crossing[..., None] > 0)
    right_is_clipped = ~is_outer & (crossing[..., None] > 0)
    bend = jax.nn.sigmoid(f) * jax.nn.sigmoid(-f)

    def mean(values):
        return jnp.sum(measure * values, axis=-1)

    clipped = right * right_is_clipped + wrong * wrong_is_clipped
    derivative = mean(bend * (right * ~right_is_clipped + wrong * ~wrong_is_clipped))
    pull = mean(steepness * (of_right + of_wrong))
    return SignalSlope(
        along=overlap * derivative - signal * pull,
        derivative=derivative,
        square=mean(right * of_right**2 + wrong * of_wrong**2),
        clipped=mean(clipped),
    )


def well_specified_risk(
    overlap: Float[Array, "*shape"],
    remainder: Float[Array, "*shape"],
    signal: Float[Array, "*#shape"],
) -> Float[Array, "*shape"]:
    """Excess of the mean logistic loss over that of the target, at p, w >= 0 and S > 0."""
    overlap, remainder, signal = alike(overlap, remainder, signal)
    length, _, _ = _polar(overlap, remainder)
    scale = jnp.maximum(jnp.maximum(length, signal), _LEAST_SCALE)
    half = jnp.arcsinh(scale * _DEVIATIONS / jnp.pi) / 2
    g, measure = nodes_of_arcsinh(jnp.zeros_like(scale), scale, half, half, _NUM_RISK_NODES)
    signals = signal[..., None] * g
    apart = _divergence(length[..., None] * g, signals)
    bend = jax.nn.sigmoid(signals) * jax.nn.sigmoid(-signals)
    is_ahead = overlap > 0
    both = jnp.where(is_ahead, length + overlap, 1)
    turned = jnp.where(is_ahead, remainder / both, length - overlap)
    errors = apart + (signal * turned)[..., None] * bend
    return 2 * jnp.sum(measure * errors, axis=-1)


def _divergence(logits, signals):
    """$D_A(m, m^*)$ for logits >= 0; as an integral if they are so close that it would cancel."""
    step = logits - signals
    direct = jax.nn.softplus(-logits) - jax.nn.softplus(-signals)
    direct += jax.nn.sigmoid(-signals) * step
    nodes, weights = along_last((_NODES, _WEIGHTS * (1 - _NODES)), step)
    between = signals[..., None] + step[..., None] * nodes
    bend = jax.nn.sigmoid(between) * jax.nn.sigmoid(-between)
    near = step**2 * jnp.sum(weights * bend, axis=-1)
    return jnp.where(jnp.abs(step) < 1, near, direct)


def _polar(overlap, remainder):
    r"""$|\theta|$, and cosine and squared sine of its angle to the target: 0, 1 at the origin."""
    square = overlap**2 + remainder
    is_zero = ~(square > 0)
    square = jnp.where(is_zero, 1, square)
    length = jnp.sqrt(square)
    return (
        jnp.where(is_zero, 0, length),
        jnp.where(is_zero, 0, overlap / length),
        jnp.where(is_zero, 1, remainder / square),
    )


def _halves(scale, kink, length):
    """Nodes for means of even functions of g, half of them below the kink at |f| = `kink`."""
    scale = jnp.maximum(scale, _LEAST_SCALE)
    reach = _DEVIATIONS * length
    # The quotient of the two would overflow for a length of zero.
    edge = jnp.where(kink < reach, kink / jnp.where(kink < reach, length, 1), _DEVIATIONS)
    edges = (jnp.zeros_like(scale), edge, jnp.full_like(scale, _DEVIATIONS))
    edges = [jnp.arcsinh(scale * edge / jnp.pi) for edge in edges]
    parts = [
        nodes_of_arcsinh(
            jnp.zeros_like(scale), scale, (low + high) / 2, (high - low) / 2, _NUM_NODES
        )
        for low, high in itertools.pairwise(edges)
    ]
    g, measure = (jnp.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return g, 2 * measure


def sigmoid_moments(
    mean: Float[Array, "*shape"], variance: Float[Array, "*#shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    r"""$E[\sigma(u)]$ and $E[\sigma'(u)]$ for $u \sim N(m, v)$."""
    deviations, weights = along_last(_mixture(_NUM_DEVIATIONS), mean)
    std = jnp.sqrt(deviations**2 + variance[..., None])
    level = mean[..., None] / std
    above = jnp.sum(weights * lax.erf(level * math.sqrt(0.5)), axis=-1)
    density = jnp.sum(weights / std * jnp.exp(-(level**2) / 2), axis=-1)
    return (1 + above) / 2, density / _ROOT_TWO_PI


@functools.cache
def _mixture(num_nodes: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Deviations and weights: Gauss's rule for ln K, from Lanczos on a fine grid."""
    nodes, weights = np.polynomial.legendre.leggauss(_GRID)
    low, high = math.log(_LEAST), math.log(_LARGEST)
    place = (low + high) / 2 + (high - low) / 2 * nodes
    mass = (high - low) / 2 * weights * _density(np.exp(place)) * np.exp(place)
    start = np.sqrt(mass / mass.sum())
    basis, diagonal, beside = [start], [], []
    for _ in range(num_nodes):
        vector = place * basis[-1]
        diagonal.append(basis[-1] @ vector)
        for known in (*basis, *basis):
            vector = vector - (known @ vector) * known
        beside.append(np.linalg.norm(vector))
        basis.append(vector / beside[-1])
    between = np.diag(beside[:-1], 1)
    found, vectors = np.linalg.eigh(np.diag(diagonal) + between + between.T)
    return 2 * np.exp(found), vectors[0] ** 2


def _density(values: Float[np.ndarray, " grid"]) -> Float[np.ndarray, " grid"]:
    """The density of Kolmogorov's distribution, by the faster of its two series."""
    order = np.arange(1, 9)[:, None]
    above = (
        8 * values * np.sum(-((-1.0) ** order) * order**2 * np.exp(-2 * (order * values) ** 2), 0)
    )
    rate = (2 * order - 1) ** 2 * np.pi**2 / 8
    square = values**2
    below = np.sum((2 * rate / square - 1) / square * np.exp(-rate / square), 0)
    return np.where(values < 0.8, _ROOT_TWO_PI * below, above)
