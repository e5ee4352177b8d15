r"""Means over Gaussian logits of the softmax loss, its clipped slope, and its accuracy.

**Nodes.** A function of k logits that ignores their common shift is averaged over nodes of equal
weight, points of $R^k$ whose entries sum to zero: plus and minus the axes of random orthogonal
frames of that space of k - 1 dimensions, each frame stretched by one radius. The radii are root
mean squares of the chi distribution with k - 1 degrees over ranges of equal probability, so that
moments up to the third are exact. The frames come from a fixed seed; for three classes they lie in
a plane, and are turned by the golden ratio.

**The clipped slope.** The slope $h = \mathrm{softmax}(z) - e_y$ becomes $s = h\min(1, \ell/|h|)$.
Its Jacobian is $J_h = \mathrm{diag}(p) - pp^\top$ inside and $(\ell/|h|)(I - uu^\top)J_h$ outside,
$u = h/|h|$. A variance of $\epsilon^{3/4}$ ($\epsilon$ the rounding unit) is added to all logits,
about 1e-5 of them in float32; so a variance of zero, and its derivatives, are harmless. With 54
nodes and logits of deviation 1, the largest error of E[s] over 60 samples is 0.2 %, 0.5 % and 1.5 %
of the limit for 2, 3 and 10 classes; at deviation 3 it is 4 % for 10 classes. The median error of
the mean derivative for 10 classes is 2.5 % at 3 by Stein's identity, and 17 % as a mean of
Jacobians, which singular covariances need. Derived: test_softmax_slope.

**The class.** For k independent logits of one variance v, the label's is largest with probability
$\int\varphi(t)\prod_{j \ne y}\Phi(t + (f_y - f_j)/\sqrt v)\,dt$, computed by Gauss and Legendre's
rule. For correlated ones, along each ray from the mean the label's logit is largest between two
distances, which the chi distribution with k - 1 degrees weighs: only directions are sampled, the
result is smooth in mean and covariance, and for two classes exact. Derived: test_softmax_metrics.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax.lax import Precision
from jax.scipy.special import erfc, gammaincc, ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.core.numerics.batching import cholesky
from jaxdp.losses.base import ClippedSlope

# Slopes have a norm of at most sqrt(2), so this limit clips nothing.
_LARGEST_LIMIT = 2.0
# The normal's mass beyond this is 1e-11.
_DEVIATIONS = 6.7
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A chi variable of a few hundred degrees never exceeds this distance.
_FARTHEST = 40.0
# Largest number of terms of the chi distribution's finite sum in single precision.
_MOST_DEGREES = 200
# Numbers in a block of rows: in one that fits in a processor's cache, and in a larger one for few
# nodes a row, on whose matrix products several cores work.
_BLOCK, _LARGE_BLOCK = 2**15, 2**20
_GOLDEN = (np.sqrt(5) - 1) / 2


class CorrelatedSlope(eqx.Module):
    r"""Moments of the clipped slope s of k logits of any covariance.

    Attributes:
        mean, second_moment: $E[s]$ and $E[ss^\top]$.
        derivative: $E[J_s]$, the derivative of entry a in logit b at [..., a, b]; not symmetric.
            Its own derivatives leave out the contribution of the clip's kink.
        clipped: the probability that the slope is clipped.
    """

    mean: Float[Array, "*batch k"]
    second_moment: Float[Array, "*batch k k"]
    derivative: Float[Array, "*batch k k"]
    clipped: Float[Array, "*batch"]


def isotropic_slope(
    gaps, is_label, variance, limit, num_nodes, per_row: int | None = None
) -> ClippedSlope:
    """The slope at logits of one variance whose mean exceeds the label's own by `gaps` (..., k).

    At least `num_nodes` are used; one row uses `per_row` of them, an even number, or all.
    """
    gaps, variance, limit = _arrays(gaps, variance, limit)
    rows = [(gaps, 1), (is_label, 1), (variance, 0), (limit, 0)]
    nodes = _node_matrix(gaps, num_nodes)
    if per_row is None or per_row >= nodes.shape[-1]:
        function = functools.partial(_isotropic_slope, nodes=nodes[None])
        return _by_rows(function, nodes.size, *rows)
    own = jnp.swapaxes(nodes.T[_shared_out(gaps, num_nodes, per_row)], 1, 2)
    return _by_rows(_isotropic_slope, own[0].size, *rows, (own, 2))


def _isotropic_slope(gaps, is_label, variance, limit, nodes) -> ClippedSlope:
    # Rows become the last axis, along which a processor computes several at once.
    gaps, is_label, nodes = gaps.T[:, None], is_label.T[:, None], jnp.transpose(nodes, (1, 2, 0))
    std = jnp.sqrt(variance + floor_of(gaps))
    logits = gaps + std[None, None] * nodes
    slopes, square, scales, is_clipped = _slopes(logits, is_label, limit[None], axis=0)
    slopes = slopes * scales[None]
    num_classes, num_nodes, _ = slopes.shape
    steps = jnp.sum(slopes * nodes, axis=(0, 1)) / num_nodes
    return ClippedSlope(
        mean=jnp.mean(slopes, axis=1).T,
        square=jnp.mean(scales**2 * square, axis=0) / num_classes,
        derivative=steps / (num_classes * std),
        clipped=_share(is_clipped.T, gaps[:, 0].T),
    )


def correlated_slope(
    gaps, is_label, covariance, limit, num_nodes, per_row: int | None = None
) -> CorrelatedSlope:
    """The slope at correlated logits whose mean exceeds the label's own by `gaps` (..., k)."""
    gaps, covariance, limit = _arrays(gaps, covariance, limit)
    rows = [(gaps, 1), (is_label, 1), (covariance, 2), (limit, 0)]
    nodes, num_classes = _normal_nodes(gaps, num_nodes), gaps.shape[-1]
    if per_row is None or per_row >= len(nodes):
        function = functools.partial(_correlated_slope, nodes=nodes[None])
        return _by_rows(function, num_classes * (len(nodes) + num_classes), *rows)
    rows.append((nodes[_shared_out(gaps, num_nodes, per_row)], 2))
    width = num_classes * (per_row + num_classes)
    return _by_rows(_correlated_slope, width, *rows, block=_LARGE_BLOCK)


def _correlated_slope(gaps, is_label, covariance, limit, nodes) -> CorrelatedSlope:
    basis, root = _contrasts_and_root(gaps, covariance)
    moved = jnp.transpose(_product(root, jnp.swapaxes(nodes, 1, 2)), (1, 2, 0))
    logits = gaps.T[:, None] + jnp.tensordot(basis, moved, 1, precision=Precision.HIGHEST)
    is_label = is_label.T[:, None]
    slopes, square, scales, is_clipped = _slopes(logits, is_label, limit[None], axis=0)
    shares, count = slopes + is_label, slopes.shape[1]
    # The second part of (I - u u') J_h is h (p h - (p'h) p)'/|h|^2.
    pulled = shares * slopes
    pulled -= shares * jnp.sum(pulled, axis=0, keepdims=True)
    slopes = slopes * scales[None]
    turned = slopes * jnp.where(is_clipped, 1 / jnp.where(is_clipped, square, 1), 0)[None]
    scaled = scales[None] * shares
    identity = jnp.eye(len(logits), dtype=gaps.dtype)
    derivative = jnp.mean(_by_row(scaled), axis=2)[:, :, None] * identity
    pairs = _by_row(scaled, turned), jnp.swapaxes(_by_row(shares, pulled), 1, 2)
    slopes = _by_row(slopes)
    return CorrelatedSlope(
        mean=jnp.mean(slopes, axis=2),
        second_moment=_product(slopes, jnp.swapaxes(slopes, 1, 2)) / count,
        derivative=derivative - _product(*pairs) / count,
        clipped=_share(is_clipped.T, gaps),
    )


def _by_row(*parts):
    """Arrays (k, nodes, rows), joined along the nodes, with the rows first."""
    return jnp.transpose(jnp.concatenate(parts, axis=1), (2, 0, 1))


def _contrasts_and_root(gaps, covariance):
    """A basis without the common shift, and the root of the covariance in it."""
    basis = jnp.asarray(contrasts(gaps.shape[-1]), gaps.dtype)
    reduced = reduced_covariance(covariance, basis)
    trace = jnp.trace(reduced, axis1=-2, axis2=-1)
    return basis, root_of(reduced, floor_of(gaps) * (1 + trace))


def reduced_covariance(covariance, basis) -> Float[Array, "*batch contrasts contrasts"]:
    """The covariance in the space without a common shift, which is removed exactly."""
    shifted = covariance - covariance[..., :, :1] - covariance[..., :1, :] + covariance[..., :1, :1]
    # With the basis on the right, as one product for all rows; the covariance is symmetric.
    return _product(jnp.swapaxes(_product(shifted, basis), -1, -2), basis)


def root_of(covariance, floor) -> Float[Array, "*batch contrasts contrasts"]:
    """The Cholesky factor of the covariance with the floor added to its diagonal."""
    identity = jnp.eye(covariance.shape[-1], dtype=covariance.dtype)
    floor = floor[..., None, None] * lax.broadcast_to_rank(identity, floor.ndim + 2)
    return cholesky(covariance + floor)


def floor_of(gaps) -> float:
    """The variance that is added to all logits."""
    return float(jnp.finfo(gaps.dtype).eps) ** 0.75


def _normal_nodes(gaps, num_nodes) -> Float[Array, "nodes contrasts"]:
    return jnp.asarray(normal_nodes(gaps.shape[-1] - 1, num_nodes), gaps.dtype)


def _node_matrix(gaps, num_nodes) -> Float[Array, "k nodes"]:
    num_classes = gaps.shape[-1]
    nodes = contrasts(num_classes) @ normal_nodes(num_classes - 1, num_nodes).T
    return jnp.asarray(nodes, gaps.dtype)


def _slopes(logits, is_label, limit, *, axis: int):
    """Slopes at logits along an axis, their squared norms, scales, and whether they are clipped."""
    limit = jnp.minimum(limit, _LARGEST_LIMIT)
    # Subtracted only to keep exponentials finite; it cancels below.
    top = lax.stop_gradient(jnp.max(logits, axis=axis, keepdims=True))
    powers = jnp.exp(logits - top)
    others = jnp.sum(jnp.where(is_label, 0, powers), axis=axis, keepdims=True)
    total = jnp.sum(powers, axis=axis, keepdims=True)
    slopes = jnp.where(is_label, -others, powers) * (1 / total)
    square = jnp.sum(slopes**2, axis=axis)
    is_clipped = square > limit**2
    scales = jnp.where(is_clipped, limit * lax.rsqrt(jnp.where(is_clipped, square, 1)), 1)
    return slopes, square, scales, is_clipped


def _shared_out(gaps, num_nodes: int, per_row: int) -> np.ndarray:
    """The nodes that each row uses: pairs of a node and its negative, the next pairs in turn."""
    dim, num_rows = gaps.shape[-1] - 1, gaps.size // gaps.shape[-1]
    plus = np.arange(dim)[None] + 2 * dim * np.arange(_num_frames(dim, num_nodes))[:, None]
    pairs = per_row // 2
    used = plus.reshape(-1)[(np.arange(num_rows * pairs) % plus.size).reshape(num_rows, pairs)]
    return np.concatenate([used, used + dim], axis=1)


def _by_rows(function, width: int, *rows, block: int = _BLOCK):
    """Apply a function of rows; on a CPU in blocks that fit in its cache, several times faster.

    The function maps arrays, and returns arrays, whose first axis is the rows; one row needs
    `width` numbers. `rows` are arrays, each with its number of trailing axes that belong to one
    row; the first has all leading axes of the others.
    """
    leading = rows[0][0].shape[:-1]
    shapes = [(part, part.shape[part.ndim - rank :]) for part, rank in rows]
    flat = [jnp.broadcast_to(part, leading + own).reshape(-1, *own) for part, own in shapes]
    count = len(flat[0])
    num_blocks = -(-count * width // block)

    def in_turn(*flat):
        size = -(-count // num_blocks)
        ends = [(0, size * num_blocks - count)]
        padded = (jnp.pad(part, ends + [(0, 0)] * (part.ndim - 1), "edge") for part in flat)
        blocks = tuple(part.reshape(num_blocks, size, *part.shape[1:]) for part in padded)
        found = lax.map(lambda part: function(*part), blocks)
        return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:])[:count], found)

    if num_blocks < 2:
        found = function(*flat)
    else:
        found = lax.platform_dependent(*flat, cpu=in_turn, default=function)
    return jax.tree.map(lambda part: part.reshape(*leading, *part.shape[1:]), found)


def _share(is_clipped, gaps):
    share = jnp.mean(is_clipped, axis=-1, dtype=gaps.dtype)
    return jnp.where(jnp.isnan(gaps).any(axis=-1), jnp.nan, share)


def _arrays(*values):
    dtype = float_dtype(values)
    return (jnp.asarray(value, dtype) for value in values)


def _product(left, right):
    # TF32 would lose the floor of a singular covariance.
    return jnp.matmul(left, right, precision=Precision.HIGHEST)


def expected_value(gaps, is_label, variance, num_nodes) -> Float[Array, "*batch"]:
    """The expected loss at logits with the mean `gaps` over the label's; variance or covariance."""
    gaps, variance = _arrays(gaps, variance)
    rank = 0 if variance.ndim < gaps.ndim else 2
    function = functools.partial(_expected_value, num_nodes=num_nodes)
    rows = (gaps, 1), (is_label, 1), (variance, rank)
    return _by_rows(function, gaps.shape[-1] * num_nodes, *rows)


def _expected_value(gaps, is_label, variance, *, num_nodes):
    if variance.ndim < gaps.ndim:
        std = jnp.sqrt(variance + floor_of(gaps))[..., None, None]
        spread = std * lax.broadcast_to_rank(_node_matrix(gaps, num_nodes), std.ndim)
    else:
        nodes = jnp.swapaxes(_normal_nodes(gaps, num_nodes), -1, -2)
        spread = _product(_product(*_contrasts_and_root(gaps, variance)), nodes)
    logits, is_label = gaps[..., None] + spread, is_label[..., None]
    own = jnp.sum(jnp.where(is_label, logits, 0), axis=-2)
    others = jax.nn.logsumexp(jnp.where(is_label, -jnp.inf, logits), axis=-2)
    return jnp.mean(jnp.logaddexp(0.0, others - own), axis=-1)


def isotropic_probability(gaps, is_label, variance) -> Float[Array, "*batch"]:
    """The probability that the label's logit is the largest, for one variance > 0 of all."""
    points, weights = (jnp.asarray(part, gaps.dtype) for part in (_NODES, _WEIGHTS))
    points = _DEVIATIONS * points
    weights = weights * jnp.exp(-(points**2) / 2) * (_DEVIATIONS / np.sqrt(2 * np.pi))
    levels = gaps / jnp.sqrt(variance)[..., None]
    points = lax.broadcast_to_rank(points, levels.ndim + 1)
    below = jnp.where(is_label[..., None], 1, ndtr(points - levels[..., None]))
    return jnp.matmul(jnp.prod(below, axis=-2), weights, precision=Precision.HIGHEST)


def correlated_probability(gaps, is_label, covariance, num_nodes) -> Float[Array, "*batch"]:
    """The probability that the label's logit is the largest, if some difference is random."""
    function = functools.partial(_correlated_probability, num_nodes=num_nodes)
    rows = (gaps, 1), (is_label, 1), (covariance, 2)
    return _by_rows(function, gaps.shape[-1] * num_nodes, *rows)


def _correlated_probability(gaps, is_label, covariance, *, num_nodes):
    dim = gaps.shape[-1] - 1
    basis = jnp.asarray(contrasts(dim + 1), gaps.dtype)
    reduced = reduced_covariance(covariance, basis)
    trace = jnp.trace(reduced, axis1=-2, axis2=-1)
    is_fixed = ~(trace > 0)
    identity = lax.broadcast_to_rank(jnp.eye(dim, dtype=gaps.dtype), reduced.ndim)
    reduced = jnp.where(is_fixed[..., None, None], identity, reduced)
    root = root_of(reduced, floor_of(gaps) * jnp.where(is_fixed, 1, trace))
    rays = jnp.matmul(basis, root, precision=Precision.HIGHEST)
    turned = jnp.asarray(directions(dim, num_nodes).T, gaps.dtype)
    rays = jnp.matmul(rays, turned, precision=Precision.HIGHEST)
    own = jnp.sum(jnp.where(is_label[..., None], rays, 0), axis=-2, keepdims=True)
    # Another logit is below the label's if distance * rise < room.
    rise, room = rays - own, -gaps[..., None]
    is_rising, is_falling = rise > 0, rise < 0
    crossing = room / jnp.where(is_rising | is_falling, rise, 1)
    crossing = jnp.clip(crossing, -_FARTHEST, _FARTHEST)
    first = jnp.max(jnp.where(is_falling, crossing, 0), axis=-2, initial=0)
    last = jnp.min(jnp.where(is_rising, crossing, _FARTHEST), axis=-2, initial=_FARTHEST)
    share = _beyond(first, dim) - _beyond(jnp.maximum(last, first), dim)
    return jnp.mean(share, axis=-1)


def _beyond(distance, degrees):
    """The probability that a chi variable is larger: a finite sum, of e^(-t) t^i / i! or halves."""
    power = distance**2 / 2
    if degrees > _MOST_DEGREES:
        return gammaincc(degrees / 2, power)
    # The exponential in two parts, so that neither underflows where the sum does not.
    half = jnp.exp(-power / 2)
    if degrees % 2:
        total, term = erfc(distance / np.sqrt(2)), half * distance * np.sqrt(2 / np.pi)
    else:
        total, term = jnp.zeros_like(distance), half
    summed = jnp.zeros_like(distance)
    for index in range(degrees // 2):
        summed += term
        term *= power / (index + (1.5 if degrees % 2 else 1))
    return total + half * summed


@functools.cache
def contrasts(num_classes: int) -> Float[np.ndarray, "k contrasts"]:
    """An orthonormal basis of the vectors of k entries that sum to zero, one a column."""
    basis = np.zeros((num_classes, num_classes - 1))
    for column in range(num_classes - 1):
        basis[: column + 1, column], basis[column + 1, column] = 1, -1 - column
    return _fixed(basis / np.linalg.norm(basis, axis=0))


@functools.cache
def directions(dim: int, count: int) -> Float[np.ndarray, "nodes dim"]:
    """At least `count` unit vectors: whole frames and their negatives."""
    num_frames = _num_frames(dim, count)
    if dim == 2:
        angles = np.pi / 2 * ((np.arange(num_frames) * _GOLDEN + 0.5) % 1)
        cosines, sines = np.cos(angles), np.sin(angles)
        frames = np.stack([cosines, sines, -sines, cosines], axis=1).reshape(-1, 2, 2)
    else:
        normals = np.random.default_rng([dim, num_frames]).standard_normal((num_frames, dim, dim))
        frames = np.linalg.qr(normals)[0]
    return _fixed(np.concatenate([frames, -frames], axis=1).reshape(-1, dim))


@functools.cache
def normal_nodes(dim: int, count: int) -> Float[np.ndarray, "nodes dim"]:
    """At least `count` nodes of equal weight for a standard normal vector."""
    num_frames = _num_frames(dim, count)
    edges = scipy.special.gammaincinv(dim / 2, np.arange(num_frames + 1) / num_frames)
    squares = num_frames * dim * np.diff(scipy.special.gammainc(dim / 2 + 1, edges))
    return _fixed(np.repeat(np.sqrt(squares), 2 * dim)[:, None] * directions(dim, count))


def _num_frames(dim, count):
    return -(-count // (2 * dim))


def _fixed(array):
    """Cached arrays are shared, so they must be read-only."""
    array.flags.writeable = False
    return array
