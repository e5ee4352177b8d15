"""Public bounds on features and inputs, and maps a block of rows at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_map import DIM, INPUTS, MAPS, values

from jaxdp import kernels
from jaxdp.kernels.functions.bounded import RangeScaling


def test_clipped_features_keep_their_direction_and_never_exceed_the_bound():
    base, clipped = (np.asarray(values(MAPS[name], INPUTS)) for name in ("paths", "clipped"))
    norms = np.linalg.norm(base, axis=1)
    assert norms.min() < 1.2 < norms.max()
    expected = base * np.minimum(1, 1.2 / norms)[:, None]
    np.testing.assert_allclose(clipped, expected, rtol=1e-6)
    np.testing.assert_array_equal(clipped[norms < 1.19], base[norms < 1.19])
    lengths = np.linalg.norm(np.float64(clipped), axis=1)
    assert lengths.max() <= 1.2 * (1 + 1e-6)
    assert MAPS["clipped"].norm_bound == pytest.approx(1.2)
    assert kernels.ClippedFeatures(MAPS["paired"], 2.0).norm_bound == 1.0


def test_clipping_bears_zeros_and_huge_features():
    clipped = kernels.ClippedFeatures(MAPS["identity"], 0.5)
    rows = np.array([[0, 0, 0], [3e-23, 0, 0], [3e18, 4e18, 0]], np.float32)
    expected = [[0, 0, 0], [3e-23, 0, 0], [0.3, 0.4, 0]]
    np.testing.assert_allclose(clipped(rows), expected, rtol=1e-6)
    # Squares overflow: the features vanish, their bound holds.
    assert np.linalg.norm(clipped(np.full((1, DIM), 1e30, np.float32))) <= 0.5
    slope = jax.grad(lambda rows: clipped(rows).sum())(jnp.asarray(rows))
    assert np.isfinite(slope).all()


def test_public_ranges_clip_and_scale_every_column():
    low, high = np.array([-1.0, 0.0, 5.0]), np.array([1.0, 10.0, 5.5])
    scaled = RangeScaling(MAPS["identity"], low, high)
    rows = np.array([[0, 5, 5.25], [-3, 11, 5.5], [1, 0, -1e30]], np.float32)
    expected = [[0, 0, 0], [-1, 1, 1], [1, -1, -1]]
    np.testing.assert_allclose(scaled(rows), expected, atol=1e-6)
    wide = RangeScaling(MAPS["identity"], np.full(3, -3e38), np.full(3, 3e38))
    np.testing.assert_allclose(wide(np.full((1, 3), 3e38)), 1)
    assert MAPS["ranges"].norm_bound == np.inf


def test_labelled_ranges_are_not_taken_by_position():
    import pandas

    book = pandas.DataFrame({"low": np.zeros(3), "high": np.ones(3)}, index=["c", "a", "b"])
    for ends in ((book.low, book.high), (np.zeros(3), book.high)):
        with pytest.raises(TypeError, match="in the order of the columns, got labelled ones"):
            RangeScaling(MAPS["paths"], *ends)
    plain = book.reset_index()
    scaled = RangeScaling(MAPS["paths"], plain.low, plain.high)
    np.testing.assert_array_equal(scaled.high, np.ones(3))


def test_blocks_give_the_values_of_one_call():
    rows = np.random.default_rng(2).normal(size=(11, DIM))
    expected = np.asarray(MAPS["paths"](rows))
    for size in (4, 11, 100):
        found = kernels.blockwise(MAPS["paths"], rows, rows=size)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    pieces = list(kernels.row_blocks(MAPS["paths"], rows, rows=4))
    assert [len(piece) for piece in pieces] == [4, 4, 3]
    assert kernels.blockwise(MAPS["paths"], rows[:0]).shape == (0, 4)
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
