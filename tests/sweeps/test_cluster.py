"""One sweep by several threads, processes and machines: the same result, though workers die."""

import concurrent.futures
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import jax
import numpy as np
import pytest
from sweeps import workload

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


class Job:
    """What submitit gives: no future of Python's, but a job that can be asked."""

    def __init__(self, call):
        self._call, self._asked = call, 0

    def done(self):
        self._asked += 1
        return self._asked > 2

    def result(self):
        return self._call()


class Promise:
    """The least that an executor may give."""

    def __init__(self, call):
        self.result = call


class Executor:
    """Computes a task when its result is asked for; some tasks fail, some are not taken."""

    def __init__(self, kind, failing=(), refused=()):
        self.kind, self.failing, self.refused, self.submitted = kind, failing, refused, 0

    def submit(self, function, *arguments):
        number = self.submitted
        self.submitted += 1
        if number in self.refused:
            raise RuntimeError("no more tasks")

        def call():
            if number in self.failing:
                raise ArithmeticError("this task fails")
            return function(*arguments)

        return self.kind(call)


@pytest.mark.parametrize("kind", [Job, Promise])
def test_anything_with_submit_and_result_is_an_executor(half, kind):
    assert workload.run(workload.noisy, **ONE, executor=Executor(kind)).identical(half)


def test_threads_that_began_without_x64_compute_in_it():
    if not hasattr(jax, "enable_x64"):
        pytest.skip("this JAX has no jax.enable_x64")
    with concurrent.futures.ThreadPoolExecutor(2) as executor, jax.enable_x64(True):
        here = workload.run(workload.noisy, **ONE)
        there = workload.run(workload.noisy, **ONE, executor=executor)
    assert here["vector"].dtype == there["vector"].dtype == np.float64
    assert there.identical(here)


def test_a_task_that_fails_costs_its_own_shard_alone(tmp_path, half):
    with pytest.raises(ArithmeticError, match="this task fails") as caught:
        workload.run(workload.noisy, tmp_path, **ONE, executor=Executor(Job, failing={3}))
    [note] = caught.value.__notes__
    assert "while cells 15 to 20 of combination 0 were computed by Executor" in note
    kept = workload.files(tmp_path)
    assert len(kept) == 7
    executor = Executor(Job)
    assert workload.run(workload.noisy, tmp_path, **ONE, executor=executor).identical(half)
    assert executor.submitted == 1
    assert workload.files(tmp_path).items() >= kept.items()


def test_an_executor_that_takes_no_more_keeps_what_it_took(tmp_path):
    with pytest.raises(RuntimeError, match="no more tasks"):
        workload.run(workload.noisy, tmp_path, **ONE, executor=Executor(Promise, refused={5}))
    assert len(workload.files(tmp_path)) == 5


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


def _sweep(store, shard_size, connection):
    connection.recv()
    connection.send(workload.values(workload.run(workload.slow, store, shard_size=shard_size)))


def _swept_together(store, sizes):
    """What processes that began together on one store found."""
    pipes, processes = [], []
    for size in sizes:
        ours, theirs = workload.pipe()
        processes.append(workload.start(_sweep, store, size, theirs))
        theirs.close()
        pipes.append(ours)
    for pipe in pipes:
        pipe.send("begin")
    found = [pipe.recv() for pipe in pipes]
    assert [workload.end(process) for process in processes] == [0] * len(sizes)
    return found


@pytest.mark.slow
def test_processes_on_one_store_share_the_work(tmp_path, monkeypatch):
    record, store = tmp_path / "record", tmp_path / "store"
    alone = workload.values(workload.run(workload.noisy, shard_size=2))
    # Long beside what a busy machine keeps a process waiting.
    monkeypatch.setenv(workload.PAUSE, "0.2")
    monkeypatch.setenv(workload.RECORD, str(record))
    for found in _swept_together(store, (2, 3, 4)):
        for name, expected in alone.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-6)
    # Alone the first would compute 40. Twice are those that two processes begin at one time.
    assert workload.lines(record) < 1.5 * 40
    assert sorted(store.glob(".*")) == []
    again = workload.run(workload.slow, store)
    np.testing.assert_allclose(again["vector"], alone["vector"], rtol=1e-6)


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
def test_a_broken_pool_keeps_what_was_finished(tmp_path, whole, monkeypatch):
    record, store = _pause_long(monkeypatch, tmp_path), tmp_path / "store"
    killer = threading.Thread(target=_kill_a_worker, args=(record, 6))
    killer.start()
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor,
        pytest.raises(BrokenProcessPool) as caught,
    ):
        workload.run(workload.slow, store, executor=executor)
    killer.join()
    assert "computed by ProcessPoolExecutor" in caught.value.__notes__[0]
    kept = workload.files(store)
    assert 4 <= len(kept) < 16
    monkeypatch.setenv(workload.PAUSE, "0")
    _assert_same(workload.run(workload.slow, store), whole)
    assert workload.files(store).items() >= kept.items()


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


PROCESS_OF_TWO = """
import sys, jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
assert jax.process_count() == 2 and jax.device_count() == 2 * jax.local_device_count()
import numpy as np
from sweeps import workload
np.savez(sys.argv[4], **workload.values(workload.run(workload.slow, sys.argv[3])))
"""


@pytest.mark.slow
def test_processes_of_jax_distributed_share_a_store(tmp_path, whole):
    record, store = tmp_path / "record", tmp_path / "store"
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = workload.environment() | {workload.PAUSE: "0.2", workload.RECORD: str(record)}
    results = [tmp_path / f"{number}.npz" for number in range(2)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS_OF_TWO, address, str(number), str(store), str(result)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, result in enumerate(results)
    ]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    for result in results:
        with np.load(result) as found:
            _assert_same(found, whole)
    assert 16 <= workload.lines(record) < 24
    assert len(set(record.read_text().splitlines())) == 2
