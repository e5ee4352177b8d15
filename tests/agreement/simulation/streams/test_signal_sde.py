"""The diffusion where labels follow a signal, against its equations."""

import jax.random as jr
import pytest
from helpers import assert_runs_close

import jaxdp

DIM = 100
SDE = jaxdp.HomogenizedSDE(num_steps=1000)
PROBLEM = jaxdp.LogisticRegression(DIM, signal=2.0)


def _algorithm(rho=1.0, peak=12.0):
    return jaxdp.OnePassDPSGD(jaxdp.Constant(peak), 0.3, rho, 20 * DIM)


@pytest.mark.long_runs
@pytest.mark.slow
def test_mean_risk_is_that_of_the_equations():
    # A constant rate, whose last noise is the largest.
    algorithms = _algorithm(), _algorithm(rho=0.75), _algorithm(peak=16.0)
    options = {"records": 10, "simulator": SDE, "key": jr.key(0), "num_runs": 200}
    paths = jaxdp.simulate(PROBLEM, algorithms[0], **options).check()
    predicted, *wrong = (jaxdp.predict(PROBLEM, each, records=10) for each in algorithms)
    # Euler's bias is of relative order eta^2 / num_steps, the mean's of order 1/d.
    overlaps = {"overlap": 2 / DIM}
    bias = 0.2 / DIM + 1e-3
    assert_runs_close(paths, predicted, bias=bias, observables=overlaps, rejects=wrong)
