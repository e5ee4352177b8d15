"""Engines with decompositions of many matrices, each in a process that ends where it would hang.

`python tests/watchdog.py` runs all of them at users' sizes, for the better part of an hour on two
cores, and prints a line each; `--small` runs the sizes of the test in CI. A process that uses no
processor time for half a minute waits for itself: docs/known_faults.md. Each has two processor
cores, where there are more too: on more the same fault needs larger programs. Run it when jaxlib
has a new version.
"""

import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxdp

IDLE_SECONDS = 30


def _watch(idle_seconds):
    """End this process where it has used no processor time for so long."""
    last, idle = time.process_time(), 0
    while idle < idle_seconds:
        time.sleep(1)
        used = time.process_time()
        idle = 0 if used - last > 0.02 else idle + 1
        last = used
    os._exit(3)


def _features(num_train, num_test, classes, dim=20):
    draw, count = np.random.default_rng(0), num_train + num_test
    labels = draw.integers(0, classes, count)
    inputs = draw.normal(size=(count, dim)) / dim**0.5
    parts = inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:]
    return jaxdp.FixedFeatures.from_arrays(*parts, loss=jaxdp.losses.Softmax(classes))


def _everyday(count, rate=0.5):
    sampler = jaxdp.privacy.ShuffledEpochs(count, count)
    given = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 5, "sampler": sampler}
    return jaxdp.PrivateOptimiser(optax.sgd, learning_rate=rate, **given)


def _softmax_risk(num_train, num_test, classes):
    """The risk as a function of the learning rate."""
    problem = _features(num_train, num_test, classes)

    def risk(rate):
        return jaxdp.predict(problem, _everyday(num_train, rate=rate), records=2).final_risk

    return risk


def softmax(*sizes):
    return _softmax_risk(*sizes)(0.5)


def softmax_of_many_rates(*sizes):
    return jax.jit(jax.vmap(_softmax_risk(*sizes)))(jnp.asarray([0.1, 0.3, 0.5]))


def softmax_slopes(*sizes):
    return jax.jvp(_softmax_risk(*sizes), (jnp.float32(0.5),), (jnp.float32(1),))


def softmax_of_two_problems_in_one_program(num_train, num_test, classes):
    problem = _features(num_train, num_test, classes)
    algorithm = _everyday(num_train)

    @jax.jit
    def both(problem, scale):
        algorithms = algorithm.replace(clip_norm=scale), algorithm.replace(clip_norm=2 * scale)
        return [jaxdp.predict(problem, one, records=2).final_risk for one in algorithms]

    return both(problem, jnp.float32(1))


def problems_side_by_side(num_train, count):
    def risk(key):
        problem = jaxdp.RandomFeatures.sample(num_train, num_train, 10, 2 * num_train, key=key)
        return jaxdp.predict(problem, jaxdp.DPGD(1e-4, 1.0, 20, 1.0), records=2).final_risk

    return jax.jit(jax.vmap(risk))(jax.random.split(jax.random.key(0), count))


def correlated_noise(num_steps, count):
    problem = jaxdp.LinearRegression.isotropic(dim=50, label_noise=0.3)

    def risk(nu):
        strategy = jaxdp.privacy.square_root_strategy(num_steps, nu)
        rates = jnp.full(num_steps, 0.1)
        given = {"batch_size": 50, "strategy": strategy}
        return jaxdp.predict(problem, jaxdp.CorrelatedDPSGD(rates, 1.0, 1.0, **given)).final_risk

    return jax.jit(jax.vmap(risk))(jnp.linspace(0.1, 0.9, count))


SMALL = [
    (softmax, (200, 200, 30)),
    (softmax_of_many_rates, (200, 200, 20)),
    (softmax_slopes, (200, 200, 20)),
    (problems_side_by_side, (30, 40)),
    (correlated_noise, (30, 40)),
]
LARGE = [
    *((softmax, (n, m, k)) for n in (100, 1000, 10_000) for m in (100, 2000) for k in (3, 10, 30)),
    (softmax, (20_000, 20_000, 10)),
    (softmax, (500, 500, 100)),
    *((softmax_of_many_rates, (n, 2000, k)) for n in (300, 2000) for k in (3, 10)),
    (softmax_of_two_problems_in_one_program, (1000, 1000, 10)),
    (softmax_slopes, (1000, 2000, 10)),
    (problems_side_by_side, (200, 100)),
    (correlated_noise, (200, 100)),
]


def verdict(engine, size):
    """Whether an engine at this size ends, in a word or two."""
    command = [sys.executable, __file__, engine.__name__, *map(str, size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {0: "ends", 3: "hangs"}
    return found.get(done.returncode, f"fails: {done.stderr.splitlines()[-1:]}")


def main(arguments):
    if arguments and arguments[0] in globals():
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        idle = float(os.environ.get("WATCHDOG_IDLE_SECONDS", IDLE_SECONDS))
        threading.Thread(target=_watch, args=(idle,), daemon=True).start()
        size = [float(part) if "." in part else int(part) for part in arguments[1:]]
        jax.block_until_ready(globals()[arguments[0]](*size))
        return 0
    failed = 0
    for engine, size in SMALL if arguments == ["--small"] else LARGE:
        start = time.monotonic()
        found = verdict(engine, size)
        print(f"{engine.__name__}{size}: {found}, {time.monotonic() - start:.0f} s", flush=True)
        failed += found != "ends"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
