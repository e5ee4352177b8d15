"""A stream that names its loss and no gradient: what follows, and that it is simulated."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float

import jaxdp
from jaxdp.core.keys import numbered_key
from jaxdp.losses import Huber, Logistic
from jaxdp.losses.base import AbstractScalarLoss
from jaxdp.problems.base import AbstractLinearModelProblem, Samples

TARGET = np.asarray([1.0, -0.5, 0.25], np.float32)


class Signs(AbstractLinearModelProblem):
    """The sign of x.theta* as the label; the risk is the mean loss of 500 fresh samples."""

    target: Float[Array, " dim"]
    loss: AbstractScalarLoss

    def __init__(self, target, loss):
        self.target, self.loss = jnp.asarray(target), loss

    @property
    def is_valid(self):
        return jnp.asarray(True)

    @property
    def dim(self):
        return self.target.shape[0]

    @property
    def max_samples(self):
        return None

    def prepare(self, key):
        return jax.vmap(lambda index: self.draw(None, key, index))(jnp.arange(500))

    def draw(self, prepared, key, index):
        inputs = jr.normal(numbered_key(key, index), (self.dim,))
        return Samples(inputs, jnp.where(inputs @ self.target > 0, 1.0, -1.0))

    def risk(self, prepared, parameters):
        return jnp.mean(self.loss.value(prepared.inputs @ parameters, prepared.labels))

    def in_input_coordinates(self, parameters):
        return parameters


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.7)], ids=repr)
def test_gradient_and_smoothness_are_those_of_the_loss(loss):
    problem = Signs(TARGET, loss)
    weights = np.asarray([0.3, 2.0, -1.0], np.float32)

    def value(weights, inputs, label):
        return loss.value(inputs @ weights, label)

    @jax.jit
    def found(key):
        samples = problem.prepare(key)
        one = Samples(samples.inputs[0], samples.labels[0])
        exact = (
            jax.vmap(of, (None, 0, 0))(weights, samples.inputs, samples.labels)
            for of in (jax.grad(value), jax.hessian(value))
        )
        gradients = problem.gradient(weights, samples), problem.gradient(weights, one)
        return *exact, *gradients, problem.smoothness(samples)

    each, curvatures, gradients, gradient, bound = map(np.asarray, found(jr.key(0)))
    np.testing.assert_allclose(gradients, each, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradient, each[0], rtol=1e-4, atol=1e-6)
    largest = np.linalg.eigvalsh(curvatures)[:, -1]
    assert (largest <= bound * (1 + 1e-5)).all()
    assert (largest > 0.9 * bound).any()


def test_such_a_stream_is_simulated_and_learnt():
    problem = Signs(TARGET, Logistic())
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(20.0), 2.0, np.inf, 200)
    runs = jaxdp.simulate(problem, algorithm, num_runs=3, key=jr.key(1), records=2)
    np.testing.assert_allclose(runs.risk[:, 0], np.log(2), rtol=1e-5)
    assert (np.asarray(runs.final_risk) < 0.45).all()
