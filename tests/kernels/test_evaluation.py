"""Evaluation block by block: the values of one call, of one row each, by one program."""

import numpy as np
from every_map import DIM, MAPS

from jaxdp import kernels

PATHS = MAPS["paths"]


def test_blocks_give_the_values_of_one_call():
    rows = np.random.default_rng(2).normal(size=(11, DIM))
    expected = np.asarray(PATHS(rows))
    for size in (4, 11, 100):
        found = kernels.blockwise(PATHS, rows, rows=size)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    pieces = list(kernels.row_blocks(PATHS, rows, rows=4))
    assert [len(piece) for piece in pieces] == [4, 4, 3]
    assert kernels.blockwise(PATHS, rows[:0]).shape == (0, 4)
    assert kernels.blockwise(lambda rows: rows.sum(axis=1), rows[:0]).shape == (0,)


def test_a_row_in_a_block_depends_on_no_other_row():
    rows = np.random.default_rng(2).normal(size=(11, DIM))
    before = kernels.blockwise(MAPS["clipped"], rows, rows=4)
    for other in (1e3, np.nan):
        changed = rows.copy()
        changed[5] = other
        after = kernels.blockwise(MAPS["clipped"], changed, rows=4)
        kept = np.arange(11) != 5
        np.testing.assert_array_equal(after[kept], before[kept])
    # The last block is padded; its rows are those of a full one.
    longer = np.concatenate([rows, rows[:1]])
    np.testing.assert_array_equal(kernels.blockwise(MAPS["clipped"], longer, rows=4)[:11], before)


class _Table:
    """Rows on demand, as a memory map has them."""

    ndim, shape = 2, (1000, DIM)

    def __init__(self):
        self.largest = 0

    def __len__(self):
        return 1000

    def __getitem__(self, rows):
        part = np.zeros((1000, DIM), np.float32)[rows]
        self.largest = max(self.largest, len(part))
        return part


def test_blocks_are_read_and_computed_one_at_a_time_by_one_program():
    traced = []

    def shape_of(rows):
        traced.append(rows.shape)
        return rows.sum(axis=1)

    table = _Table()
    blocks = kernels.row_blocks(shape_of, table, rows=64)
    assert len(next(blocks)) == 64
    assert sum(len(block) for block in blocks) == 1000 - 64
    assert table.largest == 64
    assert traced == [(64, DIM)]
    # Fewer rows than a block are not padded to a whole one.
    kernels.blockwise(shape_of, np.zeros((5, DIM), np.float32))
    assert traced[1:] == [(8, DIM)]
