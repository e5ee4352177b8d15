"""What the benchmark of the simulators times: each call waits until its work is done."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax

import jaxdp
from jaxdp.core.numerics.counter_normals import key_words, normal_pairs
from jaxdp.simulation.streams.radial_chain import draw


def simulate(simulator, dim: int, num_steps: int, num_runs: int, *, rho: float = 1.0) -> None:
    """Algorithm 1 on isotropic inputs with the square-root schedule."""
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    schedule = jaxdp.Polynomial(3.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=num_runs, simulator=simulator)
    jax.block_until_ready(runs.final_risk)


def normals_alone(numbers: int, num_steps: int, num_runs: int) -> None:
    """So many normals a step from `jax.random`, added up."""
    keys = jr.split(jr.key(0), num_runs)
    jax.block_until_ready(_normals_alone(keys, numbers, num_steps))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normals_alone(keys, numbers: int, num_steps: int):
    """In chunks of about half a million; a key for each step and half of its numbers."""
    chunk = max(1, min(num_steps, 1_000_000 // (numbers * len(keys))))
    halves = (numbers // 2, numbers - numbers // 2)

    def one_run(key):
        def add(total, index):
            steps = index * chunk + jnp.arange(chunk)
            for purpose, count in enumerate(halves):
                total += _normals(jr.fold_in(key, purpose), steps, count).sum()
            return total, None

        return lax.scan(add, 0.0, jnp.arange(num_steps // chunk))[0]

    return jax.vmap(one_run)(keys)


def _normals(key, steps, count: int):
    return jax.vmap(lambda step: jr.normal(jr.fold_in(key, step), (count,)))(steps)


def radial_numbers_alone(dim: int, num_steps: int, num_runs: int) -> None:
    """The normals and chi-squares that `Reduced` draws for one block, added up."""
    keys = jr.split(jr.key(0), 2 * num_runs).reshape(2, num_runs)
    jax.block_until_ready(_radial_numbers_alone(keys, dim, num_steps))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _radial_numbers_alone(keys, dim: int, num_steps: int):
    sampling, noise = (key_words(purpose) for purpose in keys)
    chunk = max(1, min(num_steps, 64, 500_000 // (5 * keys.shape[1])))

    def add(total, index):
        steps = index * chunk + jnp.arange(chunk)
        labels = normal_pairs(sampling, steps[:, None], jnp.asarray(1), jnp.float32)[0]
        total += labels.sum(axis=0)
        for words in (sampling, noise):
            total += draw(words, steps, (dim,), jnp.float32).sum(axis=(0, 1))
        return total, None

    zero = jnp.zeros(keys.shape[1], jnp.complex64)
    return lax.scan(add, zero, jnp.arange(num_steps // chunk))[0]


def numpy_loop(dim: int, num_steps: int, num_runs: int) -> None:
    """AC Algorithm 1 as a NumPy user writes it, all runs in one array, float32 throughout."""
    rng = np.random.default_rng(0)
    root_dim, target = np.float32(dim**0.5), np.full(dim, dim**-0.5, np.float32)
    theta = np.zeros((num_runs, dim), np.float32)
    rates = (3 * np.sqrt(1 - np.arange(1, num_steps + 1) / num_steps) / num_steps).astype(
        np.float32
    )
    for k in range(num_steps):
        x = rng.standard_normal((num_runs, dim), np.float32)
        noise = np.float32(0.3) * rng.standard_normal(num_runs, np.float32)
        residual = np.einsum("rd,rd->r", x, theta - target) - noise
        square = np.einsum("rd,rd->r", x, x)
        clip = np.minimum(1, root_dim / (np.abs(residual) * np.sqrt(square)))
        step = np.minimum(rates[k], 2 / square) * clip * residual
        theta -= step[:, None] * x
        std = np.float32(2 * root_dim * 3 / num_steps**1.5)
        theta += std * rng.standard_normal((num_runs, dim), np.float32)
