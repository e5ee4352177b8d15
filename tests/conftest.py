"""Holds what is asked of all tests.

Compiled programs are kept from run to run, and their number in a process stays in bounds. Random
numbers are the same in every run, and `--seed-offset` makes them others. `--check-shapes` holds
arrays to jaxdp's annotations.
"""

import importlib.metadata
import os
import pathlib

import pytest

# Two processes run tests on two cores, and the threads of a third library would wait in a busy loop
# for matrices that are too small for them. OpenBLAS reads this when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Hypothesis would import what plugs into it, Trio among others, in every process.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")

# Compilation is most of the time of a quick test, so JAX keeps compiled programs, small ones too,
# for the next run. It runs what it finds there: nobody else may write into the folder.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    programs = pathlib.Path(caches, "jaxdp-tests", "programs")
    programs.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# A process can read what another has half written: JAX says so, and compiles.
os.environ.setdefault("PYTHONWARNINGS", "ignore:Error reading persistent compilation cache entry")
# A process that runs tests for another has the flags from that one.
if "--xla_cpu_parallel_codegen_split_count" not in os.environ.get("XLA_FLAGS", ""):
    # A program in one module, compiled by one thread, takes 5 to 9 % less processor time.
    flags = [os.environ.get("XLA_FLAGS", ""), "--xla_cpu_parallel_codegen_split_count=1"]
    jaxlib = tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2]))
    if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1":
        # They hold for tests marked `long_runs` alone: elsewhere JAX, which optimises nothing then,
        # overrides them. A simulator compiles in a sixth of the time that full optimisation takes,
        # and runs as fast.
        flags += ["--xla_backend_optimization_level=1", "--xla_llvm_disable_expensive_passes=true"]
        # The older of XLA's generators of loops takes half the time. Newer jaxlibs do not have it,
        # and XLA ends a process that names a flag which it does not know.
        if jaxlib < (0, 11):
            flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join(flags)

import equinox as eqx
import hypothesis
import jax
import jax.monitoring
from entropy import KnownEntropy, name_in_file, shift_seeds
from jaxtyping import install_import_hook

# Compiled programs, with the text from which they were made, take a megabyte each. Each also keeps
# about six memory maps, and Linux ends a process that wants more than 65,530.
_MOST_PROGRAMS = 2_000
_compiled: list[str] = []


def _note_program(event, *_, **__):
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_note_program)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadscope` a worker takes a folder at a time.

    Tests of a folder share what is traced and compiled. What lies in no folder is taken by file.
    """
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = pathlib.PurePosixPath(nodeid.partition("::")[0])
            is_in_room = len(file.parts) > 3
            return str(file.parent if is_in_room else file)

    return ByFolder(config, log)


_AT_COLLECTION = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Count the programs that a test file compiles when it is imported."""
    before = len(_compiled)
    report = yield
    if number := len(_compiled) - before:
        collector.config.stash.setdefault(_AT_COLLECTION, {})[collector.nodeid] = number
    return report


@pytest.fixture
def compiled_at_collection(request):
    """Numbers of programs by the test file that compiled them when it was imported."""
    return request.config.stash.get(_AT_COLLECTION, {})


@pytest.fixture(scope="module", autouse=True)
def _bounded_programs():
    """Forget all compiled programs at the end of a file once they have become many."""
    yield
    if len(_compiled) > _MOST_PROGRAMS:
        _compiled.clear()
        # Equinox keeps traces, and with them programs that JAX has forgotten.
        eqx.clear_caches()
        jax.clear_caches()


@pytest.fixture
def callers_line(request):
    """For tests that look at whose line a warning names."""
    if request.config.getoption("check_shapes"):
        pytest.skip("--check-shapes puts frames of its own between a call and its warning")


# What is private has to be so in the arithmetic of the programs that users run.
_TESTS = pathlib.Path(__file__).parent
_PRIVATE = [_TESTS / "unit" / room for room in ("clipping", "privacy", "kernels/release")]
_QUICK = (_TESTS / "unit", _TESTS / "agreement")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the quick tests and those of privacy; skip tests that need programs of users.

    The slow tests of privacy need programs that are compiled as users' are. The quick ones run on
    both kinds.
    """
    for item in items:
        is_long = item.get_closest_marker("slow") or item.get_closest_marker("nightly")
        if any(map(item.path.is_relative_to, _PRIVATE)):
            item.add_marker("optimised" if is_long else "private")
        if not is_long and any(map(item.path.is_relative_to, _QUICK)):
            item.add_marker("quick")
    if not jax.config.read("jax_disable_most_optimizations"):
        return
    reason = "looks at programs that are compiled as users' are: run it by `make check`"
    for item in items:
        if item.get_closest_marker("optimised"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Optimise, where programs are compiled cheaply, those that run longer than they compile."""
    name = "jax_disable_most_optimizations"
    if not (jax.config.read(name) and item.get_closest_marker("long_runs")):
        return (yield)
    # Processes that the test starts read the environment.
    jax.config.update(name, False)
    os.environ[name.upper()] = "0"
    try:
        return (yield)
    finally:
        jax.config.update(name, True)
        os.environ[name.upper()] = "1"


_ENTROPY = pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--seed-offset", type=int, default=0, help="run random tests by other seeds")
    parser.addoption(
        "--check-shapes", action="store_true", help="check arrays against jaxdp's annotations"
    )


def pytest_configure(config):
    if config.getoption("check_shapes"):
        install_import_hook("jaxdp", "shapes.checked")
    offset = config.getoption("seed_offset")
    shift_seeds(offset)
    # To compile takes longer than any deadline, and the examples are the same in every run.
    hypothesis.settings.register_profile("tests", deadline=None, derandomize=not offset)
    hypothesis.settings.load_profile("tests")
    config.stash[_ENTROPY] = KnownEntropy(offset)
    config.stash[_ENTROPY].install()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """A fixture's bits do not depend on the test that asks for it first."""
    name = f"{name_in_file(request.node.nodeid)}, fixture {fixturedef.argname}"
    with request.config.stash[_ENTROPY].stream(name):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test's bits are its own, or the operating system's where it is marked so."""
    name = None if item.get_closest_marker("entropy") else name_in_file(item.nodeid)
    with item.config.stash[_ENTROPY].stream(name):
        return (yield)
