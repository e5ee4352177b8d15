"""Records that stay on the host: their batches are those of records in memory, bit by bit."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import MadeWhenAsked
from killed_training import INPUTS, RECORDS, STEPS, TARGETS, evaluate, optimiser, trained

from jaxdp.algorithms import NonPrivateOptimiser
from jaxdp.privacy import SecretNoise, ShuffledEpochs


class _Source:
    """Rows that are looked up by increasing indices alone, as those of a file in chunks are."""

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, indices):
        assert (np.diff(indices) > 0).all()
        self.asked.append(np.array(indices))
        return self.rows[indices]


def _memory_map(path):
    rows = np.memmap(path, np.float32, "w+", shape=INPUTS.shape)
    rows[:] = INPUTS
    return rows


def _assert_close(found, expected):
    for one, other in zip(*(jax.tree.leaves(run.model) for run in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


KINDS = MadeWhenAsked(
    {
        "poisson": lambda: optimiser(),
        "epochs": lambda: optimiser(sampler=ShuffledEpochs(RECORDS, 5)),
        "seeded": lambda: optimiser(noise=SecretNoise(2**200 + 3)),
    }
)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_from_the_host_are_those_of_records_in_memory(kind, tmp_path):
    made, expected = KINDS[kind], trained(made=KINDS[kind])
    source = _Source(INPUTS)
    found = trained(inputs=source, targets=_Source(TARGETS), made=made)
    if kind != "seeded":
        # With a seed noise is that of a sum to the last bit, and sums are compiled otherwise.
        _assert_close(found, expected)
    mapped = trained(inputs=_memory_map(tmp_path / "rows"), made=made)
    for one, other in zip(*(jax.tree.leaves(run.model) for run in (found, mapped)), strict=True):
        np.testing.assert_array_equal(one, other)
    first, *asked = source.asked
    assert first.tolist() == [0, 1]
    assert len(asked) == STEPS
    for step, places in enumerate(asked):
        indices, _ = made.noise_strategy.batch(made.sampler, jnp.asarray(step), key=jr.key(5))
        np.testing.assert_array_equal(places, np.unique(indices))


@pytest.mark.parametrize("cell", [np.nan, 3e300])
def test_a_record_that_no_float_holds_ends_no_run_in_an_error(cell):
    inputs = np.where(np.arange(RECORDS)[:, None] == 3, cell, INPUTS.astype(np.float64))
    # For every thread: `jax.debug_nans` is for the one that calls it.
    jax.config.update("jax_debug_nans", True)
    try:
        with pytest.warns(UserWarning, match="counted as zero"):
            trained(inputs=_Source(inputs), made=KINDS["seeded"])
    finally:
        jax.config.update("jax_debug_nans", False)


def test_a_stopped_run_goes_on_from_rows_on_the_host(tmp_path):
    stops = iter((evaluate, None))

    def stopping(model):
        measured = next(stops)
        if measured is None:
            raise KeyboardInterrupt
        return measured(model)

    whole = trained(inputs=_Source(INPUTS))
    with pytest.raises(KeyboardInterrupt, match="after 6 of 12 steps, 6 of which are kept"):
        trained(tmp_path, inputs=_Source(INPUTS), evaluate=stopping, every=STEPS // 2)
    resumed = trained(tmp_path, inputs=_Source(INPUTS), every=STEPS // 2)
    np.testing.assert_array_equal(resumed.model["weight"], whole.model["weight"])
    changed = INPUTS + np.eye(RECORDS, 4, dtype=np.float32) * 1e-6
    with pytest.raises(ValueError, match="other inputs or targets"):
        trained(tmp_path, inputs=_Source(changed), every=STEPS // 2)


class _Changing(_Source):
    """A source that is another one after so many lookups."""

    def __init__(self, later, after=4):
        super().__init__(INPUTS)
        self.later, self.after = later, after

    def __len__(self):
        if len(self.asked) == self.after:
            self.rows = self.later
        return len(self.rows)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (INPUTS[:20], "expected inputs to keep its 24 rows, got 20 while training went on"),
        (INPUTS[:, :3], r"rows of shape \(4,\) and type float32, got float32 of shape"),
        (INPUTS.astype(str), "expected inputs to be an array of numbers, got text"),
    ],
)
def test_a_source_that_changes_is_one_clear_error(later, message):
    with pytest.raises((ValueError, TypeError), match=message):
        trained(inputs=_Changing(later))


def test_what_cannot_be_read_batch_by_batch_is_refused():
    with pytest.raises(TypeError, match="for records that are read batch by batch"):
        trained(inputs=_Source(INPUTS), made=NonPrivateOptimiser(optax.sgd(0.1), 2))
    with pytest.raises(ValueError, match=r"expected 24 training rows, .* got 20"):
        trained(inputs=_Source(INPUTS[:20]), targets=TARGETS[:20])
    with pytest.raises(ValueError, match="one leading batch axis of inputs and targets"):
        trained(inputs=_Source(INPUTS), targets=TARGETS[:20])
    with pytest.raises(ValueError, match="expected inputs to have rows, got none"):
        trained(inputs=_Source(INPUTS[:0]))
    with pytest.raises(ValueError, match="outside jit and vmap with records that are read"):
        jax.vmap(lambda key: trained(inputs=_Source(INPUTS), key=key).model)(jr.split(jr.key(0)))


def _by_name(indices):
    return {"train": INPUTS}[indices]


def _first_alone(indices):
    return INPUTS[indices[0]]


def _endless():
    raise NotImplementedError


@pytest.mark.parametrize(
    ("length", "look_up"),
    [(lambda: RECORDS, _by_name), (lambda: RECORDS, _first_alone), (_endless, _first_alone)],
)
def test_a_data_set_that_gives_no_rows_for_an_array_of_numbers_is_named(length, look_up):
    methods = {"__len__": lambda _: length(), "__getitem__": lambda _, indices: look_up(indices)}
    expected = r"^expected inputs to be an array, or to have a length and give rows .*, got Images"
    with pytest.raises(TypeError, match=expected + ".*$"):
        trained(inputs=type("Images", (), methods)())
