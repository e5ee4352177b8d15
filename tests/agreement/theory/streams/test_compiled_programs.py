"""What is known is computed on the host: numbers of another shape compile hardly a program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import programs_compiled

import jaxdp


def _predicted(dim, num_steps, theory=None):
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, num_steps)
    return jaxdp.predict(problem, algorithm, theory=theory, records=7)


@pytest.mark.parametrize(
    "theory", [None, pytest.param(jaxdp.Fluctuations(), marks=pytest.mark.slow)]
)
def test_another_dimension_compiles_the_targets_squares_alone(theory):
    _predicted(31, 100, theory)
    assert programs_compiled(_predicted, 37, 101, theory) <= 1


def test_an_account_of_another_length_compiles_nothing():
    def account(num_steps):
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, power=0.5), 1.0, 1.0, num_steps)
        return jaxdp.account(algorithm, delta=1e-5).mu

    account(100)
    assert programs_compiled(account, 103) == 0


def test_runs_of_another_shape_are_averaged_and_drawn_without_a_program():
    pytest.importorskip("matplotlib")
    risk = np.random.default_rng(0).uniform(0.1, 0.2, (5, 13)).astype(np.float32)
    times = np.linspace(0, 1, 13, dtype=np.float32)
    runs, mean = (
        jax.device_put(jaxdp.Trajectory(times, each, each[..., -1] - 0.01, status, {}))
        for each, status in ((risk, np.zeros(5, np.int32)), (risk.mean(0), np.int32(0)))
    )

    def look():
        compared = jaxdp.compare(runs, mean, jaxdp.comparison.average(runs))
        str(compared)
        compared.plot()
        return compared.mean

    assert programs_compiled(look) == 0


PROBLEM = jaxdp.LinearRegression.power_law(6, condition_number=3.0, label_noise=0.3)
ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 100)
# A part of either that becomes so many times as large, and whether the whole is valid then.
CHANGES = [
    (PROBLEM, "spectrum", 2.0, False),
    (PROBLEM, "target", jnp.inf, False),
    (PROBLEM, "label_noise", -1.0, False),
    (PROBLEM, "label_noise", 2.0, True),
    (ALGORITHM, "rho", -1.0, False),
    (ALGORITHM, "rho", jnp.inf, True),
    (ALGORITHM, "clip", 2.0, True),
]


@pytest.mark.parametrize("found", [jax.jit, lambda function: function], ids=["traced", "known"])
def test_what_the_host_finds_is_what_a_program_finds(found):
    """Validity of numbers that are out of range, known or traced."""
    for thing, name, factor, is_valid in CHANGES:
        part = jax.tree.map(lambda leaf, by=factor: by * leaf, getattr(thing, name))
        other = eqx.tree_at(lambda whole, name=name: getattr(whole, name), thing, part)
        assert bool(found(lambda one: one.is_valid)(other)) == is_valid, name
