r"""Private training of all weights of a network, predicted from its tangent kernel.

While its weights move little, a network is the linear model on its tangent features, which the
closures cover. In training the kernel grows (1.3 to 3.8 times in fine-tuning). With $\mu$ the mean
of the coordinates at the end of a closure with the start's kernel $K_0 = U\Lambda U^\top$, the
*mean end* is

$$ w_1 = w_0 + \sum_i a_i \nabla f(w_0, x_i), \qquad a = U\Lambda^{-1/2}\mu, $$

and the *mean kernel* is $(K_0 + K_1)/2$ with $K_1$ the tangent kernel at $w_1$. The closure runs
once more with it, from the network's own predictions. (A drawn end would carry the noise into
$K_1$.) The weights move by

$$ E|w_T - w_0|^2 = |\mu|^2 + \mathrm{tr}(S - sI) + s\,P, $$

where S is the covariance in the modes and s the variance of a coordinate that only noise moves.
Only the leading modes of the kernel are kept. Of the others, which learn nothing in a private run,
each row keeps the squared norm: it affects clipping, and noise accumulates in it.

Derived: here; test_tangent_closure.py against linear and true networks.
"""

import math
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import NotCoveredError, described, require_count, require_host
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.problems.rows.tangent_kernel import TangentKernel, tangent_kernel
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.features.closed_moments import (
    Closure,
    closure_trajectory,
    record_numbers,
    recorded_closure,
)
from jaxdp.theory.features.linear_recursion import LinearRecursion, linear_recursion
from jaxdp.theory.features.modes import KernelModes
from jaxdp.theory.features.modewise_closure import closure_of_outputs
from jaxdp.theory.features.readout import Readout
from jaxdp.theory.features.stability import growth, warn_beyond_stability

KERNELS = "mean", "start"
# Limits of movement and kernel gap for the mean kernel; with the least gap any movement is valid.
_MOVEMENT, _GAP, _NO_GAP = 0.8, 0.3, 0.025
# Limit of mean movement for the start's kernel.
_LAZY = 0.04
# Below this share of the largest eigenvalue, eigenvectors of a float32 kernel are rounding.
_LEAST = 1e-5


class TangentClosure(AbstractTheory):
    r"""Predict test loss and accuracy of a network whose weights are all trained by DP-SGD.

    Covers `jaxdp.Linearised` problems under a `PrivateOptimiser` that is linear in gradient and
    state, with the batches of `GaussianClosure`. With the softmax loss each output moves by itself,
    with the mean of the outputs' kernels (the trace kernel).

    | simulated network, and limits | loss | accuracy |
    |---|---|---|
    | linear, 1 and 3 outputs | 0.2 %, 0.6 % | |
    | mean kernel; movement 0.8, kernel gap 0.3 | 6 % | 0.015 |
    | mean kernel; kernel gap 0.025 (frozen body, biases alone) | 2 % | 0.005 |
    | start's kernel; mean movement 0.04 | 1.6 % | 0.0064 |
    | mean kernel within limits, other draws of the head | 2 to 8 % too high | 0.0145 too low |
    | mean kernel within limits, easier test rows | 4 to 15 % too high | 0.0132 too low |
    | mean kernel within limits, trained from scratch | 8 % too low to 10 % too high | |

    The first rows are the largest errors in the fine-tunings of a pre-trained convolutional body
    from which the limits come (n = 2,000, 19,937 weights, 5 runs each; linear n = 300, 200 runs);
    the last three show that the limits are no guarantee. Beyond a limit a warning names it and the
    status is UNSTABLE; the start's kernel is then up to 25 % too high.

    Observables are those of the closures and, at each record, of the released weights,

    - "movement": $\sqrt{E|w - w_0|^2}/|w_0|$, over the weights that are trained,
    - "mean_movement": $|E\,w - w_0|/|w_0|$, without the noise,
    - "kernel_gap", with the mean kernel: the range of the losses with the start's, the mean and the
      end's kernel, over the prediction.

    Costs one tangent kernel (with the mean kernel two), each n (n + m) times the numbers kept of a
    row's gradient, and a closure in at most `num_modes` modes (three). Does not run under `jit`,
    `vmap` or `grad`.

    Args:
        kernel: "mean" (default), or "start" for weights that hardly move.
        num_modes: number of leading modes that learn, default 400; the others carry noise.
        rank: number of leading modes with full covariances, default 64; for losses of one output.

    Raises:
        ValueError: `kernel` is neither, or a number is too small.

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
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.TangentClosure(), records=2)
        >>> {"movement", "kernel_gap"} <= set(predicted.observables)
        True
    """

    kernel: str = eqx.field(static=True, default="mean")
    num_modes: int = eqx.field(static=True, converter=plain_number, default=400)
    rank: int = eqx.field(static=True, converter=plain_number, default=64)

    def __check_init__(self):
        if self.kernel not in KERNELS:
            raise ValueError(
                f"expected kernel to be one of {KERNELS}, got {described(self.kernel)}"
            )
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
        algorithm.require_rows(problem.num_train)
        # Raises if the moments of the sampler's batches are not known.
        _ = algorithm.sampler.inclusion_moments
        count, outputs = problem.num_train, problem.loss.num_outputs
        return problem, algorithm, linear_recursion(algorithm, count, outputs)

    def solve(self, reading, records):
        problem, algorithm, recursion = reading
        run = _Run(problem, algorithm, recursion, records, self)
        start = tangent_kernel(problem)
        first = found = run.closed(start)
        observables = {}
        if self.kernel == "mean":
            end = tangent_kernel(problem, problem.moved(first.coefficients))
            found, last = run.closed(start.average(end)), run.closed(end)
            losses = jnp.stack([first.risk, found.risk, last.risk])
            observables["kernel_gap"] = jnp.ptp(losses, axis=0) / found.risk
        observables = found.observables | observables
        modes, clipped = found.modes, found.observables["clipped_fraction"][-1]
        beyond = _beyond(observables)
        grows = growth(modes, recursion, observables.pop("steepest")[-1])
        if beyond is not None:
            warnings.warn(f"a prediction that is not to be trusted: {beyond}", stacklevel=4)
        warn_beyond_stability(grows, clipped)
        return closure_trajectory(
            modes,
            algorithm,
            run.at_record,
            found.risk,
            observables,
            label=f"tangent closure, {self.kernel} kernel",
            unstable=grows.is_unstable(clipped) | (beyond is not None),
        )

    def modes(self, problem: Linearised, near: PrivateOptimiser | None = None) -> KernelModes:
        """The modes for a search through many settings of one network.

        Args:
            problem: the network.
            near: setting for which to use the mean kernel; None (default) for the start's kernel.
        """
        kernel = tangent_kernel(problem)
        if near is not None:
            first = _Run(*self.read(problem, near), 1, self).closed(kernel)
            kernel = kernel.average(tangent_kernel(problem, problem.moved(first.coefficients)))
        start = problem.start_predictions()
        return tangent_modes(problem, kernel, start, self.num_modes).modes


class _Closed(NamedTuple):
    """A closure's prediction with one kernel."""

    modes: KernelModes  # modes of the kernel
    risk: Float[Array, " records"]
    observables: dict[str, Float[Array, " records"]]
    coefficients: Float[Array, " train *outputs"]  # coefficients of the mean end


class _Run:
    """One problem and algorithm, closed with several kernels."""

    def __init__(self, problem, algorithm, recursion, records: int, theory: TangentClosure):
        self.problem, self.algorithm, self.recursion = problem, algorithm, recursion
        self.at_record, self.longest = record_numbers(algorithm, records)
        self.start, self.theory = problem.start_predictions(), theory

    def closed(self, kernel: TangentKernel) -> _Closed:
        theory, problem = self.theory, self.problem
        found: TangentModes = tangent_modes(problem, kernel, self.start, theory.num_modes)
        modes, limits = found.modes, found.modes.slope_limits(self.algorithm)
        steps = modes, self.recursion, limits, self.at_record, self.longest
        if modes.outputs:
            risk, observables, law = _of_outputs(*steps)
        else:
            risk, observables, law = _of_one_output(*steps, theory.rank)
        mean_square, excess, unseen, end = law
        square = mean_square + excess + unseen * problem.num_weights
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(problem.weights)))
        moved = {"movement": square, "mean_movement": mean_square}
        moved = {name: jnp.sqrt(each) / length for name, each in moved.items()}
        coefficients = jnp.asarray(found.basis @ np.asarray(end[-1], np.float64), end.dtype)
        return _Closed(modes, risk, observables | moved, coefficients)


@eqx.filter_jit
def _of_one_output(modes, recursion: LinearRecursion, limits, at_record, longest, rank: int):
    """Risk, observables and moments of the weights at the records, for one output."""
    dtype, place = float_dtype(modes, recursion, limits), recursion.output
    closure = Closure(modes, limits.astype(dtype), recursion.rank(rank))
    readout = Readout(closure, place)

    def step(moments, index):
        return closure.step(moments, recursion, recursion.at(index))

    def read(moments):
        found = readout.observables(moments) | {"clipped_fraction": moments.clipped}
        found["steepest"] = moments.steepest.value
        mean, leading, others, unseen = readout.released(moments)
        excess = jnp.sum(jnp.diagonal(leading) - unseen) + jnp.sum(others - unseen)
        law = jnp.sum(mean**2), excess, unseen, moments.mean[0]
        return readout.risk(moments), found, law

    start = closure.start(dtype, recursion.size, recursion.num_draws)
    return recorded_closure(step, start, read, at_record, longest)


@eqx.filter_jit
def _of_outputs(modes, recursion: LinearRecursion, limits, at_record, longest):
    """Risk, observables and moments of the weights at the records, for an output per class."""
    step, start, errors = closure_of_outputs(modes, recursion, limits)
    place = recursion.output

    def read(moments):
        unseen = moments.unseen[place, place]
        variances = jnp.diagonal(moments.covariance[place, place], axis1=1, axis2=2)
        excess = jnp.sum(variances - unseen)
        law = jnp.sum(moments.mean[place] ** 2), excess, unseen, moments.mean[0]
        return *errors(moments)[:2], law

    return recorded_closure(step, start, read, at_record, longest)


def _beyond(observables: dict[str, Float[Array, " records"]]) -> str | None:
    """The limit that is passed at the end, with the number, or None."""
    last = {name: float(values[-1]) for name, values in observables.items()}
    gap, movement, mean_movement = (
        last.get(name, math.nan) for name in ("kernel_gap", "movement", "mean_movement")
    )
    if math.isnan(gap):
        if mean_movement <= _LAZY:
            return None
        return (
            f"the weights' mean moves by {mean_movement:.2g} of their length, and the start's "
            f'kernel is for at most {_LAZY}; use TangentClosure(kernel="mean")'
        )
    if gap > _GAP:
        return (
            f"the kernel gap is {gap:.2g}, of at most {_GAP}: the relative gap of the losses "
            "with the kernels of the start and of the end of training"
        )
    if movement > _MOVEMENT and gap > _NO_GAP:
        return (
            f"the weights move by {movement:.2g} of their length, of at most {_MOVEMENT}, as "
            "networks do that are trained from scratch or with much noise"
        )
    return None


class TangentModes(NamedTuple):
    """A linearised network in the leading modes of a kernel."""

    modes: KernelModes
    # $Uw^{-1/2}$: coordinates c are the weights $w_0 + \sum_i (Uw^{-1/2}c)_i\nabla f(w_0, x_i)$.
    basis: Float[np.ndarray, "train modes"]


def tangent_modes(
    problem: Linearised, kernel: TangentKernel, start: tuple[Array, Array], count: int
) -> TangentModes:
    """At most `count` leading modes of a kernel of a problem's rows, and the rest's norms."""
    from scipy.linalg import eigh

    size = problem.num_train
    leading = size - min(count, size), size - 1
    found = eigh(kernel.train.astype(np.float64), subset_by_index=leading)
    values, vectors = (part[..., ::-1] for part in found)
    # Modes below rounding belong to the rest; zeros in their places keep the compiled shapes.
    values = np.where(values > _LEAST * values[0], values, 0)
    roots = np.sqrt(values)
    basis = vectors / np.where(roots > 0, roots, np.inf)
    factor, test_factor = vectors * roots, kernel.cross @ basis
    squares = np.diagonal(kernel.train)
    # Rounding may leave a small rest negative.
    train_rest = np.maximum(squares - (factor**2).sum(axis=1), 0)
    test_rest = np.maximum(kernel.test_squares - (test_factor**2).sum(axis=1), 0)
    dtype = float_dtype(problem.train_labels, start)
    labels = problem.train_labels, problem.test_labels
    modes = KernelModes(
        eigenvalues=jnp.asarray(values, dtype),
        factor=jnp.asarray(factor, dtype),
        pull=jnp.asarray(factor.T @ np.asarray(labels[0]), dtype),
        test_factor=jnp.asarray(test_factor, dtype),
        feature_norms=jnp.asarray(np.sqrt(squares), dtype),
        train_labels=labels[0],
        test_labels=labels[1],
        unseen=jnp.asarray(test_rest.mean(), dtype),
        is_valid=problem.is_valid,
        loss=problem.loss,
        # Norms suffice for means of losses; a spread would need the correlation of rows.
        unseen_factor=jnp.asarray(np.sqrt(test_rest)[:, None], dtype),
        train_start=start[0],
        test_start=start[1],
        train_unseen=jnp.asarray(train_rest, dtype),
    )
    return TangentModes(modes, basis)
