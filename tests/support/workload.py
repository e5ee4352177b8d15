"""What the tests of stores sweep, here and in processes that are killed."""

import faulthandler
import hashlib
import multiprocessing
import os
import pathlib
import signal
import stat
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import jaxdp

SEED = 3
AXES = {"gain": np.linspace(0.5, 2.0, 10), "power": (1, 2), "shift": np.arange(4)}
ONE_PROGRAM = AXES | {"power": (1,)}
# Two shards.
SMALL = {"gain": np.linspace(0.5, 2.0, 10), "power": (1,), "shift": np.arange(1)}
# Sixteen shards of five cells; half as many of one program.
SHARD_SIZE = 5
# Where slow cells are paused, and the record of them: seconds, and a file.
PAUSE, RECORD = "SWEEP_TEST_PAUSE", "SWEEP_TEST_RECORD"
# Seconds that a process may take.
_LONGEST = 100
_CONTEXT = multiprocessing.get_context("forkserver")


def noisy(key, gain, power, shift):
    """A random vector and a number; the key's own bits are compiled sooner than draws."""
    noise = jr.key_data(key) * 2.0**-32
    return {"vector": gain**power * noise + shift, "number": shift + power}


def slow(key, gain, power, shift):
    """Results of `noisy`; each shard takes a while and leaves a line in the record."""
    nothing = jax.pure_callback(
        pause, jax.ShapeDtypeStruct((), jnp.float32), gain, vmap_method="broadcast_all"
    )
    found = noisy(key, gain, power, shift)
    return found | {"vector": found["vector"] + nothing}


def pause(gains):
    """Called once for each shard while it is computed."""
    if RECORD in os.environ:
        with open(os.environ[RECORD], "a") as record:
            record.write(f"{os.getpid()}\n")
    time.sleep(float(os.environ.get(PAUSE, "0")))
    return np.zeros(np.shape(gains), np.float32)


def run(function, store=None, *, axes=AXES, shard_size=SHARD_SIZE, executor=None, version="tests"):
    return jaxdp.sweep(
        function,
        axes,
        key=jr.key(SEED),
        store=store,
        shard_size=shard_size,
        executor=executor,
        version=version,
        quiet=True,
    )


def values(dataset):
    """A dataset's variables, to be compared bit for bit in another process."""
    return {name: variable.values for name, variable in dataset.data_vars.items()}


def contents(folder):
    """Digests of all files, by name."""
    paths = pathlib.Path(folder).iterdir()
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def files(folder):
    """What would change if a shard's file were written again, by name."""
    stats = {path.name: path.stat() for path in pathlib.Path(folder).glob("shard-*.npz")}
    return {name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}


def lines(record):
    """How many shards were computed, by their record."""
    return len(record.read_text().splitlines()) if record.exists() else 0


def pipe():
    """Two ends, for a process of `start` to say something."""
    return _CONTEXT.Pipe()


def start(target, *arguments):
    """Start a process at once: by a fork of one that has imported JAX and done nothing else."""
    _CONTEXT.set_forkserver_preload(["jax", "jaxdp.sweeps", "xarray"])
    process = _CONTEXT.Process(target=_in_environment, args=(dict(os.environ), target, arguments))
    process.start()
    return process


def end(process):
    """A process's exit code: minus the signal that ended it."""
    process.join(_LONGEST)
    assert process.exitcode is not None, f"still running after {_LONGEST} s"
    return process.exitcode


def _in_environment(environment, target, arguments):
    # One that hangs says where.
    faulthandler.dump_traceback_later(_LONGEST - 10, exit=True)
    # The process that forks has the environment of the first test that needed it.
    os.environ.update(environment)
    target(*arguments)


def run_and_die(store, moment, when):
    """Sweep and be killed when a moment has come so often.

    Moments are "mid-write", with half of a file on the disk; "before-rename" or "after-rename" of a
    file; and "any", while a shard of slow cells is computed.
    """
    fsync, replace, left = os.fsync, os.replace, [when]

    def die_if(is_now):
        left[0] -= is_now
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying_fsync(handle):
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        if moment == "mid-write" and is_file and left[0] == 1:
            os.truncate(handle, os.fstat(handle).st_size // 2)
        die_if(moment == "mid-write" and is_file)
        fsync(handle)

    def dying_replace(source, target):
        die_if(moment == "before-rename")
        replace(source, target)
        die_if(moment == "after-rename")

    def dying_pause(gains):
        die_if(True)
        return paused(gains)

    global pause
    paused = pause
    if moment == "any":
        pause = dying_pause
    else:
        os.fsync, os.replace = dying_fsync, dying_replace
    run(slow, store)
