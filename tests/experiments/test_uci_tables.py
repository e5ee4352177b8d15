"""Learners on real tables: a row for each that applies, and units that are public."""

import numpy as np

from experiments import harness, made_up, registry
from experiments.private_kernel_learning import public_tables, uci_tables


def test_the_summary_has_a_row_for_every_learner_that_applies():
    saved = harness.read(harness.RESULTS / registry.entry("uci_tables").file)
    text = uci_tables.summary(saved)
    for learner in saved.learner.values:
        assert f"| {learner} |" in text
    assert "nan" not in text


def test_units_are_public(tmp_path):
    """A record's inputs are the same, whatever the other records are."""
    made_up.census(tmp_path)
    for name in ("concrete", "adult"):
        whole, first = (public_tables.load(tmp_path, name, most) for most in (None, 10))
        np.testing.assert_array_equal(whole.inputs[:10], first.inputs)
        np.testing.assert_array_equal(whole.labels[:10], first.labels)
        assert np.abs(whole.inputs).max() <= 1
        assert np.abs(whole.labels).max() <= whole.label_bound
