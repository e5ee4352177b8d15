"""An argument of another kind is refused where it is given, by its name, in one sentence."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from jaxdp import kernels, losses
from jaxdp.kernels import published
from jaxdp.privacy import GaussianMechanism, Release

GAUSSIAN = kernels.Gaussian(1.0)
LOGISTIC = losses.Logistic()
KEY = jr.key(0)
WAVES = kernels.FourierFeatures.sample(GAUSSIAN, 4, 2, key=KEY)
POINTS = np.random.default_rng(0).uniform(size=(6, 2))
RELEASE = Release("sums", "replace-one", GaussianMechanism(1.0))
RIDGE = kernels.PrivateKernelRidge(GAUSSIAN, label_bound=1.0)
OPS = {"input_bound": 1.0, "lipschitz": 1.0, "smoothness": 1.0, "num_samples": 3}

_OF_A_KERNEL = {
    "PrivateKernelRidge": lambda kernel: kernels.PrivateKernelRidge(kernel, label_bound=1.0),
    "PrivateKernelClassifier": kernels.PrivateKernelClassifier,
    "Algorithm1": lambda kernel: published.Algorithm1(kernel, 4, 0.1, 1.0),
    "Algorithm2": lambda kernel: published.Algorithm2(kernel, 4, 0.1, LOGISTIC),
    "Algorithm3": lambda kernel: published.Algorithm3(kernel, 4, 0.1, 1.0),
    "Algorithm4": lambda kernel: published.Algorithm4(kernel, 4, 0.1, LOGISTIC),
    "Algorithm5": lambda kernel: published.Algorithm5(kernel, 0.1, LOGISTIC),
    "NormClipped": lambda kernel: published.NormClippedAlgorithm1(kernel, 4, 0.1, 1.0),
    "RangedKernel": lambda kernel: kernels.RangedKernel(kernel, [0.0], [1.0]),
    "NystromFeatures": lambda kernel: kernels.NystromFeatures(kernel, POINTS),
    "SamplePaths": lambda kernel: kernels.SamplePaths.sample(kernel, 2, 2, 2, key=KEY),
    "PathwiseFeatures": lambda kernel: kernels.PathwiseFeatures.sample(
        kernel, POINTS, 2, 2, key=KEY
    ),
    "FourierFeatures": lambda kernel: kernels.FourierFeatures.sample(kernel, 2, 2, key=KEY),
    "CosineFeatures": lambda kernel: kernels.CosineFeatures.sample(kernel, 2, 2, key=KEY),
    "OrthogonalFeatures": lambda kernel: kernels.OrthogonalFeatures.sample(kernel, 2, 2, key=KEY),
    "ExactPaths": lambda kernel: kernels.ExactPaths.sample(kernel, POINTS, 2, key=KEY),
    "exact_sample_paths": lambda kernel: kernels.exact_sample_paths(kernel, POINTS, 2, key=KEY),
}


@pytest.mark.parametrize("made", _OF_A_KERNEL.values(), ids=_OF_A_KERNEL)
@pytest.mark.parametrize("wrong", [kernels.Gaussian, "rbf", None, 1.0, WAVES], ids=repr)
def test_what_is_no_kernel_is_refused(made, wrong):
    with pytest.raises(TypeError, match=r"expected (a )?kernel"):
        made(wrong)


_OF_A_MAP = {
    "ClippedFeatures": ("base", lambda base: kernels.ClippedFeatures(base, 1.0)),
    "RangeScaling": ("base", lambda base: kernels.RangeScaling(base, [0.0, 0.0], [1.0, 1.0])),
    "NormScaling": ("base", lambda base: kernels.NormScaling(base, 1.0)),
    "SamplePaths": ("base", lambda base: kernels.SamplePaths(base, jnp.ones((8, 2)))),
    "ReleasedFunction": (
        "features",
        lambda base: kernels.ReleasedFunction(base, jnp.ones(8), RELEASE, 1e-5, 1),
    ),
    "blockwise": ("function", lambda base: kernels.blockwise(base, POINTS)),
}


@pytest.mark.parametrize(("name", "made"), _OF_A_MAP.values(), ids=_OF_A_MAP)
@pytest.mark.parametrize("wrong", [kernels.FourierFeatures, "waves", None], ids=repr)
def test_what_is_no_feature_map_is_refused(name, made, wrong):
    with pytest.raises(TypeError, match=f"expected {name} to be a feature map"):
        made(wrong)


_OTHERS = {
    "loss of a classifier": ("loss", lambda x: kernels.PrivateKernelClassifier(GAUSSIAN, loss=x)),
    "loss of Algorithm2": ("loss", lambda x: published.Algorithm2(GAUSSIAN, 4, 0.1, x)),
    "loss of Algorithm4": ("loss", lambda x: published.Algorithm4(GAUSSIAN, 4, 0.1, x)),
    "loss of Algorithm5": ("loss", lambda x: published.Algorithm5(GAUSSIAN, 0.1, x)),
    "statement": ("statement", lambda x: kernels.ReleasedFunction(WAVES, jnp.ones(8), x, 1e-5, 1)),
    "scale": ("scale|real numbers", kernels.Gaussian),
    "smoothness": ("smoothness", lambda x: kernels.Matern(1.0, x)),
    "degree": ("degree", lambda x: kernels.Polynomial(x, 1.0)),
    "constant": ("constant|real numbers", lambda x: kernels.Polynomial(2, x)),
    "order": ("order", kernels.ArcCosine),
    "width": ("width", losses.HuberHinge),
    "FixedRidge": ("ridge", kernels.FixedRidge),
    "NoiseRidge": ("factor", kernels.NoiseRidge),
    "source": ("source", lambda x: kernels.Theorem11Rule(x, 0.5)),
    "num_projections": ("num_projections", lambda x: published.Algorithm1(GAUSSIAN, x, 0.1, 1.0)),
    "ridge": ("ridge", lambda x: published.Algorithm1(GAUSSIAN, 4, x, 1.0)),
    "ridge of Algorithm5": ("ridge", lambda x: published.Algorithm5(GAUSSIAN, x, LOGISTIC)),
    "label_bound": ("label_bound", lambda x: published.Algorithm3(GAUSSIAN, 4, 0.1, x)),
    "balance": (
        "balance",
        lambda x: kernels.PrivateKernelRidge(GAUSSIAN, label_bound=1.0, balance=x),
    ),
    "bound": ("bound|real numbers", lambda x: kernels.ClippedFeatures(WAVES, x)),
    "radius": ("radius|real numbers", lambda x: kernels.NormScaling(WAVES, x)),
    "largest_norm": ("largest_norm", lambda x: kernels.CallableKernel(lambda a, b: 1.0, x)),
    "function": ("function", lambda x: kernels.CallableKernel(x, 1.0)),
    "eigenfunctions": (
        "eigenfunctions",
        lambda x: published.CanonicalEstimator(x, 3, 1.0, 1.0),
    ),
    "beta": ("beta", lambda x: published.CanonicalEstimator(jnp.sin, 3, x, 1.0)),
    "epsilon": ("epsilon", lambda x: kernels.objective_perturbation_std(x, 1e-5, **OPS)),
    "num_samples": ("num_samples", lambda x: RIDGE.noise_std(x, 1.0, 1e-5)),
    "dim": ("dim", lambda x: RIDGE.features(x, 1)),
    "public_seed": ("public_seed", lambda x: RIDGE.features(2, x)),
    "names": ("inputs|names", kernels.Columns),
    "path": ("path", lambda x: kernels.load(x if x is None else [x])),
}


@pytest.mark.parametrize(("name", "made"), _OTHERS.values(), ids=_OTHERS)
@pytest.mark.parametrize("wrong", ["1", None], ids=repr)
def test_arguments_of_another_kind_are_named(name, made, wrong):
    with pytest.raises((TypeError, ValueError), match=f"^expected .*({name})"):
        made(wrong)


@pytest.mark.parametrize(
    "made",
    [
        lambda: RIDGE.features(-1, 1),
        lambda: RIDGE.features(2, -1),
        lambda: GAUSSIAN.frequencies(-1, 2, key=KEY),
        lambda: GAUSSIAN.frequencies(2, 0, key=KEY),
        lambda: kernels.FourierFeatures.sample(GAUSSIAN, -1, 2, key=KEY),
        lambda: kernels.IdentityFeatures(-1),
        lambda: kernels.TorusKernel.power_law(-1, capacity=0.5),
        lambda: kernels.blockwise(WAVES, POINTS, rows=-1),
    ],
)
def test_negative_sizes_are_refused(made):
    with pytest.raises(ValueError, match=r"^expected .*(>= 1|0 <=)"):
        made()
