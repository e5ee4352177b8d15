r"""The Gaussian closure: mean and covariance of clipped DP-GD, as if its iterates were normal.

In the kernel's eigenbasis let the coordinates have mean $\mu$ and covariance S. Prediction i is
then $N(f_i, v_i)$, $f = W\mu$, $v = \mathrm{diag}(WSW^\top)$, and the loss says what mean and what
mean derivative $D_i$ its slope has, clipped at $C/\|\varphi_i\|$. With
$A = I - (\eta/n)W^\top\mathrm{diag}(D)W$ one update makes

$$ \mu \leftarrow \mu - (\eta/n)W^\top E[w], \qquad S \leftarrow ASA^\top + s^2I. $$

Without clipping this is exact. In full it costs r^3 operations; here the leading modes keep their
covariances and the others their variances only, driven by $(W^\top D W)_{jj}$: O(n rank^2 + n r).
The modes beyond the spectral gap are nearly uncorrelated, because samples of small and of large
residual share them alike. Derived: PF Algorithm 1 closed at second moments; test_gaussian_closure.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.theory.features.modes import KernelModes, product


class Moments(eqx.Module):
    """Mean and covariance of the coordinates, and the clipped share summed over time."""

    mean: Float[Array, " modes"]
    leading: Float[Array, "rank rank"]
    others: Float[Array, " others"]
    clipped: Float[Array, ""]


class Forces(eqx.Module):
    r"""What clipping does to the moments at one instant.

    Attributes:
        pull: $W^\top E[w]/n$.
        leading: $W^\top\mathrm{diag}(D)W/n$ of the leading modes.
        others: its diagonal for the others.
        clipped: expected share of the samples that are clipped.
    """

    pull: Float[Array, " modes"]
    leading: Float[Array, "rank rank"]
    others: Float[Array, " others"]
    clipped: Float[Array, ""]


class Closure(eqx.Module):
    """The parts of a problem that its moments' equations read.

    Attributes:
        modes: the problem.
        limits: slopes at which samples are clipped.
        squares: squared entries of the factor's columns beyond the leading ones.
        test_leading: second moments of the test rows' leading coordinates.
        test_others: mean squares of the others.
    """

    modes: KernelModes
    limits: Float[Array, " train"]
    squares: Float[Array, "train others"]
    test_leading: Float[Array, "rank rank"]
    test_others: Float[Array, " others"]

    def __init__(self, modes: KernelModes, limits: Float[Array, " train"], rank: int):
        rank = min(rank, modes.eigenvalues.shape[0])
        test = modes.test_factor
        self.modes = modes
        self.limits = limits
        self.squares = modes.factor[:, rank:] ** 2
        self.test_leading = product(test[:, :rank].T, test[:, :rank]) / test.shape[0]
        self.test_others = jnp.mean(test[:, rank:] ** 2, axis=0)

    def start(self, dtype) -> Moments:
        """The moments at theta = 0."""
        rank, count = self.test_leading.shape[0], self.modes.eigenvalues.shape[0]
        return Moments(
            jnp.zeros(count, dtype),
            jnp.zeros((rank, rank), dtype),
            jnp.zeros(count - rank, dtype),
            jnp.zeros((), dtype),
        )

    def forces(self, moments: Moments) -> Forces:
        """The mean clipped gradient and its mean derivative."""
        factor, count = self.modes.factor, self.modes.num_train
        leading = factor[:, : self.test_leading.shape[0]]
        predictions = product(factor, moments.mean)
        spread = jnp.sum(product(leading, moments.leading) * leading, axis=1)
        # Rounding may leave a small variance negative.
        spread = jnp.maximum(spread + product(self.squares, moments.others), 0)
        slopes = self.modes.loss.clipped_slope(
            predictions, spread, self.modes.train_labels, self.limits
        )
        return Forces(
            pull=product(factor.T, slopes.mean) / count,
            leading=product(leading.T * slopes.derivative[None], leading) / count,
            others=product(self.squares.T, slopes.derivative) / count,
            clipped=jnp.mean(slopes.clipped),
        )

    def step(
        self, moments: Moments, rate: Float[Array, ""], noise_std: Float[Array, ""]
    ) -> Moments:
        """The moments after one update."""
        forces = self.forces(moments)
        identity = jnp.eye(forces.leading.shape[0], dtype=forces.leading.dtype)
        kept = identity - rate * forces.leading
        leading = product(product(kept, moments.leading), kept) + noise_std**2 * identity
        others = (1 - rate * forces.others) ** 2 * moments.others + noise_std**2
        return Moments(
            moments.mean - rate * forces.pull, leading, others, moments.clipped + forces.clipped
        )

    def velocity(self, moments: Moments, diffusion: Float[Array, ""]) -> Moments:
        """The moments' rate of change in the limit of small steps."""
        forces = self.forces(moments)
        identity = jnp.eye(forces.leading.shape[0], dtype=forces.leading.dtype)
        decay = product(forces.leading, moments.leading)
        return Moments(
            -forces.pull,
            diffusion**2 * identity - decay - decay.T,
            diffusion**2 - 2 * forces.others * moments.others,
            forces.clipped,
        )

    def bias(self, moments: Moments) -> Float[Array, ""]:
        """Test error of the mean predictor."""
        return self.modes.bias(moments.mean)

    def variance(self, moments: Moments) -> Float[Array, ""]:
        """Mean variance of the test predictions, without the unseen coordinates."""
        leading = jnp.sum(self.test_leading * moments.leading)
        return leading + jnp.sum(self.test_others * moments.others)
