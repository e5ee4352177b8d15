"""DR Figures 5 and 6: their photographs."""

import numpy as np

from experiments.data_reconstruction.trained_networks import Task, photographs


def test_photographs_are_rows_on_the_sphere_with_their_labels():
    wanted = Task(2, is_binary=True, is_grey=True, made_up=True)
    pictures = photographs(wanted, None)
    assert pictures.rows.inputs.shape == (wanted.num_samples, wanted.dim) == (4, 64)
    np.testing.assert_allclose(np.linalg.norm(pictures.rows.inputs, axis=1), 8)
    np.testing.assert_array_equal(pictures.labels, [[-1], [-1], [1], [1]])
    wanted = Task(2, is_binary=False, side=4, made_up=True)
    pictures = photographs(wanted, None)
    assert pictures.rows.inputs.shape == (wanted.num_samples, wanted.dim) == (20, 48)
    np.testing.assert_array_equal(pictures.labels.argmax(axis=1), np.arange(20) // 2)
    np.testing.assert_array_equal(pictures.labels.sum(axis=1), 1)
