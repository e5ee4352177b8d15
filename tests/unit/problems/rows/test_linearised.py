"""Networks as problems: their tangent kernel, their tangent, which weights, and what is refused."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_networks import NUM_TRAIN, network, only

from jaxdp.problems.rows import tangent_kernel as kernels


def _features(problem, weights=None):
    """Gradients of all predictions, one after the other, without the kernel's code; float64."""
    weights = problem.weights if weights is None else weights
    rows = jnp.concatenate([problem.inputs, problem.test_inputs])
    of_row = jax.jacrev(lambda at, row: jnp.ravel(problem.prediction(at, row)))
    found = jax.tree.leaves(jax.jit(jax.vmap(of_row, (None, 0)))(weights, rows))
    shape = len(rows), problem.loss.num_outputs or 1, -1
    return np.concatenate([np.asarray(leaf, np.float64).reshape(shape) for leaf in found], axis=2)


def _assert_is_kernel(found, features):
    exact = np.einsum("ikp,jkp->ij", features, features) / features.shape[1]
    largest, n = exact.max(), NUM_TRAIN
    np.testing.assert_allclose(found.train, exact[:n, :n], atol=1e-6 * largest)
    np.testing.assert_allclose(found.cross, exact[n:, :n], atol=1e-6 * largest)
    np.testing.assert_allclose(found.test_squares, np.diag(exact)[n:], atol=1e-6 * largest)


# A network of one output: below, where weights are frozen or used twice.
@pytest.mark.slow
def test_the_kernel_is_that_of_all_gradients():
    problem = network(3)
    features = _features(problem)
    _assert_is_kernel(kernels.tangent_kernel(problem), features)
    with pytest.raises(AssertionError):
        _assert_is_kernel(kernels.tangent_kernel(problem), features[:, :, 1:])


class Shared(eqx.Module):
    """A matrix that is used twice, so that its gradients are no outer products; or once."""

    matrix: jax.Array
    twice: bool = eqx.field(static=True)

    def __call__(self, row):
        once = jnp.tanh(self.matrix @ row)
        return jnp.sum(self.matrix @ once if self.twice else once)


def test_gradients_that_are_no_outer_products_are_found_out_also_late(monkeypatch):
    problem = network()
    matrix = jax.random.normal(jax.random.key(3), (20, 20)) / 4
    wide = {name: np.tile(getattr(problem, name), 4) for name in ("inputs", "test_inputs")}
    for twice in (False, True):
        one = problem.replace(model=Shared(matrix, twice), **wide)
        assert kernels._outer_leaves(one, one.weights) == (not twice,)
        # As if the rows that are looked at had been special.
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "_outer_leaves", lambda *_: (True,))
            _assert_is_kernel(kernels.tangent_kernel(one), _features(one))


def test_the_tangent_touches_the_network_at_its_start_and_is_straight():
    problem = network(3)
    row, start = problem.inputs[0], problem.weights
    moved = problem.moved(jnp.ones((NUM_TRAIN, 3)) / NUM_TRAIN)
    half = jax.tree.map(lambda a, b: (a + b) / 2, start, moved)
    at = [problem.tangent_prediction(weights, row) for weights in (start, half, moved)]
    np.testing.assert_allclose(at[0], problem.prediction(start, row), rtol=1e-6)
    np.testing.assert_allclose(at[1], (at[0] + at[2]) / 2, rtol=1e-4, atol=1e-5)
    # The sum of all gradients, moved along and not against.
    mean = _features(problem)[:NUM_TRAIN].mean(axis=0).sum(axis=0)
    step = [np.ravel(b - a) for a, b in zip(*map(jax.tree.leaves, (start, moved)), strict=True)]
    np.testing.assert_allclose(np.concatenate(step), mean, atol=1e-5)


def test_frozen_weights_have_no_features_and_do_not_move():
    biases = only(network(), lambda model: [layer.bias for layer in model.layers])
    assert biases.num_weights == 32 + 32 + 1
    assert _features(biases).shape[2] == 65
    _assert_is_kernel(kernels.tangent_kernel(biases), _features(biases))
    head = only(network(), lambda model: model.layers[-1].weight)
    moved = head.moved(jnp.ones(NUM_TRAIN))
    assert [leaf.shape for leaf in jax.tree.leaves(moved)] == [(1, 32)]


class Noisy(eqx.Module):
    layer: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, row):
        return self.dropout(self.layer(row))


def _with(**changes):
    return lambda problem: problem.replace(**changes)


def _with_model(made):
    return lambda problem: problem.replace(model=made())


@functools.cache
def _linear(outputs=1):
    return eqx.nn.Linear(5, outputs, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("change", "error", "expected"),
    [
        (_with_model(lambda: Noisy(_linear(), eqx.nn.Dropout(0.5))), ValueError, "draws numbers"),
        (_with_model(lambda: eqx.nn.BatchNorm(5, "batch", mode="ema")), ValueError, "mixes rows"),
        (_with(model="a network"), TypeError, "expected model to be an Equinox model"),
        (_with(trainable=lambda model: []), TypeError, "of one leaf .*which raised ValueError"),
        (_with(trainable="biases"), TypeError, "None, a tree of True and False.* got str"),
        (_with_model(lambda: _linear(2)), ValueError, "one number"),
        (_with(inputs=np.full((300, 5), np.nan)), ValueError, "inputs"),
    ],
)
def test_what_is_no_network_of_single_rows_is_refused(change, error, expected):
    with pytest.raises(error, match=expected):
        change(network())


def test_a_kernel_that_does_not_fit_is_refused_before_the_work_with_its_size(monkeypatch):
    monkeypatch.setattr(kernels, "memory_of_machine", lambda: 2.0**22)
    monkeypatch.setattr(kernels, "_of_output", None)
    with pytest.raises(MemoryError, match=r"0\.0 GiB, got one of 300 training and 200 test rows"):
        kernels.tangent_kernel(network())
