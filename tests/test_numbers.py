"""Numbers: every kind of scalar makes one and the same description, and text is none of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import programs_compiled

import jaxdp
from jaxdp import attacks, kernels, losses, privacy, theory
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser
from jaxdp.clipping import NormClip
from jaxdp.kernels import published

LINEAR = jaxdp.LinearRegression
GAUSSIAN, LOGISTIC = kernels.Gaussian(1.0), losses.Logistic()
IDENTITY = kernels.IdentityFeatures(2)
SGD, SAMPLER = optax.sgd(0.1), privacy.ShuffledEpochs(100, 10)


def _one_pass(learning_rate=1.0, clip_scale=1.0, rho=1.0, num_steps=10, batch_size=1):
    return jaxdp.OnePassDPSGD(learning_rate, clip_scale, rho, num_steps, batch_size=batch_size)


def _correlated(rates=(1.0, 1.0), clip_scale=1.0, rho=1.0, batch_size=2, strategy=None):
    strategy = np.eye(2) if strategy is None else strategy
    options = {"batch_size": batch_size, "strategy": strategy}
    return jaxdp.CorrelatedDPSGD(rates, clip_scale, rho, **options)


def _optimiser(clip_norm=1.0, noise_multiplier=1.0, num_steps=10):
    return jaxdp.PrivateOptimiser(
        SGD,
        clip_norm=clip_norm,
        noise_multiplier=noise_multiplier,
        num_steps=num_steps,
        sampler=SAMPLER,
    )


def _calibrated(algorithm, epsilon=1.0, delta=0.25):
    if algorithm is jaxdp.OnePassDPSGD:
        return algorithm.calibrated(epsilon, delta, learning_rate=1.0, clip_scale=1.0, num_steps=10)
    if algorithm is jaxdp.CorrelatedDPSGD:
        parts = {"rates": [1.0], "clip_scale": 1.0, "batch_size": 2, "strategy": [[1.0]]}
        return algorithm.calibrated(epsilon, delta, **parts)
    if algorithm is jaxdp.PrivateOptimiser:
        return algorithm.calibrated(
            SGD, epsilon, delta, clip_norm=1.0, num_steps=10, sampler=SAMPLER
        )
    return jaxdp.DPGD.calibrated(
        epsilon,
        delta,
        learning_rate=0.5,
        clip_norm=1.0,
        num_steps=10,
        calibration=algorithm(),
    )


def _ridge(**options):
    return kernels.PrivateKernelRidge(GAUSSIAN, **{"label_bound": 1.0, **options})


CALIBRATED = {
    "CorrelatedDPSGD": jaxdp.CorrelatedDPSGD,
    "OnePassDPSGD": jaxdp.OnePassDPSGD,
    "PrivateOptimiser": jaxdp.PrivateOptimiser,
    "DPGD, exact": jaxdp.ExactCalibration,
    "DPGD, published": jaxdp.PublishedCalibration,
}
# By constructor and argument: what makes a description of a number, and a number that float32 and
# half precision hold exactly.
NUMBERS = {
    "isotropic label_noise": (lambda v: LINEAR.isotropic(3, label_noise=v), 0.5),
    "isotropic initial_risk": (
        lambda v: LINEAR.isotropic(3, label_noise=0.5, initial_risk=v),
        2.0,
    ),
    "power_law label_noise": (
        lambda v: LINEAR.power_law(3, condition_number=2.0, label_noise=v),
        0.5,
    ),
    "power_law condition_number": (
        lambda v: LINEAR.power_law(3, condition_number=v, label_noise=0.5),
        2.0,
    ),
    "LinearRegression label_noise": (lambda v: LINEAR(np.ones(3), np.ones(3), v), 0.5),
    "LinearRegression spectrum": (lambda v: LINEAR([v, v], np.ones(2), 0.5), 1.0),
    "LinearRegression target": (lambda v: LINEAR(np.ones(2), [v, v], 0.5), 1.0),
    "LogisticRegression signal": (lambda v: jaxdp.LogisticRegression(3, signal=v), 2.0),
    "Constant value": (jaxdp.Constant, 2.0),
    "Polynomial peak": (lambda v: jaxdp.Polynomial(v, 0.5), 2.0),
    "Polynomial power": (lambda v: jaxdp.Polynomial(2.0, v), 0.5),
    "Hyperbolic peak": (lambda v: jaxdp.Hyperbolic(v, 0.5), 2.0),
    "Hyperbolic knee": (lambda v: jaxdp.Hyperbolic(2.0, v), 0.5),
    "PiecewiseLinear knots": (lambda v: jaxdp.PiecewiseLinear([0.0, v], [2.0, 1.0]), 0.5),
    "PiecewiseLinear values": (lambda v: jaxdp.PiecewiseLinear([0.0, 1.0], [v, 1.0]), 2.0),
    "OnePassDPSGD learning_rate": (lambda v: _one_pass(learning_rate=v), 2.0),
    "OnePassDPSGD clip_scale": (lambda v: _one_pass(clip_scale=v), 2.0),
    "OnePassDPSGD rho": (lambda v: _one_pass(rho=v), 2.0),
    "CorrelatedDPSGD rates": (lambda v: _correlated(rates=[v, v]), 0.5),
    "CorrelatedDPSGD clip_scale": (lambda v: _correlated(clip_scale=v), 2.0),
    "CorrelatedDPSGD rho": (lambda v: _correlated(rho=v), 2.0),
    "CorrelatedDPSGD strategy": (lambda v: _correlated(strategy=[[v, 0.0], [0.0, v]]), 0.5),
    "DPGD learning_rate": (lambda v: jaxdp.DPGD(v, 1.0, 10, 1.0), 0.5),
    "DPGD clip_norm": (lambda v: jaxdp.DPGD(0.5, v, 10, 1.0), 2.0),
    "DPGD noise_scale": (lambda v: jaxdp.DPGD(0.5, 1.0, 10, v), 2.0),
    "PrivateOptimiser clip_norm": (lambda v: _optimiser(clip_norm=v), 2.0),
    "PrivateOptimiser noise_multiplier": (lambda v: _optimiser(noise_multiplier=v), 2.0),
    "NormClip scale": (NormClip, 2.0),
    "PoissonSampler sampling_rate": (lambda v: privacy.PoissonSampler(100, v), 0.5),
    "privacy.Gaussian mu": (privacy.GaussianMechanism, 2.0),
    "ZeroConcentrated zcdp": (privacy.ZeroConcentrated, 2.0),
    "PublishedConversion zcdp": (privacy.PublishedConversion, 2.0),
    "StatedBudget epsilon": (lambda v: privacy.StatedBudget(v, 0.5), 2.0),
    "StatedBudget delta": (lambda v: privacy.StatedBudget(1.0, v), 0.5),
    "ObjectivePerturbation shift": (lambda v: privacy.ObjectivePerturbation(v, 0.5), 0.5),
    "ObjectivePerturbation log_jacobian": (lambda v: privacy.ObjectivePerturbation(0.5, v), 0.5),
    "MomentumDescent step_size": (lambda v: attacks.MomentumDescent(step_size=v), 2.0),
    "MomentumDescent momentum": (lambda v: attacks.MomentumDescent(momentum=v), 0.5),
    "LevenbergMarquardt damping": (lambda v: attacks.LevenbergMarquardt(damping=v), 0.5),
    "kernels.Gaussian scale": (kernels.Gaussian, 2.0),
    "Laplace scale": (kernels.Laplace, 2.0),
    "Matern scale": (lambda v: kernels.Matern(v, 1.5), 2.0),
    "Matern smoothness": (lambda v: kernels.Matern(1.0, v), 1.5),
    "kernels.Polynomial constant": (lambda v: kernels.Polynomial(2, v), 2.0),
    "TorusKernel eigenvalues": (lambda v: kernels.TorusKernel([v, v, v]), 0.5),
    "CallableKernel largest_norm": (
        lambda v: kernels.CallableKernel(jnp.dot, largest_norm=v),
        2.0,
    ),
    "ClippedFeatures bound": (lambda v: kernels.ClippedFeatures(IDENTITY, v), 2.0),
    "NormScaling radius": (lambda v: kernels.NormScaling(IDENTITY, v), 2.0),
    "RangeScaling low": (lambda v: kernels.RangeScaling(IDENTITY, [v, v], [4.0, 4.0]), 2.0),
    "RangedKernel high": (lambda v: kernels.RangedKernel(GAUSSIAN, [0.0], [v]), 2.0),
    "Huber width": (losses.Huber, 2.0),
    "HuberHinge width": (losses.HuberHinge, 2.0),
    "NoiseRidge factor": (kernels.NoiseRidge, 2.0),
    "Theorem11Rule source": (lambda v: kernels.Theorem11Rule(v, 0.5), 0.5),
    "Theorem11Rule capacity": (lambda v: kernels.Theorem11Rule(0.5, v), 0.5),
    "PrivateKernelRidge label_bound": (lambda v: _ridge(label_bound=v), 2.0),
    "PrivateKernelRidge ridge": (lambda v: _ridge(ridge=v), 0.5),
    "PrivateKernelRidge intercept_share": (lambda v: _ridge(intercept_share=v), 0.5),
    "PrivateKernelRidge input_bound": (lambda v: _ridge(input_bound=v), 2.0),
    "PrivateKernelRidge balance": (lambda v: _ridge(balance=v), 2.0),
    "PrivateKernelClassifier ridge": (
        lambda v: kernels.PrivateKernelClassifier(GAUSSIAN, ridge=v),
        0.5,
    ),
    "PrivateKernelClassifier tolerance": (
        lambda v: kernels.PrivateKernelClassifier(GAUSSIAN, tolerance=v),
        2.0**-20,
    ),
    "PrivateKernelClassifier input_bound": (
        lambda v: kernels.PrivateKernelClassifier(GAUSSIAN, input_bound=v),
        2.0,
    ),
    "Algorithm1 ridge": (lambda v: published.Algorithm1(GAUSSIAN, 5, v, 1.0), 0.5),
    "Algorithm1 label_bound": (lambda v: published.Algorithm1(GAUSSIAN, 5, 0.5, v), 2.0),
    "Algorithm1 input_bound": (
        lambda v: published.Algorithm1(GAUSSIAN, 5, 0.5, 1.0, input_bound=v),
        2.0,
    ),
    "Algorithm2 ridge": (lambda v: published.Algorithm2(GAUSSIAN, 5, v, LOGISTIC), 0.5),
    "Algorithm3 ridge": (lambda v: published.Algorithm3(GAUSSIAN, 5, v, 1.0), 0.5),
    "Algorithm3 label_bound": (lambda v: published.Algorithm3(GAUSSIAN, 5, 0.5, v), 2.0),
    "Algorithm4 ridge": (lambda v: published.Algorithm4(GAUSSIAN, 5, v, LOGISTIC), 0.5),
    "Algorithm5 ridge": (lambda v: published.Algorithm5(GAUSSIAN, v, LOGISTIC), 0.5),
    "CanonicalEstimator beta": (
        lambda v: published.CanonicalEstimator(jnp.cos, 5, v, 1.0),
        2.0,
    ),
    "CanonicalEstimator c_beta": (
        lambda v: published.CanonicalEstimator(jnp.cos, 5, 1.0, v),
        2.0,
    ),
    "CanonicalEstimator least_eigenvalue": (
        lambda v: published.CanonicalEstimator(jnp.cos, 5, 1.0, 1.0, least_eigenvalue=v),
        2.0,
    ),
    "GaussianUnlessFailure mu": (lambda v: published.GaussianUnlessFailure(v, 0.5), 2.0),
    "GaussianUnlessFailure failure": (lambda v: published.GaussianUnlessFailure(2.0, v), 0.5),
} | {
    f"{name} calibrated {argument}": (
        functools.partial(lambda kind, argument, v: _calibrated(kind, **{argument: v}), *kind),
        0.5,
    )
    for name, algorithm in CALIBRATED.items()
    for argument in ("epsilon", "delta")
    for kind in [(algorithm, argument)]
}
# The same for whole numbers that set a shape or a length.
COUNTS = {
    "isotropic dim": lambda n: LINEAR.isotropic(n, label_noise=0.5),
    "LogisticRegression dim": lambda n: jaxdp.LogisticRegression(n, signal=0.5),
    "OnePassDPSGD num_steps": lambda n: _one_pass(num_steps=n),
    "OnePassDPSGD batch_size": lambda n: _one_pass(batch_size=n),
    "CorrelatedDPSGD batch_size": lambda n: _correlated(batch_size=n),
    "DPGD num_steps": lambda n: jaxdp.DPGD(0.5, 1.0, n, 1.0),
    "FromSteps num_steps": lambda n: jaxdp.FromSteps(_falling, n),
    "PrivateOptimiser num_steps": lambda n: _optimiser(num_steps=n),
    "NonPrivateOptimiser num_steps": lambda n: NonPrivateOptimiser(SGD, n),
    "PoissonSampler num_records": lambda n: privacy.PoissonSampler(n, 0.5),
    "PoissonSampler capacity": lambda n: privacy.PoissonSampler(10, 0.5, n),
    "ShuffledEpochs num_records": lambda n: privacy.ShuffledEpochs(n, 2),
    "ShuffledEpochs batch_size": lambda n: privacy.ShuffledEpochs(10, n),
    "FixedSizeBatches num_records": lambda n: privacy.FixedSizeBatches(n, 2),
    "FixedSizeBatches batch_size": lambda n: privacy.FixedSizeBatches(10, n),
    "Iterates chunk_size": jaxdp.Iterates,
    "HomogenizedSDE num_steps": jaxdp.HomogenizedSDE,
    "ClippedSDE num_steps": jaxdp.ClippedSDE,
    "OrnsteinUhlenbeckSDE num_steps": jaxdp.OrnsteinUhlenbeckSDE,
    "GaussianClosure rank": jaxdp.GaussianClosure,
    "ClippedDiffusion rank": jaxdp.ClippedDiffusion,
    "PrivateKernelRidge num_projections": lambda n: _ridge(num_projections=n),
    "Algorithm1 num_projections": lambda n: published.Algorithm1(GAUSSIAN, n, 0.5, 1.0),
    "SelectedProjections least": kernels.SelectedProjections,
}


def _falling(step):
    return 3.0 / (1 + step)


def _kinds(value):
    """The number as every kind of scalar that holds it."""
    kinds = [float(value), np.float32(value), np.float64(value), np.asarray(value)]
    kinds += [jnp.float32(value), jnp.asarray(value)]
    if value == int(value):
        kinds += [int(value), np.int64(value), np.int32(value), jnp.asarray(int(value))]
    return kinds


def _form(description):
    """All that decides whether a description is compiled for anew."""
    leaves, structure = jax.tree.flatten(description)
    return structure, [
        (type(leaf), leaf.dtype, leaf.shape, leaf.weak_type)
        if isinstance(leaf, jax.Array)
        else (type(leaf), leaf)
        for leaf in leaves
    ]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_kind_of_scalar_makes_the_same_description(name):
    make, value = NUMBERS[name]
    expected = _form(make(float(value)))
    hash(expected[0])
    for given in _kinds(value):
        assert _form(make(given)) == expected, f"{type(given).__name__} {given!r}"


@pytest.mark.parametrize("name", COUNTS)
def test_every_kind_of_whole_number_makes_the_same_description(name):
    expected = _form(COUNTS[name](4))
    for given in (np.int64(4), np.int32(4), np.uint8(4)):
        assert _form(COUNTS[name](given)) == expected
        assert hash(expected[0]) == hash(_form(COUNTS[name](given))[0])


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", ["4", 4.0, -1, True, np.True_])
def test_what_is_no_count_is_refused_by_name(name, value):
    with pytest.raises((TypeError, ValueError), match=f"expected .*{name.split()[-1]}"):
        COUNTS[name](value)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.int16, jnp.uint8])
def test_traced_lengths_have_one_type(dtype):
    for make in (lambda n: _one_pass(num_steps=n), lambda n: jaxdp.DPGD(0.5, 1.0, n, 1.0)):
        assert _form(make(jnp.asarray(4, dtype))) == _form(make(jnp.asarray(4)))
        assert not make(jnp.asarray(4)).num_steps.weak_type


def _cost(algorithm=None, delta=1e-5):
    return jaxdp.account(_one_pass() if algorithm is None else algorithm, delta=delta)


# What else takes a number: functions, whose answer is computed from it at once.
FUNCTIONS = {
    "account delta": lambda v: _cost(delta=v),
    "Release delta": lambda v: _cost(
        privacy.Release("a", "replace-one", privacy.GaussianMechanism(1)), v
    ),
    "gaussian_delta mu": lambda v: privacy.gaussian_delta(v, 1.0),
    "gaussian_epsilon delta": lambda v: privacy.gaussian_epsilon(1.0, v),
    "gaussian_mu epsilon": lambda v: privacy.gaussian_mu(v, 1e-5),
    "zcdp_epsilon zcdp": lambda v: privacy.zcdp_epsilon(v, 1e-5),
    "gaussian_noise_std sensitivity": lambda v: privacy.gaussian_noise_std(1, 0.1, sensitivity=v),
    "sphere_log_baseline error": lambda v: privacy.sphere_log_baseline(v, 3),
    "one_run_epsilon confidence": lambda v: privacy.one_run_epsilon(
        60, num_guesses=80, num_canaries=100, delta=0.0, confidence=v
    ),
    "one_run_epsilon delta": lambda v: privacy.one_run_epsilon(
        60, num_guesses=80, num_canaries=100, delta=v
    ),
    "clipped_gradient_sum clip_norm": lambda v: jaxdp.clipped_gradient_sum(
        lambda model, x, y: model @ x, jnp.ones(2), np.ones((3, 2)), np.ones(3), clip_norm=v
    ),
    "KernelSpectrum eigenvalues": lambda v: theory.KernelSpectrum([v, v], [1.0, 1.0]),
    "KernelSpectrum squared_target": lambda v: theory.KernelSpectrum([1.0, 1.0], [v, v]),
    "effective_dimension ridge": lambda v: theory.effective_dimension([1.0, 0.5], v),
    "row_errors true_inputs": lambda v: attacks.row_errors([[v, v]], np.ones((1, 2))),
    "PrivateKernelRidge's fit epsilon": lambda v: _ridge(ridge=1.0).fit(
        np.ones((4, 2)), np.ones(4), epsilon=v, delta=1e-5, public_seed=0
    ),
}
# A word is no number, and neither is the text of one.
TEXTS = ["0.5", np.str_("0.5"), np.asarray("0.5"), b"0.5"]


@pytest.mark.parametrize("name", [*NUMBERS, *FUNCTIONS])
def test_text_is_refused_by_name(name):
    make = NUMBERS[name][0] if name in NUMBERS else FUNCTIONS[name]
    for text in TEXTS:
        with pytest.raises(TypeError, match=rf"expected .*number.*got|expected {name.split()[-1]}"):
            make(text)


# Arrays of booleans may be labels.
_ARRAYS = {
    *("CorrelatedDPSGD rates", "CorrelatedDPSGD strategy"),
    *("LinearRegression spectrum", "LinearRegression target", "TorusKernel eigenvalues"),
    *("PiecewiseLinear knots", "PiecewiseLinear values", "RangeScaling low", "RangedKernel high"),
    *("KernelSpectrum eigenvalues", "KernelSpectrum squared_target", "row_errors true_inputs"),
}


@pytest.mark.parametrize("name", [name for name in (*NUMBERS, *FUNCTIONS) if name not in _ARRAYS])
def test_a_boolean_is_refused_by_name(name):
    make = NUMBERS[name][0] if name in NUMBERS else FUNCTIONS[name]
    for flag in (True, False, np.True_, np.asarray(False), jnp.asarray(True)):
        with pytest.raises(TypeError, match=rf"expected .*number.*got|expected {name.split()[-1]}"):
            make(flag)


@pytest.mark.parametrize("name", CALIBRATED)
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("epsilon", value) for value in (0, 0.0, -1.0, np.inf, np.nan, np.ones(2))),
        *(("delta", value) for value in (0.0, 1.0, -1.0, 1e-301, np.nan, np.full(2, 0.5))),
    ],
)
def test_budgets_that_no_noise_reaches_are_refused_by_name(name, argument, value):
    with pytest.raises(ValueError, match=f"expected .*{argument}"):
        _calibrated(CALIBRATED[name], **{argument: value})


@pytest.mark.parametrize("value", [0, -1.0, 2.0**-61, 2.0**61, np.inf, np.nan])
def test_the_range_of_a_clip_norm_is_told_in_one_message(value):
    with pytest.raises(ValueError, match=r"clip_norm > 0, between 2\^-60 and 2\^60 .* got"):
        _optimiser(clip_norm=value)


@pytest.mark.parametrize("argument", ["clip_norm", "noise_multiplier"])
def test_an_array_handed_to_an_optimiser_is_a_batch_of_optimisers(argument):
    with pytest.raises(
        ValueError, match=rf"{argument} to be a scalar, .*\(3,\); make a batch with"
    ):
        _optimiser(**{argument: np.ones(3)})
    with pytest.raises(
        ValueError, match=rf"{argument} to be a scalar, .*\(3,\); make a batch with"
    ):
        jax.jit(lambda values: _optimiser(**{argument: values}).noise_std_of_sum)(np.ones(3))
    stds = jax.vmap(lambda value: _optimiser(**{argument: value}).noise_std_of_sum)(
        jnp.arange(1, 4)
    )
    np.testing.assert_array_equal(stds, [1, 2, 3])


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), ("1", TypeError), (1.0, TypeError)])
def test_a_wrong_seed_is_called_by_the_name_of_its_argument(seed, error):
    with pytest.raises(error, match="expected seed"):
        privacy.SecretNoise(seed)
    with pytest.raises(error, match="expected noise_seed"):
        _ridge().fit(
            np.ones((4, 2)), np.ones(4), epsilon=1, delta=0.1, public_seed=0, noise_seed=seed
        )


# Of the default theory and simulator, and of the theory that is compiled fastest.
RUNS = {
    "predict": lambda *pair: jaxdp.predict(*pair, records=2),
    "a recursion": lambda *pair: jaxdp.predict(*pair, theory=jaxdp.DiscreteRecursion(), records=2),
    "simulate": lambda *pair: jaxdp.simulate(*pair, num_runs=2, key=jax.random.key(0), records=2),
}


@pytest.mark.parametrize(
    "name", [pytest.param("predict", marks=pytest.mark.slow), "a recursion", "simulate"]
)
def test_no_kind_of_scalar_compiles_a_second_program(name):
    pairs = [
        (
            LINEAR.isotropic(7, label_noise=v, initial_risk=v),
            _one_pass(v, clip_scale=v, rho=v, num_steps=11),
        )
        for v in _kinds(2.0)
    ]
    # Of a dimension and a length that no other test has, so that something is compiled at all.
    assert programs_compiled(RUNS[name], *pairs[0]) > 0
    for pair in pairs[1:]:
        assert programs_compiled(RUNS[name], *pair) == 0
