"""What a theory or simulator says to use instead does cover the problem and the algorithm."""

import functools
import itertools
import re

import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp

RANDOM = np.random.default_rng(0)


@functools.cache
def _problems():
    return [
        jaxdp.LinearRegression.isotropic(4, label_noise=0.1),
        jaxdp.LinearRegression(np.array([1.5, 1.0, 0.5]), np.ones(3), 0.1),
        jaxdp.LogisticRegression(4, signal=2.0),
        jaxdp.TabularRegression(RANDOM.normal(size=(40, 3)), RANDOM.normal(size=40)),
        jaxdp.RandomFeatures.sample(8, 4, 3, 20, key=jr.key(0)),
        jaxdp.RandomFeatures.sample(8, 4, 3, None, key=jr.key(0)),
        jaxdp.RandomFeatures.sample(8, 4, 3, 20, loss=jaxdp.losses.Logistic(), key=jr.key(0)),
    ]


@functools.cache
def _algorithms():
    return [
        jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10),
        jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10, batch_size=2),
        jaxdp.CorrelatedDPSGD([1.0, 0.5], 1.0, 1.0, batch_size=2, strategy=np.eye(2)),
        jaxdp.DPGD(0.1, 1.0, 10, 1.0),
        *(
            jaxdp.PrivateOptimiser(
                optimiser,
                clip_norm=1.0,
                noise_multiplier=1.0,
                num_steps=3,
                sampler=jaxdp.privacy.PoissonSampler(8, 0.5),
            )
            for optimiser in (optax.sgd(0.1), optax.adam(0.1))
        ),
    ]


READERS = [
    jaxdp.Iterates(),
    jaxdp.Reduced(),
    jaxdp.HomogenizedSDE(),
    jaxdp.FunctionSpace(),
    jaxdp.CoupledODE(),
    jaxdp.DiscreteRecursion(),
    jaxdp.DiscreteVolterra(),
    jaxdp.FiniteDimension(),
    jaxdp.Fluctuations(),
    jaxdp.UnclippedRecursion(),
    jaxdp.GaussianClosure(),
    jaxdp.OrnsteinUhlenbeck(),
    jaxdp.GradientFlow(),
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: type(reader).__name__)
def test_advice_can_be_followed(reader):
    for problem, algorithm in itertools.product(_problems(), _algorithms()):
        reason = reader.why_not(problem, algorithm)
        if reason is None:
            continue
        for name in re.findall(r"([A-Z]\w+)\(\)", reason):
            other = getattr(jaxdp, name)()
            assert other.why_not(problem, algorithm) is None, reason
        if ".surrogate" in reason:
            assert reader.why_not(problem.surrogate, algorithm) is None, reason


def test_a_table_under_full_batch_descent_is_told_one_thing():
    table, descent = _problems()[3], _algorithms()[3]
    with pytest.raises(jaxdp.NotCoveredError) as caught:
        jaxdp.simulate(table, descent, key=jr.key(0))
    assert "use Iterates()" not in str(caught.value)
    assert "OnePassDPSGD, got DPGD" in str(caught.value)
    with pytest.raises(jaxdp.NotCoveredError) as caught:
        jaxdp.predict(table, descent)
    assert "surrogate" not in str(caught.value)
    assert "CoupledODE()" not in str(caught.value)
