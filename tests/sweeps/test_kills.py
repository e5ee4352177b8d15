"""A process may be killed at any moment: what was finished stays, and the end is the same."""

import random
import signal

import pytest
from sweeps import workload

from jaxdp.core.files.sealed_arrays import DamagedError
from jaxdp.sweeps.store import place_of, unpacked

NUM_KILLS = 10


def _assert_whole(store):
    """Every shard's file can be read."""
    for name in workload.files(store):
        place = place_of(name)
        assert unpacked(place, (store / name).read_bytes())[0].place == place


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    process = workload.start(workload.run_and_die, tmp_path, "mid-write", 5)
    assert workload.end(process) == -signal.SIGKILL
    kept = workload.files(tmp_path)
    assert len(kept) == 2
    _assert_whole(tmp_path)
    [partial] = tmp_path.glob(".*.partial")
    with pytest.raises(DamagedError):
        unpacked(place_of(partial.name[1:].partition(".npz")[0] + ".npz"), partial.read_bytes())
    # By another process than the one that was killed, which traced the same program.
    resumed = workload.run(workload.noisy, tmp_path, version=None)
    now = workload.files(tmp_path)
    assert len(now) == 16
    assert {name: now[name] for name in kept} == kept
    assert resumed.identical(workload.run(workload.noisy))


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_ends_bit_identical(tmp_path, monkeypatch):
    # Cells one by one, or there would be more kills than shards.
    monkeypatch.setenv(workload.PAUSE, "0.01")
    whole = workload.run(workload.slow, shard_size=1)
    generator = random.Random(0)
    kept, kills, moments = {}, 0, set()
    while len(kept) < 40:
        moment = generator.choice(["mid-write", "before-rename", "after-rename", "any"])
        when = generator.uniform(1, 4) if moment == "any" else generator.randrange(1, 5)
        code = workload.end(workload.start(workload.run_and_die, tmp_path, moment, when, 1))
        assert code in (0, -signal.SIGKILL)
        kills += code == -signal.SIGKILL
        moments |= {moment}
        now = workload.files(tmp_path)
        assert {name: now[name] for name in kept} == kept, "a finished shard was written again"
        kept = now
        _assert_whole(tmp_path)
    assert kills >= NUM_KILLS
    assert len(moments) == 4
    assert workload.run(workload.slow, tmp_path, shard_size=1).identical(whole)
