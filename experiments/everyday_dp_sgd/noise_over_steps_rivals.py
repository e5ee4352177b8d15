r"""Rivals of a plan's noise: prefix-sum strategies, BISR and Poisson batches, tuned and simulated.

A strategy is a lower triangular matrix C; the noise of the steps is $sC^{-1}\zeta$.

- Prefix sums: the banded Toeplitz C of least mean squared error of all prefix sums, with columns of
  norm 1, on cyclic Poisson batches (BandMF: Choquette-Choo et al. 2023, arXiv 2306.08153,
  Theorem 4). At a share 1 of a group in its batch, the order is fixed.
- BISR: $C^{-1}$ has the first p coefficients of $\sqrt{1-x}$ (Kalinin, McKenna, Upadhyay, Lampert
  2025, arXiv 2505.12128), in a fixed order; C is positive, so that the sensitivity is exact.
- Poisson: independent noise.

A method's settings are those of the least predicted risk: the risk of descent without noise, and
the variances of noise and of batches by the linear recursion around its end.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, Float

from experiments.harness.mnist import Mnist
from jaxdp.privacy import PoissonSampler, calibrated_noise_multiplier

NUM_CLASSES = 10
# Decay to 0 and the last iterate, or a constant rate and the mean of this share of the iterates.
SCHEDULES = ("linear", "constant")
_TAIL = 0.3


class Head(NamedTuple):
    """Features and centred one-hot labels of the private rows and of the test rows."""

    features: Float[Array, "train features"]
    labels: Float[Array, "train classes"]
    test_features: Float[Array, "test features"]
    test_labels: Float[Array, "test classes"]
    least: float

    def excess(self, weights: Float[Array, "runs features classes"]) -> np.ndarray:
        """Test risk of each run, over that of least squares on all rows."""
        wrong = jnp.einsum("np,rpk->rnk", self.test_features, weights) - self.test_labels
        return np.asarray(jnp.mean(jnp.sum(wrong**2, axis=2), axis=1) / 2 - self.least)


def head(mnist: Mnist, num_private: int, num_features: int) -> Head:
    """The first rows are private; principal components and scale are of the other, public rows."""
    public = mnist.train_images[num_private:].astype(np.float64)
    mean = public.mean(axis=0)
    _, axes = np.linalg.eigh((public - mean).T @ (public - mean))
    axes = axes[:, : -num_features - 1 : -1]
    scale = np.sqrt(np.mean(np.sum(((public - mean) @ axes) ** 2, axis=1)))
    train, test = ((images - mean) @ axes / scale for images in (mnist[0], mnist[2]))
    labels, test_labels = (np.eye(NUM_CLASSES)[y] - 1 / NUM_CLASSES for y in (mnist[1], mnist[3]))
    best = np.linalg.lstsq(train, labels, rcond=None)[0]
    least = np.mean(np.sum((test @ best - test_labels) ** 2, axis=1)) / 2
    parts = train[:num_private], labels[:num_private], test, test_labels
    a, b, c, d = (jnp.asarray(part, jnp.float32) for part in parts)
    return Head(a, b, c, d, float(least))


class Run(NamedTuple):
    """Rates and shares of the iterates in what is released, by step, and the clip norm."""

    rates: np.ndarray
    shares: np.ndarray
    clip_norm: float


def run_of(num_steps: int, time: float, schedule: str, clip_norm: float) -> Run:
    """A run whose rates sum to a training time."""
    shape = (num_steps - np.arange(num_steps)) / num_steps if schedule == "linear" else 1.0
    rates = np.ones(num_steps) * shape
    kept = 1 if schedule == "linear" else max(1, round(_TAIL * num_steps))
    shares = (np.arange(num_steps) >= num_steps - kept) / kept
    return Run(time * rates / rates.sum(), shares, clip_norm)


class Method(NamedTuple):
    """Batches and noise: the share q, groups, the inverse strategy, its bands and sensitivity."""

    rate: float
    num_groups: int
    inverse: np.ndarray
    num_bands: int = 1
    sensitivity: float = 1.0

    def multiplier(self, epsilon: float, delta: float, num_records: int) -> float:
        """Standard deviation of the fresh noise over the clip norm; zero-out-one."""
        share, rounds = self.rate * self.num_groups, -(-len(self.inverse) // self.num_groups)
        if self.sensitivity != 1:
            share, rounds = 1.0, 1
        return self.sensitivity * _calibrated(epsilon, delta, num_records, share, rounds)


@functools.cache
def _calibrated(epsilon, delta, num_records, share, rounds) -> float:
    sampler = PoissonSampler(num_records, share)
    return calibrated_noise_multiplier(epsilon, delta, sampler=sampler, num_steps=rounds)


def methods(name: str, rate: float, num_steps: int, sizes: tuple[int, ...]) -> list[Method]:
    """The variants of a method that are tuned over: numbers of bands."""
    batches, identity = round(1 / rate), np.eye(num_steps)
    if name == "Poisson":
        return [Method(rate, 1, identity)]
    if name == "prefix sums":
        return [
            Method(rate, size, np.linalg.inv(prefix_strategy(num_steps, size)), size)
            for size in sizes
            if size <= batches
        ]
    found = []
    for size in sizes:
        root = np.cumprod([1.0, *((k - 1.5) / k for k in range(1, min(size, num_steps)))])
        inverse = scipy.linalg.toeplitz(np.pad(root, (0, num_steps - len(root))), 0 * identity[0])
        sensitivity = fixed_order_sensitivity(inverse, batches)
        found.append(Method(rate, batches, inverse, size, sensitivity))
    return found


def fixed_order_sensitivity(inverse: np.ndarray, num_batches: int) -> float:
    """What a record in every `num_batches`-th step moves C's product by; C must not be negative."""
    strategy = np.linalg.inv(inverse)
    assert strategy.min() > -1e-9
    gram = strategy.T @ strategy
    return max(gram[g::num_batches, g::num_batches].sum() for g in range(num_batches)) ** 0.5


def prefix_strategy(num_steps: int, num_bands: int) -> np.ndarray:
    """The banded Toeplitz strategy for prefix sums, with columns of norm 1."""
    column = prefix_column(num_steps, num_bands)
    column = np.pad(column, (0, num_steps - len(column)))
    matrix = np.tril(scipy.linalg.toeplitz(column))
    return matrix / np.linalg.norm(matrix, axis=0)


@functools.cache
def prefix_column(num_steps: int, num_bands: int) -> np.ndarray:
    """First column of the banded Toeplitz strategy of least mean squared error of prefix sums."""
    num_bands = min(num_bands, num_steps)
    places = np.subtract.outer(np.arange(num_steps), np.arange(num_steps))
    is_band = (places >= 0) & (places < num_bands)
    places, weights = np.where(is_band, places, 0), np.arange(num_steps, 0, -1)

    def cost(column):
        strategy = jnp.where(is_band, column[places], 0)
        sums = jax.scipy.linalg.solve_triangular(strategy, jnp.ones(num_steps), lower=True)
        return jnp.log(jnp.sum(weights * sums**2)) + jnp.log(jnp.sum(column**2))

    # The first coefficients of (1 - x)^(-1/2).
    start = np.cumprod([1.0, *((k - 0.5) / k for k in range(1, num_bands))])
    with jax.enable_x64():
        slope = jax.jit(jax.value_and_grad(cost))
        found = scipy.optimize.minimize(
            lambda column: [np.asarray(part, np.float64) for part in slope(column)],
            start,
            jac=True,
            options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9},
            method="L-BFGS-B",
        )
    return found.x / np.linalg.norm(found.x)


def simulate(
    head: Head, runs: list[Run], method: Method, multiplier: float, *, key
) -> Float[Array, "runs features classes"]:
    """Released weights of runs, whose groups, batches and noise are independent."""
    order, coins, noise = jr.split(key, 3)
    num_steps, share = len(method.inverse), method.rate * method.num_groups
    shape = num_steps, len(runs), head.features.shape[1], head.labels.shape[1]
    clips = jnp.asarray([run.clip_norm for run in runs], jnp.float32)
    added = jnp.zeros(shape)
    if multiplier:
        inverse = jnp.asarray(method.inverse, jnp.float32)
        added = jnp.tensordot(inverse, jr.normal(noise, shape), 1)
        added *= multiplier * clips[:, None, None]
    rows = jnp.arange(len(head.features)) % method.num_groups
    groups = jax.vmap(lambda key: jr.permutation(key, rows), out_axes=1)(jr.split(order, len(runs)))
    rates, shares = (
        np.stack(part, 1) for part in ([r.rates for r in runs], [r.shares for r in runs])
    )
    given = rates, shares, added, np.arange(num_steps) % method.num_groups
    return _descent(head, given, clips, groups, share, method.rate, key=coins)


@jax.jit
def _descent(head: Head, given: Any, clips, groups, share, rate, *, key):
    features, labels = head.features, head.labels
    lengths = jnp.linalg.norm(features, axis=1)[:, None]

    def step(carry, given):
        weights, released = carry
        (rates, shares, added, group), key = given
        wrong = jnp.einsum("np,rpk->nrk", features, weights) - labels[:, None]
        norms = lengths * jnp.linalg.norm(wrong, axis=2)
        is_in = (groups == group) & (jr.uniform(key, groups.shape) < share)
        factors = jnp.where(is_in, jnp.minimum(1, clips / jnp.maximum(norms, 1e-12)), 0)
        total = jnp.einsum("np,nrk->rpk", features, factors[..., None] * wrong) + added
        weights -= rates[:, None, None] * total / (rate * len(features))
        return (weights, released + shares[:, None, None] * weights), None

    start = jnp.zeros(given[2].shape[1:])
    given = jax.tree.map(jnp.asarray, given), jr.split(key, len(given[0]))
    return jax.lax.scan(step, (start, start), given)[0][1]


class Linear(NamedTuple):
    """The linear recursion around the end of a run without noise.

    Attributes:
        bias: excess risk of that run.
        responses: change of the released weights by what is added to the mean gradient of a step,
            times the root of the risk's curvature, for each mode and step.
        squares: mean square of a clipped gradient along each mode.
    """

    run: Run
    bias: float
    responses: np.ndarray
    squares: np.ndarray

    def noise(self, method: Method) -> float:
        """Excess risk by noise of standard deviation 1 on the mean gradient."""
        return NUM_CLASSES * float(np.sum((self.responses @ method.inverse) ** 2)) / 2

    def draw(self, method: Method, num_records: int) -> float:
        """Excess risk by the draw of the batches: coins within a group, and the groups."""
        groups = method.num_groups
        within = (1 / method.rate - groups) * np.sum(self.responses**2, axis=1)
        sums = np.stack([self.responses[:, g::groups].sum(axis=1) for g in range(groups)])
        between = groups * sums.var(axis=0) * groups
        return float(self.squares @ (within + between)) / num_records / 2


def linearised(head: Head, runs: list[Run], *, key) -> list[Linear]:
    """Descent without noise on all rows, and the recursions around the ends."""
    whole = Method(1.0, 1, np.eye(len(runs[0].rates)))
    weights = simulate(head, runs, whole, 0.0, key=key)
    bias, weights = head.excess(weights), np.asarray(weights, np.float64)
    rows, labels, tests = (np.asarray(part, np.float64) for part in head[:3])
    lengths, found = np.linalg.norm(rows, axis=1), []
    for run, excess, weight in zip(runs, bias, weights, strict=True):
        wrong = rows @ weight - labels
        sizes = np.linalg.norm(wrong, axis=1)
        factors = np.minimum(1, run.clip_norm / (lengths * sizes))
        # The mean slope of a clipped residual, over the outputs.
        slopes = np.where(factors < 1, factors * (1 - 1 / NUM_CLASSES), 1)
        curvature, modes = np.linalg.eigh((rows * slopes[:, None]).T @ rows / len(rows))
        along = (rows @ modes) ** 2
        responses = (
            _responses(run, curvature) * np.sqrt(np.mean((tests @ modes) ** 2, axis=0))[:, None]
        )
        found.append(
            Linear(run, float(excess), responses, (factors * sizes) ** 2 @ along / len(rows))
        )
    return found


def _responses(run: Run, curvature: np.ndarray) -> np.ndarray:
    """From the last step back: what the release owes to the iterate after each step."""
    found, owed = np.zeros((len(curvature), len(run.rates))), np.zeros_like(curvature)
    for t in range(len(run.rates) - 1, -1, -1):
        owed = owed + run.shares[t]
        found[:, t] = -run.rates[t] * owed
        owed = owed * (1 - run.rates[t] * curvature)
    return found


class Tuned(NamedTuple):
    """The settings of least predicted risk."""

    predicted: float
    run: Run
    method: Method
    multiplier: float
    settings: dict[str, float]


def best_settings(
    head: Head, config: Any, epochs: int, names: tuple[str, ...], *, key
) -> dict[float, dict[str, Tuned]]:
    """For each epsilon and method, the settings of least predicted risk on the grid."""
    found: dict[float, dict[str, Tuned]] = {epsilon: {} for epsilon in config.epsilons}
    count = len(head.features)
    for batches in config.batches:
        num_steps, grid = (
            epochs * batches,
            list(itertools.product(config.times, SCHEDULES, config.clip_norms)),
        )
        runs = [run_of(num_steps, *choice) for choice in grid]
        models = linearised(head, runs, key=key)
        for name in names:
            for method in methods(name, 1 / batches, num_steps, config.bands):
                parts = [(one.bias + one.draw(method, count), one.noise(method)) for one in models]
                base, unit = np.array(parts).T
                for epsilon, best in found.items():
                    multiplier = method.multiplier(epsilon, config.delta, count)
                    clips = np.array([run.clip_norm for run in runs])
                    risks = base + unit * (multiplier * clips * batches / count) ** 2
                    place = int(np.nanargmin(risks))
                    if name in best and best[name].predicted <= risks[place]:
                        continue
                    time, schedule, clip_norm = grid[place]
                    settings = {
                        "batches": batches,
                        "bands": method.num_bands,
                        "time": time,
                        "is_linear": schedule == "linear",
                        "clip_norm": clip_norm,
                        "multiplier": multiplier,
                    }
                    best[name] = Tuned(
                        float(risks[place]), runs[place], method, multiplier, settings
                    )
    return found
