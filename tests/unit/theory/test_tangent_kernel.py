"""The kernel of a network's tangent features, against all gradients; what does not fit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_networks import NUM_TRAIN, network, only

from jaxdp.theory.features import tangent_kernel as kernels
from jaxdp.theory.features.mean_path import gradient_norms


def _features(problem, weights=None):
    """Gradients of all predictions, one after the other, without the kernel's code; float64."""
    weights = problem.weights if weights is None else weights
    rows = jnp.concatenate([problem.inputs, problem.test_inputs])
    of_row = jax.jacrev(lambda at, row: jnp.ravel(problem.prediction(at, row)))
    found = jax.tree.leaves(jax.jit(jax.vmap(of_row, (None, 0)))(weights, rows))
    shape = len(rows), problem.loss.num_outputs or 1, -1
    return np.concatenate([np.asarray(leaf, np.float64).reshape(shape) for leaf in found], axis=2)


def _assert_is_kernel(problem, features):
    found = kernels.tangent_kernel(problem, problem.weights)
    exact = np.einsum("ikp,jkp->ij", features, features) / features.shape[1]
    largest, n = exact.max(), NUM_TRAIN
    np.testing.assert_allclose(found.train, exact[:n, :n], atol=1e-6 * largest)
    np.testing.assert_allclose(found.cross, exact[n:, :n], atol=1e-6 * largest)
    np.testing.assert_allclose(found.test_squares, np.diag(exact)[n:], atol=1e-6 * largest)


@pytest.fixture(scope="module")
def classes():
    problem = network(3)
    return problem, _features(problem)


def test_the_kernel_is_that_of_all_gradients(classes):
    problem, features = classes
    _assert_is_kernel(*classes)
    with pytest.raises(AssertionError):
        _assert_is_kernel(problem, features[:, :, 1:])


def test_norms_are_those_of_gradients_along_the_slope_and_not_of_the_trace(classes):
    problem, features = classes
    predictions = problem.predictions(problem.weights, problem.inputs)
    slopes = np.asarray(problem.loss.slope(predictions, problem.labels), np.float64)
    gradients = np.einsum("ik,ikp->ip", slopes, features[:NUM_TRAIN])
    exact = np.linalg.norm(gradients, axis=1) / np.linalg.norm(slopes, axis=1)
    found = gradient_norms(problem, problem.weights)
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    trace = np.sqrt((features[:NUM_TRAIN] ** 2).sum(axis=(1, 2)) / 3)
    assert np.max(np.abs(trace / exact - 1)) > 0.05


class Shared(eqx.Module):
    """A matrix that is used twice, so that its gradients are no outer products; or once."""

    matrix: jax.Array
    twice: bool = eqx.field(static=True)

    def __call__(self, row):
        once = jnp.tanh(self.matrix @ row)
        return jnp.sum(self.matrix @ once if self.twice else once)


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_that_are_no_outer_products_are_kept_whole(twice):
    problem = network()
    matrix = jax.random.normal(jax.random.key(3), (20, 20)) / 4
    wide = {name: np.tile(getattr(problem, name), 4) for name in ("inputs", "test_inputs")}
    one = problem.replace(model=Shared(matrix, twice), **wide)
    kept = kernels._features(one, one.weights, one.inputs[:2], jnp.asarray(0))
    assert (kept.whole.shape[1], len(kept.sides)) == ((400, 0) if twice else (0, 1))
    _assert_is_kernel(one, _features(one))


def test_frozen_weights_have_no_features():
    biases = only(network(), lambda model: [layer.bias for layer in model.layers])
    features = _features(biases)
    assert features.shape[2] == 65
    _assert_is_kernel(biases, features)


def test_a_kernel_that_does_not_fit_is_refused_before_the_work_with_its_size(monkeypatch):
    monkeypatch.setattr(kernels, "memory_of_machine", lambda: 2.0**22)
    monkeypatch.setattr(kernels, "products", None)
    with pytest.raises(MemoryError, match=r"0\.0 GiB, got one of 300 training and 200 test rows"):
        kernels.tangent_kernel(network(), network().weights)


class Root(eqx.Module):
    scale: jax.Array

    def __call__(self, row):
        return jnp.sqrt(jnp.abs(self.scale * row[0]))


def test_a_network_without_a_finite_gradient_is_refused():
    problem = network().replace(model=Root(jnp.zeros(())))
    with pytest.raises(ValueError, match="a network with finite gradients at every row"):
        kernels.tangent_kernel(problem, problem.weights)
