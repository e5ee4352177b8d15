"""What the room's constructors and verbs refuse: by the argument's name, in one sentence.

Text and booleans in place of numbers are refused by all of them: tests/test_numbers.py.
"""

import math
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from every_map import DIM, INPUTS, KERNELS, MAPS, TORUS

import jaxdp
from jaxdp import kernels, losses
from jaxdp.kernels import Columns, PrivateKernelRidge
from jaxdp.kernels.functions.bounded import RangeScaling
from jaxdp.kernels.margin.objective_calibration import (
    objective_perturbation_std,
    softmax_perturbation_std,
)
from jaxdp.kernels.ridge.rules import NoiseRidge
from jaxdp.privacy import GaussianMechanism, Release

GAUSSIAN, PRODUCT = KERNELS["gaussian"], KERNELS["inner product"]
PATHS, WAVES = MAPS["paths"], MAPS["paired"]
LOGISTIC = losses.Logistic()
KEY = jr.key(0)
RELEASE = Release("sums", "replace-one", GaussianMechanism(1.0))
OPS = {"input_bound": 1.0, "lipschitz": 1.0, "smoothness": 1.0, "num_samples": 3}
SOFTMAX = {"input_bound": 1.0, "num_classes": 3, "num_samples": 10}
ZERO, ONE = np.zeros(DIM), np.ones(DIM)


def _ridge(**given: Any):
    return PrivateKernelRidge(**{"kernel": GAUSSIAN, "label_bound": 1.0} | given)


def _classifier(**given: Any):
    return kernels.PrivateKernelClassifier(**{"kernel": GAUSSIAN} | given)


def _std(epsilon=1.0, delta=1e-5, **given: Any):
    return objective_perturbation_std(epsilon, delta, **{**OPS, **given})


def _softmax_std(epsilon=1.0, delta=1e-5, **given: Any):
    return softmax_perturbation_std(epsilon, delta, **{**SOFTMAX, **given})


# What both calibrations refuse, by each argument's name.
CALIBRATED = {
    "finite epsilon > 0": (("epsilon", 0.0), ("epsilon", math.inf), ("epsilon", math.nan)),
    "0 < delta < 1": (("delta", 0.0), ("delta", 1.0), ("delta", math.nan)),
    "finite input_bound > 0": (("input_bound", 0.0), ("input_bound", math.nan)),
    "finite ridge >= 0": (("ridge", -1.0),),
    "num_samples >= 1": (("num_samples", 0),),
}
VALUES = [
    (lambda: kernels.Gaussian(0.0), "finite scale > 0, got 0.0"),
    (lambda: kernels.Laplace(jnp.ones(2)), "scale to be a scalar"),
    (lambda: kernels.Matern(1.0, 1.0), "smoothness 0.5, 1.5, 2.5, ... up to 9.5, got 1.0"),
    (lambda: GAUSSIAN(INPUTS, INPUTS[:, :2]), r"second of shape \(any, 3\)"),
    (lambda: GAUSSIAN.diagonal(INPUTS[0]), r"inputs of shape \(any, any\)"),
    (lambda: GAUSSIAN.features(0, 3, key=KEY), "num_features >= 1"),
    (lambda: kernels.FunctionFeatures(lambda row: row, 0), "num_inputs >= 1, got 0"),
    (lambda: kernels.FunctionFeatures(lambda row: row[0], 2), r"features, got one to shape \(\)"),
    (lambda: kernels.FunctionFeatures(lambda row: (row,), 2), "features, got one to no array"),
    (lambda: _ridge(feature_map=lambda row: row[None]).features(2, 1), r"one to shape \(1, 2\)"),
    (lambda: GAUSSIAN.frequencies(2, 0, key=KEY), "dim >= 1"),
    (lambda: kernels.FourierFeatures.sample(GAUSSIAN, 0, DIM, key=KEY), "num_features >= 1, got 0"),
    (lambda: kernels.SamplePaths.sample(GAUSSIAN, 0, 2, 2, key=KEY), "num_projections >= 1"),
    (lambda: kernels.IdentityFeatures(-1), "num_inputs >= 1"),
    (lambda: WAVES(INPUTS[:, :2]), r"inputs of shape \(any, 3\), got \(6, 2\)"),
    (lambda: kernels.TorusKernel([1.0, -0.1]), "none below 0"),
    (lambda: kernels.TorusKernel([]), "at least one eigenvalue"),
    (lambda: kernels.TorusKernel([[1.0]]), r"eigenvalues of shape \(any\)"),
    (lambda: kernels.TorusKernel([np.inf]), "finite eigenvalues"),
    (lambda: kernels.TorusKernel.power_law(3, capacity=0.0), "capacity > 0"),
    (lambda: kernels.TorusKernel.power_law(-1, capacity=0.5), "num_eigenvalues >= 1"),
    (lambda: TORUS.features(3, 2, key=KEY), "dim = 1, for the circle, got 2"),
    (lambda: TORUS(np.ones((2, 2)), np.ones((2, 2))), r"inputs of shape \(any, 1\)"),
    (lambda: kernels.ClippedFeatures(PATHS, 0.0), "bound > 0, got 0.0"),
    (lambda: kernels.NormScaling(PATHS, -1.0), "radius > 0, got -1.0"),
    (lambda: RangeScaling(PATHS, ZERO[:2], ONE[:2]), r"low of shape \(3\)"),
    (lambda: RangeScaling(PATHS, ZERO, np.eye(3)[0]), "low < high, got 0.0 and 0.0 in"),
    (lambda: RangeScaling(PATHS, -np.inf * ONE, ONE), "finite low"),
    (lambda: _ridge(input_range=(ZERO, np.eye(3)[0])), "low < high"),
    (lambda: _ridge(input_range=(ZERO, ONE[:2])), "of shape"),
    (lambda: _ridge(input_range=(ZERO, ONE)).features(2, 1), "of shape"),
    (lambda: _ridge(input_range=(ZERO, ONE), input_bound=1.0), "or input_range, got both"),
    (lambda: kernels.blockwise(PATHS, INPUTS[0]), "inputs of shape"),
    (lambda: kernels.blockwise(PATHS, INPUTS, rows=0), "rows >= 1"),
    (lambda: Columns(("a", "a"), "y"), "names that differ, got 'a' twice"),
    (lambda: Columns(("a", "y"), "y"), "names that differ, got 'y' twice"),
    (lambda: Columns(("a",), "y", ("no", "yes", "no")), "two classes or more that differ"),
    (lambda: Columns(("a",), "y", ("yes",)), "two classes or more that differ"),
    (lambda: NoiseRidge(-1.0), "factor > 0"),
    (lambda: kernels.Theorem11Rule(0.4, 0.5), "0.5 <= source <= 1"),
    (lambda: kernels.Theorem11Rule(0.5, 1.5), "0.0 <= capacity <= 1"),
    (lambda: kernels.Theorem11Rule(0.5, 0.5, constant=0.0), "constant > 0"),
    (lambda: _ridge(label_bound=math.inf), "label_bound > 0"),
    (lambda: _ridge(ridge=math.nan), "ridge > 0"),
    (lambda: _ridge(intercept_share=1.0), "0 <= intercept_share < 1"),
    (lambda: _ridge(balance=0.0), "balance > 0"),
    (lambda: _ridge(residual_bound=-1.0), "residual_bound > 0"),
    (lambda: _ridge(input_bound=math.nan), "input_bound > 0"),
    (lambda: _ridge(kernel=PRODUCT), "expected a finite input_bound"),
    (lambda: _ridge(kernel=PRODUCT, input_bound=math.inf), "expected a finite input_bound"),
    (lambda: _ridge(kernel=None, feature_map=MAPS["identity"]), "ClippedFeatures"),
    (lambda: _ridge(kernel=PRODUCT, input_bound=1e39), "overflows"),
    (lambda: _ridge().features(-1, 1), "dim >= 1"),
    (lambda: _ridge().features(2, -1), "0 <= public_seed"),
    *(
        (lambda name=name, value=value: _classifier(**{name: value}), f"expected .*{name} >")
        for name, values in {
            **dict.fromkeys(("ridge", "tolerance", "input_bound"), (0.0, math.nan)),
            **dict.fromkeys(("max_steps", "num_projections", "num_features"), (0,)),
        }.items()
        for value in values
    ),
    (lambda: _classifier(kernel=PRODUCT), "expected a finite input_bound"),
    *(
        (lambda std=std, given=given: std(**dict([given])), f"expected {message}")
        for message, all_given in CALIBRATED.items()
        for given in all_given
        for std in (_std, _softmax_std)
    ),
    *(
        (lambda name=name, wrong=wrong: _std(**{name: wrong}), f"expected finite {name} > 0")
        for name in ("lipschitz", "smoothness")
        for wrong in (0.0, -1.0, math.inf, math.nan)
    ),
    (lambda: _softmax_std(num_classes=1), "num_classes"),
]


@pytest.mark.parametrize(("make", "message"), VALUES, ids=[message for _, message in VALUES])
def test_an_argument_out_of_its_range_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


KINDS = [
    (lambda: _classifier(loss="logistic"), "margin loss"),
    (lambda: kernels.FourierFeatures.sample(GAUSSIAN, 3, 2.0, key=KEY), "dim to be a Python"),
    (lambda: kernels.FunctionFeatures("1", 1), "function to be a feature map or a function"),
    (lambda: kernels.ReleasedFunction(WAVES, jnp.ones(32), "1", 1e-5, 1), "statement"),
    (lambda: _std("1"), "epsilon"),
    (lambda: _ridge().noise_std("1", 1.0, 1e-5), "num_samples"),
    (lambda: _ridge().features("1", 1), "dim"),
    (lambda: _ridge().features(2, "1"), "public_seed"),
    (lambda: _ridge(ridge="auto"), "expected ridge to be None, a number or a rule"),
    (lambda: _ridge(label_bound=None), "expected label_bound to be a real number, got None"),
    (lambda: _ridge(kernel=None), "expected a kernel or a feature_map"),
    (lambda: _classifier(kernel=None), "expected a kernel or a feature_map"),
    (lambda: _classifier(loss=losses.Huber(1.0)), "expected loss to be a margin loss"),
    *(
        (lambda wrong=wrong: _ridge(feature_map=wrong), "feature_map to be a feature map or a fun")
        for wrong in ("waves", 1.0, kernels.FourierFeatures)
    ),
    (lambda: _ridge(input_range=5.0), r"expected input_range to be \(low, high\)"),
    (lambda: kernels.Columns("ab"), "inputs to be a tuple of names"),
    (lambda: kernels.Columns(("a", 1), "y"), "expected names of columns and classes as texts"),
    (lambda: kernels.Columns(("a",), 1), "expected names of columns and classes as texts"),
    (lambda: kernels.Columns(("a",), "y", (0, 1)), "expected names of columns and classes as"),
    (lambda: kernels.load(None), "path"),
]


@pytest.mark.parametrize(("make", "message"), KINDS, ids=[message for _, message in KINDS])
def test_an_argument_of_another_kind_is_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


OF_A_KERNEL = {
    "PrivateKernelRidge": lambda kernel: PrivateKernelRidge(kernel, label_bound=1.0),
    "PrivateKernelClassifier": kernels.PrivateKernelClassifier,
    "SamplePaths": lambda kernel: kernels.SamplePaths.sample(kernel, 2, 2, 2, key=KEY),
    "FourierFeatures": lambda kernel: kernels.FourierFeatures.sample(kernel, 2, 2, key=KEY),
    "CosineFeatures": lambda kernel: kernels.CosineFeatures.sample(kernel, 2, 2, key=KEY),
}
OF_A_MAP = {
    "ClippedFeatures": ("base", lambda base: kernels.ClippedFeatures(base, 1.0)),
    "RangeScaling": ("base", lambda base: RangeScaling(base, [0.0, 0.0], [1.0, 1.0])),
    "NormScaling": ("base", lambda base: kernels.NormScaling(base, 1.0)),
    "SamplePaths": ("base", lambda base: kernels.SamplePaths(base, jnp.ones((8, 2)))),
    "ReleasedFunction": (
        "features",
        lambda base: kernels.ReleasedFunction(base, jnp.ones(8), RELEASE, 1e-5, 1),
    ),
    "blockwise": ("function", lambda base: kernels.blockwise(base, INPUTS)),
}


@pytest.mark.parametrize("name", OF_A_KERNEL)
def test_what_is_no_kernel_is_refused(name):
    for wrong in (kernels.Gaussian, "rbf", None, 1.0, WAVES):
        with pytest.raises(TypeError, match=r"expected (a )?kernel"):
            OF_A_KERNEL[name](wrong)


@pytest.mark.parametrize("name", OF_A_MAP)
def test_what_is_no_feature_map_is_refused(name):
    argument, make = OF_A_MAP[name]
    for wrong in (kernels.FourierFeatures, "waves", None):
        with pytest.raises(TypeError, match=f"expected {argument} to be a feature map"):
            make(wrong)


def test_features_that_a_kernel_does_not_have_are_not_covered():
    for features in (kernels.FourierFeatures, kernels.CosineFeatures):
        with pytest.raises(jaxdp.NotCoveredError, match="InnerProduct is not: use its own"):
            features.sample(PRODUCT, 3, DIM, key=KEY)
