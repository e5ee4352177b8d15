r"""Gaussian noise that differs from step to step: a schedule, or correlated over a few steps.

Independent noise of one size adds up in the weights. Noise that is smaller in the steps that matter
more, or that takes back a part of earlier noise, leaves less of itself in the result at the same
privacy.

Step t adds $s\,n_t$ to a sum, with $n = C^{-1}\zeta$, $\zeta$ standard normal and s one number. The
*strategy* C is lower triangular with a positive diagonal and b bands. With $\sigma_t = 1/C_{tt}$
and $a_{ti} = C_{t,t-i}/C_{tt}$,

$$ n_t = \sigma_t\zeta_t - \sum_{i=1}^{b-1} a_{ti}\, n_{t-i}. $$

A schedule has one band. More bands take back a part of earlier noise.

**Privacy.** Let any two batches that may hold one record be at least b steps apart, let the batches
not depend on the data, and fix them. Let $\Delta$ be the largest change of a sum, and $x_t = \sum_r
C_{rt}^2$. Then all sums together are $\mu$-GDP with

$$ \mu^2 = \frac{\Delta^2}{s^2}\,\max\sum_{t} x_t, $$

the sum over the batches of one record, the largest over all records.

*Proof.* Releasing $y = v + s\,C^{-1}\zeta$, v the true sums, is the same as releasing $Cy = Cv +
s\zeta$, as C is known and invertible. Let the record be in batch t, and let neighbours have
released the same $y_1, \dots, y_{r-1}$, with $t \le r < t + b$. Sums of other batches depend on the
record through these releases alone, so they are equal; batches of the record before t are at most
$t - b$, and row r of C is zero there. So the mean of row r moves by $C_{rt}\delta_t$, where the
change $\delta_t$ of sum t is a function of earlier releases, with $|\delta_t| \le \Delta$: a
Gaussian mechanism of $\mu_r = |C_{rt}|\Delta/s$. In all other rows the mean does not move. Adaptive
composition (Dong, Roth and Su (2022), Corollary 3.3) adds the squares. For random batches see
`AbstractUnamplifiedSampler`.

So s is z times the clip norm times `sensitivity`, with which the cost is that of independent noise
of the multiplier z. The condition on the columns is weaker than that of BandMF, norms of at most 1:
only the sums of their squares over the batches of a record count. For full batches no correlation
is better than a schedule. For batches in a fixed order, the columns of one record's batches are
orthogonal in the best strategy of all, as they are with no more bands than an epoch has batches.

**Optimal noise.** Let W be positive definite, and let noise of covariance $V = s^2X^{-1}$ over the
steps, $X = C^\top C$, cost $\mathrm{tr}(WV)$. The sensitivity of X is the root of the largest
$\langle G, X_{gg}\rangle$, over correlation matrices G and blocks $X_{gg}$ of the batches of one
record. Let $X^*$ have the least cost among those X whose blocks are diagonal with a trace of at
most 1: a convex problem. By stationarity $X^{*-1}WX^{*-1}$ is zero outside the blocks, and its
blocks are $y_gG_g$ with correlation matrices $G_g$. So by convexity, for every X of sensitivity at
most 1, $\mathrm{tr}(WX^{-1}) \ge \mathrm{tr}(WX^{*-1}) - \sum_g y_g(\langle G_g, X_{gg}\rangle - 1)
\ge \mathrm{tr}(WX^{*-1})$. For full batches $X^*$ is diagonal with $x_t \propto \sqrt{W_{tt}}$.

**In the machine**, with `SecretNoise`, C is defined by numbers of floating point: $\sigma_t$, and
$a_{ti}$ rounded to multiples of $2^{-20}$. With several bands, sums and past noise are whole
multiples of one unit u, at most $2^{-29}$ of every step's standard deviation. A step releases the
rounded normal number of centre $m_t = v_t - \lfloor\sum_i a_{ti} n_{t-i}\rfloor$, without any other
rounding, and keeps $n_t = y_t - v_t$. Let neighbours have the same releases. Then $n_t$ differs by
$-\delta_t$, where $|\delta_t| \le \Delta + \sqrt d\,u$ for d weights, and no other past noise
differs: the centres of row r differ by at most $a_{r,r-t}|\delta_t|$, and for r > t by $\sqrt d\,u$
more, as they are rounded down. (Kept noise is cut at $2^{42}$ units, which brings neighbours no
further apart, and so does a limit of $2^{62}$ on centres.) For E batches of a record, rounding adds
at most $\sqrt d\,u/\Delta$ of $\mu$ and $2^{-29}\sqrt{E(b - 1)d}$ by Minkowski's inequality. For
the first steps of a run alone, the second is also at most $\sqrt{E(b - 1)d}$ times $u\sqrt{x}/s$,
with x the mean of the $x_t$ of the record that has the most: rows t + i of the batches t of one
record are batches of another. `CertifiedNoise` widens the noise for both.

Source: Denisov, McMahan, Rush, Smith and Thakurta (2022), arXiv 2202.08312 (one participation);
Choquette-Choo et al. (2023), arXiv 2306.08153 (bands and several participations, norms of 1). The
norms of a cycle, the proofs and the arithmetic are derived here: test_noise_over_steps.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.core.checks import (
    NotCoveredError,
    host_array,
    require_count,
    require_finite,
    require_kind,
    require_shape,
)
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.mechanisms import AbstractMechanism, Composition
from jaxdp.privacy.secret.secret_noise import SecretNoise

# Ratios are whole multiples of 2^-20 below 2^10, so that products with kept noise fit in 64 bits.
_RATIO_BITS, _LARGEST_RATIO, _MOST_BANDS = 20, 2.0**10, 2**10
# Kept noise is two whole numbers of 32 bits, and at most 2^42 units.
_LOW_BITS, _LARGEST_KEPT = 20, 2**42
# Accounts of Poisson batches with more different runs are slow, and looser.
_MOST_GROUPS = 32
# The noise of no step is so much larger or smaller than s.
_LARGEST_SIZE = 2.0**30
_SOURCE = "None for simulated noise, or a jaxdp.privacy.SecretNoise()"


class AbstractNoiseOverSteps(AbstractDescription):
    r"""Noise $sC^{-1}\zeta$ over the steps of a run, for a strategy C of a few bands."""

    source: eqx.AbstractVar[SecretNoise | None]
    # sigma, standard deviations of the steps' fresh noise over s.
    stds: eqx.AbstractVar[Float[Any, " steps"]]
    # a, the shares of earlier noise that each step takes back, the latest first.
    ratios: eqx.AbstractVar[Float[Any, "steps past"]]

    def _argument(self, name):
        """The argument that `replace` passes on; a secret seed is refused."""
        if name == "source" and self.source is not None and not self.source.is_reusable:
            raise ValueError(
                "expected source= in replace: this noise's secret seed is for one run. Give "
                "SecretNoise() or another seed"
            )
        return getattr(self, name)

    @property
    def num_steps(self) -> int:
        """The number of steps T."""
        return len(self.stds)

    @property
    def num_bands(self) -> int:
        """The number b of bands, 1 for independent noise."""
        return self.ratios.shape[1] + 1

    @property
    def strategy(self) -> Float[np.ndarray, "steps steps"]:
        """The strategy C, as rounded."""
        stds, ratios = host_array("stds", self.stds), host_array("ratios", self.ratios)
        found = np.diag(1 / stds)
        for back in range(1, self.num_bands):
            np.fill_diagonal(found[back:], ratios[back:, back - 1] / stds[back:])
        return found

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether traced numbers are in the ranges required of concrete ones."""
        stds = jnp.asarray(self.stds)
        are_sizes = jnp.all((stds >= 1 / _LARGEST_SIZE) & (stds <= _LARGEST_SIZE))
        return are_sizes & jnp.all(jnp.abs(jnp.asarray(self.ratios)) <= _LARGEST_RATIO)

    def squares(self, num_steps: int) -> Float[np.ndarray, " steps"]:
        """The squared norms x of the first columns of C, over their first `num_steps` rows."""
        if require_count("num_steps", num_steps) > self.num_steps:
            raise ValueError(f"expected num_steps <= {self.num_steps}, got {num_steps}")
        stds, ratios = host_array("stds", self.stds), _in_units(self.ratios) * 2.0**-_RATIO_BITS
        found = stds[:num_steps] ** -2.0
        for back in range(1, min(self.num_bands, num_steps)):
            found[:-back] += (ratios[back:num_steps, back - 1] / stds[back:num_steps]) ** 2
        return found

    def sensitivity(self, sampler: AbstractSampler, num_steps: int) -> float:
        """The factor on noise at which so many steps cost as much as with independent noise.

        NotCoveredError if the strategy has more bands than steps lie between uses of a record.
        """
        squares, most = self.squares(num_steps), sampler.separation(num_steps)
        if self.num_bands > most:
            raise NotCoveredError(
                f"expected a strategy of at most {most} bands, as {num_steps} steps of {sampler!r} "
                f"may use a record in steps that are {most} apart, got {self.num_bands} bands; "
                "FixedOrder keeps the order of the batches and allows as many bands as batches"
            )
        largest, uses = (sampler.largest_sum(each) for each in (squares, np.ones(num_steps)))
        if largest is None or uses is None:
            # Random batches: `mechanism` composes steps of different noise.
            largest, uses = math.fsum(squares), num_steps
        # A margin for the rounding of the sums.
        return math.sqrt(largest / uses) * (1 + 2.0**-40)

    def mechanism(
        self, sampler: AbstractSampler, multiplier: Any, sensitivity: Any, num_steps: int
    ) -> AbstractMechanism:
        """The mechanism of the first `num_steps` sums, whose noise was multiplied by a factor.

        `sensitivity` is that factor, and `multiplier` the noise multiplier z.
        """
        needed = self.sensitivity(sampler, num_steps)
        if sampler.largest_sum(np.ones(1)) is not None:
            return sampler.mechanism(multiplier * (sensitivity / needed), num_steps)
        stds = np.sort(host_array("stds", self.stds)[:num_steps])
        if len(np.unique(stds)) > _MOST_GROUPS:
            # Steps of similar noise, charged for as the one of them with the least.
            firsts = np.arange(_MOST_GROUPS) * num_steps // _MOST_GROUPS
            stds = stds[np.repeat(firsts, np.diff(firsts, append=num_steps))]
        stds, counts = np.unique(stds, return_counts=True)
        return Composition(
            tuple(
                sampler.mechanism(multiplier * sensitivity * float(std), int(count))
                for std, count in zip(stds, counts, strict=True)
            )
        )

    def start(self, like: PyTree[Array]) -> PyTree[Array] | None:
        """The past noise before the first step, for arrays like `like`; None for one band."""
        if self.num_bands == 1:
            return None
        past, is_secret = self.num_bands - 1, self.source is not None

        def zeros(leaf):
            if is_secret:
                return jnp.zeros((2, past, *leaf.shape), jnp.int32)
            return jnp.zeros((past, *leaf.shape), jnp.promote_types(jnp.float32, leaf.dtype))

        return jax.tree.map(zeros, like)

    def require_past(self, past: PyTree[Array] | None, like: PyTree[Array]) -> None:
        """Raise ValueError unless past noise has the shapes that this noise keeps for `like`."""
        expected = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(self.start, like))]
        found = [jnp.shape(leaf) for leaf in jax.tree.leaves(past)]
        if found != expected:
            raise ValueError(
                "expected the past noise of this optimiser's own state, with arrays of shapes "
                f"{expected}, got {found}"
            )

    def simulated(
        self, fresh: PyTree[Array], past: PyTree[Array] | None, step: Any
    ) -> tuple[PyTree[Array], PyTree[Array] | None]:
        """The noise of a step made from its fresh normals, and the past noise after it."""
        std, ratios = jnp.asarray(self.stds)[step], jnp.asarray(self.ratios)[step]
        drawn = jax.tree.map(lambda leaf: std.astype(leaf.dtype) * leaf, fresh)
        if past is None:
            return drawn, None

        def noise(leaf, past):
            taken_back = jnp.tensordot(ratios.astype(past.dtype), past, 1)
            return leaf - taken_back.astype(leaf.dtype)

        found = jax.tree.map(noise, drawn, past)
        return found, jax.tree.map(
            lambda one, past: jnp.concatenate([one[None].astype(past.dtype), past[:-1]]),
            found,
            past,
        )

    def taken_back(self, past: Int[Any, "2 past *shape"], step: int) -> Int[np.ndarray, "*shape"]:
        r"""$\lfloor\sum_i a_{ti}n_{t-i}\rfloor$ of past noise in whole numbers, without rounding.

        With $n = 2^{20}h + l$ and A = $2^{20}a$ the sum is $\sum Ah + \sum Al/2^{20}$.
        """
        shares = _in_units(self.ratios[step])
        high, low = (np.tensordot(shares, part, 1) for part in np.asarray(past, np.int64))
        return high + (low >> _LOW_BITS)


def kept_after(
    past: Int[Any, "2 past *shape"], noise: Int[np.ndarray, "*shape"]
) -> Int[np.ndarray, "2 past *shape"]:
    """Past noise after a step, in two numbers of 32 bits each: noise is 2^20 high + low."""
    noise = np.clip(noise, -_LARGEST_KEPT, _LARGEST_KEPT)
    parts = np.stack([noise >> _LOW_BITS, noise & (2**_LOW_BITS - 1)]).astype(np.int32)
    return np.concatenate([parts[:, None], np.asarray(past)[:, :-1]], axis=1)


class ScheduledNoise(AbstractNoiseOverSteps):
    r"""Independent noise whose standard deviation varies over the steps, for one budget.

    For `jaxdp.PrivateOptimiser(..., noise=...)`. The standard deviation of step t is proportional
    to $1/\sqrt{x_t}$, scaled so that all steps together cost what constant noise of the same
    `noise_multiplier` does. With Poisson batches it is scaled so that the inverse variances have
    the mean of constant noise, and the cost is another; steps are composed one by one, or, with
    more than 32 different weights, in 32 groups, each charged for as its step of least noise. If
    the final risk grows by $W_{tt}$ times the variance of step t, the best weights are
    $x_t = \sqrt{W_{tt}}$, and with full batches no correlated noise is better. The proofs are in
    `jaxdp.privacy.noise_over_steps`.

    Args:
        weights: shares x of the steps in the budget, (steps,), from 2^-60 to 2^60; only their
            ratios count. For given standard deviations s they are 1 / s**2.
        source: `jaxdp.privacy.SecretNoise()` for certified noise; default None, simulated.

    Raises:
        ValueError: a weight is out of its range, or there is none.
        TypeError: an argument is of another kind.

    Example:
        >>> import jaxdp, optax
        >>> sampler = jaxdp.privacy.FixedOrder(num_records=1000, num_batches=1)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 8.0, "num_steps": 4, "sampler": sampler}
        >>> noise = jaxdp.privacy.ScheduledNoise([1.0, 1.0, 1.0, 4.0])
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), noise=noise, **steps)
        >>> print(f"mu = {jaxdp.account(algorithm, delta=1e-5).mu:.3f}")
        mu = 0.250
    """

    weights: Float[np.ndarray, " steps"]
    source: SecretNoise | None

    def __init__(self, weights: Any, source: SecretNoise | None = None):
        _require_source(source)
        self.weights, self.source = _numbers("weights", weights, 1), source
        if not (self.weights.size and _are_sizes(np.sqrt(np.maximum(self.weights, 0)))):
            extremes = [f"{end(self.weights):.3g}" for end in (np.min, np.max) if self.weights.size]
            raise ValueError(
                "expected weights from 2^-60 to 2^60, one for each step, got "
                + (f"numbers from {' to '.join(extremes)}" if extremes else "none")
            )

    @property
    def stds(self):
        r"""$\sigma_t = 1/\sqrt{x_t}$, the standard deviation of each step's noise over s."""
        return self.weights**-0.5

    @property
    def ratios(self):
        """No share of earlier noise, (steps, 0): each step's noise is its own."""
        return np.zeros((len(self.weights), 0))


class BandedNoise(AbstractNoiseOverSteps):
    r"""Noise that takes back a part of the noise of the last steps, for several epochs.

    For `jaxdp.PrivateOptimiser(..., noise=...)` with `jaxdp.privacy.FixedOrder`, or in one epoch of
    `ShuffledEpochs`. Step t adds row t of $sC^{-1}\zeta$. The optimiser's state holds the noise of
    the last bands - 1 steps, which takes as many copies of the weights. Whoever knows it can take
    the noise off: it is secret, and so are checkpoints. The proofs are in
    `jaxdp.privacy.noise_over_steps`.

    Args:
        strategy: lower triangular matrix C, not its inverse, (steps, steps), with a diagonal from
            2^-30 to 2^30 and at most 1,024 bands, and no more than steps lie between two uses of a
            record (the batches of `FixedOrder`). The scale of C does not count. Entries, divided by
            the diagonal entry of their row, are at most 1,024 in size and are rounded to multiples
            of 2^-20.
        source: `jaxdp.privacy.SecretNoise()` for certified noise; default None, simulated.

    Raises:
        ValueError: the strategy has another form, or a number is out of its range.
        TypeError: an argument is of another kind.

    Example:
        >>> import jaxdp, numpy as np, optax
        >>> sampler = jaxdp.privacy.FixedOrder(num_records=1000, num_batches=4)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 8.0, "num_steps": 8, "sampler": sampler}
        >>> noise = jaxdp.privacy.BandedNoise(np.eye(8) + 0.5 * np.eye(8, k=-1))
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), noise=noise, **steps)
        >>> print(f"mu = {jaxdp.account(algorithm, delta=1e-5).mu:.3f}, {noise.num_bands} bands")
        mu = 0.177, 2 bands
    """

    stds: Float[np.ndarray, " steps"]
    ratios: Float[np.ndarray, "steps past"]
    source: SecretNoise | None

    def __init__(self, strategy: Any, source: SecretNoise | None = None):
        _require_source(source)
        matrix, self.source = _numbers("strategy", strategy, 2), source
        count, diagonal = len(matrix), np.diagonal(matrix)
        if matrix.shape != (count, count) or not count:
            raise ValueError(f"expected a square strategy, got shape {matrix.shape}")
        above = np.abs(np.triu(matrix, 1)).max()
        if above:
            raise ValueError(
                f"expected a lower triangular strategy, got {above:.3g} above the diagonal; "
                "np.tril drops what is rounding"
            )
        if not _are_sizes(diagonal):
            raise ValueError(
                "expected a strategy with a diagonal from 2^-30 to 2^30, got numbers from "
                f"{diagonal.min():.3g} to {diagonal.max():.3g} there"
            )
        rows, columns = np.nonzero(matrix)
        bands = int((rows - columns).max()) + 1
        ratios = np.zeros((count, bands - 1))
        for back in range(1, bands):
            ratios[back:, back - 1] = np.diagonal(matrix, -back) / diagonal[back:]
        ratios = np.rint(ratios * 2.0**_RATIO_BITS) / 2.0**_RATIO_BITS
        if bands > _MOST_BANDS or np.abs(ratios).max(initial=0) > _LARGEST_RATIO:
            raise ValueError(
                f"expected at most {_MOST_BANDS} bands, and entries of at most 1,024 times the "
                f"diagonal of their row, got {bands} bands and {np.abs(ratios).max(initial=0):.3g}"
            )
        self.stds, self.ratios = 1 / diagonal, ratios


def _numbers(name: str, value: Any, ndim: int) -> Float[np.ndarray, "*shape"]:
    """Known finite numbers with so many axes, in float64."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        raise ValueError(f"expected known numbers in {name}, got traced ones: no account has them")
    known = np.array(host_array(name, value), np.float64)
    require_shape(name, known, (None,) * ndim)
    require_finite(name, known)
    return known


def _in_units(ratios: Any) -> Int[np.ndarray, "*shape"]:
    """Ratios in multiples of 2^-20, which the account and secret noise both use."""
    return np.rint(host_array("ratios", ratios) * 2.0**_RATIO_BITS).astype(np.int64)


def _are_sizes(numbers: Float[np.ndarray, " steps"]) -> bool:
    return bool(((numbers >= 1 / _LARGEST_SIZE) & (numbers <= _LARGEST_SIZE)).all())


def _require_source(source: Any) -> None:
    if source is not None:
        require_kind("source", source, SecretNoise, _SOURCE)
