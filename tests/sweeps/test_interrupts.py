"""Ctrl-C stops between shards and says how to go on; a second one stops at once."""

import collections
import concurrent.futures
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import pytest
from sweeps import workload


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler of SIGINT, and back to it at the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def _run(function, store=None, executor=None):
    return workload.run(function, store, axes=workload.ONE_PROGRAM, executor=executor)


def _interrupting(monkeypatch, shards, times=1, wait=lambda: None):
    """Make some shards press Ctrl-C, so many times, and all wait from the first of them on."""
    begun = []

    def pause(gains):
        begun.append(time.monotonic())
        if len(begun) in shards:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
        if len(begun) >= min(shards, default=math.inf):
            wait()
        return gains * 0

    monkeypatch.setattr(workload, "pause", pause)
    return begun


def test_ctrl_c_stops_after_the_shard_in_flight_and_says_how_to_go_on(
    tmp_path, monkeypatch, capsys
):
    _interrupting(monkeypatch, {3})
    message = f"15 of 40 cells are done and kept in {tmp_path}: call the sweep again with the same"
    with pytest.raises(KeyboardInterrupt, match=message):
        _run(workload.slow, tmp_path)
    assert len(workload.files(tmp_path)) == 3
    assert "stopping after this shard; Ctrl-C again stops at once" in capsys.readouterr().err
    begun = _interrupting(monkeypatch, set())
    resumed = _run(workload.slow, tmp_path)
    assert len(begun) == 5
    assert resumed.equals(_run(workload.noisy))


def test_without_a_store_ctrl_c_says_what_would_have_kept_the_cells(monkeypatch):
    _interrupting(monkeypatch, {1})
    with pytest.raises(KeyboardInterrupt, match=r"5 of 40 cells .* lost: give a store"):
        _run(workload.slow)


def test_ctrl_c_in_the_last_shard_is_not_swallowed(tmp_path, monkeypatch):
    _interrupting(monkeypatch, {8})
    with pytest.raises(KeyboardInterrupt, match=f"40 cells are done and kept in {tmp_path}"):
        _run(workload.slow, tmp_path)
    assert len(workload.files(tmp_path)) == 8


def test_a_second_ctrl_c_stops_at_once(tmp_path, monkeypatch):
    seconds = 60.0
    begun = _interrupting(monkeypatch, {3}, times=2, wait=lambda: time.sleep(seconds))
    with pytest.raises(KeyboardInterrupt, match="10 of 40 cells are done and kept"):
        _run(workload.slow, tmp_path)
    assert time.monotonic() - begun[-1] < seconds / 2
    assert len(workload.files(tmp_path)) == 2


class _CancelledPool(concurrent.futures.ThreadPoolExecutor):
    """Threads, and the event that the last task handed in was cancelled."""

    def __init__(self, num_threads):
        super().__init__(num_threads)
        self.is_cancelled = threading.Event()
        self._last = None

    def submit(self, *arguments):
        future = self._last = super().submit(*arguments)
        cancel = future.cancel

        def noticed():
            answer = cancel()
            if future is self._last:
                self.is_cancelled.set()
            return answer

        future.cancel = noticed
        return future


def test_with_an_executor_what_has_begun_is_kept_and_the_rest_cancelled(tmp_path, monkeypatch):
    num_threads = 3
    with _CancelledPool(num_threads) as executor:
        # A slow main thread must not let the others begin all that is left.
        begun = _interrupting(monkeypatch, {3}, wait=lambda: executor.is_cancelled.wait(60))
        with pytest.raises(KeyboardInterrupt, match="call the sweep again"):
            _run(workload.slow, tmp_path, executor=executor)
    assert 3 <= len(begun) <= 2 + num_threads
    assert len(workload.files(tmp_path)) == len(begun)


class _Broken(concurrent.futures.Executor):
    """Processes that end by the interrupt that the sweep hears too, or by another fault."""

    def __init__(self, interrupted):
        self._interrupted = interrupted

    def submit(self, *arguments):
        if self._interrupted:
            self._interrupted = False
            os.kill(os.getpid(), signal.SIGINT)
        broken = concurrent.futures.Future()
        broken.set_exception(BrokenProcessPool("a process ended"))
        return broken


# Where no size is given, a pool is asked for it while its processes still import.
@pytest.mark.parametrize("size", [5, None])
@pytest.mark.parametrize("interrupted", [True, False])
def test_processes_that_end_by_ctrl_c_are_not_called_broken(tmp_path, size, interrupted):
    expected, words = BrokenProcessPool, "a process ended"
    if interrupted:
        expected, words = KeyboardInterrupt, "0 of 40 cells are done .* call the sweep again"
    with pytest.raises(expected, match=words) as caught:
        workload.run(
            workload.noisy,
            tmp_path,
            axes=workload.ONE_PROGRAM,
            shard_size=size,
            executor=_Broken(interrupted),
        )
    assert interrupted or 'if __name__ == "__main__":' in caught.value.__notes__[-1]


@pytest.mark.parametrize("where", ["in another thread", "under another handler"])
def test_ctrl_c_is_left_alone_where_it_is_not_pythons_own(where, monkeypatch):
    seen = []

    def pause(gains):
        seen.append(signal.getsignal(signal.SIGINT))
        return gains * 0

    monkeypatch.setattr(workload, "pause", pause)
    if where == "in another thread":
        expected = signal.default_int_handler
        thread = threading.Thread(target=_run, args=(workload.slow,))
        thread.start()
        thread.join()
    else:
        expected = signal.SIG_IGN
        signal.signal(signal.SIGINT, expected)
        _run(workload.slow)
        assert signal.getsignal(signal.SIGINT) is expected
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert seen == [expected] * 8


def test_an_error_leaves_pythons_handler(monkeypatch):
    def pause(gains):
        raise ArithmeticError("this shard fails")

    monkeypatch.setattr(workload, "pause", pause)
    with pytest.raises(Exception, match="this shard fails"):
        _run(workload.slow)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


@pytest.mark.slow
def test_two_ctrl_cs_end_a_process_that_would_compute_for_a_minute(tmp_path):
    record = tmp_path / "record"
    environment = workload.environment() | {workload.PAUSE: "60", workload.RECORD: str(record)}
    program = "import sys; from sweeps import workload; workload.run(workload.slow, sys.argv[1])"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _wait_for(record.exists)
        process.send_signal(signal.SIGINT)
        # Said while the shard is still computed.
        assert process.stderr is not None
        said = iter(process.stderr)
        assert any("stopping after this shard" in line for line in said)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT


def _sweep_in_a_pool(store, connection):
    """A process group of its own, as of a terminal, with two processes more."""
    os.setpgrp()
    # Tests that were started in a shell's background, and all of their processes, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        try:
            workload.run(workload.slow, store, executor=executor)
        except KeyboardInterrupt as error:
            connection.send(str(error))


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_keeps_what_a_pool_of_processes_has_begun(tmp_path, monkeypatch):
    record, store = tmp_path / "record", tmp_path / "store"
    monkeypatch.setenv(workload.RECORD, str(record))
    monkeypatch.setenv(workload.PAUSE, "1")
    ours, theirs = workload.pipe()
    process = workload.start(_sweep_in_a_pool, store, theirs)
    theirs.close()
    # Both processes compute a shard, and for some tenths of a second more: one that is importing or
    # waits for its next shard would be killed by the interrupt.
    begun: dict[str, tuple[int, float]] = {}

    def both_compute():
        now = time.monotonic()
        for name, count in collections.Counter(record.read_text().split()).items():
            if begun.get(name, (0, now))[0] != count:
                begun[name] = count, now
        return len(begun) == 2 and all(now - since < 0.6 for _, since in begun.values())

    _wait_for(lambda: record.exists() and both_compute())
    os.killpg(process.pid, signal.SIGINT)
    assert ours.poll(60)
    assert "call the sweep again with the same arguments to go on" in ours.recv()
    assert workload.end(process) == 0
    # A pool hands its processes a few tasks ahead; of sixteen, the others are cancelled.
    assert 2 <= workload.lines(record) == len(workload.files(store)) < 16
