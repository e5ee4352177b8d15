"""Numbers: every kind of scalar makes one and the same description, and text is none of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import programs_compiled

import jaxdp
from experiments.private_kernel_learning import published
from jaxdp import attacks, kernels, losses, privacy, theory
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.kernels.functions.bounded import RangeScaling
from jaxdp.kernels.ridge.rules import NoiseRidge
from jaxdp.privacy.mechanisms import ZeroConcentrated
from jaxdp.privacy.release import PublishedConversion

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


def _optimiser(**changed):
    usual = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 10, "sampler": SAMPLER}
    return jaxdp.PrivateOptimiser(SGD, **usual | changed)


def _calibrated(algorithm, epsilon=1.0, delta=2.0**-7):
    if algorithm is jaxdp.OnePassDPSGD:
        return algorithm.calibrated(epsilon, delta, learning_rate=1.0, clip_scale=1.0, num_steps=10)
    if algorithm is jaxdp.CorrelatedDPSGD:
        parts = {"rates": [1.0], "clip_scale": 1.0, "batch_size": 2, "strategy": [[1.0]]}
        return algorithm.calibrated(epsilon, delta, **parts)
    if algorithm is jaxdp.PrivateOptimiser:
        return algorithm.calibrated(
            SGD, epsilon, delta, clip_norm=1.0, num_steps=10, sampler=SAMPLER
        )
    parts = {"learning_rate": 0.5, "clip_norm": 1.0, "num_steps": 10}
    return jaxdp.DPGD.calibrated(epsilon, delta, **parts, calibration=algorithm())


def _ridge(**options):
    return kernels.PrivateKernelRidge(GAUSSIAN, **{"label_bound": 1.0, **options})


CALIBRATED = {
    "CorrelatedDPSGD": jaxdp.CorrelatedDPSGD,
    "OnePassDPSGD": jaxdp.OnePassDPSGD,
    "PrivateOptimiser": jaxdp.PrivateOptimiser,
    "DPGD, exact": jaxdp.ExactCalibration,
    "DPGD, published": jaxdp.PublishedCalibration,
}


def _falling(step):
    return 3.0 / (1 + step)


# Constructors and their arguments. Each number that is no whole one is a quantity, and one that
# float32 and half precision hold exactly; each whole one sets a shape or a length, and may be 4. In
# lists of one number all entries are changed together.
ARGUMENTS = [
    (LINEAR.isotropic, {"dim": 3, "label_noise": 0.5, "initial_risk": 2.0}),
    (
        functools.partial(LINEAR.power_law, 3),
        {"condition_number": 2.0, "label_noise": 0.5},
    ),
    (LINEAR, {"spectrum": [1.0, 1.0], "target": [1.0, 1.0], "label_noise": 0.5}),
    (jaxdp.LogisticRegression, {"dim": 3, "signal": 2.0}),
    (jaxdp.Constant, {"value": 2.0}),
    (jaxdp.Polynomial, {"peak": 2.0, "power": 0.5}),
    (jaxdp.Hyperbolic, {"peak": 2.0, "knee": 0.5}),
    (lambda knots: jaxdp.PiecewiseLinear([0.0, knots], [2.0, 1.0]), {"knots": 0.5}),
    (lambda values: jaxdp.PiecewiseLinear([0.0, 1.0], [values, 1.0]), {"values": 2.0}),
    (functools.partial(jaxdp.FromSteps, _falling), {"num_steps": 4}),
    (_one_pass, {"learning_rate": 2.0, "clip_scale": 2.0, "rho": 2.0}),
    (_one_pass, {"num_steps": 10, "batch_size": 1}),
    (_correlated, {"rates": [0.5, 0.5], "clip_scale": 2.0, "rho": 2.0, "batch_size": 2}),
    (lambda strategy: _correlated(strategy=[[strategy, 0.0], [0.0, strategy]]), {"strategy": 0.5}),
    (
        jaxdp.DPGD,
        {"learning_rate": 0.5, "clip_norm": 2.0, "num_steps": 10, "noise_scale": 2.0},
    ),
    (_optimiser, {"clip_norm": 2.0, "noise_multiplier": 2.0, "num_steps": 10}),
    (functools.partial(NonPrivateOptimiser, SGD), {"num_steps": 4}),
    (NormClip, {"scale": 2.0}),
    (privacy.PoissonSampler, {"num_records": 100, "sampling_rate": 0.5}),
    (functools.partial(privacy.PoissonSampler, 10, 0.5), {"capacity": 10}),
    (privacy.ShuffledEpochs, {"num_records": 10, "batch_size": 2}),
    (privacy.FixedSizeBatches, {"num_records": 10, "batch_size": 2}),
    (privacy.GaussianMechanism, {"mu": 2.0}),
    (ZeroConcentrated, {"zcdp": 2.0}),
    (PublishedConversion, {"zcdp": 2.0}),
    (privacy.StatedBudget, {"epsilon": 2.0, "delta": 0.5}),
    (privacy.ObjectivePerturbation, {"shift": 0.5, "log_jacobian": 0.5}),
    (attacks.MomentumDescent, {"step_size": 2.0, "momentum": 0.5}),
    (attacks.LevenbergMarquardt, {"damping": 0.5}),
    (kernels.Gaussian, {"scale": 2.0}),
    (kernels.Laplace, {"scale": 2.0}),
    (kernels.Matern, {"scale": 2.0, "smoothness": 1.5}),
    (kernels.TorusKernel, {"eigenvalues": [0.5, 0.5, 0.5]}),
    (functools.partial(kernels.ClippedFeatures, IDENTITY), {"bound": 2.0}),
    (functools.partial(kernels.NormScaling, IDENTITY), {"radius": 2.0}),
    (lambda low: RangeScaling(IDENTITY, low, [4.0, 4.0]), {"low": [2.0, 2.0]}),
    (functools.partial(kernels.FunctionFeatures, jnp.sin), {"num_inputs": 4}),
    (losses.Huber, {"width": 2.0}),
    (published.HuberHinge, {"width": 2.0}),
    (NoiseRidge, {"factor": 2.0}),
    (kernels.Theorem11Rule, {"source": 0.5, "capacity": 0.5}),
    (_ridge, {"label_bound": 2.0, "ridge": 0.5, "intercept_share": 0.5, "input_bound": 2.0}),
    (_ridge, {"balance": 2.0, "num_projections": 4}),
    (
        functools.partial(kernels.PrivateKernelClassifier, GAUSSIAN),
        {"ridge": 0.5, "tolerance": 2.0**-20, "input_bound": 2.0},
    ),
    (
        functools.partial(published.Algorithm1, GAUSSIAN),
        {"num_projections": 5, "ridge": 0.5, "label_bound": 2.0, "input_bound": 2.0},
    ),
    (lambda ridge: published.Algorithm2(GAUSSIAN, 5, ridge, LOGISTIC), {"ridge": 0.5}),
    (functools.partial(published.Algorithm3, GAUSSIAN, 5), {"ridge": 0.5, "label_bound": 2.0}),
    (lambda ridge: published.Algorithm4(GAUSSIAN, 5, ridge, LOGISTIC), {"ridge": 0.5}),
    (lambda ridge: published.Algorithm5(GAUSSIAN, ridge, LOGISTIC), {"ridge": 0.5}),
    (
        functools.partial(published.CanonicalEstimator, jnp.cos, 5),
        {"beta": 2.0, "c_beta": 2.0, "least_eigenvalue": 2.0},
    ),
    (published.GaussianUnlessFailure, {"mu": 2.0, "failure": 0.5}),
    (jaxdp.Iterates, {"chunk_size": 4}),
    (jaxdp.HomogenizedSDE, {"num_steps": 4}),
    (jaxdp.ClippedSDE, {"num_steps": 4}),
    (jaxdp.OrnsteinUhlenbeckSDE, {"num_steps": 4}),
    (jaxdp.GaussianClosure, {"rank": 4}),
    (jaxdp.ClippedDiffusion, {"rank": 4}),
    *(
        (functools.partial(_calibrated, algorithm), {"epsilon": 0.5, "delta": 2.0**-7})
        for algorithm in CALIBRATED.values()
    ),
]


def _changing(make, arguments, name):
    """A function of one argument, in whose place a list has its number several times."""
    count = len(arguments[name]) if isinstance(arguments[name], list) else None
    return lambda v: make(**arguments | {name: v if count is None else [v] * count})


def _name(make):
    return make.__qualname__ if hasattr(make, "__qualname__") else _name(make.func)


def _told(kind):
    """By constructor and argument: what makes a description of a number, and the number."""
    return {
        f"{place}, {_name(make)} {name}": (_changing(make, arguments, name), np.ravel(value)[0])
        for place, (make, arguments) in enumerate(ARGUMENTS)
        for name, value in arguments.items()
        if isinstance(value, kind)
    }


NUMBERS = _told((float, list))
COUNTS = {name: make for name, (make, _) in _told(int).items()}


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
    "audit_one_run confidence": lambda v: privacy.audit_one_run(
        np.arange(100), np.arange(100) > 40, delta=0.0, confidence=v
    ),
    "audit_one_run delta": lambda v: privacy.audit_one_run(
        np.arange(100), np.arange(100) > 40, delta=v
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
_ARRAYS = {"rates", "strategy", "spectrum", "target", "eigenvalues", "knots", "values", "low"}
_ARRAYS |= {"high", "squared_target", "true_inputs"}


@pytest.mark.parametrize(
    "name", [name for name in (*NUMBERS, *FUNCTIONS) if name.split()[-1] not in _ARRAYS]
)
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
    def std(values):
        return _optimiser(**{argument: values}).noise_std_of_sum

    for function in (std, jax.jit(std)):
        message = rf"{argument} to be a scalar, .*\(3,\); make a batch with"
        with pytest.raises(ValueError, match=message):
            function(np.ones(3))
    stds = jax.vmap(std)(jnp.arange(1, 4))
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
