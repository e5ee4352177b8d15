"""All private learners have one fit; what it checks, and what a request hands on."""

import hashlib
import inspect
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import kernels, losses
from jaxdp.kernels import published
from jaxdp.kernels.published.curated import AbstractJointPathLearner
from jaxdp.kernels.release.fit_request import FitRequest
from jaxdp.kernels.release.private_learner import AbstractPrivateLearner

TABLE = np.random.default_rng(0).uniform(size=(20, 2))
LABELS = np.where(TABLE[:, 0] > 0.5, 1.0, -1.0)
NOISE_SEED = 2**200 + 3
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": NOISE_SEED}
KERNEL, LOSS = kernels.Gaussian(1.0), losses.Logistic()
PATHS = {"num_projections": 4, "num_features": 8, "input_bound": math.inf}
LEARNERS = {
    "ridge": kernels.PrivateKernelRidge(KERNEL, label_bound=1.0, **PATHS),
    "classifier": kernels.PrivateKernelClassifier(KERNEL, **PATHS),
    "Algorithm1": published.Algorithm1(KERNEL, 4, 0.1, 1.0, num_features=8),
    "Algorithm2": published.Algorithm2(KERNEL, 4, 0.1, LOSS, num_features=8),
    "Algorithm3": published.Algorithm3(KERNEL, 4, 0.1, 1.0),
    "Algorithm4": published.Algorithm4(KERNEL, 4, 0.1, LOSS),
    "Algorithm5": published.Algorithm5(KERNEL, 0.1, LOSS),
    "CanonicalEstimator": published.CanonicalEstimator(
        lambda rows: jnp.cos(math.pi * rows[:, :1] * jnp.arange(4)[None]), 4, 1.0, 3.0
    ),
    "NormClippedAlgorithm1": published.NormClippedAlgorithm1(KERNEL, 4, 0.1, 1.0, num_features=8),
}
JOINT = {"Algorithm1", "Algorithm5"}


def _request(**changes):
    given = {**BUDGET, "inputs": TABLE, "labels": LABELS, "warning": None, **changes}
    return FitRequest.checked(**given)


class Unreadable:
    """Fails as soon as anybody looks at it."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the data were looked at")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_the_one_fit_and_two_take_test_inputs(name):
    kind = AbstractJointPathLearner if name in JOINT else AbstractPrivateLearner
    assert type(LEARNERS[name]).fit is kind.fit
    fits = AbstractPrivateLearner.fit, type(LEARNERS[name]).fit
    signatures = [inspect.signature(fit).parameters.values() for fit in fits]
    common, found = ([(each.name, each.kind, each.default) for each in one] for one in signatures)
    more = [("test_inputs", inspect.Parameter.KEYWORD_ONLY, None)] if name in JOINT else []
    assert found == common + more


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"epsilon": 0.0, "public_seed": "a"}, ValueError, "epsilon"),
        ({"delta": 1.0, "public_seed": "a"}, ValueError, "delta"),
        ({"public_seed": "a", "noise_seed": -1}, TypeError, "public_seed"),
        ({"noise_seed": -1}, ValueError, "noise_seed"),
        ({"noise_seed": 1}, ValueError, "noise_seed to differ from public_seed"),
        ({}, RuntimeError, "looked at"),
    ],
    ids=["epsilon", "delta", "public seed", "noise seed", "one seed", "nothing"],
)
def test_budget_and_seeds_are_checked_in_this_order_before_the_data(name, wrong, error, message):
    with pytest.raises(error, match=message):
        LEARNERS[name].fit(Unreadable(), LABELS, **{**BUDGET, **wrong})


@pytest.mark.parametrize("name", ["ridge", "Algorithm4", "Algorithm5", "CanonicalEstimator"])
def test_a_budget_in_float32_is_the_number_that_it_stands_for(name):
    epsilon, rows = np.float32(2.3), jnp.asarray(TABLE[:3])
    first, second = (
        LEARNERS[name].fit(TABLE, LABELS, **{**BUDGET, "epsilon": value})
        for value in (epsilon, float(epsilon))
    )
    np.testing.assert_array_equal(first(rows), second(rows))
    assert first.release() == second.release()


def test_a_request_shows_neither_records_nor_the_secret_seed():
    shown = f"{_request()!r} {_request()}"
    assert str(NOISE_SEED) not in shown
    assert "array" not in shown
    assert f"{TABLE[0, 0]:.4f}" not in shown


def test_the_noise_of_a_request_is_that_of_its_hash():
    """Literally: a seed gives the noise that it gave in every version before."""
    hashed = hashlib.sha256(b"((20, 2), 1.0, 1e-05, 1)")
    hashed.update(TABLE.tobytes())
    hashed.update(LABELS.tobytes())
    noise = _request(epsilon=1, public_seed=np.int64(1)).noise()
    assert (noise.seed, noise.context) == (NOISE_SEED, hashed.digest())
    assert _request(noise_seed=None).noise().seed is None


def test_requests_that_differ_in_anything_have_independent_noise():
    moved, flipped = TABLE.copy(), LABELS.copy()
    moved[7, 1] += 1e-12
    flipped[7] *= -1
    requests = [
        _request(),
        _request(inputs=moved),
        _request(labels=flipped),
        _request(epsilon=1.5),
        _request(delta=1e-6),
        _request(public_seed=2),
        _request(inputs=TABLE.reshape(10, 4), labels=LABELS[:10]),
    ]
    contexts = {request.noise().context for request in requests}
    contexts.add(_request().noise(TABLE[:, :1]).context)
    assert len(contexts) == len(requests) + 1


@pytest.mark.usefixtures("callers_line")
def test_labels_are_clipped_with_a_warning_at_the_line_of_the_call_or_without_one():
    with pytest.warns(UserWarning, match="labels are beyond label_bound = 1 and are") as seen:
        LEARNERS["ridge"].fit(TABLE, 2 * LABELS, **BUDGET)
    assert [warning.filename for warning in seen] == [__file__]
    request = _request(labels=2 * LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(request.truncated(1.0).targets, LABELS)
    np.testing.assert_array_equal(request.targets, 2 * LABELS)
