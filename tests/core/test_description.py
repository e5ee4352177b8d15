"""Every description is copied by changing its constructor's arguments, which are checked again."""

import copy
import dataclasses
import functools
import importlib
import pickle
import pkgutil

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from experiments.private_kernel_learning import published
from jaxdp import attacks, kernels, losses, problems, regression, simulation, theory
from jaxdp.algorithms import AdaptiveClip, NonPrivateOptimiser
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.description import MEANINGS, AbstractDescription, constructor_arguments
from jaxdp.core.display.explanations import WIDTH
from jaxdp.kernels.functions.bounded import RangeScaling
from jaxdp.kernels.functions.torus import MercerFeatures
from jaxdp.kernels.ridge.rules import NoiseRidge
from jaxdp.planning.streams.families import Parametric
from jaxdp.privacy import (
    BufferedToeplitzNoise,
    FixedSizeBatches,
    PoissonSampler,
    SecretNoise,
    ShuffledEpochs,
)
from jaxdp.regression.features import ComposedFeatures
from jaxdp.regression.methods import HuberLearner

ROWS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).normal(size=12).astype(np.float32)
NETWORK = eqx.nn.MLP(3, "scalar", 4, 1, jnp.tanh, key=jr.key(0))
KERNEL = kernels.Gaussian(0.75)
LOSS = losses.Logistic()
# A capacity that the sampler chose, and one that it was given.
SAMPLER = PoissonSampler(100, 0.1)


@functools.cache
def _descriptions():
    """At least one of every kind."""
    paths = kernels.SamplePaths.sample(KERNEL, 4, 16, 3, key=jr.key(0))
    torus = kernels.TorusKernel.power_law(7, capacity=0.5)
    columns = regression.Columns({"age": (17, 90), "sex": ["f", "m"]}, bins=8)
    return [
        jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], np.arange(4.0), 0.1),
        jaxdp.LinearRegression(
            np.ones(2),
            np.ones(2),
            0.1,
            input_scales=jaxdp.InputScales([0.5, 1.5], [0.5, 0.5]),
            loss=losses.Huber(0.7),
        ),
        jaxdp.InputScales([0.5, 1.5], [0.5, 0.5]),
        jaxdp.LogisticRegression(4, signal=2.0),
        jaxdp.TabularRegression(ROWS, LABELS),
        jaxdp.RandomFeatures.sample(4, 3, 2, 5, key=jr.key(0)),
        jaxdp.RandomFeatures.sample(4, 3, 2, None, key=jr.key(0)),
        jaxdp.FixedFeatures.from_arrays(ROWS, LABELS, ROWS, LABELS, loss=losses.Huber(1.0)),
        jaxdp.Linearised(NETWORK, ROWS, LABELS, ROWS, LABELS, loss=losses.Squared()),
        problems.ReducedFeatures.from_kernel(np.eye(5), np.ones(3), np.ones(2)),
        jaxdp.OnePassDPSGD(lambda time: 2 - time, 1.0, 1.0, 10, batch_size=2),
        jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10).with_traced_length(),
        jaxdp.CorrelatedDPSGD([1.0, 0.5], 1.0, 1.0, batch_size=2, strategy=np.eye(2)),
        jaxdp.DPGD(0.1, 1.0, 10, 2.0),
        jaxdp.PrivateOptimiser(
            optax.sgd(0.1),
            clip_norm=1.0,
            noise_multiplier=1.0,
            num_steps=3,
            sampler=SAMPLER,
            noise=SecretNoise(),
        ),
        jaxdp.PrivateOptimiser(
            functools.partial(optax.sgd, momentum=0.9),
            learning_rate=jaxdp.Polynomial(0.3, 0.5),
            clip_norm=1.0,
            noise_multiplier=1.0,
            num_steps=3,
            sampler=SAMPLER,
            average=jaxdp.ExponentialAverage(0.5),
        ),
        NonPrivateOptimiser(optax.sgd, 3, learning_rate=0.1),
        jaxdp.PolyakAverage(),
        jaxdp.TailAverage(),
        jaxdp.ExponentialAverage(0.9),
        AdaptiveClip(1.0, count_noise=5.0),
        jaxdp.ExactCalibration(),
        jaxdp.PublishedCalibration(),
        SAMPLER,
        PoissonSampler(100, 0.1, 12),
        ShuffledEpochs(10, 4),
        FixedSizeBatches(10, 4),
        jaxdp.Constant(1.0),
        jaxdp.Polynomial(1.0, 0.5),
        jaxdp.Hyperbolic(1.0, 0.5),
        jaxdp.PiecewiseLinear([0.0, 1.0], [2.0, 1.0]),
        jaxdp.Box((0.1, 1.0), (0.2, 0.3)),
        jaxdp.FreeForm(3),
        jaxdp.Optimal(),
        Parametric(jaxdp.Hyperbolic),
        jaxdp.FromSteps(lambda step: 2.0 - 0.1 * step, 10),
        jaxdp.OnePassDPSGD(lambda time: 2 - time, 1.0, 1.0, 10).learning_rate,
        NormClip(1.0),
        BufferedToeplitzNoise([-0.1], [0.5]),
        jaxdp.Iterates(),
        jaxdp.Iterates(chunk_size=7),
        jaxdp.Reduced(),
        jaxdp.FunctionSpace(),
        jaxdp.NetworkTraining(),
        jaxdp.LinearisedNetwork(),
        jaxdp.HomogenizedSDE(num_steps=5),
        simulation.ClippedSDE(num_steps=5),
        simulation.OrnsteinUhlenbeckSDE(num_steps=5),
        jaxdp.CoupledODE(),
        jaxdp.DiscreteRecursion(),
        jaxdp.DiscreteVolterra(),
        jaxdp.CoupledODE(quadratics={"first": [1.0, 0.0]}),
        jaxdp.FiniteDimension(),
        jaxdp.Fluctuations(),
        jaxdp.UnclippedRecursion(),
        jaxdp.LowerBound(),
        jaxdp.UpperBound(),
        jaxdp.TightLowerBound(),
        jaxdp.TightUpperBound(),
        jaxdp.GaussianClosure(),
        jaxdp.ModewiseClosure(),
        jaxdp.TangentClosure(),
        theory.ClippedDiffusion(),
        jaxdp.OrnsteinUhlenbeck(),
        jaxdp.GradientFlow(),
        KERNEL,
        kernels.Laplace(0.5),
        kernels.Matern(0.5, 1.5),
        kernels.InnerProduct(),
        torus,
        paths,
        kernels.FourierFeatures.sample(KERNEL, 4, 3, key=jr.key(0)),
        kernels.CosineFeatures.sample(KERNEL, 4, 3, key=jr.key(0)),
        kernels.FunctionFeatures(jnp.sin, 3),
        kernels.IdentityFeatures(3),
        kernels.ClippedFeatures(paths, 1.0),
        RangeScaling(paths, -np.ones(3), np.ones(3)),
        regression.ColumnFeatures(columns, is_additive=True),
        regression.WithConstant(kernels.IdentityFeatures(3), 1.0),
        ComposedFeatures(kernels.IdentityFeatures(3), kernels.IdentityFeatures(3)),
        regression.Automatic(),
        regression.Whitened(),
        regression.FullBatch(),
        regression.PlannedDPSGD(),
        regression.NoisyStatistics(),
        regression.ObjectivePerturbation(),
        kernels.NormScaling(paths, 1.0),
        MercerFeatures(torus.eigenvalues),
        published.canonical.Eigenfunctions(jnp.cos, 3, 2),
        LOSS,
        published.HuberHinge(0.5),
        losses.Squared(),
        losses.HalfSquared(),
        losses.Huber(0.5),
        losses.Softmax(3),
        NoiseRidge(),
        kernels.SelectedRidge(),
        kernels.Theorem11Rule(source=0.5, capacity=0.5),
        kernels.PrivateKernelRidge(KERNEL, label_bound=1.0, input_range=(-np.ones(3), np.ones(3))),
        kernels.PrivateKernelClassifier(KERNEL, loss=LOSS, ridge=0.1),
        HuberLearner(KERNEL, loss=losses.Huber(0.5)),
        published.Algorithm1(KERNEL, 8, 0.1, 1.0),
        published.Algorithm2(KERNEL, 8, 0.1, LOSS),
        published.Algorithm3(KERNEL, 8, 0.1, 1.0),
        published.Algorithm4(KERNEL, 8, 0.1, LOSS),
        published.Algorithm5(KERNEL, 0.1, LOSS),
        published.CanonicalEstimator(jnp.cos, 5, 1.0, 3.3),
        attacks.RandomFeaturesTarget(ROWS, jnp.tanh, LABELS),
        attacks.RegeneratedWeights(jr.key(0), 12, 3),
        attacks.NetworkTarget(jnp.tanh, np.ones(3), 3),
        attacks.LevenbergMarquardt(),
        attacks.MomentumDescent(),
        attacks.CurvatureScaledMomentum(),
    ]


# Given back from how it is kept, to rounding.
ROUNDED = (jaxdp.TabularRegression,)


def _described():
    """Every class of the package that is a description."""
    for module in pkgutil.walk_packages(jaxdp.__path__, "jaxdp."):
        if not module.name.startswith(("jaxdp.cli", "jaxdp.estimators")):
            importlib.import_module(module.name)
    found, waiting = set(), [AbstractDescription]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {kind for kind in below if kind.__module__.startswith("jaxdp.")}
    return {kind for kind in found if not kind.__name__.startswith("Abstract")}


def test_every_description_is_tested_here():
    assert _described() - {type(thing) for thing in _descriptions()} == set()


def _same(first, second):
    """Equal in structure, types and values; keys in their words."""

    def words(leaf):
        is_key = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return jr.key_data(leaf) if is_key else leaf

    close = {"rtol": 1e-5, "atol": 1e-5} if isinstance(first, ROUNDED) else {}
    trees = (jax.tree.map(words, tree) for tree in (first, second))
    return bool(eqx.tree_equal(*trees, **close))


def test_each_argument_replaced_by_itself_gives_an_equal_object():
    for thing in _descriptions():
        assert _same(thing.replace(), thing)
        for name in constructor_arguments(type(thing)):
            assert _same(thing.replace(**{name: thing._argument(name)}), thing), name


def test_an_unknown_argument_is_named_with_those_there_are():
    for thing in _descriptions():
        names = ", ".join(constructor_arguments(type(thing))) or "none"
        with pytest.raises(TypeError) as raised:
            thing.replace(nosuch=1)
        expected = f"expected arguments of {type(thing).__name__}, which are {names}, got nosuch"
        assert str(raised.value) == expected


def test_a_changed_argument_is_checked_and_the_rest_stays():
    algorithm = jaxdp.OnePassDPSGD.calibrated(
        1.0, 1e-5, learning_rate=jaxdp.Constant(1.0), clip_scale=2.0, num_steps=10
    )
    changed = algorithm.replace(rho=2.0)
    assert (changed.rho, changed.clip_scale, changed.num_steps) == (2.0, 2.0, 10)
    assert algorithm.replace(learning_rate=jaxdp.Polynomial(3.0, 0.5)).learning_rate.peak == 3
    with pytest.raises(ValueError, match="expected rho > 0, got -1"):
        algorithm.replace(rho=-1.0)
    with pytest.raises(TypeError, match=r"use its .replace\(...\)"):
        dataclasses.replace(algorithm, rho=2.0)
    problem = jaxdp.LinearRegression.isotropic(4, label_noise=0.3)
    assert dataclasses.replace(problem, label_noise=0.1).label_noise == np.float32(0.1)
    with pytest.raises(ValueError, match="mean 1"):
        dataclasses.replace(problem, spectrum=2 * problem.spectrum)


def test_what_the_constructor_chose_is_chosen_anew():
    assert SAMPLER.replace(sampling_rate=0.5) == PoissonSampler(100, 0.5)
    assert PoissonSampler(100, 0.1, 12).replace(sampling_rate=0.2).capacity == 12


def test_descriptions_are_copied_and_pickled_as_before():
    problem = jaxdp.LinearRegression.isotropic(4, label_noise=0.3)
    for thing in (problem, jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10)):
        assert _same(copy.deepcopy(thing), thing)
        assert _same(pickle.loads(pickle.dumps(thing)), thing)
    doubled = eqx.filter_jit(lambda p: p.replace(label_noise=2 * p.label_noise))(problem)
    assert doubled.label_noise == np.float32(0.6)


def test_every_description_prints_in_eighty_columns_and_in_a_notebook():
    for description in _descriptions():
        text = str(description)
        assert text.startswith(type(description).__name__)
        assert max(map(len, text.splitlines())) <= WIDTH, text
        assert description._repr_html_().startswith("<div>")
        assert "object at 0x" not in text


def test_what_arguments_are_is_said_of_arguments_that_there_are():
    shown = set()
    for description in _descriptions():
        shown |= {*description._shown(), *description._derived()}
    assert set(MEANINGS) <= shown


def test_what_is_printed_of_a_description_can_be_read_from_it():
    named = set()
    for description in _descriptions():
        rows = [row.name for row in description._explanation().rows]
        named |= set(rows)
        assert [name for name in rows if not hasattr(description, name)] == []
    assert {"initial_risk", "num_train", "feature_norm"} <= named
    problem = jaxdp.LinearRegression.power_law(
        9, condition_number=4.0, label_noise=0.3, initial_risk=0.2
    )
    assert float(problem.initial_risk) == pytest.approx(0.2, rel=1e-6)
