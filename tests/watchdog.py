"""Every engine at users' sizes, each in a process of its own that ends where it would hang.

`python tests/watchdog.py` runs all of them, for about an hour on two cores, and prints a line each;
`--small` runs the sizes of the test in CI. A process that uses no processor time for half a minute
waits for itself: docs/known_faults.md. Each has two processor cores, where there are more too: on
more the same fault needs larger programs. Run it when jaxlib has a new version.
"""

import functools
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


def _rows(count, classes, dim=20):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, classes, count) if classes > 2 else draw.choice([-1.0, 1.0], count)
    return draw.normal(size=(count, dim)) / dim**0.5, labels


def _features(num_train, num_test, classes, loss=None):
    inputs, labels = _rows(num_train + num_test, classes)
    parts = inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:]
    return jaxdp.FixedFeatures.from_arrays(*parts, loss=loss or jaxdp.losses.Softmax(classes))


def _everyday(count, optimiser=optax.sgd, rate=0.5, num_steps=5):
    sampler = jaxdp.privacy.ShuffledEpochs(count, count)
    given = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": num_steps, "sampler": sampler}
    return jaxdp.PrivateOptimiser(optimiser, learning_rate=rate, **given)


def softmax(num_train, num_test, classes):
    problem = _features(num_train, num_test, classes)
    return jaxdp.predict(problem, _everyday(num_train), records=2).final_risk


def softmax_of_many_rates(num_train, num_test, classes):
    problem = _features(num_train, num_test, classes)

    def risk(rate):
        return jaxdp.predict(problem, _everyday(num_train, rate=rate), records=2).final_risk

    return jax.jit(jax.vmap(risk))(jnp.asarray([0.1, 0.3, 0.5]))


def softmax_of_two_problems_in_one_program(num_train, num_test, classes):
    problem = _features(num_train, num_test, classes)
    algorithm = _everyday(num_train)

    @jax.jit
    def both(problem, scale):
        algorithms = algorithm.replace(clip_norm=scale), algorithm.replace(clip_norm=2 * scale)
        return [jaxdp.predict(problem, one, records=2).final_risk for one in algorithms]

    return both(problem, jnp.float32(1))


def softmax_slopes(num_train, num_test, classes):
    problem = _features(num_train, num_test, classes)

    def risk(rate):
        return jaxdp.predict(problem, _everyday(num_train, rate=rate), records=2).final_risk

    return jax.jvp(risk, (jnp.float32(0.5),), (jnp.float32(1),))


def logistic(num_train, num_test, momentum):
    problem = _features(num_train, num_test, 2, jaxdp.losses.Logistic())
    optimiser = functools.partial(optax.sgd, momentum=momentum)
    return jaxdp.predict(problem, _everyday(num_train, optimiser)).final_risk


def adam(num_train, num_test):
    problem = _features(num_train, num_test, 2, jaxdp.losses.Squared())
    return jaxdp.predict(problem, _everyday(num_train, optax.adam, 0.01)).final_risk


def random_features(num_train, num_features):
    problem = jaxdp.RandomFeatures.sample(
        num_train, num_train, 50, num_features, key=jax.random.key(0)
    )
    algorithm = jaxdp.DPGD(1e-4, 1.0, 20, 1.0)
    theories = None, jaxdp.OrnsteinUhlenbeck(), jaxdp.UnclippedRecursion()
    found = [jaxdp.predict(problem, algorithm, theory=theory).final_risk for theory in theories]
    return found, jaxdp.simulate(problem, algorithm, num_runs=8, key=jax.random.key(1)).final_risk


def problems_side_by_side(num_train, count):
    def risk(key):
        problem = jaxdp.RandomFeatures.sample(num_train, num_train, 10, 2 * num_train, key=key)
        return jaxdp.predict(problem, jaxdp.DPGD(1e-4, 1.0, 20, 1.0), records=2).final_risk

    return jax.jit(jax.vmap(risk))(jax.random.split(jax.random.key(0), count))


def table(count, dim):
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(count, dim))
    labels = inputs @ draw.normal(size=dim) + draw.normal(size=count)
    problem = jaxdp.TabularRegression(inputs, labels)
    rate = jaxdp.Polynomial(1.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(rate, clip_scale=1.0, rho=1.0, num_steps=problem.num_steps)
    simulated = jaxdp.simulate(problem, algorithm, num_runs=16, key=jax.random.key(0))
    return simulated.final_risk, jaxdp.predict(problem.surrogate, algorithm).final_risk


def stream(dim, num_steps):
    problem = jaxdp.LinearRegression.power_law(dim, condition_number=100.0, label_noise=0.3)
    rate = jaxdp.Polynomial(1.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(rate, clip_scale=1.0, rho=1.0, num_steps=num_steps)
    simulators = jaxdp.Iterates(), jaxdp.HomogenizedSDE()
    keys = {"num_runs": 4, "key": jax.random.key(0)}
    found = [jaxdp.simulate(problem, algorithm, simulator=one, **keys) for one in simulators]
    theories = jaxdp.CoupledODE(), jaxdp.Fluctuations(), jaxdp.DiscreteRecursion()
    predicted = [jaxdp.predict(problem, algorithm, theory=theory) for theory in theories]
    return [one.final_risk for one in found + predicted]


def correlated_noise(num_steps, count):
    problem = jaxdp.LinearRegression.isotropic(dim=50, label_noise=0.3)

    def risk(nu):
        strategy = jaxdp.privacy.square_root_strategy(num_steps, nu)
        rates = jnp.full(num_steps, 0.1)
        given = {"batch_size": 50, "strategy": strategy}
        return jaxdp.predict(problem, jaxdp.CorrelatedDPSGD(rates, 1.0, 1.0, **given)).final_risk

    return jax.jit(jax.vmap(risk))(jnp.linspace(0.1, 0.9, count))


def reconstruction(count, dim):
    weights = jax.random.normal(jax.random.key(0), (20 * count * dim, dim))
    rows = jax.random.normal(jax.random.key(1), (count, dim))
    rows = rows / jnp.linalg.norm(rows, axis=1, keepdims=True) * dim**0.5
    features = jnp.tanh(rows @ weights.T)
    parameters = features.T @ jnp.ones(count)
    target = jaxdp.attacks.RandomFeaturesTarget(weights, jnp.tanh, parameters)
    return jaxdp.attacks.reconstruct(target, count, key=jax.random.key(2), max_passes=50).loss


def kernel_release(count, dim):
    kernels = jaxdp.kernels
    inputs, labels = _rows(count, 2, dim)
    given = {"kernel": kernels.Gaussian(1.0), "num_projections": 50, "num_features": 256}
    learner = kernels.PrivateKernelRidge(**given, label_bound=1.0)
    budget = {"epsilon": 1.0, "delta": 1e-6, "public_seed": 0, "noise_seed": 2**200}
    release = learner.fit(inputs, labels, **budget)
    gaussian = kernels.Gaussian(1.0)
    orthogonal = kernels.OrthogonalFeatures.sample(
        gaussian, 8 * dim, dim=dim, key=jax.random.key(0)
    )
    return release(inputs[:100]), orthogonal(inputs[:100])


def clipped_sums(batch, width):
    import equinox as eqx

    model = eqx.nn.MLP(20, 3, width, 2, key=jax.random.key(0))
    inputs, labels = _rows(batch, 3)

    def loss(model, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y)

    return jaxdp.clipped_gradient_sum(loss, model, inputs, labels, clip_norm=1.0)[1]


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
    *((logistic, (n, 2000, 0.9)) for n in (100, 2000, 20_000)),
    *((adam, (n, 2000)) for n in (100, 5000)),
    *((random_features, (n, p)) for n in (100, 2000) for p in (200, 4000)),
    (problems_side_by_side, (200, 100)),
    *((table, (n, d)) for n, d in ((1000, 20), (20_000, 100))),
    (stream, (100, 1000)),
    (stream, (1000, 10_000)),
    (correlated_noise, (200, 100)),
    *((reconstruction, (n, d)) for n, d in ((3, 10), (10, 30))),
    (kernel_release, (5000, 40)),
    (clipped_sums, (512, 500)),
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
