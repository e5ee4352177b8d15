"""What `train` makes steps of: a private optimiser, or the baseline without privacy."""

import abc
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.length import AbstractStepwise


class AbstractTrainable(AbstractStepwise):
    """An optimiser whose steps are made on all the records of a data set."""

    @abc.abstractmethod
    def init(self, model: PyTree) -> Any:
        """The state before the first step; the weights are the model's inexact arrays."""

    def step(
        self,
        loss: Callable[[Any, Any, Any], Float[Array, ""]],
        model: PyTree,
        state: Any,
        inputs: PyTree[Array],
        targets: PyTree[Array],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
    ) -> tuple[PyTree, Any]:
        """One whole step on the data: the model and the state after it.

        Args:
            loss: of one record, as in `jaxdp.clipped_gradient_sum`.
            model: before the step.
            state: that of `init`, or of the step before.
            inputs: of all records of the data set, a pytree with a leading axis. Keys of
                `jax.random.key` among them are folded with the number of the step, as in `train`.
            targets: likewise.
            key: one for the whole run and for no other, secret (`jaxdp.privacy.secret_key()`);
                batches and noise of each step are drawn from it and from the number of the step.
                With secret noise only the order of `ShuffledEpochs` and the batches of
                `FixedSizeBatches` are; the baseline draws nothing. Where the account needs one key
                (`ShuffledEpochs`) another is refused; traced, it leaves no numbers.
            microbatch_size: as in `jaxdp.clipped_gradient_sum`. Below 256 it also makes the noise
                that covers rounding less.

        A record whose loss or gradient is not finite counts as zero; `train` says how many did.

        Raises:
            ValueError: there are not as many records as the sampler draws from, all steps that
                are accounted for have been made, the key is another than before where one is
                needed, the loss has no gradient by any weight, or secret noise is asked for under
                `jit` or where sums are not proved (XLA's fast math, a TPU).
        """
        return self.counted_step(
            loss, model, state, inputs, targets, key=key, microbatch_size=microbatch_size
        )[:2]

    @abc.abstractmethod
    def counted_step(
        self,
        loss: Callable[[Any, Any, Any], Float[Array, ""]],
        model: PyTree,
        state: Any,
        inputs: PyTree[Array],
        targets: PyTree[Array],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
    ) -> tuple[PyTree, Any, Int[Array, ""]]:
        """A whole `step`, and how many records of the batch had a gradient that is not finite.

        That number is private data, which no account covers.
        """
