"""The mean path against closures where networks are linear, and against private training."""

import functools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_networks import NUM_TRAIN, descent, network, only

import jaxdp
from jaxdp.planning.features.closure_risk import Draw, closure_risk
from jaxdp.theory.features import mean_path

SLOW = pytest.mark.slow


def _predicted(problem, algorithm, **theory):
    return jaxdp.predict(problem, algorithm, theory=jaxdp.MeanPath(**theory), records=1)


@functools.cache
def _runs(num_classes, rate, num_runs=30, **options):
    algorithm = descent(rate, **options)
    how = {"key": jax.random.key(5), "num_runs": num_runs, "records": 1}
    return jaxdp.simulate(network(num_classes), algorithm, **how)


def _means(runs):
    """Means of loss and accuracy at the end, with their standard errors."""
    ends = runs.final_risk, runs.observables["accuracy"][:, -1]
    found = (np.asarray(each, np.float64) for each in ends)
    return [(each.mean(), each.std(ddof=1) / len(each) ** 0.5) for each in found]


def _assert_agrees(predicted, runs, *, loss, accuracy):
    (mean, error), (share, error_of_share) = _means(runs)
    gap = abs(float(predicted.final_risk) / mean - 1)
    assert gap <= loss + 3 * error / mean, f"{gap:.4f} beyond {loss} and 3 x {error / mean:.4f}"
    gap = abs(float(predicted.observables["accuracy"][-1]) - share)
    assert gap <= accuracy + 3 * error_of_share, f"{gap:.4f} beyond {accuracy}"
    moved = np.sqrt(np.mean(np.asarray(runs.observables["movement"][:, -1]) ** 2))
    np.testing.assert_allclose(predicted.observables["movement"][-1], moved, rtol=0.02)


def _by_the_starts_kernel(problem, algorithm):
    """The loss of a closure with the kernel at the start."""
    (risk,) = closure_risk(jaxdp.MeanPath().modes(problem), [algorithm], is_linear=True)
    place = jnp.log(jnp.asarray([algorithm.learning_rate, algorithm.clip_norm]))
    return float(risk.value(place, Draw.of(algorithm), jnp.asarray(algorithm.num_steps))[0])


def _by_trace_norms(monkeypatch, problem, algorithm):
    """The loss of a mean path that clips on the trace kernel's norms."""

    def norms(problem, weights, _=None):
        def one(row):
            jacobian = jax.jacrev(lambda at: problem.prediction(at, row))(weights)
            return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(jacobian))

        return jnp.sqrt(jax.vmap(one)(problem.inputs) / problem.loss.num_outputs)

    advance = mean_path._advance.__wrapped__
    monkeypatch.setattr(mean_path, "gradient_norms", norms)
    # Another function, which is traced anew.
    monkeypatch.setattr(mean_path, "_advance", eqx.filter_jit(lambda *given: advance(*given)))
    return float(_predicted(problem, algorithm).final_risk)


@SLOW
def test_one_output_agrees_with_private_training_and_the_starts_kernel_does_not():
    runs = _runs(2, 0.3)
    found = _predicted(network(), descent(0.3))
    assert found.status == jaxdp.Status.OK
    _assert_agrees(found, runs, loss=0.01, accuracy=0.003)
    assert abs(_by_the_starts_kernel(network(), descent(0.3)) / _means(runs)[0][0] - 1) > 0.5


@SLOW
def test_classes_agree_and_neither_the_starts_kernel_nor_trace_norms_do(monkeypatch):
    problem, algorithm, runs = network(3), descent(0.3), _runs(3, 0.3, 60)
    for segments in (1, 4):
        found = _predicted(problem, algorithm, segments=segments)
        _assert_agrees(found, runs, loss=0.01, accuracy=0.006)
    mean, error = _means(runs)[0]
    assert error < 0.005 * mean
    assert abs(_by_the_starts_kernel(problem, algorithm) / mean - 1) > 0.1
    assert abs(_by_trace_norms(monkeypatch, problem, algorithm) / mean - 1) > 0.05


@SLOW
def test_momentum_and_an_average_agree_with_private_training():
    momentum = functools.partial(optax.sgd, momentum=0.9)
    algorithm = descent(0.03, optimiser=momentum).replace(average=jaxdp.TailAverage())
    runs = jaxdp.simulate(network(), algorithm, key=jax.random.key(5), num_runs=100, records=1)
    _assert_agrees(_predicted(network(), algorithm), runs, loss=0.01, accuracy=0.003)
    last = _predicted(network(), algorithm.replace(average=None))
    with pytest.raises(AssertionError):
        _assert_agrees(last, runs, loss=0.01, accuracy=0.003)


@functools.cache
def _head(num_classes):
    """A network of which only the last matrix is trained, from zero, and the same as features."""
    problem = network(num_classes)
    zero = eqx.tree_at(
        lambda model: model.layers[-1].weight, problem.model, replace_fn=jnp.zeros_like
    )
    zero = eqx.tree_at(lambda model: model.layers[-1].bias, zero, replace_fn=jnp.zeros_like)
    last = problem.replace(model=zero)
    head = only(last, lambda model: [model.layers[-1].weight, model.layers[-1].bias])

    def body(row):
        for layer in zero.layers[:-1]:
            row = jnp.tanh(layer(row))
        return row

    rows = problem.inputs, problem.labels, problem.test_inputs, problem.test_labels
    return head, jaxdp.FixedFeatures.from_network(body, *rows, loss=problem.loss)


@pytest.mark.parametrize(
    ("num_classes", "segments"),
    [(2, 1), *(pytest.param(*both, marks=SLOW) for both in [(2, 3), (3, 1), (3, 3)])],
)
def test_a_network_that_is_linear_in_its_weights_is_predicted_as_the_closures_do(
    num_classes, segments
):
    head, features = _head(num_classes)
    algorithm = descent(0.3).replace(noise_multiplier=20.0)
    found = _predicted(head, algorithm, segments=segments)
    told = jaxdp.predict(features, algorithm, records=1)
    np.testing.assert_allclose(found.risk, told.risk, rtol=2e-4)
    for name in ("train_risk", "accuracy", "clipped_fraction"):
        np.testing.assert_allclose(found.observables[name], told.observables[name], rtol=1e-3)
    # With another noise in the weights it would be another prediction.
    other = jaxdp.predict(features, algorithm.replace(noise_multiplier=21.0), records=1)
    assert abs(other.final_risk / told.final_risk - 1) > 2e-3


@SLOW
def test_few_modes_with_the_rest_as_noise_predict_what_all_do():
    full = _predicted(network(), descent(0.3), num_modes=300, rank=300)
    few = _predicted(network(), descent(0.3), num_modes=60, rank=20)
    np.testing.assert_allclose(few.final_risk, full.final_risk, rtol=0.01)
    np.testing.assert_allclose(few.observables["movement"], full.observables["movement"], rtol=0.01)


def test_what_it_is_not_about_is_refused():
    theory = jaxdp.MeanPath()
    assert "describes PrivateOptimiser" in theory.why_not(network(), jaxdp.DPGD(0.1, 1.0, 5, 0.1))
    assert "not linear" in theory.why_not(network(), descent(0.1, optimiser=optax.adam))
    assert "got Linearised" in jaxdp.GaussianClosure().why_not(network(), descent(0.1))
    sampler = jaxdp.privacy.PoissonSampler(NUM_TRAIN + 1, 0.2)
    with pytest.raises(ValueError, match="expected 301 training rows"):
        jaxdp.predict(network(), descent(0.1).replace(sampler=sampler))
    fixed = jaxdp.privacy.FixedOrder(NUM_TRAIN, 5)
    kept = descent(0.1).replace(sampler=fixed)
    assert theory.why_not(network(), kept) is None
    assert "use MeanPath(segments=1)" in jaxdp.MeanPath(2).why_not(network(), kept)


@SLOW
def test_training_that_diverges_has_a_status_and_no_error_about_the_start():
    problem = network().replace(loss=jaxdp.losses.Squared())
    algorithm = descent(1e9, clip_norm=1e12, num_steps=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _predicted(problem, algorithm, segments=3)
    assert found.status in (jaxdp.Status.DIVERGED, jaxdp.Status.UNSTABLE)
