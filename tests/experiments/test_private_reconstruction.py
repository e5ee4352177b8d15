"""Reconstruction under privacy, in words."""

import pytest

from experiments import harness, registry
from experiments.data_reconstruction import private_images, under_privacy


@pytest.mark.parametrize(
    ("figure", "axis"), [(under_privacy, "epsilon"), (private_images, "error")]
)
def test_the_summary_has_a_line_for_every_budget(figure, axis):
    dataset = harness.read(
        harness.RESULTS / registry.entry(figure.__name__.rpartition(".")[2]).file
    )
    lines = [line for line in figure.summary(dataset).splitlines() if line.startswith("|")]
    assert len(lines) == dataset.sizes[axis] + 2
