"""Engines that decompose batches of matrices, each in a process that ends where it would hang.

`python tests/support/watchdog.py` runs them at users' sizes when jaxlib has a new version, on two
cores each. A process without processor time for half a minute hangs: docs/known_faults.md.
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


def _softmax_risk(num_train, num_test, classes):
    """The predicted risk of a softmax head, as a function of the learning rate."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, classes, num_train + num_test)
    inputs = draw.normal(size=(num_train + num_test, 20)) / 20**0.5
    rows = inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:]
    problem = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Softmax(classes))
    sampler = jaxdp.privacy.ShuffledEpochs(num_train, num_train)
    given = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 5, "sampler": sampler}

    def risk(rate):
        algorithm = jaxdp.PrivateOptimiser(optax.sgd, learning_rate=rate, **given)
        return jaxdp.predict(problem, algorithm, records=2).final_risk

    return risk


def softmax(*sizes):
    return _softmax_risk(*sizes)(0.5)


def softmax_of_many_rates(*sizes):
    return jax.jit(jax.vmap(_softmax_risk(*sizes)))(jnp.asarray([0.1, 0.3, 0.5]))


def softmax_slopes(*sizes):
    return jax.jvp(_softmax_risk(*sizes), (jnp.float32(0.5),), (jnp.float32(1),))


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
    *((softmax, (n, 2000, k)) for n in (100, 1000, 10_000) for k in (3, 10, 30)),
    (softmax_of_many_rates, (2000, 2000, 10)),
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
    if arguments:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        idle = float(os.environ.get("WATCHDOG_IDLE_SECONDS", IDLE_SECONDS))
        threading.Thread(target=_watch, args=(idle,), daemon=True).start()
        jax.block_until_ready(globals()[arguments[0]](*map(int, arguments[1:])))
        return 0
    failed = 0
    for engine, size in LARGE:
        start = time.monotonic()
        found = verdict(engine, size)
        print(f"{engine.__name__}{size}: {found}, {time.monotonic() - start:.0f} s", flush=True)
        failed += found != "ends"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
