"""Networks in private training: the true one, and the one that is linear in its weights."""

import functools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import run_keys
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.rows.linearised import BLOCK_ROWS, Linearised
from jaxdp.simulation.base import AbstractSimulator, known_length
from jaxdp.simulation.driver import AbstractRuns, Reading, drive, ranges_of

# Sums of 64 rows get 0.05 % more noise, for their rounding.
_SUMMED_ROWS = 64
# The most numbers of batches' gradients of runs that are made together.
_NUMBERS_TOGETHER = 2**22


class AbstractNetworkSimulator(AbstractSimulator):
    """Private training of one of the two networks of a `Linearised` problem."""

    has_parameters: ClassVar[bool] = True
    is_linear: eqx.AbstractClassVar[bool]

    def reason_against(self, problem, algorithm):
        if not isinstance(problem, Linearised):
            return f"it needs a network (Linearised), got {type(problem).__name__}"
        if not isinstance(algorithm, PrivateOptimiser):
            return f"a network is trained by a PrivateOptimiser, got {type(algorithm).__name__}"
        return algorithm.reason_not_simulated()

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        ranges = ranges_of(known_length(algorithm), records, progress)
        algorithm.require_rows(problem.num_train)
        keys = run_keys(key, num_runs)
        numbers = problem.num_weights * min(algorithm.sampler.capacity, _SUMMED_ROWS)
        together = _evenly(len(keys), max(1, _NUMBERS_TOGETHER // numbers))
        loss = RowLoss(problem, self.is_linear)
        runs = NetworkRuns(loss, algorithm.with_traced_length(), keys, together)
        return drive(runs, ranges, keep_parameters=keep_parameters, progress=progress)


class NetworkTraining(AbstractNetworkSimulator):
    """Private training of the true network, all of its chosen weights, step by step as in `train`.

    It covers `jaxdp.Linearised` problems and any `PrivateOptimiser` with simulated noise, Adam
    among them. The noise is that of training: 0.05 % above the formula's, for the rounding of sums.
    Observables are "movement", $|w - w_0|/|w_0|$ of the released weights, "train_risk" and, for
    losses of classification, "accuracy" and "train_accuracy". Each record costs a forward pass over
    all rows: with large networks ask for few `records`.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, jaxdp, optax
        >>> model = eqx.nn.MLP(5, "scalar", 16, 1, jnp.tanh, key=jax.random.key(0))
        >>> inputs, labels = jax.random.normal(jax.random.key(1), (50, 5)), jnp.ones(50, int)
        >>> rows = inputs[:40], labels[:40], inputs[40:], labels[40:]
        >>> problem = jaxdp.Linearised(model, *rows, loss=jaxdp.losses.Logistic())
        >>> sampler = jaxdp.privacy.FixedSizeBatches(40, 20)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 10, "sampler": sampler}
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps)
        >>> jaxdp.simulate(problem, algorithm, key=jax.random.key(2), records=2).risk.shape
        (1, 3)
    """

    is_linear: ClassVar[bool] = False


class LinearisedNetwork(AbstractNetworkSimulator):
    """Private training of the network that is linear in its weights, by the same steps.

    The linear network has the predictions and gradients of the true one at its start. With one key
    its runs share batches and noise with `NetworkTraining`; observables are the same.

    Example:
        >>> import jaxdp
        >>> jaxdp.simulation.LinearisedNetwork().has_parameters  # use: see `NetworkTraining`
        True
    """

    is_linear: ClassVar[bool] = True


class RowLoss(eqx.Module):
    """The loss of one row as a function of the weights that are trained."""

    problem: Linearised  # the network with its rows
    is_linear: bool = eqx.field(static=True)  # whether it is the network linearised at its start

    def prediction(self, weights: PyTree[Array], row: Float[Array, "*shape"]) -> Array:
        problem = self.problem
        of = problem.tangent_prediction if self.is_linear else problem.prediction
        return of(weights, row)

    def __call__(self, weights, row, label):
        return self.problem.loss.value(self.prediction(weights, row), label)


class NetworkRuns(AbstractRuns):
    """Runs whose state is the weights and the optimiser's state, stacked."""

    loss: RowLoss
    algorithm: PrivateOptimiser
    keys: Key[Array, " runs"]
    together: int = eqx.field(static=True)

    @property
    def is_valid(self):
        return self.loss.problem.is_valid & jnp.asarray(self.algorithm.is_valid)

    @eqx.filter_jit
    def begin(self):
        weights = self.loss.problem.weights
        state = eqx.filter((weights, self.algorithm.init(weights)), eqx.is_array)
        state, read = jax.tree.map(
            lambda part: jnp.repeat(part[None], len(self.keys), axis=0),
            (state, _record(self.loss, weights)),
        )
        return state, _reading(jax.tree.map(lambda value: value[:, None], read))

    @eqx.filter_jit
    def advance(self, state, starts, ends):
        problem, algorithm, loss = self.loss.problem, self.algorithm, self.loss
        made = problem.weights, algorithm.init(problem.weights)
        static = eqx.filter(made, eqx.is_array, inverse=True)

        def one(given):
            key, state = given

            def step(_, state):
                weights, inner = eqx.combine(state, static)
                moved = algorithm.step(
                    loss,
                    weights,
                    inner,
                    problem.inputs,
                    problem.labels,
                    key=key,
                    microbatch_size=_SUMMED_ROWS,
                )
                return eqx.filter(moved, eqx.is_array)

            def record(state, bounds):
                first, end = bounds
                state = lax.fori_loop(first, end, step, state)
                return state, _record(loss, eqx.combine(state, static)[0])

            return lax.scan(record, state, (jnp.asarray(starts), jnp.asarray(ends)))

        state, read = lax.map(one, (self.keys, state), batch_size=self.together)
        return state, _reading(read)

    def finish(self, state):
        return None, jax.vmap(lambda weights: ravel_pytree(weights)[0])(state[0])

    def time(self, steps):
        dtype = float_dtype(self.loss.problem.inputs)
        return self.algorithm.time(jnp.asarray(steps).astype(dtype), self.loss.problem.num_train)

    def observables(self, reading, steps):
        return reading.values


def _evenly(count: int, most: int) -> int:
    """A number of runs at a time, chosen so that no smaller rest compiles again."""
    most = min(count, most)
    return next((size for size in range(most, most // 2, -1) if count % size == 0), most)


def _reading(values) -> Reading:
    return Reading(values.pop("risk"), {}, values)


def _record(loss: RowLoss, weights: PyTree[Array]) -> dict[str, Float[Array, ""]]:
    problem = loss.problem
    start, now = (ravel_pytree(each)[0] for each in (problem.weights, weights))
    found = {"movement": jnp.linalg.norm(now - start) / jnp.linalg.norm(start)}
    for prefix, rows, labels in (
        ("", problem.test_inputs, problem.test_labels),
        ("train_", problem.inputs, problem.labels),
    ):
        predict = functools.partial(loss.prediction, weights)
        predictions = lax.map(predict, rows, batch_size=min(BLOCK_ROWS, len(rows)))
        found[f"{prefix}risk"] = jnp.mean(problem.loss.value(predictions, labels))
        measures = problem.loss.measures(predictions, labels)
        found |= {f"{prefix}{name}": jnp.mean(each) for name, each in measures.items()}
    return found
