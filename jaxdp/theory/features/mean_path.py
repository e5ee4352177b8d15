r"""Private training of a network: its mean by the network itself, its covariance by a kernel.

A network is linear in its weights only near its start, and private training leaves that
neighbourhood: closures with the tangent kernel of the start were up to 52 % off. The noise around
the mean weights is small enough for a linear model, and the mean needs none.

With w the mean weights, let prediction i be $N(f(w, x_i), V_i)$, and let its clipped slope have the
mean $E_i$. For gradient descent the mean moves by one gradient step of the network itself,

$$ w \leftarrow w - \frac{\eta}{n}\sum_i \nabla f(w, x_i)^\top E_i, $$

and other linear optimisers make the same recursion (`linear_recursion`) with weights in the place
of modes. Their covariance follows `closed_moments`, or `modewise_closure` for several outputs, in
the leading modes of a tangent kernel. It is taken anew at S points of the path. Between two
kernels with the bases $B = Uw^{-1/2}$, modes have the overlap
$O = B'^\top J'J^\top B$, with J and J' the tangent features before and after, and a covariance
becomes $sI + O(S - sI)O^\top$, where s is the variance of a coordinate that only noise moves.

A row is clipped on $|J_i^\top h|$ for a slope h. Its limit on $|h|$ is $C|h|/|J_i^\top h|$ along
the slope h of the mean prediction: outputs learn against each other, and the kernel's trace is up
to 29 % off. No kernel carries the mean, so that its growth in training does not matter.

Derived: here; test_mean_path.py, against linear and true networks.
"""

import dataclasses
import functools
import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, PyTree

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import linear_state_of
from jaxdp.clipping.per_sample import clipped_gradient_sum, per_sample_gradient_norms
from jaxdp.core.arrays import float_dtype, in_types_of, plain_number
from jaxdp.core.checks import NotCoveredError, require_count, require_host
from jaxdp.losses.linear_model import slope_limits
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.theory.base import AbstractTheory, require_known_batches
from jaxdp.theory.features.closed_moments import (
    Closure,
    Moments,
    closure_trajectory,
    record_numbers,
)
from jaxdp.theory.features.linear_recursion import LinearRecursion, linear_recursion
from jaxdp.theory.features.modes import KernelModes
from jaxdp.theory.features.modewise_closure import (
    ModeMoments,
    closure_of_outputs,
    modewise_slopes,
    modewise_start,
    modewise_step_with,
)
from jaxdp.theory.features.readout import Readout
from jaxdp.theory.features.stability import Steepest, growth, warn_beyond_stability
from jaxdp.theory.features.tangent_kernel import (
    TangentKernel,
    products,
    tangent_kernel,
    tangent_modes,
)

# Largest movement of the weights, over their length, without a warning.
_MOVEMENT = 2.5


class MeanPath(AbstractTheory):
    r"""Predict test loss and accuracy of a network whose weights are all trained by DP-SGD.

    Covers `jaxdp.Linearised` problems under a `PrivateOptimiser` that is linear in gradient and
    state, with the batches of `GaussianClosure`. The mean of the weights follows full-batch steps
    of the network itself; a tangent kernel carries only their covariance.

    | networks, movement over length | loss, S = 1 | loss, S = 4 | accuracy |
    |---|---|---|---|
    | 19, 0.07 to 2 | -0.3 to 1.9 % | -0.5 to 1.1 % | 0.009 |
    | 2, 3.2 and 3.3, mostly by noise | 6 and 7 % | 5 and 3 % | 0.005 |
    | 2, 20 and 158 | -7 and 215 % | -46 and 169 % | 0.13 |

    Errors are prediction over simulated mean minus 1, of 30 runs, with standard errors of 0.1 to
    0.8 % (experiments/forecast/networks.py: up to 79,510 weights, n = 800 to 4,000). There is a
    warning and the status UNSTABLE for a movement above 2.5, a limit chosen by these networks, and
    where the clipped step is not stable. On few rows noise matters earlier, and nothing warns: for
    three tanh networks on 300 rows that moved by 1.1 to 1.5, mostly by noise, losses were 8 to 17 %
    too high with S = 1 and 5 to 16 % with S = 4, without noise 1 % too low.

    Observables are those of the closures and, at each record, of the released weights,

    - "movement": $\sqrt{E|w - w_0|^2}/|w_0|$, over the weights that are trained,
    - "mean_movement": $|E\,w - w_0|/|w_0|$, without the noise.

    Costs T full-batch gradients with their norms, S + 1 tangent kernels of n (n + m) times the
    numbers kept of a row's gradient, and the closure's steps in at most `num_modes` modes. Does not
    run under `jit`, `vmap` or `grad`.

    Args:
        segments: number S of equal parts of the path that have a kernel each, default 1.
        num_modes: number of leading modes that learn, default 400; the others carry noise.
        rank: number of leading modes with full covariances, default 64; for losses of one output.

    Raises:
        TypeError, ValueError: a number is not a whole one, or too small.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, jaxdp, optax
        >>> model = eqx.nn.MLP(5, "scalar", 16, 1, jnp.tanh, key=jax.random.key(0))
        >>> inputs = jax.random.normal(jax.random.key(1), (50, 5))
        >>> labels = jnp.where(inputs[:, 0] > 0, 1, -1)
        >>> rows = inputs[:40], labels[:40], inputs[40:], labels[40:]
        >>> problem = jaxdp.Linearised(model, *rows, loss=jaxdp.losses.Logistic())
        >>> sampler = jaxdp.privacy.FixedSizeBatches(40, 20)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 10, "sampler": sampler}
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.MeanPath(), records=2)
        >>> {"movement", "mean_movement", "accuracy"} <= set(predicted.observables)
        True
    """

    segments: int = eqx.field(static=True, converter=plain_number, default=1)
    num_modes: int = eqx.field(static=True, converter=plain_number, default=400)
    rank: int = eqx.field(static=True, converter=plain_number, default=64)

    def __check_init__(self):
        require_count("segments", self.segments)
        require_count("num_modes", self.num_modes)
        require_count("rank", self.rank, least=0)

    def read(self, problem, algorithm) -> tuple[Linearised, PrivateOptimiser, LinearRecursion]:
        if not isinstance(problem, Linearised):
            raise NotCoveredError(
                f"it describes networks (Linearised), got {type(problem).__name__}; use "
                "GaussianClosure() for features on fixed rows"
            )
        if not isinstance(algorithm, PrivateOptimiser):
            raise NotCoveredError(
                f"it describes PrivateOptimiser, got {type(algorithm).__name__}; full batches are "
                "jaxdp.privacy.FixedSizeBatches(n, n)"
            )
        require_host("problem and algorithm", (problem, algorithm))
        require_known_batches(algorithm, problem.num_train)
        recursion = linear_recursion(algorithm, problem.num_train, problem.loss.num_outputs)
        if self.segments > 1 and any(recursion.num_draws):
            raise NotCoveredError(
                "noise or batches that depend on each other over the steps are followed in one "
                "kernel: use MeanPath(segments=1)"
            )
        return problem, algorithm, recursion

    def solve(self, reading, records):
        problem, algorithm, recursion = reading
        at_record, _ = record_numbers(algorithm, records)
        path = _Path(problem, algorithm, recursion, self)
        found = path.run(np.asarray(at_record))
        risk, clipped = found.pop("risk"), found["clipped_fraction"][-1]
        modes = dataclasses.replace(path.modes, feature_norms=path.norms)
        grows = growth(modes, recursion, path.moments.steepest.value)
        warn_beyond_stability(grows, clipped)
        movement = float(found["movement"][-1])
        # A head that starts at zero has no length.
        if is_far := _MOVEMENT < movement < math.inf:
            warnings.warn(
                f"the weights move by {movement:.2g} of their length: beyond {_MOVEMENT:g} losses "
                "were up to 7 % too high, and beyond 20 a prediction said nothing; use less noise, "
                "fewer steps or a smaller learning rate",
                stacklevel=4,
            )
        return closure_trajectory(
            path.modes,
            algorithm,
            at_record,
            risk,
            found,
            label=f"mean path, {self.segments} segment{'s' * (self.segments > 1)}",
            unstable=grows.is_unstable(clipped) | is_far,
        )

    def modes(self, problem: Linearised, near: PrivateOptimiser | None = None) -> KernelModes:
        """The modes for a search through many settings of one network.

        Args:
            problem: the network.
            near: setting whose path gives the kernel and the gradients' norms, the means of those
                at its start and at its end; None (default) for those at the start.
        """
        if near is None:
            weights, kernel = problem.weights, tangent_kernel(problem, problem.weights)
        else:
            path = _Path(*self.read(problem, near), self)
            path.run(np.asarray([near.num_steps]))
            ends = path.kernels[0], path.kernels[-1]
            weights, kernel = path.mean(0), jax.tree.map(lambda one, two: (one + two) / 2, *ends)
        predict = eqx.filter_jit(problem.predictions)
        begun = problem.weights
        start = predict(begun, problem.inputs), predict(begun, problem.test_inputs)
        norms = (gradient_norms(problem, begun) + gradient_norms(problem, weights)) / 2
        return tangent_modes(problem, kernel, norms, self.num_modes, start)[0]


class _Path:
    """The mean path of one problem and algorithm.

    The state is `numbers`, the means of the J numbers of each weight along a leading axis, and
    `moments`, whose covariances are in the modes and whose means stay zero.
    """

    def __init__(self, problem, algorithm, recursion: LinearRecursion, theory: MeanPath):
        self.problem, self.recursion, self.theory = problem, recursion, theory
        self.clip_norm, self.num_steps = algorithm.clip_norm, int(algorithm.num_steps)
        # `with_epochs` appends the sum of an epoch's draws, which starts at 0.
        initial = np.zeros(recursion.size)
        found = np.asarray(linear_state_of(algorithm).initial)
        initial[: len(found)] = found
        self.numbers = jax.tree.map(
            lambda leaf: jnp.asarray(initial, leaf.dtype).reshape(-1, *(1,) * leaf.ndim) * leaf,
            problem.weights,
        )
        self.kernels: list[TangentKernel] = []
        self.norms = jnp.zeros(problem.num_train)  # largest of each row's gradient

    def mean(self, place: int) -> PyTree[Array]:
        """The mean of a number of each weight: 0 for the weight, `recursion.output` if released."""
        return jax.tree.map(lambda leaf: leaf[place], self.numbers)

    def run(self, at_record: np.ndarray) -> dict[str, Float[Array, " records"]]:
        """Follow the path to its end, and read risk and observables at the records."""
        cuts = np.linspace(0, self.num_steps, self.theory.segments + 1).round().astype(int)
        rank, at, found = self.recursion.rank(self.theory.rank), 0, {}
        given = self.problem, self.recursion
        for stop in np.unique([*cuts, *at_record]).tolist():
            if stop:
                state, span = (self.numbers, self.moments), jnp.asarray([at, stop])
                state = _advance(*given, self.modes, self.clip_norm, rank, state, span)
                self.numbers, self.moments = state
            if stop in cuts:
                self._take_kernel(rank)
            if stop in at_record:
                state = self.mean(self.recursion.output), self.moments, jnp.asarray(stop)
                found[stop] = _read(*given, self.modes, rank, *state)
            at = stop
        return jax.tree.map(
            lambda *each: jnp.stack(each), *(found[at] for at in at_record.tolist())
        )

    def _take_kernel(self, rank: int) -> None:
        """Change to the modes of the kernel at the mean weights."""
        problem, weights = self.problem, self.mean(0)
        try:
            kernel = tangent_kernel(problem, weights)
        except ValueError:
            if not self.kernels:
                raise
            # Training has diverged, which predictions show; the last modes stay.
            return
        norms = gradient_norms(problem, weights)
        modes, basis = tangent_modes(problem, kernel, norms, self.theory.num_modes)
        modes = modes.with_shared_nodes()
        if self.kernels:
            rows = problem.inputs
            between = products(problem, (weights, rows), (self.weights, rows))
            overlap = basis.T @ between @ self.basis
            self.moments = _carried(self.moments, jnp.asarray(overlap, modes.factor.dtype))
        else:
            recursion, dtype = self.recursion, float_dtype(modes, self.recursion)
            self.moments = (
                modewise_start(modes, recursion, dtype)
                if modes.outputs
                else Closure(modes, norms, rank).start(dtype, recursion.size, recursion.num_draws)
            )
        self.kernels.append(kernel)
        self.modes, self.basis, self.weights = modes, basis, weights
        self.norms = jnp.maximum(self.norms, norms)


@eqx.filter_jit
def _advance(problem, recursion, modes, clip_norm, rank: int, state, span):
    """The state after the steps from the first number of `span` to the second."""

    def step(index, state):
        update, (numbers, moments) = recursion.at(index), state
        weights = jax.tree.map(lambda leaf: leaf[0], numbers)
        found = problem.predictions(weights, problem.inputs)
        # The modes' coordinates keep a mean of zero: predictions are the network's.
        near = dataclasses.replace(modes, train_start=found)
        norms = gradient_norms(problem, weights, found)
        limits = slope_limits(clip_norm, norms).astype(found.dtype)
        if modes.outputs:
            slopes, spread = modewise_slopes(near, limits, moments)
            after = modewise_step_with(slopes, spread, near, recursion, update, moments)
        else:
            closure = Closure(near, limits, rank)
            forces = closure.forces_at(moments)
            slopes, after = forces.slopes, closure.step_with(forces, moments, recursion, update)[0]
        pulls = slopes.mean / problem.num_train
        # Not by one backward pass: in a loop on a CPU its convolutions are ten times slower.
        gradient, _ = clipped_gradient_sum(along, weights, problem.inputs, pulls, clip_norm=jnp.inf)

        def moved(number, pull):
            kept = jnp.tensordot(update.transition, number, 1, precision=Precision.HIGHEST)
            return kept + update.gradient.reshape(-1, *(1,) * pull.ndim) * pull[None]

        numbers = jax.tree.map(moved, numbers, gradient)
        return in_types_of((numbers, dataclasses.replace(after, mean=moments.mean)), state)

    along = functools.partial(_along, problem)
    return lax.fori_loop(span[0], span[1], step, state)


@eqx.filter_jit
def _read(problem, recursion, modes, rank: int, mean, moments, num_steps):
    """Risk and observables of the released weights."""
    train, test = (
        problem.predictions(mean, rows) for rows in (problem.inputs, problem.test_inputs)
    )
    modes = dataclasses.replace(modes, train_start=train, test_start=test)
    place = recursion.output
    unseen = moments.unseen[place, place]
    if modes.outputs:
        risk, found, _ = closure_of_outputs(modes, recursion, modes.feature_norms)[2](moments)
        found.pop("steepest")
        variances = jnp.diagonal(moments.covariance[place, place], axis1=1, axis2=2)
    else:
        readout = Readout(Closure(modes, modes.feature_norms, rank), place)
        found = readout.observables(moments) | {"clipped_fraction": moments.clipped}
        risk = readout.risk(moments)
        _, leading, others, _ = readout.released(moments)
        variances = jnp.append(jnp.diagonal(leading), others)
    pairs = zip(jax.tree.leaves(mean), jax.tree.leaves(problem.weights), strict=True)
    square = sum(jnp.sum((end - begun) ** 2) for end, begun in pairs)
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(problem.weights)))
    found["clipped_fraction"] /= jnp.maximum(num_steps, 1)
    found["mean_movement"] = jnp.sqrt(square) / length
    excess = jnp.sum(variances - unseen)
    found["movement"] = jnp.sqrt(square + excess + unseen * problem.num_weights) / length
    return found | {"risk": risk}


def _along(problem: Linearised, weights: PyTree[Array], row, pull) -> Array:
    """A row's prediction along a vector of the outputs, whose gradient is pulled back."""
    return jnp.sum(pull * problem.prediction(weights, row))


@eqx.filter_jit
def gradient_norms(
    problem: Linearised, weights: PyTree[Array], predictions: Array | None = None
) -> Float[Array, " train"]:
    r"""$|J_i^\top h|/|h|$ of each training row: its gradient's norm over that of its slope h."""
    if predictions is None:
        predictions = problem.predictions(weights, problem.inputs)
    slopes = jnp.ones_like(predictions)
    if predictions.ndim == 2:
        slopes = problem.loss.slope(predictions, problem.labels)
        size = jnp.linalg.norm(slopes, axis=1, keepdims=True)
        slopes = jnp.where(size > 0, slopes / jnp.where(size > 0, size, 1), slopes.shape[1] ** -0.5)
    along = functools.partial(_along, problem)
    return per_sample_gradient_norms(along, weights, problem.inputs, slopes)


@eqx.filter_jit
def _carried(moments: Moments | ModeMoments, overlap: Float[Array, "modes modes"]):
    """The covariances in new modes, whose overlap with the old ones is given."""
    many = functools.partial(jnp.einsum, precision=Precision.HIGHEST)
    direction = many("ij,j->i", overlap, moments.steepest.direction)
    size, start = jnp.linalg.norm(direction), Steepest.start(len(direction), direction.dtype)
    direction = jnp.where(size > 0, direction / jnp.where(size > 0, size, 1), start.direction)
    moments = dataclasses.replace(moments, steepest=Steepest(moments.steepest.value, direction))
    if isinstance(moments, ModeMoments):
        identity = jnp.eye(moments.covariance.shape[-1], dtype=overlap.dtype)
        unseen = moments.unseen[:, :, None, None, None] * identity[None, None, None]
        found = many("ij,abjkl->abikl", overlap**2, moments.covariance - unseen) + unseen
        return dataclasses.replace(moments, covariance=found)
    rank, unseen = moments.leading.shape[-1], moments.unseen[:, :, None]
    seen, rest = overlap[:, :rank], overlap[:, rank:]
    identity = jnp.eye(rank, dtype=overlap.dtype)[None, None]
    found = many("ij,abjk,lk->abil", seen, moments.leading - unseen[..., None] * identity, seen)
    found += many("ij,abj,lj->abil", rest, moments.others - unseen, rest)
    others = jnp.diagonal(found, axis1=2, axis2=3)[:, :, rank:] + unseen
    leading = found[:, :, :rank, :rank] + unseen[..., None] * identity
    return dataclasses.replace(moments, leading=leading, others=others)
