"""What the closure makes of correlated noise, beside runs with dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from privacy.test_correlated_noise import (
    STEPS,
    correlated,
    cosine_rows,
    inverse_matrix,
    numpy_risks,
)

import jaxdp
from jaxdp.privacy import BufferedToeplitzNoise


@pytest.mark.slow
def test_the_closure_predicts_its_mean_and_spread():
    with jax.enable_x64():
        found = jaxdp.predict(cosine_rows(), correlated(), records=1)
    # Without the correlation it is another law.
    for inverse, is_right in ((inverse_matrix(), True), (np.eye(STEPS), False)):
        risks = numpy_risks(4000, inverse, seed=6)
        spread = risks.std(ddof=1)
        gap = abs(float(found.final_risk) - risks.mean())
        room = 0.02 * risks.mean() + 3 * spread / np.sqrt(len(risks))
        assert gap < room if is_right else gap > 2 * room
        assert (abs(float(found.std[-1]) / spread - 1) < 0.1) == is_right


def test_traced_decays_beyond_one_predict_nothing():
    problem, theory = cosine_rows(), jaxdp.GaussianClosure(0, spread_rank=None)

    @jax.jit
    def risk(decay):
        noise = BufferedToeplitzNoise(jnp.array([-0.1]), decay[None])
        return jaxdp.predict(problem, correlated(noise=noise), theory=theory, records=1).final_risk

    assert jnp.isfinite(risk(jnp.asarray(0.8)))
    assert jnp.isnan(risk(jnp.asarray(1.5)))
