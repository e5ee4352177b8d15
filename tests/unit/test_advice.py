"""What a theory or simulator says to use instead does cover the problem and the algorithm."""

import functools
import itertools
import re

import canonical
import numpy as np
import optax
import pytest

import jaxdp


@functools.cache
def _problems():
    return [
        canonical.stream(),
        jaxdp.LinearRegression(np.array([1.5, 1.0, 0.5]), np.ones(3), 0.1),
        canonical.labels(),
        canonical.table(),
        canonical.features(),
        canonical.features(None),
        # Labels are +1 and -1.
        canonical.features().replace(loss=jaxdp.losses.Logistic()),
    ]


@functools.cache
def _algorithms():
    return [
        canonical.one_pass(),
        canonical.one_pass(20, batch_size=2),
        jaxdp.CorrelatedDPSGD([1.0, 0.5], 1.0, 1.0, batch_size=2, strategy=np.eye(2)),
        canonical.descent(),
        canonical.optimiser(),
        canonical.optimiser(optax.adam),
    ]


READERS = [
    jaxdp.Iterates(),
    jaxdp.Reduced(),
    jaxdp.HomogenizedSDE(),
    jaxdp.FunctionSpace(),
    jaxdp.CoupledODE(),
    jaxdp.DiscreteRecursion(),
    jaxdp.theory.DiscreteVolterra(),
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
