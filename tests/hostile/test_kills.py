"""A process may be killed at any moment: what was finished stays, and the end is the same."""

import signal

import pytest
import workload

from jaxdp.core.files import DamagedError, read_arrays


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["mid-write", "before-rename", "after-rename", "any"])
def test_a_killed_sweep_goes_on_where_it_was(tmp_path, moment):
    process = workload.start(workload.run_and_die, tmp_path, moment, 5)
    assert workload.end(process) == -signal.SIGKILL
    kept = workload.files(tmp_path)
    assert 2 <= len(kept) <= 5
    for name in kept:
        assert "header" in read_arrays(tmp_path / name)
    if moment == "mid-write":
        [partial] = tmp_path.glob(".*.partial")
        with pytest.raises(DamagedError):
            read_arrays(partial)
    # By another process than the one that was killed, which traced the same program.
    resumed = workload.run(workload.slow, tmp_path)
    now = workload.files(tmp_path)
    assert len(now) == 16
    assert {name: now[name] for name in kept} == kept
    assert resumed.identical(workload.run(workload.slow))
