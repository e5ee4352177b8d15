r"""Gaussian noise that is correlated over the steps, made from a few buffers of past noise.

Independent noise on every gradient adds up in the weights. Noise that partly cancels earlier noise
leaves less of itself in the last iterate, at the same privacy if it is scaled correctly. With
$\zeta_t$ standard normal, step t of a buffered linear Toeplitz (BLT) mechanism adds

$$ s\,\Bigl(\zeta_t + \sum_k h_k b_{k,t}\Bigr), \qquad
   b_{k,t+1} = \lambda_k b_{k,t} + \zeta_t, \qquad b_{k,0} = 0, $$

which is $sC^{-1}\zeta$ for the lower triangular Toeplitz matrix C with

$$ C^{-1}(x) = 1 + \sum_k \frac{h_k x}{1 - \lambda_k x}. $$

**Privacy.** Let a record be in one batch at most, that of step i, and fix the batches, as in
`AbstractUnamplifiedSampler`. Releasing $G + sC^{-1}\zeta$ is the same as releasing $CG + s\zeta$,
since C is known and invertible. Given everything released before step t, the row $(CG)_t$ of
neighbouring data sets differs in step i's gradient alone: later gradients depend on the record only
through earlier releases. So step t is a Gaussian mechanism whose value moves by $c_{t-i}\Delta$,
with c the first column of C and $\Delta$ the largest change of a sum, and all steps together
compose to $\mu = \Delta\sqrt{\sum_t c_t^2}/s$ (Dong, Roth and Su (2022), Corollary 3.3). With $s =
z\,C_\mathrm{clip}\,|c|$ this is the cost of one step with independent noise. If a record is in
several batches nothing is claimed: its gradients add up in CG in ways that this proof does not
bound.

Source: Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024), "Efficient and near-optimal noise
generation for streaming differential privacy"; the proof is above.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_count
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.precision import on_host


class BufferedToeplitzNoise(AbstractDescription):
    r"""Simulated noise whose correlations over the steps are sums of a few exponentials.

    For `jaxdp.PrivateOptimiser(..., noise=...)`. Each buffer keeps one number a weight. The buffers
    are past noise: anybody who knows them can subtract it from the release, so the optimiser's
    state and its checkpoints must stay secret.

    Args:
        scales: $h_k$, (buffers,); negative values cancel noise of earlier steps.
        decays: $\lambda_k$ in [0, 1), (buffers,).

    Raises:
        ValueError: an argument is out of its range, or $C^{-1}(x)$ has a zero with $|x| \le 1$, so
            that the sensitivity grows without bound.

    Example:
        >>> from jaxdp.privacy import BufferedToeplitzNoise
        >>> noise = BufferedToeplitzNoise(scales=[-0.15], decays=[0.8])
        >>> print(f"{noise.sensitivity(20):.4f}")
        1.0945
    """

    scales: Float[Array, " buffers"] = eqx.field(converter=lambda v: as_wide_float(v, "scales"))
    decays: Float[Array, " buffers"] = eqx.field(converter=lambda v: as_wide_float(v, "decays"))

    def __check_init__(self):
        if self.scales.ndim != 1 or self.scales.shape != self.decays.shape:
            came = f"shapes {self.scales.shape} and {self.decays.shape}"
            raise ValueError(f"expected scales and decays to be vectors of one length, got {came}")
        scales, decays = concrete(self.scales), concrete(self.decays)
        if scales is None or decays is None:
            return
        if not np.all((decays >= 0) & (decays < 1)):
            raise ValueError(f"expected decays in [0, 1), got {decays}")
        if not np.all(np.isfinite(scales)):
            raise ValueError(f"expected finite scales, got {scales}")
        least = np.abs(_zeros(scales.astype(float), decays.astype(float))).min(initial=np.inf)
        if not least > 1:
            raise ValueError(
                "expected 1 + sum(h x / (1 - l x)), h the scales and l the decays, to have no zero "
                "with |x| <= 1, as the sensitivity then grows without bound, got scales "
                f"{scales} and decays {decays}, with a zero at |x| = {least:.3g}"
            )

    @property
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced numbers are within the ranges required of concrete ones."""
        is_decay = (self.decays >= 0) & (self.decays < 1)
        return jnp.all(jnp.isfinite(self.scales)) & jnp.all(is_decay)

    def sensitivity(self, num_steps: int) -> float | Float[Array, ""]:
        """The norm of the first column of C over `num_steps` steps: a float64, or traced."""
        count = require_count("num_steps", num_steps)
        if concrete(self.scales) is None or concrete(self.decays) is None:
            return self._column_norm(count)
        with jax.ensure_compile_time_eval(), on_host():
            numbers = (np.asarray(part, np.float64) for part in (self.scales, self.decays))
            known = BufferedToeplitzNoise(*numbers)
            # A margin for the rounding of the sum of squares.
            return float(known._column_norm(count)) * (1 + 2.0**-40)

    def _column_norm(self, num_steps: int) -> Float[Array, ""]:
        def column(buffers, impulse):
            value = impulse - jnp.sum(self.scales * buffers)
            return self.decays * buffers + value, value

        impulses = jnp.zeros(num_steps, self.scales.dtype).at[0].set(1)
        _, values = lax.scan(column, jnp.zeros_like(self.scales), impulses)
        return jnp.sqrt(jnp.sum(values**2))

    def start(self, like: PyTree[Array]) -> PyTree[Array]:
        """The buffers before the first step, zeros of at least float32, for arrays like `like`."""
        wide = functools.partial(jnp.promote_types, jnp.float32)
        return jax.tree.map(lambda x: jnp.zeros((len(self.scales), *x.shape), wide(x.dtype)), like)

    def require_buffers(self, buffers: PyTree[Array] | None, like: PyTree[Array]) -> None:
        """Raise ValueError unless the buffers have the shapes that this noise needs for `like`."""
        expected = [leaf.shape for leaf in jax.tree.leaves(self.start(like))]
        found = "none" if buffers is None else [leaf.shape for leaf in jax.tree.leaves(buffers)]
        if found != expected:
            raise ValueError(
                "expected the buffers of this noise, as the state of the optimiser's own init has "
                f"them, of shapes {expected}, got {found}"
            )

    def correlated(self, fresh: PyTree[Array], buffers: PyTree[Array]) -> PyTree[Array]:
        """The noise of a step, from its fresh normals and the buffers before it."""

        def one(fresh, buffers):
            return fresh + jnp.tensordot(self.scales.astype(fresh.dtype), buffers, 1)

        return jax.tree.map(one, fresh, buffers)

    def after(self, fresh: PyTree[Array], buffers: PyTree[Array]) -> PyTree[Array]:
        """The buffers after a step."""

        def one(fresh, buffers):
            decays = lax.broadcast_in_dim(self.decays.astype(fresh.dtype), buffers.shape, (0,))
            return decays * buffers + fresh[None]

        return jax.tree.map(one, fresh, buffers)


def _zeros(scales: np.ndarray, decays: np.ndarray) -> np.ndarray:
    r"""The zeros of the polynomial $\prod_k(1 - \lambda_k x)\,C^{-1}(x)$."""

    def product_without(left_out):
        kept = [decay for place, decay in enumerate(decays) if place != left_out]
        factors = (np.array([-decay, 1.0]) for decay in kept)
        return functools.reduce(np.polymul, factors, np.ones(1))

    total = product_without(None)
    for place, scale in enumerate(scales):
        total = np.polyadd(total, np.polymul([scale, 0.0], product_without(place)))
    return np.roots(total)
