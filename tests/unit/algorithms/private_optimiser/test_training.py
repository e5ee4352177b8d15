"""The training loop: Algorithm 1 of PF on a network, its records, and what it shares."""

import io
import sys
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pandas as pd
import pytest
from helpers import assert_mean_close, programs_compiled

import jaxdp
from experiments.networks.classifiers import accuracy, cross_entropy, relu_network
from jaxdp.algorithms.private_optimiser import training
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser, train
from jaxdp.privacy import PoissonSampler, ShuffledEpochs

RECORDS, PIXELS, WIDTH, CLASSES = 30, 7, 6, 4
RATE, STEPS = 0.3, 6
SGD = optax.sgd(RATE)
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(RECORDS, PIXELS)).astype(np.float32)
LABELS = INPUTS[:, :CLASSES].argmax(axis=1).astype(np.int32)
FULL = ShuffledEpochs(RECORDS, RECORDS)


def _model(num_hidden=1):
    return relu_network(PIXELS, WIDTH, CLASSES, num_hidden=num_hidden, key=jr.key(3))


def _private(sampler=FULL, clip_norm=1.0, noise_multiplier=0.5, num_steps=STEPS, **changes):
    given = {"clip_norm": clip_norm, "noise_multiplier": noise_multiplier, "num_steps": num_steps}
    return jaxdp.PrivateOptimiser(SGD, sampler=sampler, **given, **changes)


def _train(optimiser, model=None, key=None, **options):
    model = _model() if model is None else model
    key = jr.key(7) if key is None else key
    return train(optimiser, cross_entropy, model, INPUTS, LABELS, key=key, **options)


def _weights(model):
    return [np.asarray(layer.weight, np.float64) for layer in model.layers]


@jax.jit
def _gradients(weights):
    """Of each record, by each layer of a ReLU network: one after the other, and not by ghosts."""

    def loss(weights, x, label):
        for weight in weights[:-1]:
            x = jax.nn.relu(weight @ x)
        return -jax.nn.log_softmax(weights[-1] @ x)[label]

    return jax.vmap(jax.grad(loss), (None, 0, 0))(weights, INPUTS, LABELS)


def _algorithm_1(weights, clip_norm, noises):
    """PF Algorithm 1 as printed; `noises` hold sqrt(eta) (2 C / n) sigma N(0, I) of each step."""
    for noise in noises:
        gradients = [np.asarray(part, np.float64) for part in _gradients(weights)]
        norms = np.sqrt(sum(np.sum(part**2, axis=(1, 2)) for part in gradients))
        # A record at which no neuron is active has no gradient.
        factors = 1 / np.maximum(1, norms / clip_norm)
        totals = [np.einsum("n,nij->ij", factors, part) for part in gradients]
        weights = [
            weight - RATE * total / RECORDS - one
            for weight, total, one in zip(weights, totals, noise, strict=True)
        ]
    return weights


def _assert_weights(model, expected):
    for found, wanted in zip(_weights(model), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("num_hidden", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_with_its_noise_is_algorithm_1(num_hidden):
    model = _model(num_hidden)
    parts = [np.sum(np.square(part), axis=(1, 2)) for part in _gradients(_weights(model))]
    # The norms straddle the clip norm, and no layer alone decides.
    clip_norm = float(np.median(np.sqrt(sum(parts))))
    optimiser = _private(clip_norm=clip_norm, num_steps=1)
    zeros = jax.tree.map(jnp.zeros_like, eqx.filter(model, eqx.is_inexact_array))
    drawn = optimiser.noisy_sum(zeros, jnp.asarray(0), key=jr.key(7))
    noise = [RATE / RECORDS * part for part in _weights(drawn)]
    trained = _train(optimiser, model)
    _assert_weights(trained.model, _algorithm_1(_weights(model), clip_norm, [noise]))
    with pytest.raises(AssertionError):
        _assert_weights(trained.model, _algorithm_1(_weights(model), 1.1 * clip_norm, [noise]))


def test_steps_without_noise_are_algorithm_1_and_microbatches_change_nothing():
    expected = _algorithm_1(_weights(_model()), 1.0, STEPS * [(0.0, 0.0)])
    quiet = _private(noise_multiplier=0.0)
    _assert_weights(_train(quiet).model, expected)
    _assert_weights(_train(quiet, microbatch_size=7).model, expected)


def test_the_baseline_is_plain_gradient_descent():
    weights = _weights(_model())
    expected = _algorithm_1(weights, np.inf, STEPS * [(0.0, 0.0)])
    trained = _train(NonPrivateOptimiser(SGD, STEPS))
    _assert_weights(trained.model, expected)
    with pytest.raises(AssertionError):
        _assert_weights(trained.model, weights)


def test_the_bar_shows_what_the_steps_so_far_cost(capsys):
    optimiser = _private(noise_multiplier=5.0)
    # When a bar is written over depends on the clock; at its end it always is.
    note = training._cost_so_far(optimiser, 1e-3)
    for made in (1, STEPS):
        part = _private(noise_multiplier=5.0, num_steps=made)
        epsilon = jaxdp.account(part, delta=1e-3).epsilon
        assert note(made / STEPS) == f"epsilon {epsilon:.2f} after step {made}"
    _train(optimiser, progress=True, delta=1e-3)
    assert note(1.0) in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_is_the_same_however_often_it_is_recorded():
    def evaluate(model):
        return {"accuracy": accuracy(model, INPUTS, LABELS), "first": model.layers[0].weight[0, 0]}

    optimiser = _private(PoissonSampler(RECORDS, 0.4))
    heard = []
    often = _train(optimiser, evaluate=evaluate, every=1, progress=heard.append)
    once = _train(optimiser, evaluate=evaluate)
    assert often.steps == tuple(range(STEPS + 1))
    assert once.steps == (STEPS,)
    assert often.records["first"].shape == (STEPS + 1,)
    assert often.records["first"][0] == _model().layers[0].weight[0, 0]
    assert len(set(often.records["first"].tolist())) == STEPS + 1
    np.testing.assert_array_equal(once.records["first"], often.records["first"][-1:])
    assert heard[-1] == 1.0
    assert heard == sorted(heard)
    assert once.state.num_released == STEPS


def test_a_mesh_of_one_device_changes_nothing_and_others_are_refused():
    mesh = jax.make_mesh((1,), ("batch",))
    expected = _weights(_train(_private(num_steps=2)).model)
    _assert_weights(_train(_private(num_steps=2), mesh=mesh).model, expected)
    with pytest.raises(ValueError, match="expected a mesh of one axis"):
        _train(_private(), mesh=jax.make_mesh((1, 1), ("batch", "model")))
    with pytest.raises(TypeError, match="a PrivateOptimiser if mesh is given"):
        _train(NonPrivateOptimiser(SGD, 2), mesh=mesh)


def test_runs_of_any_noise_clip_norm_and_length_share_a_compilation():
    def loss(model, x, y):
        return cross_entropy(model, x, y)

    def programs(**changes):
        def run():
            train(_private(**changes), loss, _model(), INPUTS, LABELS, key=jr.key(0))

        return programs_compiled(run)

    assert programs() > 0
    assert programs(noise_multiplier=0.7, clip_norm=2.0, num_steps=2) == 0


@pytest.mark.parametrize("every", [None, 1])
def test_evaluate_is_tried_before_the_first_step(every, monkeypatch):
    monkeypatch.setattr(training, "_compiled_steps", None)
    for said in ("good", 0.5, None, {1: 0.5}):
        with pytest.raises(TypeError, match="expected evaluate to return a dict of names"):
            _train(_private(), evaluate=lambda _, said=said: said, every=every)
    with pytest.raises(TypeError, match="expected what evaluate returns to be a real number"):
        _train(_private(), evaluate=lambda _: {"loss": 1.0, "word": "good"}, every=every)
    for number in (2**40, np.int64(2**40 + 7), np.uint64(2**63), [1, 2**70]):
        with pytest.raises(ValueError, match=r"expected loss of whole numbers that u?int32 can"):
            _train(_private(), evaluate=lambda _, number=number: {"loss": number}, every=every)
    with pytest.raises(np.linalg.LinAlgError):
        _train(_private(), evaluate=np.linalg.inv, every=every)


def _fails_at(*calls, error=None, wrong=None):
    """A function of one argument that raises, or returns something wrong, at these calls."""
    made = iter(range(1000))

    def failing(_):
        if next(made) not in calls:
            return {"loss": 0.5}
        if error is not None:
            raise error
        return wrong

    return failing


LATER = {
    "an error": ({"evaluate": _fails_at(2, error=OSError("disk"))}, "OSError: disk", (0, 2, 6)),
    "names": ({"evaluate": _fails_at(1, wrong={"a": 1.0})}, "the same names and sh", (0, 4, 6)),
    "text": ({"evaluate": _fails_at(1, wrong={"loss": "1"})}, "to be a real number", (0, 4, 6)),
    "progress": ({"progress": _fails_at(1, error=RuntimeError())}, "RuntimeError", ()),
}


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize("name", LATER)
def test_what_fails_beside_the_steps_loses_no_trained_model(name):
    options, said, steps = LATER[name]
    if "evaluate" in options:
        options = options | {"every": 2}
    with pytest.warns(UserWarning, match=rf"failed after step \d of 6: .*{said}") as seen:
        run = _train(_private(), **options)
    assert (len(seen), seen[0].filename) == (1, __file__)
    assert run.steps == steps
    assert (run.records is None) == (not steps)
    _assert_weights(run.model, _weights(_train(_private()).model))


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_standard_error_that_cannot_be_written_loses_no_trained_model(is_closed, monkeypatch):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if is_closed else None)
    monkeypatch.setattr(sys, "stdout", None)
    fails = _fails_at(1, error=OSError("disk"))
    assert int(_train(_private(), evaluate=fails).state.num_released) == STEPS


def test_arguments_without_effect_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match="expected evaluate or checkpoint together with every, got nei"
    ):
        _train(_private(), every=2, progress=print)
    for progress_ in (None, False, print):
        with pytest.raises(
            ValueError, match="expected progress=True together with delta, got no bar"
        ):
            _train(_private(), delta=1e-5, progress=progress_)
    assert _train(_private(num_steps=2), every=1, checkpoint=tmp_path).steps == ()


def test_an_interrupted_run_says_how_far_it_came_and_how_to_go_on(tmp_path):
    def stopped(**options):
        with pytest.raises(KeyboardInterrupt) as caught:
            _train(_private(), progress=_fails_at(2, error=KeyboardInterrupt()), **options)
        return str(caught.value)

    assert "after 3 of 6 steps, which are lost: give a checkpoint" in stopped()
    kept = stopped(checkpoint=tmp_path)
    assert f"after 3 of 6 steps, 3 of which are kept in {tmp_path}: call train again" in kept
    assert _train(_private(), checkpoint=tmp_path).state.num_released == STEPS


def test_numbers_and_truth_values_are_measured():
    run = _train(_private(), evaluate=lambda _: {"is_fine": True, "loss": 0.5}, every=4)
    assert run.steps == (0, 4, STEPS)
    assert [run.records[name].shape for name in ("is_fine", "loss")] == [(3,), (3,)]


def _stopped(model, x, y):
    return jax.lax.stop_gradient(cross_entropy(model, x, y))


def _compiled(model, x, y):
    return jax.jit(lambda logits: jnp.round(logits).sum())(model(x))


@pytest.mark.parametrize("loss", [_stopped, _compiled])
@pytest.mark.parametrize("optimiser", [_private(), NonPrivateOptimiser(SGD, 2)], ids=type)
def test_a_loss_without_a_gradient_is_refused_whatever_the_data(loss, optimiser):
    for inputs in (INPUTS, np.full_like(INPUTS, np.nan)):
        with pytest.raises(ValueError, match="expected a loss with a gradient by the model's"):
            train(optimiser, loss, _model(), inputs, LABELS, key=jr.key(0))


def test_a_loss_that_uses_one_weight_alone_is_trained():
    """And one whose derivative is a rule of its own, which a forward pass could not follow."""

    @jax.custom_vjp
    def halved(value):
        return value / 2

    halved.defvjp(lambda value: (value / 2, None), lambda _, back: (back / 2,))

    def loss(model, x, y):
        return halved(model.layers[0].weight[0, 0] * x[0])

    found = train(_private(), loss, _model(), INPUTS, LABELS, key=jr.key(0))
    assert not np.array_equal(found.model.layers[0].weight, _model().layers[0].weight)


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize(
    ("optimiser", "kind"),
    [
        (_private(PoissonSampler(RECORDS, 0.9), num_steps=3), "simulated noise"),
        (NonPrivateOptimiser(SGD, 3), "no privacy"),
        (_private(num_steps=3, noise=jaxdp.privacy.SecretNoise()), "certified noise"),
    ],
    ids=["poisson", "baseline", "secret noise"],
)
def test_records_that_are_dropped_are_counted_and_warned_of_once(optimiser, kind):
    options = {"key": jr.key(1), "evaluate": accuracy_of, "every": 3}
    whole = train(optimiser, cross_entropy, _model(), INPUTS, LABELS, **options)
    assert int(whole.num_dropped) == 0
    spoiled = INPUTS.copy()
    spoiled[[4, 9]] = np.nan
    with pytest.warns(UserWarning, match="not finite .* depends on private data") as seen:
        found = train(optimiser, cross_entropy, _model(), spoiled, LABELS, **options)
    assert (len(seen), seen[0].filename) == (1, __file__)
    count = int(found.num_dropped)
    # Two records, three steps; a Poisson batch has each of them nine times in ten.
    assert 1 <= count <= 6 if kind == "simulated noise" else count == 6
    # What is released says nothing of it, and what is printed says for whom it is.
    assert "dropped" not in repr(found)
    text = " ".join(str(found).split())
    assert f"num_dropped {count} times that a record was not finite" in text
    assert "outside the account" in text
    assert kind in text.partition("release ")[2]
    if kind != "no privacy":
        assert found.release() == whole.release()
        assert not any("finite" in line for line in found.release().assumptions)


def test_a_run_is_not_lost_where_warnings_are_errors(capsys):
    spoiled = INPUTS.copy()
    spoiled[4] = np.nan
    given = cross_entropy, _model(), spoiled, LABELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(_private(num_steps=2), *given, key=jr.key(1))
    assert int(found.state.num_released) == int(found.num_dropped) == 2
    assert "not finite 2 times" in capsys.readouterr().err


def accuracy_of(model):
    return {"hit": accuracy(model, INPUTS, LABELS)}


def _kept(weight, x, y):
    """Linear in the weights, with a mask drawn from a record's key; the gradient is the mask."""
    return jnp.sum(weight * x[0] * jr.bernoulli(x[1], 0.5, weight.shape))


def _dropout(sampler, num_steps=20, noise=None):
    given = {"num_steps": num_steps, "sampler": sampler, "noise": noise, "clip_norm": 1e3}
    multiplier = 0.0 if noise is None else 1e-9
    return jaxdp.PrivateOptimiser(optax.sgd(1.0), noise_multiplier=multiplier, **given)


ONE = jaxdp.privacy.FixedSizeBatches(1, 1)


@pytest.mark.parametrize(
    "optimiser",
    [
        _dropout(ONE),
        _dropout(ONE, noise=jaxdp.privacy.SecretNoise()),
        NonPrivateOptimiser(optax.sgd(1.0), 20),
    ],
    ids=["batches", "secret noise", "baseline"],
)
def test_what_a_loss_draws_from_a_records_key_is_drawn_anew_at_every_step(optimiser):
    records = jnp.ones((1, 40)), jr.split(jr.key(9), 1)
    run = train(optimiser, _kept, jnp.zeros(40), records, jnp.zeros(1), key=jr.key(0))
    times = -np.asarray(run.model)
    # Of 20 steps with probability 1/2, each of 40 weights on its own.
    assert_mean_close(times, 10.0)
    assert 1.5 < times.std() < 3.0


def test_keys_of_a_step_do_not_depend_on_how_one_came_to_it():
    inputs, targets = (jnp.ones((6, 40)), jr.split(jr.key(9), 6)), jnp.zeros(6)
    optimiser = _dropout(PoissonSampler(6, 0.5), num_steps=5)
    model, state = jnp.zeros(40), optimiser.init(jnp.zeros(40))
    for step in range(5):
        if step == 2:
            # As from a checkpoint.
            kept = jax.tree.map(np.asarray, (model, state))
            model, state = jax.tree.map(jnp.asarray, kept)
        model, state = optimiser.step(_kept, model, state, inputs, targets, key=jr.key(0))
    whole = train(optimiser, _kept, jnp.zeros(40), inputs, targets, key=jr.key(0))
    np.testing.assert_array_equal(whole.model, model)

    # Keys among the targets, and several for a record, are those of the step too.
    def by_target(weight, x, y):
        return jnp.sum(weight * x * jr.bernoulli(y[1], 0.5, weight.shape))

    many = jr.split(jr.key(9), (6, 2))
    run = train(optimiser, by_target, jnp.zeros(40), inputs[0], many, key=jr.key(0))
    assert len(np.unique(np.asarray(run.model))) > 3


SECRET = "Angela"


def _linear(weight, x, y):
    return (weight @ x - y) ** 2


def _fitted(inputs, targets):
    optimiser = _private(jaxdp.privacy.FixedSizeBatches(4, 2), num_steps=2)
    return train(optimiser, _linear, jnp.zeros(2), inputs, targets, key=jr.key(0)).model


ROWS, ANSWERS = np.arange(8.0, dtype=np.float32).reshape(4, 2), np.arange(4.0, dtype=np.float32)
NO_NUMBERS = {
    "text": (np.array([SECRET] * 4), "text"),
    "objects": (np.array([SECRET] * 4, object), "objects of type str"),
    "ragged": ([[1.0, 2.0], [3.0]] * 2, "rows of different lengths"),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_rows_that_are_no_numbers_are_refused_without_a_word_of_them(name):
    value, came = NO_NUMBERS[name]
    for argument, given in (("inputs", (value, ANSWERS)), ("targets", (ROWS, value))):
        expected = rf"^expected {argument} to be an array of numbers, got {came}"
        with pytest.raises(TypeError, match=expected) as caught:
            _fitted(*given)
        assert SECRET not in str(caught.value)
    with pytest.raises(TypeError, match="expected targets to be an array of numbers"):
        jaxdp.clipped_gradient_sum(_linear, jnp.zeros(2), ROWS, value, clip_norm=1.0)


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [
        (pd.DataFrame(ROWS), pd.Series(ANSWERS, index=list("abcd"))),
        (pd.DataFrame(ROWS).astype(object), pd.Series(ANSWERS).astype("Float32")),
        (ROWS.tolist(), ANSWERS.tolist()),
    ],
    ids=["frame", "objects", "lists"],
)
def test_tables_and_lists_of_numbers_are_arrays(inputs, targets):
    expected = _fitted(ROWS, ANSWERS)
    np.testing.assert_array_equal(_fitted(inputs, targets), expected)
    sums = [
        jaxdp.clipped_gradient_sum(_linear, jnp.zeros(2), *rows, clip_norm=1.0)[0]
        for rows in ((inputs, targets), (ROWS, ANSWERS))
    ]
    np.testing.assert_array_equal(*sums)


def test_a_large_delta_is_warned_of_before_the_first_step():
    def evaluate(model):
        raise AssertionError("steps were made")

    with pytest.raises(UserWarning, match=r"delta = 0.1 is at least 1/n = 0.033"):
        _train(_private(), delta=0.1, evaluate=evaluate)
    with pytest.raises(ValueError, match="expected 0 < delta < 1"):
        _train(_private(), delta=1.0, evaluate=evaluate)
