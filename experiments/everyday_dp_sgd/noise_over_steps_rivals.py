r"""Rivals of a plan's noise: prefix-sum strategies, BISR and Poisson batches, tuned and simulated.

A strategy is a lower triangular matrix C; the noise of the steps is $sC^{-1}\zeta$.

- Prefix sums: the banded Toeplitz C of least mean squared error of all prefix sums, with columns of
  norm 1, on cyclic Poisson batches (BandMF: Choquette-Choo et al. 2023, arXiv 2306.08153, Theorem
  4). If a batch has all of its group, this is a fixed order.
- BISR: $C^{-1}$ has the first p coefficients of $\sqrt{1-x}$ (Kalinin, McKenna, Upadhyay, Lampert
  2025, arXiv 2505.12128), in a fixed order; C is positive, so that the sensitivity is exact.
- Poisson: the first with one band, which is independent noise.
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

import jaxdp
from experiments.everyday_dp_sgd.one_hot_squared import OneHotSquared
from experiments.harness.mnist import Mnist
from jaxdp.privacy import PoissonSampler, calibrated_noise_multiplier

NUM_CLASSES = 10
# The constant rate goes with the mean of this share of the iterates, the falling one with the last.
_TAIL = 0.3


def problem_of(mnist: Mnist, num_private: int, count: int) -> tuple[jaxdp.FixedFeatures, float]:
    """The problem and the least test risk of a linear model that was fitted to all rows.

    The first rows are private. Principal components and their scale are of the other rows.
    """
    public = mnist.train_images[num_private:].astype(np.float64)
    mean = public.mean(axis=0)
    axes = np.linalg.eigh((public - mean).T @ (public - mean))[1][:, : -count - 1 : -1]
    scale = np.sqrt(np.mean(np.sum(((public - mean) @ axes) ** 2, axis=1)))
    train, test = ((images - mean) @ axes / scale for images in (mnist[0], mnist[2]))
    best = np.linalg.lstsq(train, targets(mnist.train_labels), rcond=None)[0]
    problem = jaxdp.FixedFeatures.from_arrays(
        train[:num_private].astype(np.float32),
        mnist.train_labels[:num_private],
        test.astype(np.float32),
        mnist.test_labels,
        loss=OneHotSquared(NUM_CLASSES),
    )
    return problem, np.sum((test @ best - targets(mnist.test_labels)) ** 2) / len(test) / 2


def targets(labels: Any) -> np.ndarray:
    """Centred unit vectors."""
    return np.eye(NUM_CLASSES)[np.asarray(labels, int)] - 1 / NUM_CLASSES


class Run(NamedTuple):
    """Rates and shares of the iterates in what is released, by step, and the clip norm."""

    rates: np.ndarray
    shares: np.ndarray
    clip_norm: float


def run_of(num_steps: int, total: float, is_falling: bool, clip_norm: float) -> Run:
    """A run whose rates have this sum, and fall to 0 or are constant."""
    steps = np.arange(num_steps)
    rates = num_steps - steps if is_falling else np.ones(num_steps)
    kept = 1 if is_falling else max(1, round(_TAIL * num_steps))
    return Run(total * rates / rates.sum(), (steps >= num_steps - kept) / kept, clip_norm)


class Method(NamedTuple):
    """Groups of the batches, the inverse strategy, and what a record moves a product with C by.

    The sensitivity is 1 if groups are charged as Poisson batches.
    """

    num_batches: int
    num_groups: int
    inverse: np.ndarray
    sensitivity: float = 1.0

    def multiplier(self, epsilon: float, delta: float, num_records: int) -> float:
        """Standard deviation of the fresh noise over the clip norm; zero-out-one."""
        rounds = -(-len(self.inverse) // self.num_groups) if self.sensitivity == 1 else 1
        share = self.num_groups / self.num_batches
        return self.sensitivity * _multiplier(epsilon, delta, num_records, share, rounds)


@functools.cache
def _multiplier(epsilon, delta, num_records, share, rounds):
    sampler = PoissonSampler(num_records, share)
    return calibrated_noise_multiplier(epsilon, delta, sampler=sampler, num_steps=rounds)


def method_of(name: str, num_steps: int, num_batches: int, num_bands: int) -> Method:
    """A method with this number of bands, in C or, for BISR, in its inverse."""
    if name != "BISR":
        strategy = toeplitz(prefix_column(num_steps, num_bands), num_steps)
        inverse = np.linalg.inv(strategy / np.linalg.norm(strategy, axis=0))
        return Method(num_batches, num_bands, inverse)
    root = np.cumprod([1.0, *((k - 1.5) / k for k in range(1, num_bands))])
    inverse = toeplitz(root, num_steps)
    strategy = np.linalg.inv(inverse)
    gram = strategy.T @ strategy
    classes = [gram[g::num_batches, g::num_batches].sum() for g in range(num_batches)]
    return Method(num_batches, num_batches, inverse, max(classes) ** 0.5)


def toeplitz(column: np.ndarray, num_steps: int) -> np.ndarray:
    """The lower triangular Toeplitz matrix of a first column."""
    return np.tril(scipy.linalg.toeplitz(np.pad(column, (0, num_steps))[:num_steps]))


@functools.cache
def prefix_column(num_steps: int, num_bands: int) -> np.ndarray:
    """First column of the banded Toeplitz strategy of least mean squared error of prefix sums."""
    lags = np.subtract.outer(np.arange(num_steps), np.arange(num_steps))
    is_band = (lags >= 0) & (lags < num_bands)

    def cost(column):
        strategy = jnp.where(is_band, column[np.where(is_band, lags, 0)], 0)
        sums = jax.scipy.linalg.solve_triangular(strategy, jnp.ones(num_steps), lower=True)
        return jnp.log(jnp.arange(num_steps, 0, -1) @ sums**2) + jnp.log(jnp.sum(column**2))

    # The first coefficients of (1 - x)^(-1/2).
    start = np.cumprod([1.0, *((k - 0.5) / k for k in range(1, num_bands))])
    with jax.enable_x64():
        slope = jax.jit(jax.value_and_grad(cost))
        found = scipy.optimize.minimize(
            lambda column: [np.asarray(part) for part in slope(column)],
            start,
            jac=True,
            options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9},
            method="L-BFGS-B",
        )
    return found.x / np.linalg.norm(found.x)


def simulate(
    problem: jaxdp.FixedFeatures, runs: list[Run], method: Method, multiplier: float, *, key
) -> tuple[Float[Array, "runs features classes"], np.ndarray]:
    """Released weights and test risks of runs with independent groups, batches and noise."""
    order, coins, noise = jr.split(key, 3)
    shape = len(method.inverse), len(runs), problem.num_features, NUM_CLASSES
    rates, shares = (np.stack(part, 1) for part in zip(*[one[:2] for one in runs], strict=True))
    clips = np.array([one.clip_norm for one in runs], np.float32)
    inverse = jnp.asarray(multiplier * method.inverse, jnp.float32)
    added = jnp.tensordot(inverse, jr.normal(noise, shape), 1) * clips[:, None, None]
    rows = jnp.arange(problem.num_train) % method.num_groups
    groups = jax.vmap(lambda key: jr.permutation(key, rows), out_axes=1)(jr.split(order, len(runs)))
    given = rates, shares, added, np.arange(len(rates)) % method.num_groups
    sizes = method.num_groups / method.num_batches, problem.num_train / method.num_batches
    labels = targets(problem.train_labels).astype(np.float32)
    weights = _descent(problem.train_inputs, labels, given, clips, groups, *sizes, key=coins)
    test_labels = targets(problem.test_labels)[:, None]
    wrong = np.tensordot(problem.test_inputs, weights, (1, 1)) - test_labels
    return weights, np.mean(np.sum(wrong**2, axis=2), axis=0) / 2


@jax.jit
def _descent(features, labels, given, clips, groups, share, expected_size, *, key):
    lengths = jnp.linalg.norm(features, axis=1)[:, None]

    def step(carry, given):
        (weights, released), ((rates, shares, added, group), key) = carry, given
        wrong = jnp.einsum("np,rpk->nrk", features, weights) - labels[:, None]
        norms = lengths * jnp.linalg.norm(wrong, axis=2)
        is_in = (groups == group) & (jr.uniform(key, groups.shape) < share)
        factors = jnp.where(is_in, jnp.minimum(1, clips / jnp.maximum(norms, 1e-12)), 0)
        total = jnp.einsum("np,nrk->rpk", features, factors[..., None] * wrong) + added
        weights -= rates[:, None, None] * total / expected_size
        return (weights, released + shares[:, None, None] * weights), None

    start = jnp.zeros(given[2].shape[1:])
    given = jax.tree.map(jnp.asarray, given), jr.split(key, len(given[0]))
    return jax.lax.scan(step, (start, start), given)[0][1]


class Linear(NamedTuple):
    """The linear recursion around the end of a run without noise.

    Attributes:
        risk: test risk of that run.
        responses: change of the release by what is added to the mean gradient of each step, times
            the root of the risk's curvature, for each mode.
        squares: mean square of a clipped gradient along each mode.
    """

    risk: float
    responses: np.ndarray
    squares: np.ndarray

    def noise(self, method: Method) -> float:
        """The risk that noise of standard deviation 1 on the mean gradient adds."""
        return NUM_CLASSES * np.sum((self.responses @ method.inverse) ** 2) / 2

    def draw(self, method: Method, num_records: int) -> float:
        """The risk that batches add: coins within a group, and differences between groups."""
        groups = method.num_groups
        within = (method.num_batches - groups) * np.sum(self.responses**2, axis=1)
        sums = [self.responses[:, group::groups].sum(axis=1) for group in range(groups)]
        between = groups**2 * np.var(sums, axis=0)
        return self.squares @ (within + between) / num_records / 2


def linearised(problem: jaxdp.FixedFeatures, runs: list[Run], *, key) -> list[Linear]:
    """Descent on all rows without noise, and the recursion around its end, for each run."""
    whole = Method(1, 1, np.eye(len(runs[0].rates)))
    weights, risks = simulate(problem, runs, whole, 0.0, key=key)
    rows, tests = (np.asarray(x, np.float64) for x in (problem.train_inputs, problem.test_inputs))
    labels, found = targets(problem.train_labels), []
    for run, risk, weight in zip(runs, risks, np.asarray(weights, np.float64), strict=True):
        wrong = np.linalg.norm(rows @ weight - labels, axis=1)
        factors = np.minimum(1, run.clip_norm / (np.linalg.norm(rows, axis=1) * wrong))
        # The slope of a clipped residual in its prediction, mean over the outputs.
        slopes = np.where(factors < 1, factors * (1 - 1 / NUM_CLASSES), 1)
        curvature, modes = np.linalg.eigh((rows * slopes[:, None]).T @ rows / len(rows))
        responses, owed = np.zeros((len(curvature), len(run.rates))), 0.0
        for step in reversed(range(len(run.rates))):
            owed = owed + run.shares[step]
            responses[:, step] = -run.rates[step] * owed
            owed = owed * (1 - run.rates[step] * curvature)
        responses *= np.sqrt(np.mean((tests @ modes) ** 2, axis=0))[:, None]
        squares = (factors * wrong) ** 2 @ (rows @ modes) ** 2 / len(rows)
        found.append(Linear(float(risk), responses, squares))
    return found


class Tuned(NamedTuple):
    """The settings of least predicted risk."""

    predicted: float
    run: Run
    method: Method
    settings: dict[str, Any]


def tuned(problem: jaxdp.FixedFeatures, config: Any, epochs: int, names: Any, *, key) -> dict:
    """The settings of least predicted risk on the grid, by epsilon and name of the method."""
    best: dict[tuple[float, str], Tuned] = {}
    count, tried = problem.num_train, (config.total_rates, config.falling, config.clip_norms)
    for batches in config.batches_of(epochs):
        grid = list(itertools.product(*tried))
        runs = [run_of(epochs * batches, *each) for each in grid]
        models = linearised(problem, runs, key=key)
        for name, bands in itertools.product(names, (1, *config.bands)):
            if (bands == 1) != (name == "Poisson") or (name != "BISR" and bands > batches):
                continue
            method = method_of(name, epochs * batches, batches, bands)
            base = np.array([one.risk + one.draw(method, count) for one in models])
            scale = np.array([run.clip_norm for run in runs]) * batches / count
            noise = np.array([one.noise(method) for one in models]) * scale**2
            for epsilon in config.epsilons:
                multiplier = method.multiplier(epsilon, config.delta, count)
                risks = base + multiplier**2 * noise
                place = int(np.nanargmin(risks))
                names_of = "total_rate", "is_falling", "clip_norm", "batches", "bands", "multiplier"
                values = *grid[place], batches, bands, multiplier
                settings: Any = dict(zip(names_of, values, strict=True))
                one = Tuned(float(risks[place]), runs[place], method, settings)
                if (epsilon, name) not in best or one.predicted < best[epsilon, name].predicted:
                    best[epsilon, name] = one
    return best
