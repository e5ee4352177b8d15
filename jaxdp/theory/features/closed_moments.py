r"""The Gaussian closure: mean and covariance of clipped gradient descent, as if it were normal.

In the kernel's eigenbasis let the coordinates have mean $\mu$ and covariance S. Prediction i is
then $N(f_i, v_i)$, $f = W\mu$, $v = \mathrm{diag}(WSW^\top)$, and the loss gives the mean $E_i$,
mean square $M_i$ and mean derivative $D_i$ of its slope, clipped at $C/\|\varphi_i\|$. The mean
gradient is $W^\top E/n$, and by Stein's identity its covariance with the coordinates is BS with
$B = W^\top\mathrm{diag}(D)W/n$. A linear optimiser of J numbers a coordinate (`linear_recursion`),
with means $\mu_a$, covariances $S_{ab}$ and the weight as number 0, makes

$$ \mu \leftarrow F\mu + g\,\frac{W^\top E}{n}, \qquad
   S \leftarrow LSL^\top + \kappa\,hh^\top\otimes Q + bb^\top\otimes I,
   \qquad L = F\otimes I + g e_0^\top\otimes B, $$

with Q the covariance of the draw of a batch plus $W^\top\mathrm{diag}(M - E^2 - D^2v)W/n^2$ from
the slopes' nonlinearity, the next order of Hermite's series on the diagonal. Exact for squared loss
without clipping and independent batches. The leading modes keep their covariances and the others
only variances, at a cost of O(n rank^2 + n r) in place of r^3: modes beyond the spectral gap are
nearly uncorrelated. Derived: PF Algorithm 1 and DP-SGD closed at second moments;
test_gaussian_closure, test_everyday.

**Draws that depend on each other.** Let noise $n_t$ have the covariance $K_{ts}$ over the steps,
independent over the coordinates, and $f_s$ be the covariance of z with a coming $n_s$. Then

$$ f_s \leftarrow Lf_s + bK_{ts}, \qquad
   S \leftarrow S + b(Lf_t)^\top + (Lf_t)b^\top \text{ besides } K_{tt}\,bb^\top, $$

with the derivative B in L, so that clipping damps correlated noise too. The draws of batches that
come in every epoch are $\sqrt{q_t}\,u$, with q the diagonal of Q for fixed weights and one u for
each batch. Both are followed for variances alone, not for leading modes.

A loss of several outputs is clipped on the joint norm of its slope. Its coordinates are taken to be
isotropic over the outputs: $E_i$ is a vector, $M_i$ and $D_i$ are averages over the outputs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.numerics.precision import product, safe_sqrt
from jaxdp.core.trajectory import Trajectory, longest_stretch, record_steps, trajectory_of
from jaxdp.losses.base import ClippedSlope
from jaxdp.theory.features.linear_recursion import Drawn, LinearRecursion, Update
from jaxdp.theory.features.modes import KernelModes, sum_over_rows
from jaxdp.theory.features.stability import Steepest
from jaxdp.theory.solver import recorded


class Moments(eqx.Module):
    """Means and covariances of each coordinate's numbers, and the summed clipped share."""

    mean: Float[Array, "size modes *outputs"]  # of each number of each mode
    leading: Float[Array, "size size rank rank"]  # covariances of the leading modes
    others: Float[Array, "size size others"]  # covariances of each other mode's numbers
    unseen: Float[Array, "size size"]  # covariances for a coordinate that training never sees
    clipped: Float[Array, ""]  # clipped share of the rows, summed over the steps
    steepest: Steepest  # the largest eigenvalue of B over the steps
    # Covariances with coming noise, the last mode unseen by training, and with coming batches.
    noise: Float[Array, "size modes+1 draws"] | None = None
    batches: Float[Array, "size modes draws"] | None = None


class Forces(eqx.Module):
    """Moments of the clipped gradient at one instant."""

    pull: Float[Array, " modes *outputs"]  # $W^\top E/n$
    leading: Float[Array, "rank rank"]  # $W^\top\mathrm{diag}(D)W/n$ of the leading modes
    others: Float[Array, " others"]  # its diagonal for the others
    own: Float[Array, " train"]  # $E_i^2$
    bend: Float[Array, " train"]  # $M_i - E_i^2 - D_i^2v_i$, of the slopes' nonlinearity
    clipped: Float[Array, ""]  # expected share of the samples that are clipped
    slopes: ClippedSlope  # of each row; its `square` is $M_i$


class Closure(eqx.Module):
    """A problem, its clipping limits and a rank, with the equations of its moments."""

    modes: KernelModes
    limits: Float[Array, " train"]  # slopes at which samples are clipped
    squares: Float[Array, "train others"]  # squares of the factor's columns of the other modes
    # The factor's transpose, stored for quick products with several outputs, else None.
    transposed: Float[Array, "modes train"] | None

    def __init__(self, modes: KernelModes, limits: Float[Array, " train"], rank: int):
        rank = min(rank, modes.eigenvalues.shape[0])
        self.modes = modes
        self.limits = limits
        self.squares = modes.factor[:, rank:] ** 2
        self.transposed = modes.factor.T if modes.outputs else None

    @property
    def rank(self) -> int:
        """The number of leading modes with full covariances."""
        return self.modes.eigenvalues.shape[0] - self.squares.shape[1]

    @property
    def leading_factor(self) -> Float[Array, "train rank"]:
        return self.modes.factor[:, : self.rank]

    def start(self, dtype, size: int = 1, num_draws: tuple[int, int] = (0, 0)) -> Moments:
        """The moments at theta = 0, with so many draws of noise and batches to follow."""
        rank, count = self.rank, self.modes.eigenvalues.shape[0]
        outputs = self.modes.outputs
        return Moments(
            jnp.zeros((size, count, *outputs), dtype),
            jnp.zeros((size, size, rank, rank), dtype),
            jnp.zeros((size, size, count - rank), dtype),
            jnp.zeros((size, size), dtype),
            jnp.zeros((), dtype),
            Steepest.start(count, dtype),
            jnp.zeros((size, count + 1, num_draws[0]), dtype) if num_draws[0] else None,
            jnp.zeros((size, count, num_draws[1]), dtype) if num_draws[1] else None,
        )

    def train_variance(self, leading, others, unseen: Any = 0.0) -> Float[Array, " train"]:
        """Variances of the training predictions."""
        spread = variances_of(self.leading_factor, leading) + product(self.squares, others)
        # Rounding may leave a small variance negative.
        return self.modes.with_unseen(jnp.maximum(spread, 0), unseen)

    def forces(self, mean, leading, others, unseen: Any = 0.0) -> Forces:
        """The mean clipped gradient and its derivative, from the moments of the weights."""
        factor, count = self.modes.factor, self.modes.num_train
        predictions = self.modes.train_predictions(mean)
        spread = self.train_variance(leading, others, unseen)
        slopes = self.modes.clipped_slopes(predictions, spread, self.limits)
        if self.transposed is None:
            pull, own = sum_over_rows(factor, slopes.mean), slopes.mean**2
        else:
            pull, own = product(self.transposed, slopes.mean), jnp.mean(slopes.mean**2, axis=1)
        bend = slopes.square - own - slopes.derivative**2 * spread
        return Forces(
            pull=pull / count,
            leading=self.leading_form(slopes.derivative) / count,
            others=sum_over_rows(self.squares, slopes.derivative) / count,
            own=own,
            # 0 for a fixed prediction, in spite of rounding.
            bend=jnp.where(spread > 0, jnp.maximum(bend, 0), 0),
            clipped=jnp.mean(slopes.clipped),
            slopes=slopes,
        )

    def leading_form(self, weights: Float[Array, " train"]) -> Float[Array, "rank rank"]:
        r"""$W^\top\mathrm{diag}(w)W$ of the leading modes."""
        factor = self.leading_factor
        return product(factor.T * weights[None], factor)

    def step(self, moments: Moments, recursion: LinearRecursion, update: Update) -> Moments:
        return self.step_with(self.forces_at(moments), moments, recursion, update)[0]

    def forces_at(self, moments: Moments) -> Forces:
        """`forces` of the weights among the moments of all numbers."""
        weights = moments.leading[0, 0], moments.others[0, 0], moments.unseen[0, 0]
        return self.forces(moments.mean[0], *weights)

    def step_with(
        self, forces: Forces, moments: Moments, recursion: LinearRecursion, update: Update
    ) -> tuple[Moments, Moments]:
        """The moments after one update, and the covariances that its draws have added."""
        carried = self._carried(moments, forces, update)
        noise = self._injected(moments, forces, recursion, update)
        others, unseen = carried.others + noise.others, carried.unseen + noise.unseen
        coming_noise, batches = moments.noise, moments.batches
        if (drawn := update.drawn_noise) is not None:
            pace = jnp.append(forces.others, 0)
            coming_noise, added = _with_drawn(coming_noise, update, pace, update.noise, drawn)
            others, unseen = others + added[..., :-1], unseen + added[..., -1]
        if (drawn := update.drawn_batch) is not None:
            fixed = (recursion.own - recursion.joint) * forces.own / self.modes.num_train**2
            pulls = jnp.mean(forces.pull.reshape(len(forces.pull), -1) ** 2, axis=1)
            square = sum_over_rows(self.squares, fixed) + recursion.joint * pulls
            size = safe_sqrt(jnp.maximum(square, 0))
            given = batches, update, forces.others, update.sampling[:, None] * size[None], drawn
            batches, added = _with_drawn(*given)
            others = others + added
        leading = carried.leading + noise.leading
        # An update as written multiplies differences of the two sides, which rounding makes.
        leading = (leading + _transposed(jnp.swapaxes(leading, 0, 1))) / 2
        modes = self.modes
        after = Moments(
            carried.mean,
            leading,
            others,
            unseen,
            moments.clipped + forces.clipped,
            moments.steepest.after(modes.factor, forces.slopes.derivative, modes.outputs),
            coming_noise,
            batches,
        )
        return after, noise

    def _carried(self, moments: Moments, forces: Forces, update: Update) -> Moments:
        """The moments after an update without random draws."""
        mean = jnp.tensordot(update.transition, moments.mean, 1, precision=Precision.HIGHEST)
        pull = forces.pull[None]
        gradient = update.gradient.reshape(-1, *(1,) * forces.pull.ndim)
        leading, others = moments.leading, moments.others
        return Moments(
            mean + gradient * pull,
            _carried_over(update, leading, lambda part: product(forces.leading, part)),
            _carried_over(
                update, others, lambda part: lax.broadcast_to_rank(forces.others, part.ndim) * part
            ),
            product(product(update.transition, moments.unseen), update.transition.T),
            moments.clipped,
            moments.steepest,
        )

    def _injected(
        self, moments: Moments, forces: Forces, recursion: LinearRecursion, update: Update
    ) -> Moments:
        """The covariances that the batch's draw and the noise of one update add."""
        by_draw, by_noise = update.share * _outer(update.sampling), _outer(update.noise)
        if (noise := update.drawn_noise) is not None:
            by_noise = noise.covariance[noise.place] * by_noise
        weights = moments.leading[0, 0], moments.others[0, 0]
        drawn = self.drawn(forces, *weights, recursion.own, recursion.joint)
        leading, others = (_times(by_draw, part) for part in drawn)
        leading += _times(by_noise, jnp.eye(self.rank, dtype=leading.dtype))
        nothing = jax.tree.map(jnp.zeros_like, moments)
        others = others + by_noise[..., None]
        return dataclasses.replace(nothing, leading=leading, others=others, unseen=by_noise)

    def drawn(self, forces: Forces, leading, others, own, joint):
        """Q of the leading modes and its diagonal for the others, from the weights' covariances."""
        rank = self.rank
        weights = ((own - joint) * forces.slopes.square + forces.bend) / self.modes.num_train**2
        pull = forces.pull.reshape(len(forces.pull), -1)
        pull = pull / jnp.sqrt(jnp.asarray(pull.shape[1], pull.dtype))
        moved = product(product(forces.leading, leading), forces.leading)
        shared = product(pull[:rank], pull[:rank].T) + moved
        shared_others = jnp.sum(pull[rank:] ** 2, axis=1) + forces.others**2 * others
        return (
            self.leading_form(weights) + joint * shared,
            sum_over_rows(self.squares, weights) + joint * shared_others,
        )


def record_numbers(
    algorithm: DPGD | PrivateOptimiser, records: int
) -> tuple[np.ndarray | Int[Array, " records"], int | Int[Array, ""]]:
    """The records as numbers of steps, and the largest number of steps between two of them."""
    steps = algorithm.num_steps
    return record_steps(steps, records), longest_stretch(steps, records)


def recorded_closure(
    step: Callable[[Any, Int[Array, ""]], Any],
    start: PyTree[Array],
    read: Callable[[Any], tuple[Array, dict[str, Array], Any]],
    at_record: np.ndarray | Int[Array, " records"],
    longest: int | Int[Array, ""],
) -> tuple[Float[Array, " records"], dict[str, Float[Array, " records"]], Any]:
    """Risk, observables and third output of `read` at the records; "clipped_fraction" as a mean."""
    at_record = jnp.asarray(at_record)
    risk, observables, further = recorded(step, start, read, at_record, longest)
    return risk, mean_clipped(observables, at_record), further


def mean_clipped(
    observables: dict[str, Float[Array, " records"]], at_record: Int[Array, " records"]
) -> dict[str, Float[Array, " records"]]:
    """The observables with "clipped_fraction" as a mean over the steps, no longer a sum."""
    clipped = observables["clipped_fraction"] / jnp.maximum(at_record, 1)
    return observables | {"clipped_fraction": clipped}


def closure_trajectory(
    modes: KernelModes,
    algorithm: DPGD | PrivateOptimiser,
    at_record: np.ndarray | Int[Array, " records"],
    risk: Float[Array, " records"],
    observables: dict[str, Float[Array, " records"]],
    *,
    label: str,
    unstable: Bool[Array, ""] | bool,
    std: Float[Array, " records"] | None = None,
) -> Trajectory:
    """A closure's prediction as a Trajectory, in the algorithm's unit of time."""
    return trajectory_of(
        modes.is_valid & algorithm.is_valid,
        time=algorithm.time(jnp.asarray(at_record), modes.num_train),
        risk=risk,
        final_risk=risk[-1],
        observables=observables,
        std=std,
        label=label,
        unstable=unstable,
    )


def variances_of(factor: Float[Array, "rows rank"], leading: Float[Array, "rank rank"]) -> Array:
    r"""$\mathrm{diag}(WSW^\top)$ of a symmetric S, which must be on the left.

    On the right XLA on CPUs misreads a constant S (jaxlib 0.10.2 to 0.12.0.1, known_faults.md).
    """
    return jnp.sum(product(leading, factor.T) * factor.T, axis=0)


def _carried_over(update: Update, parts, derivative):
    """L S L', with the mean derivative B as an operation from the left on the modes' axes."""
    moved = jnp.tensordot(update.transition, parts, (1, 1), precision=Precision.HIGHEST)
    moved = jnp.tensordot(update.transition, moved, (1, 1), precision=Precision.HIGHEST)
    # Covariance of the weight with all numbers after the transition.
    with_weight = jnp.tensordot(update.transition, parts[0], 1, precision=Precision.HIGHEST)
    pushed = derivative(with_weight)
    crossed = jnp.tensordot(update.gradient, pushed, 0, precision=Precision.HIGHEST)
    twice = derivative(_transposed(derivative(parts[0, 0])))
    return (
        moved
        + crossed
        + _transposed(jnp.swapaxes(crossed, 0, 1))
        + _times(_outer(update.gradient), _transposed(twice))
    )


def _with_drawn(coming, update: Update, pace, size, drawn: Drawn):
    """Covariances with coming draws after an update, and what its own draw adds besides K_tt.

    `pace` is the diagonal of B, and `size` the draw's coefficients, (numbers,) or (numbers, modes).
    """
    size = size if size.ndim == 2 else size[:, None]
    moved = jnp.tensordot(update.transition, coming, 1, precision=Precision.HIGHEST)
    moved = moved + update.gradient[:, None, None] * (pace[:, None] * coming[0])[None]
    own = moved[:, :, drawn.place]
    added = size[:, None] * own[None]
    after = moved + size[:, :, None] * drawn.covariance[None, None]
    return after, added + jnp.swapaxes(added, 0, 1)


def _transposed(part):
    return jnp.swapaxes(part, -1, -2) if part.ndim in (2, 4) else part


def _outer(vector):
    return vector[:, None] * vector[None]


def _times(small, part):
    return small.reshape(*small.shape, *(1,) * part.ndim) * part[None, None]
