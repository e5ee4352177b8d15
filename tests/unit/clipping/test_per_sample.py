"""Clipped sums and norms against gradients formed one by one, over model families."""

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from clipping_models import BATCH, FAMILIES, cross_entropy, reference, targets
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxdp
from jaxdp.clipping.ghost import ghosts, loops
from jaxdp.clipping.ghost.ghost_pass import GhostPass
from jaxdp.clipping.ghost.traced_loss import trace_loss


def _network():
    """A loss and a model."""
    return FAMILIES["network"][:2]


def _batch(family, seed):
    key = jr.key(seed)
    return FAMILIES[family][2](key), targets(jr.fold_in(key, 1))


def assert_agrees(found, expected, clip_norm, *, rtol=2e-6):
    """Sum and norms equal to rounding; no norm below the true one by more."""
    (total, norms), (expected_total, expected_norms) = found, expected
    np.testing.assert_allclose(norms, expected_norms, rtol=rtol)
    assert np.all(np.asarray(norms) >= expected_norms * (1 - rtol))
    leaves = jax.tree.leaves(total)
    assert len(leaves) == len(expected_total)
    # What one sample adds is no longer than its clip norm.
    size = np.sum(np.minimum(clip_norm, expected_norms))
    for leaf, wanted in zip(leaves, expected_total, strict=True):
        assert np.linalg.norm(np.ravel(leaf - wanted)) <= 2 * rtol * size


_SLOW = ("attention", "recurrent", "backwards in time", "convolutions")
# Its words have too few bits for the table's length, which XLA's older generator gets wrong.
_MARKS = dict.fromkeys(_SLOW, pytest.mark.slow) | {"rows by bytes": pytest.mark.optimised}


@pytest.mark.parametrize(
    "family", [pytest.param(one, marks=_MARKS.get(one, ())) for one in FAMILIES]
)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), log_clip=st.floats(-2, 2))
def test_equals_clipping_one_by_one(family, seed, log_clip):
    loss, model, _, _ = FAMILIES[family]
    clip_norm = 10**log_clip
    found = jaxdp.clipped_gradient_sum(loss, model, *_batch(family, seed), clip_norm=clip_norm)
    # The batch is drawn again, because it may hold keys that are now used up.
    expected = reference(loss, model, *_batch(family, seed), clip_norm)
    assert_agrees(found, expected, clip_norm)


@pytest.mark.slow
def test_only_unrecognised_weights_fall_back_and_every_form_is_needed():
    forms = set()
    for family, (loss, model, _, fall_back) in FAMILIES.items():
        weights = _weights(model)
        ghost_pass = GhostPass(trace_loss(loss, model, *_batch(family, 0)), weights)
        assert ghost_pass.found.not_covered == fall_back, family
        assert {*ghost_pass.ghosts, *fall_back} == set(range(len(weights))), family
        forms |= {type(form).__name__ for form in ghost_pass.ghosts.values()}
    assert forms == {"OuterProduct", "Rows", "Kept"}


@pytest.mark.parametrize(
    ("form", "family"),
    [("OuterProduct", "network"), ("Rows", "rows, clipped"), ("Kept", "recurrent")],
)
def test_a_halved_norm_of_one_kind_of_weight_is_caught(form, family, monkeypatch):
    loss, model, _, _ = FAMILIES[family]
    batch = _batch(family, 0)
    kind = getattr(ghosts, form)
    honest = kind.norms
    monkeypatch.setattr(kind, "norms", lambda self, held: honest(self, held) / 2)
    # A function of its own: what was compiled for the honest norms is not asked.
    found = jaxdp.clipped_gradient_sum(lambda *sample: loss(*sample), model, *batch, clip_norm=0.1)
    with pytest.raises(AssertionError):
        assert_agrees(found, reference(loss, model, *batch, 0.1), 0.1)


def test_a_turn_of_a_loop_that_is_left_out_is_caught(monkeypatch):
    loss, model, _, _ = FAMILIES["recurrent"]
    batch = _batch("recurrent", 0)
    honest = loops._with_tap
    monkeypatch.setattr(
        loops, "_with_tap", lambda value, tap: honest(value, jnp.where(value[:1] > 0, tap, 0))
    )
    found = jaxdp.clipped_gradient_sum(lambda *sample: loss(*sample), model, *batch, clip_norm=0.1)
    with pytest.raises(AssertionError):
        assert_agrees(found, reference(loss, model, *batch, 0.1), 0.1)


def test_norms_alone_are_the_same():
    batch = _batch("network", 2)
    norms = jaxdp.clipping.per_sample_gradient_norms(*_network(), *batch)
    np.testing.assert_array_equal(
        norms, jaxdp.clipped_gradient_sum(*_network(), *batch, clip_norm=1.0)[1]
    )


def test_the_sum_has_the_structure_of_the_weights():
    model = (_network()[1], jnp.arange(3), "name", jnp.ones(2))
    loss = lambda model, x, y: cross_entropy(model[0], x, y)  # noqa: E731
    total, _ = jaxdp.clipped_gradient_sum(loss, model, *_batch("network", 0), clip_norm=1.0)
    assert jax.tree.structure(total) == jax.tree.structure(eqx.filter(model, eqx.is_inexact_array))
    # A weight that the loss does not read has no gradient.
    np.testing.assert_array_equal(total[3], 0)


def test_clip_norms_at_their_limits_and_one_for_each_sample():
    batch = _batch("network", 3)
    for clip_norm in (0.0, np.inf, np.linspace(0, 1, BATCH)):
        found = jaxdp.clipped_gradient_sum(*_network(), *batch, clip_norm=clip_norm)
        assert_agrees(found, reference(*_network(), *batch, clip_norm), clip_norm)


def test_masked_samples_count_for_nothing():
    inputs, labels = _batch("network", 4)
    mask = np.arange(BATCH) % 3 != 0
    # Padding may hold anything.
    padded = jnp.where(mask[:, None], inputs, jnp.nan)
    total, norms = jaxdp.clipped_gradient_sum(*_network(), padded, labels, clip_norm=0.5, mask=mask)
    wanted, wanted_norms = reference(*_network(), inputs[mask], labels[mask], 0.5)
    assert_agrees((total, norms[mask]), (wanted, wanted_norms), 0.5)
    np.testing.assert_array_equal(norms[~mask], 0)


@pytest.mark.parametrize("family", ["network", "nested loops"])
def test_a_record_that_is_not_finite_adds_nothing_and_is_flagged(family):
    loss, model, _, _ = FAMILIES[family]
    inputs, labels = _batch(family, 5)
    others = np.arange(BATCH) != 2
    given = {"clip_norm": 0.5}
    without, norms = jaxdp.clipped_gradient_sum(loss, model, inputs, labels, **given, mask=others)
    given["mask"] = np.ones(BATCH, bool)
    for value in (jnp.nan, jnp.inf, -jnp.inf):
        broken = inputs.at[2].set(value)
        total, found = jaxdp.clipped_gradient_sum(loss, model, broken, labels, **given)
        assert not np.isfinite(found[2])
        np.testing.assert_array_equal(found[others], norms[others])
        chex.assert_trees_all_equal(total, without)


@pytest.mark.slow
def test_a_broken_record_stays_alone_where_convolutions_fall_back():
    # Gradients of a batch of kernels are grouped convolutions, which may join the groups.
    kernel = jr.normal(jr.key(0), (2, 2, 3))

    def in_a_loop(kernel, x, y):
        def step(state, _):
            return jnp.tanh(jax.lax.conv(state, kernel, (1,), "SAME")), None

        return jnp.sum(jax.lax.scan(step, x[None], length=2)[0] ** 2)

    def of_the_sample(kernel, x, y):
        return jnp.sum(jax.lax.conv(x[None], jnp.sum(x) * kernel, (1,), "SAME") ** 2)

    inputs, labels = jr.normal(jr.key(1), (4, 2, 5)), jnp.zeros(4)
    broken, others = inputs.at[1].set(jnp.nan), np.arange(4) != 1
    for loss in (in_a_loop, of_the_sample):
        norms = jaxdp.clipping.per_sample_gradient_norms(loss, kernel, inputs, labels)
        total, found = jaxdp.clipped_gradient_sum(loss, kernel, broken, labels, clip_norm=1.0)
        np.testing.assert_allclose(found[others], norms[others], rtol=1e-6)
        assert np.isnan(found[1])
        assert np.all(np.isfinite(total))


def test_a_loss_that_is_not_finite_is_flagged_though_its_gradient_is():
    def loss(weight, x, y):
        return weight @ x + jax.lax.stop_gradient(1 / y)

    rows = jnp.ones((2, 2)), jnp.asarray([1.0, 0.0])
    total, norms = jaxdp.clipped_gradient_sum(loss, jnp.ones(2), *rows, clip_norm=1.0)
    assert np.isfinite(norms).tolist() == [True, False]
    np.testing.assert_allclose(total, np.full(2, 0.5**0.5), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e25, 1.8e37])
def test_norms_neither_overflow_nor_underflow(size):
    inputs = jnp.asarray(size * np.array([[3.0, 4.0]]), jnp.float32)
    clip_norm = min(1.0, size)
    for loss in (lambda weight, x, y: weight @ x, lambda weight, x, y: jnp.sum(weight * x)):
        rows = jnp.ones(2), inputs, jnp.zeros(1)
        total, norms = jaxdp.clipped_gradient_sum(loss, *rows, clip_norm=clip_norm)
        np.testing.assert_allclose(norms, 5 * size, rtol=1e-6)
        # Scaling by less than float32 can hold lets nothing through.
        expected = [0.6, 0.8] if size < 1e37 else [0, 0]
        np.testing.assert_allclose(total / clip_norm, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 3])
def test_a_zero_gradient_and_an_empty_batch_add_zero(size):
    loss = lambda weight, x, y: weight @ x  # noqa: E731
    rows = jnp.zeros((size, 2)), jnp.zeros(size)
    total, norms = jaxdp.clipped_gradient_sum(loss, jnp.ones(2), *rows, clip_norm=1.0)
    np.testing.assert_array_equal(norms, np.zeros(size))
    np.testing.assert_array_equal(total, 0)


def test_norms_over_many_positions_do_not_cancel():
    # Cotangents that sum to nearly zero on inputs that are nearly equal: the terms of the Gram
    # form are 1e6 times larger than their sum.
    positions, dim = 128, 6
    key_inputs, key_weights = jr.split(jr.key(0))
    inputs = 100 + 0.1 * jr.normal(key_inputs, (2, positions, dim))
    signs = jnp.where(jnp.arange(positions) % 2 == 0, 1.0, -1.0)
    layer = eqx.nn.Linear(dim, 40, key=key_weights)

    def loss(layer, x, y):
        return jnp.sum(signs[:, None] * jax.vmap(layer)(x))

    _, norms = jaxdp.clipped_gradient_sum(loss, layer, inputs, jnp.zeros(2), clip_norm=1.0)
    row = np.einsum("t,btd->bd", np.asarray(signs, np.float64), np.asarray(inputs, np.float64))
    expected = np.sqrt(40 * (row**2).sum(axis=1))
    # Rounding of sums of 128 numbers of size 100, in each of 40 x 6 entries.
    rounding = positions * 100 * 2**-24 * np.sqrt(40 * dim)
    np.testing.assert_allclose(norms, expected, atol=rounding)
    gram = np.einsum("btd,bsd->bts", inputs, inputs) * np.outer(signs, signs) * np.float32(40)
    assert np.any(np.abs(np.sqrt(np.abs(gram.sum((1, 2)))) - expected) > 5 * rounding)


def test_weights_of_low_precision_are_measured_in_float32():
    loss, model = _network()
    narrow = jnp.bfloat16
    inputs, labels = _batch("network", 6)
    model = jax.tree.map(lambda leaf: leaf.astype(narrow) if eqx.is_array(leaf) else leaf, model)
    given = loss, model, inputs.astype(narrow), labels
    total, norms = jaxdp.clipped_gradient_sum(*given, clip_norm=0.5)
    assert {leaf.dtype for leaf in jax.tree.leaves((total, norms))} == {jnp.float32.dtype}
    expected, expected_norms = reference(*given, 0.5)
    step = float(jnp.finfo(narrow).eps)
    np.testing.assert_allclose(norms, expected_norms, rtol=step)
    for leaf, wanted in zip(jax.tree.leaves(total), expected, strict=True):
        atol = 2 * step * np.abs(wanted).max()
        np.testing.assert_allclose(np.asarray(leaf, np.float64), wanted, atol=atol)


def test_looked_up_rows_of_low_precision_are_summed_in_float32():
    # In bfloat16 a second 1 beside 256 would be lost.
    scale, words = jnp.array([256, 1, 1], jnp.bfloat16), jnp.array([[4, 4, 4], [0, 4, 4]])

    def loss(table, x, y):
        return jnp.sum(scale[:, None] * table[x]).astype(jnp.float32)

    table = jnp.ones((6, 1), jnp.bfloat16)
    norms = jaxdp.clipping.per_sample_gradient_norms(loss, table, words, jnp.zeros(2))
    np.testing.assert_allclose(norms, [258, (256**2 + 2**2) ** 0.5], rtol=1e-6)


def _equations(jaxpr):
    """Every equation of a program and of the programs in it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for leaf in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(leaf, "jaxpr", leaf)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)


def test_layers_that_mix_samples_are_refused_by_name():
    model = {"layers": [_network()[1], eqx.nn.BatchNorm(4, "batch", mode="batch")]}
    with pytest.raises(ValueError, match=r"BatchNorm at model\['layers'\]\[1\].*GroupNorm"):
        jaxdp.clipped_gradient_sum(_network()[0], model, *_batch("network", 0), clip_norm=1.0)


def test_losses_that_reach_other_samples_by_a_named_axis_are_refused():
    def loss(model, x, y):
        return jax.lax.pmean(cross_entropy(model, x, y), "batch")

    def in_a_loop(model, x, y):
        return jax.lax.fori_loop(0, 2, lambda _, total: total + loss(model, x, y), 0.0)

    def inner(model, x, y):
        # An axis that the loss binds itself is its own affair.
        return jax.vmap(lambda x: jax.lax.pmean(x, "own"), axis_name="own")(model(x))[0]

    def norms(loss):
        return jaxdp.clipping.per_sample_gradient_norms(loss, _network()[1], *_batch("network", 0))

    for unbound in (loss, in_a_loop):
        with pytest.raises(ValueError, match=r"reaches others"):
            norms(unbound)
        bound = jax.vmap(lambda _, loss=unbound: norms(loss), axis_name="batch")
        with pytest.raises(ValueError, match="psum over the axis batch"):
            bound(jnp.zeros(2))
    assert norms(inner).shape == (BATCH,)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"clip_norm": -1.0}, ValueError, "clip_norm >= 0"),
        ({"clip_norm": np.ones(3)}, ValueError, "one for each of 7 samples"),
        ({"mask": np.ones(6, bool)}, ValueError, r"7 booleans, got bool of shape \(6,\)"),
        ({"targets": np.zeros(6, int)}, ValueError, "inputs: 7, targets: 6"),
        ({"targets": 3}, TypeError, "expected targets to be an array, got int"),
        ({"loss": lambda model, x, y: model(x)}, ValueError, r"real scalar.*shape \(3,\)"),
        ({"loss": lambda model, x, y: y}, ValueError, "real scalar, got int32"),
        ({"model": (np.ones(2, np.float32), np.ones(2, np.complex64))}, TypeError, "real weights"),
        ({"model": 1.0}, TypeError, "floating-point arrays, its weights, got none"),
    ],
)
def test_wrong_calls_are_refused(change, error, message):
    inputs, labels = _batch("network", 0)
    arguments = {"loss": _network()[0], "model": _network()[1], "inputs": inputs, "targets": labels}
    with pytest.raises(error, match=message):
        jaxdp.clipped_gradient_sum(**{**arguments, "clip_norm": 1.0, **change})


def test_the_loss_of_a_batch_and_dropout_without_keys_are_recognised():
    inputs, labels = jnp.ones((6, 4)), jnp.zeros(6, int)
    network = eqx.nn.Sequential([eqx.nn.Linear(4, 3, key=jr.key(0)), eqx.nn.Dropout(0.5)])
    still = eqx.nn.inference_mode(network)

    def of_batch(model, inputs, targets):
        return jax.vmap(cross_entropy, (None, 0, 0))(model, inputs, targets).mean()

    def with_keys(model, input, target):
        logits = model(input[0], key=input[1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, target)

    def norms(loss, model, inputs=inputs):
        return jaxdp.clipping.per_sample_gradient_norms(loss, model, inputs, labels)

    with pytest.raises(ValueError, match=r"of one record, got the loss of a batch"):
        norms(of_batch, still)
    with pytest.raises(ValueError, match=r"a key for every Dropout.* key=input\[1\]"):
        norms(cross_entropy, network)
    # What the messages say to do.
    assert (norms(cross_entropy, still) > 0).all()
    assert norms(with_keys, network, (inputs, jr.split(jr.key(1), 6))).max() > 0


def test_a_traced_clip_norm_that_is_none_lets_no_gradient_through():
    total = jax.jit(
        lambda c: jaxdp.clipped_gradient_sum(*_network(), *_batch("network", 0), clip_norm=c)[0]
    )
    for clip_norm in (jnp.nan, -1.0):
        assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(total(clip_norm)))


@pytest.mark.parametrize("kind", [bool, jnp.int8])
def test_whole_numbers_that_a_product_takes_as_they_are(kind):
    # The operation sees two types, and what is captured of the sample is no floating number.
    inputs = (jr.normal(jr.key(0), (BATCH, 4)) > 0).astype(kind)
    labels = jnp.zeros(BATCH).at[2].set(jnp.nan)
    weight = jr.normal(jr.key(1), (3, 4))

    def product(weight, x, y):
        hidden = jax.lax.dot_general(
            weight, x, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )
        return jnp.sum(jnp.sin(hidden)) + y

    def chosen(weight, x, y):
        return jnp.sum(jnp.sin(jnp.where(x == 1, weight, 0).sum(1))) + y

    others = np.arange(BATCH) != 2
    for loss in (product, chosen):
        total, norms = jaxdp.clipped_gradient_sum(loss, weight, inputs, labels, clip_norm=0.5)
        wanted = reference(loss, weight, inputs[others].astype(float), labels[others], 0.5)
        assert_agrees((total, norms[others]), wanted, 0.5)
        assert np.isnan(norms[2])


@pytest.mark.parametrize("family", ["network", "attention"])
def test_products_that_measure_and_sum_gradients_are_of_the_highest_precision(family):
    loss, model, _, _ = FAMILIES[family]
    arrays, static = eqx.partition(model, eqx.is_array)
    inputs, labels = _batch(family, 0)

    def products(function):
        jaxpr = jax.make_jaxpr(lambda arrays: function(eqx.combine(arrays, static)))(arrays).jaxpr
        names = ("dot_general", "conv_general_dilated")
        found = [e for e in _equations(jaxpr) if e.primitive.name in names]
        return [e.params["precision"] for e in found]

    def plain(model):
        # As many products as the backward pass to the inputs of every layer has.
        ghost_pass = GhostPass(trace_loss(loss, model, inputs, labels), _weights(model))
        return ghost_pass.backward(jax.tree.leaves((inputs, labels)))

    def clipped(model):
        return jaxdp.clipped_gradient_sum(loss, model, inputs, labels, clip_norm=1.0)

    highest = (jax.lax.Precision.HIGHEST,) * 2
    added = len(products(clipped)) - len(products(plain))
    assert added > 0
    assert products(plain).count(highest) == 0
    assert products(clipped).count(highest) == added


def _weights(model):
    return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
