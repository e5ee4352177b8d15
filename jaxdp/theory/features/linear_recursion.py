r"""An algorithm as the Gaussian closure sees it: a small linear recursion for every coordinate.

A linear optimiser keeps J numbers of one coordinate (the weight, a velocity, an average), a vector
z. With $\bar g_t$ the mean of the clipped gradients of all rows, $\xi_t$ the deviation of the
batch's mean, and $\zeta_t$ standard normal, an update is

$$ z_{t+1} = F_t z_t + g_t \bar g_t + h_t \xi_t + b_t \zeta_t. $$

The $\xi_t$ are taken to be independent of each other and of the past; `with_epochs` corrects for
batches that share out an epoch, whose $\xi_t$ add up to zero, but not for the weights' memory of
the rows used up. Derived: here; test_everyday, against the enumeration of all sequences of
independent batches and, for epochs, against stored numbers.

**Noise over the steps.** For $n = C^{-1}\zeta$ in place of $\zeta$ the covariance K of two steps'
noise is $C^{-1}C^{-\top}$. If the batches of all epochs are the same, so are the draws $\xi_t$ up
to the slopes. The closures follow both by the covariance of z with all coming draws.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, Int

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import linear_state_of
from jaxdp.algorithms.transformations.linear_state import LinearState
from jaxdp.core.arrays import as_wide_float
from jaxdp.privacy.noise_over_steps import AbstractNoiseOverSteps


class Update(eqx.Module):
    """The coefficients F, g, h and b of one update."""

    transition: Float[Array, "*steps size size"]  # F
    gradient: Float[Array, "*steps size"]  # g
    sampling: Float[Array, "*steps size"]  # h
    noise: Float[Array, "*steps size"]  # b, times the standard deviation of the noise
    share: Float[Array, "*steps"]  # fraction of an independent batch's covariance
    drawn_noise: "Drawn | None" = None  # of correlated noise
    drawn_batch: "Drawn | None" = None  # of a batch that comes in every epoch


class Drawn(eqx.Module):
    """A draw among those that depend on each other."""

    covariance: Float[Array, " draws"]  # with all of them
    place: Int[Array, ""]  # its own among them


class LinearRecursion(eqx.Module):
    r"""All updates of a run, and the covariance of the batches' draws.

    With $M_i$ the mean square of the clipped slope of row i, $\bar g$ the mean gradient and $B$ its
    mean derivative, the covariance of $\xi$, non-Gaussian terms aside, is

    $$ \frac{a}{n^2}\sum_i M_i \varphi_i\varphi_i^\top + c\,(\bar g\bar g^\top + BSB^\top). $$
    """

    updates: Update  # one for each step, or one for all
    own: Float[Array, ""]  # a, from the variance of a row's inclusion in a batch
    joint: Float[Array, ""]  # c, from the covariance of two rows' inclusions
    output: int = eqx.field(static=True)  # index of the released component
    noise: Float[Array, "draws draws"] | None = None  # K of correlated noise
    kept: int = eqx.field(static=True, default=0)  # batches that come in every epoch, or 0

    @property
    def size(self) -> int:
        return self.updates.gradient.shape[-1]

    def at(self, step: Int[Array, ""]) -> Update:
        """The coefficients of update number `step`, from 0."""
        place = jnp.minimum(step, len(self.updates.share) - 1)
        found = jax.tree.map(lambda part: part[place], self.updates)
        noise = batch = None
        if self.noise is not None:
            noise = Drawn(self.noise[step], step)
        if self.kept:
            # The draws of an epoch's batches add up to zero.
            batch = step % self.kept
            others = jnp.full(self.kept, -1 / (self.kept - 1), found.share.dtype)
            batch = Drawn(others.at[batch].set(1), batch)
        return dataclasses.replace(found, drawn_noise=noise, drawn_batch=batch)

    def rank(self, rank: int) -> int:
        """The number of modes with full covariances: none where draws depend on each other."""
        return rank if self.noise is None and not self.kept else 0

    @property
    def num_draws(self) -> tuple[int, int]:
        """The numbers of draws, of noise and of batches, that depend on each other."""
        return 0 if self.noise is None else len(self.noise), self.kept


def linear_recursion(
    algorithm: DPGD | PrivateOptimiser, num_train: int, num_outputs: int | None = None
) -> LinearRecursion:
    """The updates of an algorithm on `num_train` rows."""
    if isinstance(algorithm, DPGD):
        return of_descent(algorithm.learning_rate, algorithm.noise_std(num_train))
    state, drawn = linear_state_of(algorithm), algorithm.sampler.inclusion_moments
    found = of_batches(
        state,
        as_wide_float(algorithm.nominal_std_of_mean),
        own=as_wide_float(drawn.variance),
        joint=as_wide_float(drawn.covariance),
    )
    if isinstance(algorithm.noise, AbstractNoiseOverSteps):
        found = with_noise_over_steps(found, algorithm.noise)
    if drawn.epoch_steps in (None, 1):
        return found
    # With several outputs the draws of different epochs are taken to be independent.
    if drawn.is_kept and num_outputs is None:
        return dataclasses.replace(found, kept=drawn.epoch_steps)
    return with_epochs(found, int(algorithm.num_steps), drawn.epoch_steps)


def of_descent(rate: Float[Array, ""], noise_std: Float[Array, ""]) -> LinearRecursion:
    """Full-batch gradient descent with noise on the weights."""
    dtype = jnp.result_type(rate, noise_std)
    step, noise = (jnp.reshape(each, (1, 1)).astype(dtype) for each in (-rate, noise_std))
    updates = Update(jnp.ones((1, 1, 1), dtype), step, step, noise, jnp.ones(1, dtype))
    nothing = jnp.zeros((), dtype)
    return LinearRecursion(updates, own=nothing, joint=nothing, output=0)


def of_batches(
    state: LinearState,
    noise_std: Float[Array, ""],
    *,
    own: Float[Array, ""],
    joint: Float[Array, ""],
) -> LinearRecursion:
    """A linear optimiser given noisy means over independent batches."""
    injections = as_wide_float(state.injections)
    updates = Update(
        transition=as_wide_float(state.transitions),
        gradient=injections,
        sampling=injections,
        noise=injections * noise_std,
        share=jnp.ones(injections.shape[0], injections.dtype),
    )
    return LinearRecursion(updates, own=own, joint=joint, output=state.output)


def with_noise_over_steps(
    recursion: LinearRecursion, noise: AbstractNoiseOverSteps
) -> LinearRecursion:
    r"""The recursion with noise $C^{-1}\zeta$ over the steps, for a strategy C."""
    if noise.num_bands == 1:
        stds = as_wide_float(noise.stds)
        updates = jax.tree.map(lambda part: _repeated(part, len(stds)), recursion.updates)
        updates = dataclasses.replace(updates, noise=updates.noise * stds[:, None])
        return dataclasses.replace(recursion, updates=updates)
    return dataclasses.replace(recursion, noise=as_wide_float(covariance_of(noise.strategy)))


def covariance_of(strategy: Float[np.ndarray, "steps steps"]) -> Float[np.ndarray, "steps steps"]:
    r"""The covariance $C^{-1}C^{-\top}$ of the noise over the steps."""
    inverse = scipy.linalg.solve_triangular(strategy, np.eye(len(strategy)), lower=True)
    return inverse @ inverse.T


def with_epochs(recursion: LinearRecursion, num_steps: int, per_epoch: int) -> LinearRecursion:
    r"""The recursion with batches that share out the rows of an epoch of K steps.

    The $\xi_t$ of an epoch add up to zero. Given the sum W of its first j, the next has mean
    $-W/(K - j)$ and the fraction $(1 - 1/(K - j))/(1 - 1/K)$ of an independent batch's covariance.
    """
    updates, size = recursion.updates, recursion.size
    if per_epoch == 1:
        return recursion
    dtype = updates.gradient.dtype
    place = jnp.arange(num_steps) % per_epoch
    left = (per_epoch - place).astype(dtype)
    transition = jnp.zeros((num_steps, size + 1, size + 1), dtype)
    transition = transition.at[:, :size, :size].set(_repeated(updates.transition, num_steps))
    # The first step of an epoch forgets the sum of the last epoch.
    carries = (place > 0).astype(dtype)
    pulled = -_repeated(updates.sampling, num_steps) * (carries / left)[:, None]
    transition = transition.at[:, :size, size].set(pulled)
    transition = transition.at[:, size, size].set(carries * (1 - 1 / left))

    def widened(part, last):
        return jnp.pad(_repeated(part, num_steps), ((0, 0), (0, 1)), constant_values=last)

    updates = Update(
        transition=transition,
        gradient=widened(updates.gradient, 0),
        sampling=widened(updates.sampling, 1),
        noise=widened(updates.noise, 0),
        share=(1 - 1 / left) / (1 - 1 / per_epoch),
    )
    return dataclasses.replace(recursion, updates=updates)


def _repeated(part: Array, num_steps: int) -> Array:
    """The coefficients of every step, from those of all or of each."""
    return jnp.broadcast_to(part, (num_steps, *part.shape[1:]))
