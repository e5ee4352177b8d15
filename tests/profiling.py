"""What each test costs: seconds, processor seconds, and what of them goes into compilation.

`make test-profile` prints the tests that cost most and the totals of each folder. Compilation is
most of the time of a quick test, so a test that shares its compiled functions is a cheap one. To
load a program that an earlier run has compiled counts as compiling.
"""

import collections
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
        start, busy = time.perf_counter(), time.process_time()
        item.user_properties.append(("profile", lambda: self._measured(start, busy)))
        return (yield)

    def _measured(self, start, busy):
        spent = dict(self._spent)
        return spent | {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - busy,
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
        folders = collections.defaultdict(collections.Counter)
        for name, spent in self._reports.items():
            folders[name.split("::")[0].rpartition("/")[0]].update(spent)
        total = collections.Counter()
        for spent in folders.values():
            total.update(spent)
        terminalreporter.section("what the tests cost, dearest first")
        terminalreporter.write_line(" ".join(f"{name:>9}" for name in _COLUMNS))
        dearest = sorted(self._reports.items(), key=lambda pair: -pair[1]["cpu"])[:40]
        by_folder = sorted(folders.items(), key=lambda pair: -pair[1]["cpu"])
        for name, spent in [*dearest, *by_folder, ("all", total)]:
            numbers = " ".join(f"{spent.get(column, 0):9.1f}" for column in _COLUMNS)
            terminalreporter.write_line(f"{numbers}  {name}")
