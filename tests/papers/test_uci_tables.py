"""Real tables in units that are public."""

import numpy as np

from experiments import made_up
from experiments.private_kernel_learning import public_tables


def test_units_are_public(tmp_path):
    """A record's inputs are the same, whatever the other records are."""
    made_up.census(tmp_path)
    for name in ("concrete", "adult"):
        whole, first = (public_tables.load(tmp_path, name, most) for most in (None, 10))
        np.testing.assert_array_equal(whole.inputs[:10], first.inputs)
        np.testing.assert_array_equal(whole.labels[:10], first.labels)
        assert np.abs(whole.inputs).max() <= 1
        assert np.abs(whole.labels).max() <= whole.label_bound
