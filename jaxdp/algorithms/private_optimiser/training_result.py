"""The result of a training run: the model, the statement of its privacy, and the metrics."""

import csv
import io
import math
import os
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from jaxdp.algorithms.private_optimiser.state import OptimiserState
from jaxdp.core.display import AbstractExplained, Explanation, Row, in_words, is_known
from jaxdp.core.files import write_whole
from jaxdp.privacy.release import Release

_PRIVATE = (
    "the records and num_dropped may depend on private data outside the account: only the data's "
    "owner may see them"
)


class Training(AbstractExplained, eqx.Module):
    """The result of `train`.

    Attributes:
        model: the released model: the last iterate, or the optimiser's average of iterates.
        state: the final optimiser state; with an average, `iterate` has the weights to go on from.
        steps: the number of steps made at each record.
        records: results of `evaluate` at each of `steps`, by name, along a leading axis, or None.
        statement: the release and its proved guarantee; None without privacy.
        num_dropped: how often a record counted as zero because its loss or gradient was not finite;
            at most 2^31 - 1. Like `records` it is private data outside the account; `print` shows
            both, this object's repr neither.

    Example:
        >>> import numpy as np
        >>> from jaxdp.algorithms import Training  # as `train` returns it
        >>> training = Training(np.zeros(3), None, steps=(0, 10), records={"loss": np.ones(2)})
        >>> float(training.records["loss"][-1])
        1.0
    """

    model: PyTree
    state: OptimiserState | PyTree
    steps: tuple[int, ...] = eqx.field(static=True)
    records: PyTree[Array]
    statement: Release | None = None
    num_dropped: Int[Array, ""] | None = eqx.field(default=None, repr=False)

    def release(self) -> Release:
        """The statement about the released model, which `jaxdp.account(training, delta=...)` reads.

        Raises:
            TypeError: the run had no privacy.
        """
        if self.statement is None:
            raise TypeError("expected a run of a PrivateOptimiser, got one without privacy")
        return self.statement

    def to_csv(self, path: str | os.PathLike) -> None:
        """Write the records to a CSV file that only its owner can read: private data (mode 600).

        There is a line for each of `steps` and a column for each number (`name[0]`, ... for
        arrays).

        Args:
            path: the CSV file; an existing one is replaced, whole or not at all.

        Raises:
            ValueError: nothing was evaluated, or several runs were made together.
            OSError: the file cannot be written.
        """
        if self.records is None or self._batch():
            came = "a batch of runs" if self._batch() else "a run without evaluate="
            raise ValueError(f"expected one run with records, got {came}")
        columns = {"step": [str(step) for step in self.steps]}
        for name, values in self.records.items():
            known = np.asarray(values)
            for place in np.ndindex(known.shape[1:]):
                index = f"[{', '.join(map(str, place))}]" if place else ""
                columns[name + index] = [str(value) for value in known[:, *place]]
        lines = io.StringIO()
        csv.writer(lines).writerows([columns, *zip(*columns.values(), strict=True)])
        write_whole(path, lines.getvalue().encode(), private=True)

    def __repr__(self):
        values = [self._parameters(), *(f"{row.name} {row.value}" for row in self._rows_of_run())]
        return f"Training({', '.join(values)})"

    def _explanation(self):
        runs = self._batch()
        title = f"Training, a batch of {' x '.join(map(str, runs))}" if runs else "Training"
        rows = [Row("model", self._parameters(), "trained, of each run" if runs else "trained")]
        rows += self._rows_of_run()
        for path, values in jax.tree_util.tree_leaves_with_path(self.records):
            name = f"records{jax.tree_util.keystr(path)}"
            rows.append(_row_of_records(name, values, self.steps, len(runs)))
        if self.num_dropped is not None:
            text = in_words(self.num_dropped, 0)
            rows.append(Row("num_dropped", text, "times that a record was not finite"))
        return Explanation(title, tuple(rows), (_PRIVATE,))

    def _batch(self) -> tuple[int, ...]:
        """The axes of runs that were trained together; none for a single run."""
        return () if self.num_dropped is None else np.shape(self.num_dropped)

    def _parameters(self) -> str:
        weights = jax.tree.leaves(eqx.filter(self.model, eqx.is_inexact_array))
        count = sum(leaf.size for leaf in weights) // (math.prod(self._batch()) or 1)
        return f"{count:,} parameters"

    def _rows_of_run(self) -> list[Row]:
        rows = []
        if isinstance(self.state, OptimiserState):
            made = in_words(self.state.num_released, 0)
            rows.append(Row("steps", made, "noisy sums, all counted"))
        if self.statement is None:
            return [*rows, Row("release", "none", "the run had no privacy")]
        kind = "certified" if self.statement.is_certified else "simulated"
        text = f"{self.statement.adjacency}, {kind} noise"
        return [*rows, Row("release", text, "jaxdp.account says its epsilon")]


def _row_of_records(name: str, values: Any, steps: tuple[int, ...], num_axes: int) -> Row:
    """A metric at its first and last record; the axes of the runs come before the records."""
    if not is_known(values):
        return Row(name, in_words(values))
    known = np.moveaxis(np.asarray(values), num_axes, 0)
    places = (0, -1) if len(steps) > 1 else (-1,)
    texts = [in_words(known[place], known.ndim - 1 - num_axes) for place in places]
    when = " and ".join(str(steps[place]) for place in places)
    return Row(name, " to ".join(texts), f"after {when} steps")
