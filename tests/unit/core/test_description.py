"""Every description is copied by changing its constructor's arguments, which are checked again."""

import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import pkgutil

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from contracts import MAKERS, parts

import jaxdp
from experiments.private_kernel_learning import published
from jaxdp import kernels, losses
from jaxdp.algorithms import NonPrivateOptimiser
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.core.display import WIDTH
from jaxdp.planning.streams.families import Parametric
from jaxdp.privacy import PoissonSampler, SecretNoise
from jaxdp.regression.methods import HuberLearner

# A capacity that the sampler chose, and one that it was given.
SAMPLER = PoissonSampler(100, 0.1)


@functools.cache
def _descriptions():
    """At least one of every kind: what the contract table makes, all defaults, and variants."""
    p = parts()
    found = [row.call()(**row.given()) for row in MAKERS]
    made = {type(thing) for thing in found}
    found += [kind() for kind in _described() - made if not _needed(kind)]
    one_pass = functools.partial(jaxdp.OnePassDPSGD, clip_scale=1.0, rho=1.0, num_steps=10)
    scales = jaxdp.InputScales([0.5, 1.5], [0.5, 0.5])
    averaged = {"learning_rate": jaxdp.Polynomial(0.3, 0.5), "sampler": SAMPLER}
    averaged |= {"average": jaxdp.algorithms.ExponentialAverage(0.5)}
    momentum = functools.partial(optax.sgd, momentum=0.9)
    more = [
        p.linear.replace(input_scales=scales, loss=losses.Huber(0.7)),
        jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], np.arange(4.0), 0.1),
        jaxdp.RandomFeatures.sample(4, 3, 2, 5, key=jr.key(0)),
        jaxdp.RandomFeatures.sample(4, 3, 2, None, key=jr.key(0)),
        p.fixed,
        one_pass(lambda time: 2 - time),
        one_pass(lambda time: 2 - time).learning_rate,
        one_pass(1.0).with_traced_length(),
        p.private.replace(sampler=SAMPLER, noise=SecretNoise()),
        jaxdp.PrivateOptimiser(
            momentum, **averaged, clip_norm=1.0, noise_multiplier=1.0, num_steps=3
        ),
        NonPrivateOptimiser(optax.sgd, 3, learning_rate=0.1),
        SAMPLER,
        PoissonSampler(100, 0.1, 12),
        Parametric(jaxdp.Hyperbolic),
        jaxdp.CoupledODE(quadratics={"first": [1.0, 0.0]}),
        kernels.SamplePaths.sample(p.kernel, 4, 16, 3, key=jr.key(0)),
        kernels.FourierFeatures.sample(p.kernel, 4, 3, key=jr.key(0)),
        kernels.CosineFeatures.sample(p.kernel, 4, 3, key=jr.key(0)),
        kernels.PrivateKernelRidge(
            p.kernel, label_bound=1.0, input_range=(-np.ones(3), np.ones(3))
        ),
        HuberLearner(p.kernel, loss=losses.Huber(0.5)),
        published.canonical.Eigenfunctions(jnp.cos, 3, 2),
    ]
    return [thing for thing in (*found, *more) if isinstance(thing, AbstractDescription)]


def _needed(kind):
    """The arguments without a default."""
    parameters = inspect.signature(kind).parameters.values()
    return [one.name for one in parameters if one.default is one.empty]


# Given back from how it is kept, to rounding.
ROUNDED = (jaxdp.TabularRegression,)


@functools.cache
def _described():
    """Every class of the package that is a description."""
    for module in pkgutil.walk_packages(jaxdp.__path__, "jaxdp."):
        if not module.name.startswith(("jaxdp.cli", "jaxdp.estimators", "jaxdp.explorer")):
            importlib.import_module(module.name)
    found, waiting = set(), [AbstractDescription]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {kind for kind in below if kind.__module__.startswith("jaxdp.")}
    return {kind for kind in found if not kind.__name__.lstrip("_").startswith("Abstract")}


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
