"""The hyper-parameters of PF Theorem 1: what they are, and that they are no choice in practice."""

import math

import jax
import numpy as np
import pytest

import jaxdp
from experiments.statements.privacy_for_free.theorem_scaling import theorem_scaling

SIZES = {"num_train": 200, "dim": 20, "num_features": 5000}


def test_they_are_those_of_the_paper():
    # Source: PF (4.3).
    algorithm = theorem_scaling(2.0, 1e-3, **SIZES, num_steps=50)
    square = math.log(200) ** 2
    assert float(algorithm.duration) == pytest.approx(20 * square / 5000, rel=1e-6)
    assert float(algorithm.clip_norm) == pytest.approx(math.sqrt(5000) * square, rel=1e-6)
    root = math.sqrt(8 * math.log(1e3) * 20 * square / 5000)
    expected = 2 * math.sqrt(5000) * square * root / (200 * 2.0)
    assert float(algorithm.diffusion(200)) == pytest.approx(expected, rel=1e-6)
    cost = jaxdp.account(algorithm, delta=1e-3)
    assert cost.published_epsilon == pytest.approx(2.0, rel=1e-6)


def test_infinite_width_is_the_same_in_its_units():
    finite = theorem_scaling(2.0, 1e-3, **SIZES, num_steps=50)
    limit = theorem_scaling(2.0, 1e-3, **SIZES | {"num_features": None}, num_steps=50)
    found = [
        limit.learning_rate / finite.learning_rate,
        limit.noise_scale / finite.noise_scale,
        finite.clip_norm / limit.clip_norm,
    ]
    roots = [5000, math.sqrt(5000), math.sqrt(5000)]
    np.testing.assert_allclose(np.asarray(found, float), roots, rtol=1e-5)


@pytest.mark.slow
def test_at_a_size_that_fits_a_computer_their_noise_is_all_that_is_learnt():
    # Source: PF (4.3) and Lemma 6.3: n epsilon is far below d log^5 n.
    problem = jaxdp.RandomFeatures.sample(200, 100, 20, None, key=jax.random.key(0))
    sizes = SIZES | {"num_features": None}
    published = theorem_scaling(4.0, 1 / 200, **sizes, num_steps=60)
    tuned = jaxdp.DPGD.calibrated(4.0, 1 / 200, learning_rate=2.0, clip_norm=0.1, num_steps=60)
    run = {"num_runs": 20, "records": 1, "key": jax.random.key(1)}
    by_theorem, by_tuning = (
        np.asarray(jaxdp.simulate(problem, one, **run).final_risk) for one in (published, tuned)
    )
    nothing = float(np.mean(np.asarray(problem.test_labels) ** 2))
    assert by_tuning.max() < 0.75 * nothing
    assert by_theorem.min() > 100 * nothing
