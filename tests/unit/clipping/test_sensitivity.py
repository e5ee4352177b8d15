"""One record moves the computed sum by no more than the proved bound, whatever the others are."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.clipping import (
    TwoPartSum,
    clipped_gradient_sum,
    per_sample,
    sensitivity_excess,
    two_part_sum,
)
from jaxdp.clipping.ghost import ghost_pass, ghosts
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.core.numerics.precision import x64

CLIP_NORM = 1.0


def linear(weight, x, y):
    """The gradient is x."""
    return weight @ x


def exact(total):
    """A sum in two parts as one vector of float64, which holds it for the dyadic numbers here."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(total.in_float64())])


def summed(loss, model, inputs, *, mask=None, size=None, clip_norm=CLIP_NORM):
    given = loss, model, jnp.asarray(inputs), jnp.zeros(len(inputs))
    options = {"clip_norm": clip_norm, "mask": mask, "microbatch_size": size}
    total, norms = clipped_gradient_sum_in_parts(*given, **options)
    return exact(total), norms


def _sums_are_exact():
    test_blocks_and_microbatches_add_up_without_a_rounding_that_matters(None)


def _low_precision_is_measured():
    for allow in (True, False):
        test_low_precision_is_measured_as_it_is_summed(jnp.bfloat16, allow)


def moved_by_one(loss, model, inputs, place, *, other=None, **options):
    """How far the sum moves when one record is masked out, or replaced."""
    every, changed = np.ones(len(inputs), bool), np.array(inputs)
    kept = every
    if other is None:
        kept = np.arange(len(inputs)) != place
    else:
        changed[place] = other
    with_it, _ = summed(loss, model, inputs, mask=every, **options)
    without, _ = summed(loss, model, changed, mask=kept, **options)
    return np.linalg.norm(with_it - without)


def staircase(num_records, clip_norm=1.0):
    """Gradients that float32, first to last, adds to nothing where the first one stands."""
    # With it, the sum of the large ones is 2^k + 1, from which half a unit in the last place is
    # taken away in vain; without it the sum is 2^k, and every one of them counts.
    half = num_records // 2
    small = -float(half) * 2.0**-24
    ones = np.ones(half + 1)
    return clip_norm * np.concatenate([ones, np.full(num_records - half - 1, small)])[:, None]


def test_a_large_record_cannot_round_small_ones_away():
    inputs = staircase(8192)
    moved = moved_by_one(linear, jnp.ones(1), inputs, 0, size=1)
    assert moved <= 1 + sensitivity_excess(8192, 1, microbatch_size=1)
    # Added up in float32 the same records move twice as far.
    in_order = np.add.accumulate(inputs.ravel().astype(np.float32), dtype=np.float32)[-1]
    without = np.add.accumulate(inputs.ravel()[1:].astype(np.float32), dtype=np.float32)[-1]
    assert in_order - without > 1.99


@pytest.mark.parametrize("size", [None, 3, 100, 256])
def test_blocks_and_microbatches_add_up_without_a_rounding_that_matters(size):
    # Multiples of 2^-22 that a block adds exactly, and all of them together do not in float32.
    inputs = np.random.default_rng(0).integers(0, 2**14, (3001, 1)) * 2.0**-22 + 2.0**-9
    inputs[::500] = 0.75
    found, _ = summed(linear, jnp.ones(1), inputs, size=size)
    wanted = float(sum(map(Fraction, inputs.ravel())))
    assert abs(found[0] - wanted) <= 4 * 3001 * 2.0**-48 * wanted
    assert float(np.float32(wanted)) != wanted


PATHS = [None, 3, 256]


@pytest.mark.parametrize("size", PATHS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), place=st.integers(0, 599), spread=st.floats(0, 30))
def test_one_record_moves_the_sum_by_at_most_the_bound(size, seed, place, spread):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(600, 3)) * 2.0 ** rng.uniform(-spread, spread, (600, 1))
    options = {"size": size, "clip_norm": 0.5}
    bound = 1 + sensitivity_excess(600, 3, microbatch_size=size)
    moved = moved_by_one(linear, jnp.ones(3), inputs, place, **options)
    assert moved <= 0.5 * bound
    other = -inputs[(place + 1) % 600]
    assert moved_by_one(linear, jnp.ones(3), inputs, place, other=other, **options) <= bound


def test_an_attack_on_one_block_stays_within_the_bound_and_the_bound_is_not_vain():
    # Inside one block the sum is in float32; how it is ordered is not known, so all orders are
    # tried that a staircase can have.
    excess = sensitivity_excess(256, 1)
    for inputs in (staircase(256), staircase(256)[::-1], np.roll(staircase(256), 17)):
        assert moved_by_one(linear, jnp.ones(1), inputs, 0) <= 1 + excess
    ordered = staircase(256).ravel().astype(np.float32)
    moved = np.add.accumulate(ordered)[-1] - np.add.accumulate(ordered[1:])[-1]
    assert excess / 20 < moved - 1 < excess


def test_the_bound_grows_with_every_public_number_and_shrinks_with_the_microbatch():
    base = sensitivity_excess(1000, 1000)
    assert sensitivity_excess(10**6, 1000) > base
    assert sensitivity_excess(1000, 10**8) > base
    assert sensitivity_excess(1000, 1000, num_devices=64) >= base
    assert sensitivity_excess(1000, 1000, is_rounded=True) > base + 1000 * 2.0**-24
    assert sensitivity_excess(1000, 1000, microbatch_size=64) < base / 5
    assert sensitivity_excess(1, 1) < 2e-4
    assert sensitivity_excess(2**26, 1) == np.inf


@settings(max_examples=50)
@given(st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=8, max_size=8))
def test_the_error_of_an_addition_is_exact_as_compiled(numbers):
    numbers = [x if abs(x) > 2.0**-60 else 0.0 for x in numbers]
    left, right = np.float32(numbers[:4]), np.float32(numbers[4:])
    totals, errors = _compiled_two_sum(left, right)
    for a, b, total, error in zip(left, right, totals, errors, strict=True):
        assert Fraction(float(total)) + Fraction(float(error)) == Fraction(float(a)) + Fraction(
            float(b)
        )


@jax.jit
def _compiled_two_sum(left, right):
    # As in a scan over microbatches, with work around it to fuse with.
    def body(carry, pair):
        return carry, two_part_sum.two_sum(pair[0] * 1, pair[1] * 1)

    return jax.lax.scan(body, 0, (left, right))[1]


WIDE = np.full(16, 1 / 16, np.float32)


def _at_two_positions(weight, x, y):
    return jnp.sum((x[:, None] * WIDE[None]) @ weight)


def _used_twice(weight, x, y):
    return jnp.sum((x[0] * WIDE) @ weight) + jnp.sum((x[1] * WIDE) @ weight)


def _less_the_mean(weight, x, y):
    return jnp.sum(jnp.append(x[0] * WIDE[:15], x[0] / 16 + x[1]) @ (weight - jnp.mean(weight)))


def _looked_up_twice(table, x, y):
    rows = table[jnp.array([1, 1])]
    return jnp.sum(rows[0] * x[0]) + jnp.sum(rows[1] * x[1])


def _in_a_loop(weight, x, y):
    def step(total, x):
        return total + jnp.sum((x * WIDE) @ weight), None

    return jax.lax.scan(step, 0.0, x)[0]


# Losses whose gradient has cotangents of the size of x, and nearly none where these cancel.
CANCELLING = {
    "positions": (_at_two_positions, -1.0),
    "uses": (_used_twice, -1.0),
    "view": (_less_the_mean, 0.0),
    "rows": (_looked_up_twice, -1.0),
    "loop": (_in_a_loop, -1.0),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_what_cancels_within_a_record_cannot_destroy_the_sum_of_the_others(name):
    (loss, second), weight = CANCELLING[name], jnp.zeros((16, 16))
    inputs = np.asarray(jnp.abs(jr.normal(jr.key(0), (16, 2))))
    bound = 1 + sensitivity_excess(16, 256)
    for huge in (1e9, 1e18):
        attack = inputs.copy()
        attack[5] = huge, second * huge
        for size in (None, 3):
            assert moved_by_one(loss, weight, attack, 5, size=size) <= bound
        assert moved_by_one(loss, weight, inputs, 5, other=attack[5]) <= 2 * bound
        # The others are there: their sum is far longer than one record.
        assert np.linalg.norm(summed(loss, weight, attack)[0]) > 4


@pytest.mark.parametrize("size", [1025, 300_000])
def test_no_record_is_longer_than_the_clip_norm(size):
    # One number dominates, so that squares of the others are small beside the sum.
    rng = np.random.default_rng(size)
    gradient = np.abs(rng.normal(size=(1, size))).astype(np.float32) * 1e-3
    gradient[0, rng.integers(size)] = 3.0
    for factor in (1.0, 1e-30, 1e30):
        values = jnp.asarray(gradient * np.float32(factor))
        clip_norm = float(np.float32(2 * factor)) if factor < 1 else 2.0
        clip_norm = max(clip_norm, 2.0**-60)
        for loss in (linear, lambda weight, x, y: jnp.sum(weight * x)):
            found, norms = summed(loss, jnp.zeros(size), values, clip_norm=clip_norm)
            assert np.linalg.norm(found) <= clip_norm * (1 + sensitivity_excess(1, size))
            true = np.linalg.norm(np.asarray(values, np.float64))
            # A level for every 256-fold size, and two for the vectors of norms.
            levels = 3 + np.log2(size) / 8
            np.testing.assert_allclose(norms[0], true, rtol=525 * levels * 2.0**-24)


@pytest.mark.parametrize("exponent", [-60, 0, 60])
def test_numbers_at_the_edges_of_float32_do_not_escape(exponent):
    # A cotangent that some units read as zero, times an input that makes it large again.
    clip_norm = 2.0**exponent

    def loss(weight, x, y):
        return x[0] * jnp.sum(weight @ x[1:])

    for tiny, large in ((2.0**-149, 2.0**127), (3 * 2.0**-127, 2.0**126), (2.0**-100, 2.0**100)):
        inputs = np.array([[tiny, large, large / 2], [1.0, 1.0, 1.0]], np.float32)
        bound = clip_norm * (1 + sensitivity_excess(2, 4))
        assert moved_by_one(loss, jnp.zeros((2, 2)), inputs, 0, clip_norm=clip_norm) <= bound


def _narrow(layer, x, y):
    return jnp.sum(jnp.sin(3 * layer(x))).astype(jnp.float32)


@pytest.mark.parametrize("narrow", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("allow", [True, False])
def test_low_precision_is_measured_as_it_is_summed(narrow, allow):
    assert _longest_in_low_precision(narrow, allow) <= 1 + sensitivity_excess(1, 45)


def _longest_in_low_precision(narrow, allow):
    """The largest norm of one clipped record, over the clip norm, as compiled with an option."""
    layer = eqx.nn.Linear(8, 5, key=jr.key(0))
    arrays, static = eqx.partition(layer, eqx.is_array)
    arrays = jax.tree.map(lambda leaf: leaf.astype(narrow), arrays)
    inputs = 3 * jr.normal(jr.key(1), (30, 1, 8)).astype(narrow)

    @jax.jit
    def clipped(arrays, x):
        layer = eqx.combine(arrays, static)
        return clipped_gradient_sum_in_parts(_narrow, layer, x, jnp.zeros(1), clip_norm=1e-3)[0]

    options = {"xla_allow_excess_precision": allow}
    program = clipped.lower(arrays, inputs[0]).compile(options)
    return max(np.linalg.norm(exact(program(arrays, x))) for x in inputs) / 1e-3


BINARY64, BINARY32 = jnp.float64, jnp.float32
# A loss by whose casts the weights are of another type than the gradients that are added.
CASTS = {
    "float32, cast and turned": (BINARY32, lambda w, x: jnp.sum((-w.astype(BINARY64).T).T @ x)),
    "float64 that passes through float32": (
        BINARY64,
        lambda w, x: jnp.sum(w.astype(BINARY32).astype(BINARY64) @ x),
    ),
    "bfloat16 used as float64": (jnp.bfloat16, lambda w, x: jnp.sum(w.astype(BINARY64) @ x)),
    "in a loop": (
        BINARY32,
        lambda w, x: jax.lax.map(lambda k: k * jnp.sum(w.astype(BINARY64) @ x), jnp.ones(2)).sum(),
    ),
}


@pytest.mark.parametrize("name", CASTS)
def test_nothing_is_rounded_once_blocks_have_been_added(name):
    dtype, product = CASTS[name]
    num_records = 2**13
    with x64():
        weight = jnp.ones((3, 8), dtype)
        inputs = np.sqrt(np.arange(2.0, 10.0)) * np.ones((num_records, 1))
        moved = moved_by_one(lambda w, x, y: product(w, x), weight, inputs, 77)
    # A record is clipped to one, and float32 has 2^13 of them to four digits.
    assert moved == pytest.approx(1, abs=1e-6)


def test_sums_of_weights_of_several_types_are_not_rounded_and_keep_their_types():
    with x64():
        model = jnp.ones((8, 3), BINARY32), jnp.ones(8, BINARY64), jnp.ones((5, 8), BINARY32)

        def loss(model, x, y):
            turned, wide, table = model
            in_narrow = turned.T @ x.astype(BINARY32)
            return jnp.sum(in_narrow) + wide @ x + jnp.sum(table[jnp.argmin(x) % 5] * x)

        inputs = np.sqrt(np.arange(2.0, 10.0)) * np.ones((2**13, 1))
        assert moved_by_one(loss, model, inputs, 77) == pytest.approx(1, abs=1e-6)
        given = jnp.asarray(inputs[:4]), jnp.zeros(4)
        total, _ = clipped_gradient_sum_in_parts(loss, model, *given, clip_norm=1.0)
        for part in (total.high, total.low):
            assert [leaf.dtype for leaf in part] == [leaf.dtype for leaf in model]


def test_the_rounded_sum_is_the_high_part():
    inputs = jr.normal(jr.key(3), (700, 4))
    arguments = (linear, jnp.zeros(4), inputs, jnp.zeros(700))
    parts, norms = clipped_gradient_sum_in_parts(*arguments, clip_norm=0.1)
    total, same = clipped_gradient_sum(*arguments, clip_norm=0.1)
    np.testing.assert_array_equal(total, parts.high)
    np.testing.assert_array_equal(norms, same)
    assert np.all(np.abs(parts.low) <= 2.0**-24 * np.abs(parts.high))
    assert np.any(parts.low != 0)


def test_bounds_hold_under_jit_and_vmap():
    clip_norms = jnp.array([1.0, 0.25])
    given = linear, jnp.ones(1), jnp.asarray(staircase(512)), jnp.zeros(512)

    def at(mask, clip_norm):
        options = {"clip_norm": clip_norm, "mask": mask, "microbatch_size": 1}
        return clipped_gradient_sum_in_parts(*given, **options)[0]

    def moved(clip_norm):
        return at(jnp.ones(512, bool), clip_norm), at(jnp.arange(512) != 0, clip_norm)

    before, after = jax.jit(jax.vmap(moved))(clip_norms)
    gap = np.abs(before.in_float64() - after.in_float64()).ravel()
    assert np.all(gap <= clip_norms * (1 + sensitivity_excess(512, 1, microbatch_size=1)))


def _add_in_float32(patch):
    def plain(left, right):
        high = jax.tree.map(jnp.add, left.high, right.high)
        return TwoPartSum(high, jax.tree.map(jnp.zeros_like, high))

    patch.setattr(per_sample, "add", plain)


def _forget_the_error(patch):
    patch.setattr(two_part_sum, "two_sum", lambda a, b: (a + b, jnp.zeros_like(a)))


def _settle_nothing(patch):
    # As it is measured; what is added has been stored.
    honest, calls = ghost_pass.settled, []

    def settled(values, keep):
        calls.append(None)
        return values if len(calls) % 2 else honest(values, keep)

    patch.setattr(ghost_pass, "settled", settled)
    # It happens to keep this compiler from reading twice.
    patch.setattr(ghosts, "flushed", lambda values: values)


def _block_without_end(patch):
    patch.setattr(per_sample, "blocks_of", lambda size: (1, size))


# bug: (how it is planted, what catches it)
PLANTED = {
    "microbatches in float32": (_add_in_float32, test_a_large_record_cannot_round_small_ones_away),
    "error of additions dropped": (_forget_the_error, _sums_are_exact),
    "one block": (_block_without_end, _sums_are_exact),
    "low precision read twice": (_settle_nothing, _low_precision_is_measured),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    plant, caught_by = PLANTED[bug]
    plant(monkeypatch)
    # What was compiled before would hide the bug.
    jax.clear_caches()
    eqx.clear_caches()
    with pytest.raises(AssertionError):
        caught_by()
    monkeypatch.undo()
    jax.clear_caches()
    eqx.clear_caches()
