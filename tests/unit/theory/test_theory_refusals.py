"""What the functions and theories of this room refuse, in words that name the argument."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.theory import (
    KernelSpectrum,
    ReleaseNoise,
    effective_dimension,
    last_iterate_reconstruction_errors,
    local_reconstruction_errors,
    membership_mu,
    mu_at_reconstruction_error,
    one_step_reconstruction_error,
    optimal_row_error,
    polynomial_rate,
    predicted_excess_risk,
    row_error_lower_bound,
)
from jaxdp.theory.reconstruction.saturation import saturated_error

RELU, ERROR, NOT_COVERED = jax.nn.relu, ValueError, jaxdp.NotCoveredError
RNG = np.random.default_rng(0)
ROWS, WEIGHTS, SIGNS = RNG.normal(size=(3, 5)), RNG.normal(size=(50, 5)), np.array([1.0, -1.0, 1.0])
DESCENT = jaxdp.DPGD(1e-3, 1.0, 1, 1.0)


def _problem(weights=WEIGHTS):
    return jaxdp.RandomFeatures.from_arrays(ROWS, SIGNS, ROWS, SIGNS, weights, RELU)


def _local(scales, **options):
    return local_reconstruction_errors(ROWS, WEIGHTS, RELU, scales, 0.1, **options)


def _member(other=ROWS[0], weights=WEIGHTS, **options):
    return membership_mu(_problem(weights), DESCENT, other, 1.0, **options)


def _rate(gamma=0.01, power=1.0, rho=1.0, **eigenvalues):
    return polynomial_rate(gamma, power, rho=rho, **eigenvalues)


def _risk(**arguments):
    return predicted_excess_risk(KernelSpectrum([1.0], [1.0]), **arguments)


def _quadratics(**weights):
    problem = jaxdp.LinearRegression.isotropic(40, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10)
    return jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE(quadratics=weights))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: _local(np.array([1, 0, 1.0])), ERROR, "leaves no trace"),
        (lambda: _local(np.ones(3), num_known=3), ERROR, "num_known"),
        (lambda: _local(np.ones(2)), ERROR, "coefficients"),
        (
            lambda: last_iterate_reconstruction_errors(_problem(None), DESCENT),
            *(NOT_COVERED, "infinite width"),
        ),
        (lambda: _member(index=3), ERROR, "index < 3"),
        (lambda: _member(ROWS[0, :2]), ERROR, "other_input of shape"),
        (lambda: _member(np.full(5, np.nan)), ERROR, "finite other_input"),
        (lambda: _member(weights=None), NOT_COVERED, "infinite width"),
        (lambda: row_error_lower_bound(20.0, 20, np.tanh), TypeError, "written in jax"),
        (lambda: row_error_lower_bound(-1.0, 3, RELU), ERROR, "mu >= 0"),
        (lambda: row_error_lower_bound(1.0, 1, RELU), ERROR, "dim >= 2"),
        (lambda: optimal_row_error(1.0, 20, jnp.square), NOT_COVERED, "jump"),
        (lambda: one_step_reconstruction_error(1.0, 20, 5, jnp.sign), NOT_COVERED, "slope"),
        (lambda: one_step_reconstruction_error(-1.0, 20, 5, RELU), ERROR, "mu >= 0"),
        (lambda: one_step_reconstruction_error(1.0, 20, 0, RELU), ERROR, "num_samples"),
        (lambda: saturated_error(1.0, jnp.square), NOT_COVERED, "jump"),
        (lambda: mu_at_reconstruction_error(1.5, 20, 5, RELU), ERROR, r"sqrt\(2\)"),
        (lambda: mu_at_reconstruction_error(0.5, 20, 5, "relu"), TypeError, "activation"),
        (lambda: _risk(ridge=0.0), ERROR, "ridge"),
        (lambda: _risk(ridge=1.0, num_samples=-1), ERROR, "num_samples"),
        (lambda: _risk(ridge=1.0, noise=ReleaseNoise(1.0)), ERROR, "finite num_outputs"),
        (lambda: _risk(ridge=1.0, noise=ReleaseNoise(0.0, -1.0)), ERROR, r"noise\.vector"),
        (lambda: _risk(ridge=1.0, label_noise=np.nan), ERROR, "label_noise"),
        (lambda: KernelSpectrum.power_law(1.0, 0.5), ERROR, "capacity"),
        (lambda: KernelSpectrum([1.0, -1.0], [0, 0]), ERROR, "eigenvalues"),
        (lambda: KernelSpectrum([0.0], [1.0]), ERROR, "positive eigenvalue"),
        (lambda: KernelSpectrum([1.0], [1.0, 2.0]), ERROR, "squared_target"),
        (lambda: effective_dimension([1.0], 0.0), ERROR, "ridge > 0"),
        (lambda: _rate(power=1e300), ERROR, "a rate that float64 holds"),
        (lambda: _rate(smallest=1e-200), ERROR, "a rate that float64 holds"),
        (lambda: _rate(rho=1e-200), ERROR, "a rate that float64 holds"),
        (lambda: _rate(largest=np.inf), ERROR, "largest < inf"),
        (lambda: _rate(gamma=1.0), ERROR, r"expected gamma in \(0, 1\), got 1.0"),
        (lambda: _rate(power=0.3), ERROR, "expected a finite power of 0, 1/2, or >= 1, got 0.3"),
        (lambda: _rate(rho=-1.0), ERROR, "expected rho > 0, got -1.0"),
        (lambda: _rate(smallest=1.2), ERROR, "expected 0 < smallest <= 1 <= largest"),
        (lambda: _rate(largest=0.9), ERROR, "expected 0 < smallest <= 1 <= largest"),
        (lambda: _quadratics(distance=np.ones(40)), ERROR, "other names .* got 'distance'"),
        (lambda: _quadratics(short=np.ones(3)), ERROR, r"the 40 directions, got shape \(3,\)"),
        (lambda: jaxdp.CoupledODE(quadratics=[1.0]), TypeError, "a dictionary from names"),
        (lambda: jaxdp.GaussianClosure(-1), ERROR, "rank"),
    ],
)
def test_what_is_wrong_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_every_default_theory_that_was_asked_says_why_it_does_not_cover():
    rows = ROWS, np.array([0, 1, 2])
    problem = jaxdp.FixedFeatures.from_arrays(*rows, *rows, loss=jaxdp.losses.Softmax(3))
    batches = {"num_steps": 2, "sampler": jaxdp.privacy.FixedSizeBatches(3, 1)}
    algorithm = jaxdp.PrivateOptimiser(
        optax.adam(0.1), clip_norm=1.0, noise_multiplier=1.0, **batches
    )
    closures = "ModewiseClosure: .*is linear.*; GaussianClosure: of Adam no loss of several outputs"
    with pytest.raises(NOT_COVERED, match=closures):
        jaxdp.predict(problem, algorithm)
