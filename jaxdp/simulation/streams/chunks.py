"""For how many steps the random numbers of all runs are drawn at once.

Random numbers dominate the cost of a simulation. On a CPU they are drawn in chunks of steps that
fit the cache, on an accelerator in chunks that are worth a launch. No draw depends on the chunk
that it lies in.
"""

from typing import NamedTuple

import jax

from jaxdp.simulation.driver import Ranges

# Random numbers per draw over all runs: two megabytes of float32, measured best on two cores. On
# other platforms 64 MB, which take an H100 a tenth of a millisecond: a hundred launches' worth.
_CHUNK_NUMBERS = {"cpu": 500_000}
_CHUNK_NUMBERS_OF_OTHERS = 16_000_000
# The most steps of a chunk of `even_chunks`.
_CHUNK_STEPS = 64


def even_chunks(longest: int, numbers_per_step: int) -> tuple[int, int]:
    """How many chunks a range is cut into, and how many steps each has.

    Args:
        longest: how many steps a range has at most.
        numbers_per_step: random numbers of one step, over all runs.
    """
    return _cut(longest, max(1, min(_CHUNK_STEPS, _numbers_of_a_draw() // numbers_per_step)))


def _numbers_of_a_draw() -> int:
    return _CHUNK_NUMBERS.get(jax.default_backend(), _CHUNK_NUMBERS_OF_OTHERS)


def _cut(longest: int, target: int) -> tuple[int, int]:
    """Pieces of at most the target, cut evenly so that little is padded: their number and size."""
    count = -(-longest // target)
    return count, -(-longest // count)


class Chunks(NamedTuple):
    """How the steps are cut: `records` ranges are drawn at once, or one range in several goes.

    Of a block of ranges there are `rows` such draws.
    """

    rows: int
    records: int
    steps: int
    per_record: int

    @classmethod
    def of(cls, ranges: Ranges, numbers_per_step: int, chunk_size: int | None) -> "Chunks":
        """Chunks of the platform's size, cut evenly so that little is padded."""
        longest, block = ranges.longest, ranges.block
        target = chunk_size or max(1, _numbers_of_a_draw() // numbers_per_step)
        if target < longest:
            per_record, steps = _cut(longest, target)
            return cls(rows=block, records=1, steps=steps, per_record=per_record)
        _, records = _cut(block, min(block, target // longest))
        return cls(rows=-(-block // records), records=records, steps=longest, per_record=1)
