"""Chunks of steps are of about the cache's size, and little is padded."""

import pytest

from jaxdp.simulation.streams import chunks
from jaxdp.simulation.streams.chunks import even_chunks


@pytest.mark.parametrize("longest", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("numbers_per_step", [1, 10_000, 10_000_000])
def test_even_chunks_cover_a_range_and_fit(longest, numbers_per_step):
    count, size = even_chunks(longest, numbers_per_step)
    assert count * size >= longest > (count - 1) * size
    assert size <= chunks._CHUNK_STEPS
    assert size == 1 or size * numbers_per_step <= chunks._numbers_of_a_draw()
    # Less than a step is padded in each chunk.
    assert count * size - longest < count
