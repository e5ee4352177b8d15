"""DR Figure 3 and one unknown row: from which width on rows are isolated, by ranks."""

import numpy as np
import pytest

from experiments.data_reconstruction.sphere_rows import least_width


def _free_directions(name, dim, num_samples, num_known, num_features, seed):
    """How many directions of the unknowns leave the fit as it is: the Jacobian's null space."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((num_samples, dim))
    weights = rng.standard_normal((num_features, dim))
    arguments = weights @ rows.T
    is_relu = name == "relu"
    features = np.maximum(arguments, 0) if is_relu else np.tanh(arguments)
    slopes = arguments > 0 if is_relu else 1 - np.tanh(arguments) ** 2
    columns = [features[:, :num_known]]
    for row in range(num_known, num_samples):
        moves = slopes[:, row, None] * weights
        if not is_relu:
            # Along the row nothing moves on the sphere; of a ReLU that is its coefficient.
            basis, _ = np.linalg.qr(np.column_stack([rows[row], rng.standard_normal((dim, dim))]))
            moves = np.column_stack([moves @ basis[:, 1:dim], features[:, row]])
        columns.append(moves)
    jacobian = np.hstack(columns)
    return jacobian.shape[1] - np.linalg.matrix_rank(jacobian)


@pytest.mark.parametrize(
    ("name", "num_samples", "num_known"),
    [
        ("relu", 5, 4),
        ("relu", 40, 39),
        ("relu", 1, 0),
        ("relu", 2, 0),
        ("tanh", 5, 4),
        ("tanh", 2, 0),
    ],
)
def test_rows_are_isolated_from_the_least_width_on(name, num_samples, num_known):
    dim, has_dead_half = 24, name == "relu"
    least = least_width(dim, num_samples, num_known, has_dead_half=has_dead_half)
    # How many neurons are not silent varies from one V to the next: four standard deviations.
    margin = 4 * np.sqrt(least) / 2 if has_dead_half else 0
    below, above = int(least - margin) - 1, int(np.ceil(least + margin))
    for seed in range(3):
        sizes = (name, dim, num_samples, num_known)
        assert _free_directions(*sizes, below, seed) > 0
        assert _free_directions(*sizes, above, seed) == 0


def test_silent_neurons_matter_for_few_unknown_rows_only():
    assert least_width(100, 20, has_dead_half=True) == pytest.approx(2000, rel=1e-5)
    assert least_width(100, 20, 19, has_dead_half=True) == pytest.approx(200)
    assert least_width(100, 20, 19, has_dead_half=False) == 119
    assert least_width(20, 100, 99, has_dead_half=True) == 119
