"""What each test costs: seconds, processor seconds, and what of them goes into compilation.

`make test-profile` prints the tests and the files that cost most and the totals of each folder.
Compilation is most of the time of a quick test, so a test that shares its compiled functions is a
cheap one. To load a program that an earlier run has compiled counts as compiling.
"""

import collections
import itertools
import os
import time

import jax.monitoring
import pytest

_EVENTS = {
    "/jax/core/compile/backend_compile_duration": "compiling",
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
}
_LOADED = "/jax/compilation_cache/cache_hits"
_COLUMNS = ("seconds", "cpu", "compiling", "tracing", "lowering", "programs", "loaded")
# Of tests, of files and of folders.
_SHOWN = 40


def _processor_seconds() -> float:
    """Of this process and of those it has started and waited for."""
    return sum(os.times()[:4])


class Profile:
    """A pytest plugin: measures in the workers, adds up and prints where the run is controlled."""

    def __init__(self):
        self._spent = collections.Counter()
        self._reports = {}
        jax.monitoring.register_event_duration_secs_listener(self._count)
        jax.monitoring.register_event_listener(self._count_loaded)

    def _count(self, event, duration, **_):
        if event in _EVENTS:
            self._spent[_EVENTS[event]] += duration
            self._spent["programs"] += _EVENTS[event] == "compiling"

    def _count_loaded(self, event, **_):
        self._spent["loaded"] += event == _LOADED

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._spent.clear()
        start, busy = time.perf_counter(), _processor_seconds()
        item.user_properties.append(("profile", lambda: self._measured(start, busy)))
        return (yield)

    def _measured(self, start, busy):
        spent = dict(self._spent)
        return spent | {
            "seconds": time.perf_counter() - start,
            "cpu": _processor_seconds() - busy,
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        properties = [pair for pair in report.user_properties if pair[0] != "profile"]
        if call.when == "teardown":
            measure = dict(item.user_properties)["profile"]
            properties.append(("profile", measure()))
        report.user_properties = properties
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self._reports[report.nodeid] = dict(report.user_properties)["profile"]

    def pytest_terminal_summary(self, terminalreporter):
        files = collections.defaultdict(collections.Counter)
        folders = collections.defaultdict(collections.Counter)
        total = collections.Counter()
        for name, spent in self._reports.items():
            file = name.split("::")[0]
            for part in (files[file], folders[file.rpartition("/")[0]], total):
                part.update(spent)
        terminalreporter.section("what the tests cost, dearest first")
        terminalreporter.write_line(" ".join(f"{name:>9}" for name in _COLUMNS))
        dearest = [
            sorted(parts.items(), key=lambda pair: -pair[1]["cpu"])[:_SHOWN]
            for parts in (self._reports, files, folders)
        ]
        for name, spent in [*itertools.chain(*dearest), ("all", total)]:
            numbers = " ".join(f"{spent.get(column, 0):9.1f}" for column in _COLUMNS)
            terminalreporter.write_line(f"{numbers}  {name}")
