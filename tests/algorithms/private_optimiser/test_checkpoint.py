"""Runs of training that are stopped or killed go on bit by bit; those of others are refused."""

import errno
import os
import pathlib
import random
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from algorithms.private_optimiser import killed_training
from algorithms.private_optimiser.killed_training import (
    INPUTS,
    START,
    STEPS,
    TARGETS,
    evaluate,
    loss,
    optimiser,
    trained,
)

from jaxdp.algorithms import AdaptiveClip, NonPrivateOptimiser
from jaxdp.algorithms.private_optimiser import checkpoint, training
from jaxdp.core.files import whole_files
from jaxdp.privacy import BufferedToeplitzNoise, PoissonSampler, SecretNoise, ShuffledEpochs

TESTS = pathlib.Path(__file__).parents[2]


class _StoppedError(Exception):
    pass


def _stopped(folder, evaluations=3, **options):
    """The run up to the last of so many evaluations, which ends it: the third is after 6 steps."""
    left = iter(range(evaluations - 1))

    def stops(model):
        if next(left, None) is None:
            raise _StoppedError
        return evaluate(model)

    with pytest.raises(_StoppedError):
        trained(folder, evaluate=stops, **options)


def _leaves(run):
    return jax.tree.leaves((run.model, run.state, run.records, run.num_dropped))


def _assert_same(found, expected):
    assert found.steps == expected.steps
    for one, other in zip(_leaves(found), _leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


KINDS = {
    "poisson": optimiser(),
    "epochs": optimiser(sampler=ShuffledEpochs(24, 8), average=None),
    "correlated": optimiser(
        sampler=ShuffledEpochs(24, 2), noise=BufferedToeplitzNoise((0.2, 0.1), (0.9, 0.5))
    ),
    "seeded": optimiser(noise=SecretNoise(2**200 + 3)),
    "adaptive clip": optimiser(
        clip_norm=AdaptiveClip(0.5, count_noise=4.0), noise=SecretNoise(2**200 + 3)
    ),
    "baseline": NonPrivateOptimiser(optax.adam(0.1), STEPS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_stopped_ends_bit_by_bit_like_one_that_was_not(kind, tmp_path):
    made = KINDS[kind]
    whole = trained(made=made)
    # Before the first step, after 6 of 12, and after the last but before that was measured.
    for evaluations in (1, 3, 3):
        _stopped(tmp_path, evaluations, made=made)
    _assert_same(trained(tmp_path, made=made), whole)


def test_a_run_that_has_ended_is_returned_without_a_step(tmp_path, monkeypatch):
    whole = trained(tmp_path)
    monkeypatch.setattr(training, "_advance", None)
    _assert_same(trained(tmp_path), whole)


def test_noise_of_the_system_goes_on_from_the_state_that_was_seen(tmp_path):
    made, seen = optimiser(noise=SecretNoise()), []

    def stops(model):
        seen.append(np.asarray(model["weight"]))
        if len(seen) == 3:
            raise _StoppedError
        return evaluate(model)

    with pytest.raises(_StoppedError):
        trained(tmp_path, made=made, evaluate=stops)
    run = trained(tmp_path, made=made, evaluate=lambda model: seen.append(model) or evaluate(model))
    # What was evaluated when it was stopped is what it goes on with.
    np.testing.assert_array_equal(seen[2], seen[3]["weight"])
    assert run.state.num_released == STEPS
    assert run.records["bias"].shape == (5,)


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


OTHERS = {
    "key": ({"key": jr.key(6)}, "another key"),
    "one row": ({"inputs": INPUTS + np.eye(24, 4, dtype=np.float32) * 1e-6}, "other inputs or t"),
    "order": ({"inputs": INPUTS[::-1], "targets": TARGETS[::-1]}, "other inputs or targets"),
    "weights": ({"model": START | {"bias": jnp.asarray(1e-6)}}, "other initial weights"),
    "loss": ({"loss": _offset}, "another loss or optimiser"),
    "rate": ({"made": optimiser(inner=optax.adam(0.2))}, "another loss or optimiser"),
    "noise": ({"made": optimiser(noise_multiplier=2.1)}, "another loss or optimiser"),
    "clip norm": ({"made": optimiser(clip_norm=0.4)}, "another loss or optimiser"),
    "steps": ({"made": optimiser(num_steps=13)}, "another loss or optimiser"),
    "sampler": ({"made": optimiser(sampler=PoissonSampler(24, 0.3))}, "another loss or optimiser"),
    "secret": ({"made": optimiser(noise=SecretNoise(2**200))}, "another loss or optimiser"),
    "every": ({"every": 4}, "another evaluate, every or"),
    "microbatches": ({"microbatch_size": 4}, "another evaluate, every or microbatch_size"),
}


def test_the_checkpoint_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    _stopped(tmp_path)
    before = (tmp_path / checkpoint.FILE).read_bytes()
    for changes, what in OTHERS.values():
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
        arrays = checkpoint.unsealed((folder / checkpoint.FILE).read_bytes())
        found.append(checkpoint.plain_json(str(arrays["about"]))["identity"])
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


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    whole, writes = trained(), []

    def fills_up(path, content):
        writes.append(content)
        path.write_bytes(content[: len(content) // (1 if len(writes) < 3 else 2)])
        if len(writes) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    write_whole = whole_files.write_whole

    def on_small_disk(path, content):
        with whole_files.whole_file(path) as partial:
            fills_up(partial, content)

    monkeypatch.setattr(checkpoint, "write_whole", on_small_disk)
    with pytest.raises(OSError, match=r"No space left on device; the checkpoint after 6 steps"):
        trained(tmp_path)
    assert os.listdir(tmp_path) == [checkpoint.FILE]
    assert (tmp_path / checkpoint.FILE).read_bytes() == writes[1]
    monkeypatch.setattr(checkpoint, "write_whole", write_whole)
    _assert_same(trained(tmp_path), whole)


def test_weights_that_are_not_finite_replace_no_checkpoint(tmp_path):
    late = optax.chain(
        optax.sgd(0.1),
        optax.scale_by_schedule(lambda step: jnp.where(step < 7, 1.0, jnp.nan)),
    )
    made = optimiser(inner=late, average=None)
    with pytest.raises(FloatingPointError, match="between step 6 and step 9: training diverged"):
        trained(tmp_path, made=made)
    arrays = checkpoint.unsealed((tmp_path / checkpoint.FILE).read_bytes())
    assert checkpoint.plain_json(str(arrays["about"]))["made"] == 6


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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, killed_training.__file__, str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
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
    for _ in range(num_kills):
        _killed(tmp_path, 4 if num_kills == 1 else 2, generator)
    (tmp_path / f".{checkpoint.FILE}.0.partial").write_text("begun by a process that was killed")
    _assert_same(trained(tmp_path, every=1), trained(every=1))
    assert os.listdir(tmp_path) == [checkpoint.FILE]
