"""Forecasts on bodies of others: what stands in for what, and what the table makes of it."""

import numpy as np
import pytest

from experiments import made_up
from experiments.forecast import bodies, stand_ins


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    made_up.digits(folder)
    return folder


def test_stand_ins_are_other_rows_of_the_classes_other_classes_or_rotated(data):
    found = bodies.images_of(bodies.DIGITS, data, 200)
    private, alike = (
        {row.tobytes() for row in each.images} for each in (found.private, found.alike)
    )
    assert len(private) == len(alike) == 200
    assert not private & alike
    assert not private & {row.tobytes() for row in found.other.images}
    assert {*found.private.labels} == {*found.other.labels} == {-1.0, 1.0}
    np.testing.assert_array_equal(found.rotated.images[3], np.rot90(found.alike.images[3]))
    np.testing.assert_array_equal(found.rotated.labels, found.alike.labels)


@pytest.mark.slow
def test_a_smoke_version_has_every_number_and_trials_cost_more_than_one_run(data):
    config = stand_ins.Config.smoke()
    dataset = stand_ins.run(config, data)
    assert all(np.isfinite(one).all() for one in dataset.data_vars.values())
    assert dataset.accuracy.shape == (1, 1, 1, 3, config.num_runs)
    assert np.all((dataset.low < dataset.told) & (dataset.told < dataset.high))
    assert np.all(dataset.trials_epsilon > dataset.epsilon)
