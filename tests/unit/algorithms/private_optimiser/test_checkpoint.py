"""Runs of training that are stopped or killed go on bit by bit; those of others are refused."""

import errno
import os
import random
import re
import signal
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import jax.random as jr
import killed_training
import numpy as np
import optax
import pytest
from helpers import MadeWhenAsked
from killed_training import INPUTS, START, STEPS, TARGETS, evaluate, loss, optimiser, trained
from processes import environment

import jaxdp
from jaxdp.algorithms import AdaptiveClip, NonPrivateOptimiser
from jaxdp.algorithms.private_optimiser import checkpoint, training
from jaxdp.core.files import archived, as_header, header_of, read_arrays, whole_file
from jaxdp.privacy import (
    BandedNoise,
    FixedOrder,
    PoissonSampler,
    ScheduledNoise,
    SecretNoise,
    ShuffledEpochs,
)


def _stopped(folder, evaluations=3, **options):
    """The run up to the last of so many evaluations, which ends it: the third is after 6 steps."""
    left = iter(range(evaluations - 1))

    def stops(model):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return evaluate(model)

    with pytest.raises(KeyboardInterrupt):
        trained(folder, evaluate=stops, **options)


def _leaves(run):
    return jax.tree.leaves((run.model, run.state, run.records, run.num_dropped))


def _assert_same(found, expected):
    assert found.steps == expected.steps
    for one, other in zip(_leaves(found), _leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# Six epochs of two batches.
BANDED = {
    "sampler": FixedOrder(24, 2),
    "noise": BandedNoise(np.eye(STEPS) + 0.5 * np.eye(STEPS, k=-1)),
}
KINDS = MadeWhenAsked(
    {
        "poisson": lambda: optimiser(),
        "epochs": lambda: optimiser(sampler=ShuffledEpochs(24, 8), average=None),
        "banded": lambda: optimiser(**BANDED),
        "banded, seeded": lambda: optimiser(
            **BANDED | {"noise": BANDED["noise"].replace(source=SecretNoise(2**200 + 3))}
        ),
        "seeded": lambda: optimiser(noise=SecretNoise(2**200 + 3)),
        "adaptive clip": lambda: optimiser(
            clip_norm=AdaptiveClip(0.5, count_noise=4.0), noise=SecretNoise(2**200 + 3)
        ),
        "baseline": lambda: NonPrivateOptimiser(optax.adam(0.1), STEPS),
    }
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_stopped_ends_bit_by_bit_like_one_that_was_not(kind, tmp_path):
    made = KINDS[kind]
    whole = trained(made=made)
    # Before the first step, after 6 of 12, and after the last but before that was measured.
    for evaluations in (1, 3, 4):
        _stopped(tmp_path, evaluations, made=made)
    _assert_same(trained(tmp_path, made=made), whole)


def test_a_file_with_past_noise_says_that_it_is_secret(tmp_path):
    for name in ("banded", "epochs"):
        folder = tmp_path / name
        _stopped(folder, made=KINDS[name])
        header = header_of(read_arrays(folder / checkpoint.FILE))
        assert ("keep it secret" in header.get("secret", "")) == (name == "banded")


def test_a_run_that_has_ended_is_returned_without_a_step(tmp_path, monkeypatch):
    whole = trained(tmp_path)
    monkeypatch.setattr(training, "_compiled_steps", None)
    _assert_same(trained(tmp_path), whole)


def test_noise_of_the_system_goes_on_from_the_state_that_was_seen(tmp_path):
    made, seen = optimiser(noise=SecretNoise()), []

    def stops(model):
        seen.append(np.asarray(model["weight"]))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return evaluate(model)

    with pytest.raises(KeyboardInterrupt, match="after 6 of 12 steps, 6 of which are kept in"):
        trained(tmp_path, made=made, evaluate=stops)
    run = trained(tmp_path, made=made, evaluate=lambda model: seen.append(model) or evaluate(model))
    # What was evaluated when it was stopped is what it goes on with, after the initial model.
    np.testing.assert_array_equal(START["weight"], seen[3]["weight"])
    np.testing.assert_array_equal(seen[2], seen[4]["weight"])
    assert run.state.num_released == STEPS


def test_noise_that_is_used_again_on_resume_is_found(tmp_path, monkeypatch):
    """A planted bug: the count of steps is not restored, so that old noise is drawn again."""
    whole = trained()
    _stopped(tmp_path)
    read = checkpoint._read

    def forgets(content, like):
        is_count = like.shape == () and like.dtype == jnp.int32
        return jnp.zeros_like(like) if is_count else read(content, like)

    monkeypatch.setattr(checkpoint, "_read", forgets)
    with pytest.raises(AssertionError):
        _assert_same(trained(tmp_path), whole)


def _offset(model, x, y):
    return loss(model, x, y + 1e-3)


def _others():
    """Runs with one thing changed, and what the refusal names."""
    data, optimisation = "other inputs or targets", "another loss, optimiser or noise"
    measured = "another evaluate, every or microbatch_size"
    return {
        "key": ({"key": jr.key(6)}, "another key"),
        "one row": ({"inputs": INPUTS + np.eye(24, 4, dtype=np.float32) * 1e-6}, data),
        "order": ({"inputs": INPUTS[::-1], "targets": TARGETS[::-1]}, data),
        "weights": (
            {"model": START | {"bias": jnp.asarray(1e-6)}},
            "other initial weights or optimiser state",
        ),
        "loss": ({"loss": _offset}, optimisation),
        "rate": ({"made": optimiser(inner=optax.adam(0.2))}, optimisation),
        "noise": ({"made": optimiser(noise_multiplier=2.1)}, optimisation),
        "sampler": ({"made": optimiser(sampler=PoissonSampler(24, 0.3))}, optimisation),
        "secret": ({"made": optimiser(noise=SecretNoise(2**200))}, optimisation),
        "schedule": ({"made": optimiser(noise=ScheduledNoise(np.ones(STEPS)))}, optimisation),
        "every": ({"every": 4}, measured),
        "microbatches": ({"microbatch_size": 4}, measured),
    }


def test_the_checkpoint_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    _stopped(tmp_path)
    before = (tmp_path / checkpoint.FILE).read_bytes()
    for changes, what in _others().values():
        with pytest.raises(ValueError, match=f"of a run with {what}") as caught:
            trained(tmp_path, **changes)
        assert "\n" not in str(caught.value)
    assert (tmp_path / checkpoint.FILE).read_bytes() == before
    _assert_same(trained(tmp_path), trained())


def test_digests_of_private_rows_say_nothing_without_the_key(tmp_path):
    found = []
    for key in (jr.key(1), jr.key(2)):
        folder = tmp_path / str(len(found))
        _stopped(folder, key=key)
        found.append(header_of(read_arrays(folder / checkpoint.FILE))["identity"])
    assert found[0]["jax"] == found[1]["jax"]
    assert found[0]["inputs or targets"] != found[1]["inputs or targets"]


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"", b"?".join])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    trained(tmp_path)
    path = tmp_path / checkpoint.FILE
    content = path.read_bytes()
    path.write_bytes(damage([content[:200], content[201:]] if damage == b"?".join else content))
    with pytest.raises(ValueError, match=r"training\.npz to keep a run of training, got a file"):
        trained(tmp_path)


def test_a_checkpoint_of_an_earlier_version_is_called_so(tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(checkpoint, "_FORMAT", 1)
        trained(tmp_path)
    with pytest.raises(ValueError, match="format 1, not 3"):
        trained(tmp_path)


def _on_disk_with_room_for(writes, monkeypatch):
    """Let the disk be full after so many checkpoints; returns what was written, or begun."""
    written = []

    def on_small_disk(path, content, **options):
        with whole_file(path, **options) as partial:
            written.append(content)
            partial.write_bytes(content[: len(content) // (1 if len(written) <= writes else 2)])
            if len(written) > writes:
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_whole", on_small_disk)
    return written


@pytest.mark.parametrize("noise", [None, SecretNoise()], ids=["simulated", "secret"])
def test_a_full_disk_leaves_the_last_checkpoint_and_the_run_goes_on(noise, tmp_path, monkeypatch):
    made = optimiser(noise=noise)
    # Before the first step, after 3 and after 6 of 12.
    with monkeypatch.context() as patched:
        writes = _on_disk_with_room_for(3, patched)
        with pytest.warns(UserWarning, match="checkpoint") as seen:
            run = trained(tmp_path, made=made)
    failed, not_kept = (str(warning.message) for warning in seen)
    assert re.search(r"checkpoint failed after step 9 of 12: .* No space", failed)
    assert "keeps is 6 of 12: remove its folder" in not_kept
    assert os.listdir(tmp_path) == [checkpoint.FILE]
    assert (tmp_path / checkpoint.FILE).read_bytes() == writes[2]
    assert int(run.state.num_released) == STEPS
    # What is not kept is not shown either, but for what is returned.
    assert run.steps == (0, 3, 6, 12)
    again = trained(tmp_path, made=made)
    assert again.steps == (0, 3, 6, 9, 12)
    if noise is None:
        chex.assert_trees_all_equal(again.model, run.model)


def test_a_folder_that_cannot_be_written_to_is_told_before_the_first_step(tmp_path, monkeypatch):
    _on_disk_with_room_for(0, monkeypatch)
    monkeypatch.setattr(training, "_compiled_steps", None)
    with pytest.raises(OSError, match=r"could not write a checkpoint to .* No space left"):
        trained(tmp_path)


@pytest.mark.parametrize("noise", [None, SecretNoise()], ids=["simulated", "secret"])
def test_a_run_that_diverged_is_paid_for_and_is_never_drawn_again(noise, tmp_path):
    """An error would be a release, and who called again would go on with fresh noise before it."""
    late = optax.chain(
        optax.sgd(0.1), optax.scale_by_schedule(lambda step: jnp.where(step < 7, 1.0, jnp.nan))
    )
    made = optimiser(inner=late, average=None, noise=noise)
    for _ in range(2):
        with pytest.warns(UserWarning, match="not finite") as seen:
            run = trained(tmp_path, made=made)
        assert any("weights are not finite: training diverged" in str(w.message) for w in seen)
        assert int(run.state.num_released) == STEPS
        assert np.isnan(run.model["weight"]).all()
    assert header_of(read_arrays(tmp_path / checkpoint.FILE))["made"] == STEPS


def test_a_run_is_of_the_steps_that_it_was_begun_with(tmp_path):
    """Without an average or a schedule a step does not see how many there are."""
    plain = {"average": None, "inner": optax.sgd(0.1)}
    made = optimiser(**plain)
    _stopped(tmp_path, 2, made=made)
    for is_ended in (False, True):
        for count in (2, 13):
            with pytest.raises(ValueError, match=f"run of {count} steps, got .* of a run of 12: "):
                trained(tmp_path, made=optimiser(num_steps=count, **plain), evaluate=None)
        if not is_ended:
            run = trained(tmp_path, made=made)
    assert jaxdp.account(run, delta=1e-5).epsilon == jaxdp.account(made, delta=1e-5).epsilon


EDITS = {
    "fewer made": lambda arrays: _with(arrays, made=3),
    "no identity": lambda arrays: _with(arrays, identity=None),
    "a list": lambda arrays: arrays | {"header": as_header([])},
    "a weight": lambda arrays: arrays | {"leaf 0": arrays["leaf 0"][::-1].copy()},
    "no weight": lambda arrays: _without(arrays, "leaf 0"),
    "no seal": lambda arrays: _without(arrays, "seal"),
    "another seal": lambda arrays: arrays | {"seal": np.asarray("0" * 64)},
}


def _with(arrays, **changes):
    return arrays | {"header": as_header(header_of(dict(arrays)) | changes)}


def _without(arrays, name):
    return {other: array for other, array in arrays.items() if other != name}


def test_an_edited_checkpoint_is_refused(tmp_path):
    _stopped(tmp_path)
    path = tmp_path / checkpoint.FILE
    before = path.read_bytes()
    for edit in EDITS.values():
        path.write_bytes(before)
        path.write_bytes(archived(edit(read_arrays(path))))
        with pytest.raises(ValueError, match=r"expected .*(to keep a run of tr|folder of).*$"):
            trained(tmp_path)
    path.write_bytes(before)
    _assert_same(trained(tmp_path), trained())


@pytest.mark.skipif(os.name == "nt", reason="files have no such modes")
def test_files_with_private_data_are_for_their_owner_in_a_folder_of_any_mode(tmp_path):
    tmp_path.chmod(0o755)
    before = os.umask(0)
    try:
        run = trained(tmp_path)
        run.to_csv(tmp_path / "records.csv")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_what_cannot_be_kept_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected checkpoint to be a folder, got the file"):
        trained(tmp_path / "file")
    with pytest.raises(ValueError, match="outside jit and vmap with checkpoint="):
        jax.vmap(lambda key: trained(tmp_path, key=key).model)(jr.split(jr.key(0), 2))

    def calls_the_host(model, x, y):
        number = jax.ShapeDtypeStruct((), jnp.float32)
        return loss(model, x, y) * jax.pure_callback(np.sin, number, y)

    with pytest.raises(ValueError, match="can tell from others, but there is a call of the host"):
        trained(tmp_path, loss=calls_the_host)


def _killed(folder, evaluations, generator):
    """Start the run in a process, and kill it a moment after so many evaluations."""
    command = [sys.executable, killed_training.__file__, str(folder)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(evaluations):
            assert process.stdout.readline() == "evaluated\n"
        try:
            process.wait(generator.uniform(0, 0.25))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("num_kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_killed_run_ends_bit_by_bit_like_one_that_was_not(tmp_path, num_kills):
    generator = random.Random(num_kills)
    for place in range(num_kills):
        # The first evaluation of a run that goes on is of the initial model.
        _killed(tmp_path, 4 if num_kills == 1 else 3 if place else 2, generator)
    (tmp_path / f".{checkpoint.FILE}.0.partial").write_text("begun by a process that was killed")
    _assert_same(trained(tmp_path, every=1), trained(every=1))
    assert os.listdir(tmp_path) == [checkpoint.FILE]
