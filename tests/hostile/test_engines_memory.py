"""Memory of the engines: what their docstrings state, read off the compiled programs."""

import jax
import jax.random as jr
import optax
import pytest

import jaxdp
from jaxdp import simulation, theory

# More steps than any statement allows a number for.
RUNS, RECORDS, STEPS = 50, 5, 2000
DIM, ROWS, TEST_ROWS, FEATURES = 80, 60, 20, 150
OF_SDE = 20 * RUNS * (ROWS + TEST_ROWS) + 10 * ROWS**2
OF_MODES = DIM * (30 + 3 * (RECORDS + 1))
OF_CLOSED_FORM = 10 * ROWS**2 + 300 * ROWS


def _stream():
    problem = jaxdp.LinearRegression.power_law(DIM, condition_number=4.0, label_noise=0.3)
    return problem, jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, STEPS)


def _isotropic():
    return jaxdp.LinearRegression.isotropic(DIM, label_noise=0.3), _stream()[1]


def _sample(**options):
    return jaxdp.RandomFeatures.sample(ROWS, TEST_ROWS, 5, FEATURES, key=jr.key(0), **options)


def _rows():
    return _sample(), jaxdp.DPGD(
        learning_rate=1e-3, clip_norm=1.0, num_steps=STEPS, noise_scale=0.5
    )


def _classes():
    batches = jaxdp.privacy.FixedSizeBatches(ROWS, ROWS)
    steps = {"clip_norm": 1.0, "noise_multiplier": 5.0, "num_steps": STEPS, "sampler": batches}
    problem = _sample(loss=jaxdp.losses.Softmax(3))
    return problem, jaxdp.PrivateOptimiser(optax.sgd(1e-3), **steps)


# A pair, an engine for it, and the numbers that it states.
SIMULATORS = {
    "Iterates on a stream": (_stream, jaxdp.Iterates(), 10 * RUNS * DIM + 5_000_000),
    "Iterates on rows": (_rows, jaxdp.Iterates(), 10 * RUNS * (FEATURES + ROWS + TEST_ROWS)),
    "Reduced": (_isotropic, jaxdp.Reduced(), 500 * RUNS),
    "FunctionSpace": (_rows, jaxdp.FunctionSpace(), 10 * RUNS * (ROWS + TEST_ROWS) + 10 * ROWS**2),
    "HomogenizedSDE": (_stream, jaxdp.HomogenizedSDE(), 20 * RUNS * DIM),
    "ClippedSDE": (_rows, simulation.ClippedSDE(STEPS), OF_SDE),
    "OrnsteinUhlenbeckSDE": (_rows, simulation.OrnsteinUhlenbeckSDE(STEPS), OF_SDE),
}
THEORIES = {
    "CoupledODE": (_stream, theory.CoupledODE(), OF_MODES),
    "TightUpperBound": (_stream, theory.TightUpperBound(), OF_MODES),
    "Fluctuations": (_stream, theory.Fluctuations(), 20 * DIM**2),
    "DiscreteRecursion": (_stream, theory.DiscreteRecursion(), 1000 + 5 * (DIM + RECORDS)),
    "FiniteDimension": (_isotropic, theory.FiniteDimension(), 60_000),
    "GaussianClosure": (_rows, theory.GaussianClosure(spread_rank=None), 15 * ROWS**2),
    "ModewiseClosure": (_classes, theory.ModewiseClosure(spread_draws=None), 8000 * ROWS),
    "ClippedDiffusion": (_rows, theory.ClippedDiffusion(), (25 + RECORDS) * ROWS**2),
    "OrnsteinUhlenbeck": (_rows, theory.OrnsteinUhlenbeck(), OF_CLOSED_FORM),
    "GradientFlow": (_rows, theory.GradientFlow(), OF_CLOSED_FORM),
    "UnclippedRecursion": (_rows, theory.UnclippedRecursion(), OF_CLOSED_FORM),
}


def _require_stated(call, stated):
    """The program holds what is stated, and not so little that the statement says nothing."""
    memory = jax.jit(call).lower().compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes <= 4 * stated <= 6 * memory.temp_size_in_bytes


@pytest.mark.parametrize("name", SIMULATORS)
def test_a_simulator_holds_what_it_states(name):
    pair, simulator, stated = SIMULATORS[name]
    parts = pair()
    how = {"num_runs": RUNS, "records": RECORDS, "key": jr.key(1), "simulator": simulator}
    _require_stated(lambda: jaxdp.simulate(*parts, **how), stated)


@pytest.mark.parametrize("name", THEORIES)
def test_a_theory_holds_what_it_states(name):
    pair, how, stated = THEORIES[name]
    parts = pair()
    _require_stated(lambda: jaxdp.predict(*parts, theory=how, records=RECORDS), stated)
