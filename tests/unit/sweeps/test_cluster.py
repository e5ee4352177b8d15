"""One sweep by several threads, processes and machines: the same result, though workers die."""

import concurrent.futures
import os
import signal
import threading
import time

import jax
import numpy as np
import pytest
import workload

from jaxdp.sweeps.store import Store

ONE = {"axes": workload.ONE_PROGRAM}


@pytest.fixture(scope="module")
def whole():
    """The sweep of one process."""
    return workload.run(workload.noisy)


@pytest.fixture(scope="module")
def half():
    """The part of that sweep with one program."""
    return workload.run(workload.noisy, **ONE)


def _assert_same(dataset, whole):
    for name, expected in workload.values(whole).items():
        np.testing.assert_array_equal(dataset[name], expected)


class Promise:
    """The least that an executor may give."""

    def __init__(self, call):
        self.result = call


class Executor:
    """Computes a task when its result is asked for; some tasks fail."""

    def __init__(self, failing=()):
        self.failing, self.submitted = failing, 0

    def submit(self, function, *arguments):
        number = self.submitted
        self.submitted += 1

        def call():
            if number in self.failing:
                raise ArithmeticError("this task fails")
            return function(*arguments)

        return Promise(call)


def test_anything_with_submit_and_result_is_an_executor(half):
    assert workload.run(workload.noisy, **ONE, executor=Executor()).identical(half)


def test_threads_that_began_without_x64_compute_in_it():
    if not hasattr(jax, "enable_x64"):
        pytest.skip("this JAX has no jax.enable_x64")
    with concurrent.futures.ThreadPoolExecutor(2) as executor, jax.enable_x64(True):
        here = workload.run(workload.noisy, **ONE)
        there = workload.run(workload.noisy, **ONE, executor=executor)
    assert here["vector"].dtype == there["vector"].dtype == np.float64
    assert there.identical(here)


def test_a_task_that_fails_costs_its_own_shard_alone(tmp_path, half):
    with pytest.raises(ArithmeticError, match="this task fails"):
        workload.run(workload.noisy, tmp_path, **ONE, executor=Executor({3}))
    kept = workload.files(tmp_path)
    assert len(kept) == 7
    executor = Executor()
    assert workload.run(workload.noisy, tmp_path, **ONE, executor=executor).identical(half)
    assert executor.submitted == 1
    assert workload.files(tmp_path).items() >= kept.items()


def test_what_has_not_begun_when_the_sweep_ends_is_cancelled(tmp_path, monkeypatch):
    def write(self, shard):
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "write", write)
    jobs = []

    class Kept(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            jobs.append(super().submit(function, *arguments))
            return jobs[-1]

    monkeypatch.setenv(workload.PAUSE, "0.2")
    with Kept(1) as executor, pytest.raises(KeyboardInterrupt):
        workload.run(workload.slow, tmp_path, **ONE, executor=executor)
    assert len(jobs) == 8
    assert sum(job.cancelled() for job in jobs) >= 5


def test_two_threads_share_a_store(tmp_path, half):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(workload.run(workload.noisy, tmp_path, **ONE)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [dataset.identical(half) for dataset in found] == [True, True]


def _pause_long(monkeypatch, tmp_path, seconds="0.5"):
    record = tmp_path / "record"
    monkeypatch.setenv(workload.PAUSE, seconds)
    monkeypatch.setenv(workload.RECORD, str(record))
    return record


def _kill_a_worker(record, shards):
    """Once so many shards were begun, kill the process that began the last."""
    end = time.monotonic() + 120
    while workload.lines(record) < shards:
        assert time.monotonic() < end
        time.sleep(0.02)
    pid = int(record.read_text().splitlines()[-1])
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_dask_cluster_completes_the_sweep_though_a_worker_is_killed(tmp_path, whole, monkeypatch):
    distributed = pytest.importorskip("distributed")
    record, store = _pause_long(monkeypatch, tmp_path), tmp_path / "store"
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        killer = threading.Thread(target=_kill_a_worker, args=(record, 5))
        killer.start()
        found = workload.run(workload.slow, store, executor=client.get_executor())
        killer.join()
    _assert_same(found, whole)
    assert len(workload.files(store)) == 16
    pids = record.read_text().splitlines()
    # The two, and the one that took the dead one's place; the shard in flight was begun again.
    assert len(set(pids)) >= 2
    assert len(pids) > 16
