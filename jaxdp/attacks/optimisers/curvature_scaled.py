r"""The default optimiser of the attack: momentum with steps scaled by the curvature, in rounds.

A step computes the loss on one block of the features only, which costs a fraction of a full pass.
At a solution the parameters in every block are the same combination of the guessed rows' features,
so that a step on one block is as exact there as a step on all of them. Away from a solution the
blocks disagree, and this noise leads out of poor local minima. `scaled_steps` has the steps.
Derived: that it solves what the published optimiser does not, test_curvature_scaled.

Each round (1) adds spare rows to the best guess so far and descends, (2) drops the rows whose
removal raises the loss least, until as many are left as are looked for, and descends again, (3)
puts the row that matters least where the residual points, as long as that lowers the loss, and (4)
takes steps on all features, where the steps before were on blocks. The result is kept where its
loss is lower. `moves` has the changes of the rows. What comes next is decided on the host.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.objective import relative_loss
from jaxdp.attacks.optimisers.base import AbstractOptimiser, Attempt, Ending
from jaxdp.attacks.optimisers.moves import chosen_rows, reseeded, thinned, with_spares
from jaxdp.attacks.optimisers.scaled_steps import Descent, Scaling, descend
from jaxdp.core.keys import numbered_key

# The numbers below were set by hand on random features of width 2dn to 10dn. How much hangs on
# them, measured on twelve random victims (relu, d = 20, n = 8, p = 2dn; 11 solved, 495 passes in
# the median): with any one of them about halved or doubled, and shares of the loss taken much
# nearer to 1 or farther from it, 9 to 12 are solved in 410 to 720 passes, save for two. Half of
# _STEP solves 6, twice of it takes 1,200 passes; and without blocks, _GROWTH = (inf,), 4 are
# solved: the noise of blocks is what leads out of poor minima. Numbers that judge rounds count
# where a start stalls.

# Steps between two looks at the losses, and the looks of a stage: a bound for what falls for ever.
_CHUNK, _MOST_CHUNKS = 50, 24
# A stage ends when _CHUNKS looks have not lowered the loss to the share _STALL of what it was. The
# search with spare rows has _SEARCH_CHUNKS looks at least: its loss falls late, once rows meet.
_STALL, _SEARCH_CHUNKS, _CHUNKS = 0.6, 6, 3
# Steps on all features end when _SETTLING of them do not lower the loss to the share _SETTLED.
_SETTLING, _SETTLED = 15, 0.97
# The step in units of 1/L, L the largest curvature. Heavy ball of momentum m is stable below
# 2(1 + m)/L, 3.3/L for m = _MOMENTUM; half of that is left to blocks of more curvature than the
# mean. L is that of a random matrix in units of its mean, and _LARGEST at least: correlated inputs
# have more, and a square random matrix has 4.
_STEP, _LARGEST = 1.5, 4.0
# Of heavy ball; the share of its own curvature that is added to each row's; the longest step of a
# row before momentum, in units of its length.
_MOMENTUM, _DAMPING, _LONGEST_STEP = 0.65, 0.05, 0.3
# How many times larger blocks are, round after round. Where features do not span the parameters
# exactly, as after noise, blocks disagree at the best rows too, and only large ones settle there.
_GROWTH = (1.0, 1.0, 3.0, math.inf)
# Smallest block: so many features for each row, at which the largest eigenvalue of a random Gram
# matrix is 9 times the smallest, (1 + 1/2)^2 / (1 - 1/2)^2, so that coefficients are determined.
_LEAST_WIDTH = 4
# Blocks at the start: half as many features as there are unknowns leave noise enough to move rows,
# and no more than _MOST_BLOCKS of them, since every block is seen before one comes again.
_MOST_BLOCKS = 8
# Spare rows for the search, as a share of those looked for. Rows with the spare ones, as a share of
# the p/d rows that p features can tell apart.
_SPARE, _ROOM = 0.5, 0.75
# Rounds without a better loss after which a start is given up, above the tolerance and below it;
# those after which all its rows are drawn anew. A round whose spare rows did not lower the loss to
# the share _NOTHING either counts as two.
_IDLE_ROUNDS, _LAST_ROUNDS, _FRESH, _NOTHING = 4, 1, 3, 0.5
# A loss is better at this share of the last one. Below the tolerance, where only a row that was
# missing counts and not what rounding leaves, at the share _FOUND.
_BETTER, _FOUND = 0.99, 0.3
# A moved row stays where the loss has fallen to this share.
_HELPED = 0.7
# What looking for its place costs: features four times and gradients once, 3 or 4 passes.
_MOVE_PASSES = 4.0
# Nothing is left to look for below this share of the tolerance, where the weakest rows are found
# too, or below the square of so many units of rounding, which the residual cannot fall below.
_ENOUGH, _FLOOR = 1e-3, 150.0


class Rounds:
    """One optimisation from several starts; a start ends as it would without the others."""

    def __init__(self, target, starts, key, max_passes, tolerance: Any, num_known, progress):
        self.target, self.key = target, key
        self.seed = np.asarray(jr.key_data(key)).ravel().tolist()
        self.max_passes, self.tolerance, self.num_known = max_passes, tolerance, num_known
        self.progress, self.dtype = progress, starts.dtype
        self.num_starts, self.num_samples, self.dim = starts.shape
        self.num_free = self.num_samples - num_known
        self.num_spare = self._num_spare()
        rounding = float(jnp.finfo(starts.dtype).eps)
        self.goal = max(_ENOUGH * tolerance, (_FLOOR * rounding) ** 2)
        self.passes, self.number, self.chunk = 0.0, 0, 0
        self.best, self.losses = starts, np.full(self.num_starts, np.inf)
        self.idle = np.zeros(self.num_starts, int)
        self._keep_better(starts)

    def is_open(self) -> bool:
        """Whether another round may help and none of the starts has reached the goal."""
        is_open = self._is_searching().any() and self.losses.min() > self.goal
        return bool(is_open and self._steps_left(1.0, 1) > 0)

    def play(self):
        """One round."""
        self.chunk = 0
        is_active = self._is_searching()
        growth = _GROWTH[self.number % len(_GROWTH)]
        batched = self._in_blocks(growth)
        # The rows that are left out would have to be found no better than this.
        found = math.sqrt(self.goal * max(self.goal, self.tolerance))
        state = self._stage(batched, self._with_spares(), is_active, found, _SEARCH_CHUNKS)
        has_nothing = np.asarray(state.loss) > _NOTHING * self.losses
        idle = np.where(has_nothing & (self.losses > self.tolerance), 2, 1)
        kept = self._thinned(batched, state, is_active)
        state = self._stage(batched, _at_rest(kept), is_active, self.goal, _CHUNKS)
        state = self._moved(batched, state, is_active)
        if batched.num_blocks > 1:
            state = self._settled(state, is_active)
        self.number += 1
        self._keep_better(state.inputs, is_active, idle)

    def attempt(self) -> Attempt:
        """The best rows of each start, and how it ended."""
        is_over = self._steps_left(1.0, 1) == 0
        rest = np.where(self._is_searching() & is_over, Ending.OUT_OF_PASSES, Ending.STALLED)
        if not is_over and (self.losses <= self.goal).any():
            rest = np.where(self._is_searching(), Ending.OVERTAKEN, Ending.STALLED)
        status = np.where(self.losses <= self.tolerance, Ending.CONVERGED, rest)
        status = np.where(np.isfinite(self.losses), status, Ending.DIVERGED)
        losses = jnp.asarray(self.losses, self.dtype)
        return Attempt(self.best, losses, self.passes * self.num_starts, status)

    def _stage(self, batched, state: Descent, is_active, goal: float, fewest: int) -> Descent:
        """Chunks of steps, each start's until it has reached the goal or falls no more."""
        seen, is_active = [], is_active.copy()
        while is_active.any() and len(seen) < _MOST_CHUNKS:
            state, done = self._descend(batched, state, is_active, _CHUNK)
            if not done:
                break
            seen.append(np.asarray(state.loss, np.float64))
            is_active &= seen[-1] > goal
            if len(seen) > fewest:
                is_active &= seen[-1] < _STALL * seen[-1 - _CHUNKS]
        return state

    def _thinned(self, batched, state: Descent, is_active):
        """The guesses less their spare rows, dropped bit by bit with steps in between."""
        is_used = np.ones(state.inputs.shape[:2], bool)
        cost = state.inputs.shape[1] / self.num_samples
        while True:
            self.passes += cost
            inputs, is_used = thinned(
                self.target,
                state.inputs,
                is_used,
                np.asarray(state.loss),
                self.num_samples,
                num_known=self.num_known,
                room=self.tolerance,
                # One evaluation comes after it, and one of whoever asked.
                is_last=self.passes + cost + 2.0 > self.max_passes,
            )
            has_more = is_used.sum(1) > self.num_samples
            if not has_more.any():
                return chosen_rows(inputs, is_used)
            state = _at_rest(inputs)._replace(loss=state.loss)
            state, _ = self._descend(batched, state, is_active & has_more, _CHUNK, is_used)

    def _moved(self, batched, state: Descent, is_active) -> Descent:
        """Put the least significant row where the residual points, as long as that helps."""
        is_active = is_active & (np.asarray(state.loss) > self.goal)
        while is_active.any() and self._steps_left(1.0, 1) > _MOVE_PASSES:
            self.passes += _MOVE_PASSES
            moved = reseeded(self.target, state.inputs, num_known=self.num_known)
            trial = self._stage(batched, _at_rest(moved), is_active, self.goal, _CHUNKS)
            is_active &= np.asarray(trial.loss) < _HELPED * np.asarray(state.loss)
            state = _chosen(is_active, trial, state)
            is_active &= np.asarray(state.loss) > self.goal
        return state

    def _settled(self, state: Descent, is_active) -> Descent:
        """Steps on all features, as long as they help: those on blocks leave the rows in noise."""
        is_active = is_active & (np.asarray(state.loss) > self.tolerance)
        whole = self.target.in_blocks(self.target.num_features)
        while is_active.any():
            trial, done = self._descend(whole, state, is_active, _SETTLING)
            if not done:
                break
            is_better = is_active & (np.asarray(trial.loss) < np.asarray(state.loss))
            is_active = is_better & (np.asarray(trial.loss) < _SETTLED * np.asarray(state.loss))
            is_active &= np.asarray(trial.loss) > self.goal
            state = _chosen(is_better, trial, state)
        return state

    def _descend(self, batched, state, is_active, num_steps, is_used: Any = None):
        width = state.inputs.shape[1] / self.num_samples
        steps = min(num_steps, self._steps_left(width, batched.num_blocks))
        if steps == 0:
            return state, False
        self.chunk += 1
        if is_used is None:
            is_used = np.ones(state.inputs.shape[:2], bool)
        state = descend(
            batched,
            state,
            self._scaling(batched, state.inputs.shape[1]),
            is_active,
            is_used,
            order=self._order(batched.num_blocks),
            num_steps=jnp.asarray(steps),
            num_known=jnp.asarray(self.num_known),
            key=self.key,
        )
        self.passes += steps * width / batched.num_blocks
        if self.progress is not None:
            best = min(float(np.min(self.losses)), float(np.min(np.asarray(state.loss))))
            self.progress(self.passes * self.num_starts, best)
        return state, True

    def _order(self, num_blocks: int) -> Any:
        """Blocks in a random order, all of them before one comes again."""
        draw = np.random.default_rng([*self.seed, self.number, self.chunk])
        orders = [draw.permutation(num_blocks) for _ in range(-(-_CHUNK // num_blocks))]
        return np.concatenate(orders)[:_CHUNK].astype(np.int32)

    def _scaling(self, batched, rows: int) -> Scaling:
        # The largest squared singular value of a random matrix, in units of their mean; more where
        # inputs are correlated.
        features = self.target.num_features / batched.num_blocks
        largest = (1 + math.sqrt(self.dim * (rows - self.num_known) / features)) ** 2
        largest = max(largest, _LARGEST)
        numbers = _STEP / largest, _MOMENTUM, _DAMPING, _LONGEST_STEP
        return Scaling(*(jnp.asarray(number, self.dtype) for number in numbers))

    def _with_spares(self) -> Descent:
        is_fresh = (self.idle >= _FRESH) & (self.losses > self.tolerance)
        key = numbered_key(self.key, self.number)
        return _at_rest(
            with_spares(self.best, is_fresh, self.num_spare, num_known=self.num_known, key=key)
        )

    def _keep_better(self, inputs, is_active: Any = True, idle: Any = 1):
        self.passes += 1.0
        losses = np.asarray(_losses(self.target, inputs), np.float64)
        # The first time, whatever it is.
        share = np.where(self.losses <= self.tolerance, _FOUND, _BETTER)
        is_better = is_active & ((losses < share * self.losses) | (self.number == 0))
        self.best = _chosen(is_better, inputs, self.best)
        self.losses = np.where(is_better, losses, self.losses)
        self.idle = np.where(is_better, 0, self.idle + idle)

    def _is_searching(self):
        """Which starts are not given up; below the tolerance, weak rows may be missing."""
        return self.idle < np.where(self.losses <= self.tolerance, _LAST_ROUNDS, _IDLE_ROUNDS)

    def _num_spare(self) -> int:
        room = int(_ROOM * self.target.num_features / self.dim) - self.num_free
        most = self.target.num_features - self.num_samples - 1
        return min(max(min(math.ceil(_SPARE * self.num_free), room), 1), most)

    def _in_blocks(self, growth: float) -> AbstractTarget:
        features = self.target.num_features
        size = min(self.dim * self.num_free / 2, features / _MOST_BLOCKS)
        size = max(size, _LEAST_WIDTH * self.num_samples)
        return self.target.in_blocks(-(-features // max(int(features / size / growth), 1)))

    def _steps_left(self, width: float, num_blocks: int) -> int:
        """How many steps leave room for leaving rows out and for the last evaluations."""
        spare = 2 * (1 + self.num_spare / self.num_samples)
        return max(int((self.max_passes - self.passes - 2.0 - spare) * num_blocks / width), 0)


@eqx.filter_jit
def _at_rest(inputs):
    return Descent(inputs, jnp.zeros_like(inputs), jnp.full(len(inputs), jnp.inf, inputs.dtype))


@eqx.filter_jit
def _losses(target, inputs):
    return jax.vmap(lambda rows: relative_loss(target, rows))(inputs)


@eqx.filter_jit
def _chosen(is_first, first, second):
    return jax.tree.map(
        lambda one, other: jnp.where(is_first.reshape(-1, *[1] * (one.ndim - 1)), one, other),
        first,
        second,
    )


class CurvatureScaledMomentum(AbstractOptimiser):
    """Momentum with steps that the curvature scales, in rounds with spare rows and without.

    The numbers at the head of the module were chosen on random features of width 2dn to 10dn, on
    the sphere and on small images; networks were tried with them, not tuned for.

    Example:
        >>> from jaxdp.attacks import CurvatureScaledMomentum
        >>> CurvatureScaledMomentum()  # for `reconstruct(optimiser=...)`
        CurvatureScaledMomentum()
    """

    def minimise(self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None):
        rounds = Rounds(target, starts, key, max_passes, tolerance, num_known, progress)
        while rounds.is_open():
            rounds.play()
        return rounds.attempt()
