"""The published scaling of columns blows up dead ones."""

import numpy as np

from experiments.statements.privacy_for_free.published_scaling import published_column_scaling
from jaxdp.data import column_scaling

RANDOM = np.random.default_rng(0)
# Two ordinary columns and one that is dead.
ROWS = np.column_stack(
    [RANDOM.normal(3, 2, 200), RANDOM.normal(0, 1, 200), np.full(200, 0.1)]
).astype(np.float32)
NEW = np.array([[1.0, 1.0, 1.0]], np.float32)


def test_the_published_scaling_blows_up_dead_columns():
    scale = published_column_scaling(ROWS)
    np.testing.assert_allclose(scale(ROWS)[:, :2], column_scaling(ROWS)(ROWS)[:, :2], rtol=1e-4)
    np.testing.assert_allclose(scale(NEW)[0, 2], 0.9e8, rtol=1e-3)
