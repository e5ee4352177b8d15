r"""The informed adversary of private training, who knows all records but one, with their labels.

A step of full-batch gradient descent is Gaussian given the iterate before it: $\theta_t -
\theta_{t-1} + \frac\eta n\sum_{i\ \mathrm{known}} \mathrm{clip}(g_i)$ has the mean $-\frac\eta
n\,\mathrm{clip}(g_x(\theta_{t-1}))$ and the standard deviation s of the noise in every parameter.
So the likelihood of all iterates is exact; up to a constant,

$$ \log p(x, y) = -\frac{1}{2s^2}\sum_t \bigl(2 c_t\,\Delta_t\cdot\varphi(x)
   + c_t^2\,|\varphi(x)|^2\bigr), \qquad c_t = \tfrac\eta n\,\mathrm{clip}(\ell'_t(x, y)). $$

The difference of two records' log-likelihoods is the strongest test of membership (Neyman and
Pearson). If every step clips both, its error rates lie on the curve of $\mu$-GDP, with $\mu$ the
distance of the two gradients in units of the noise; `jaxdp.theory.membership_mu` predicts it, and
`DPGD.mu` is never below it. Source: Balle, Cherubin and Hayes (2022). Derived: test_informed.py
compares the likelihood with the run's own density, test_membership.py the error rates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.attacks.base import require_activation
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import (
    host_array,
    require_count,
    require_finite,
    require_host,
    require_kind,
    require_shape,
)
from jaxdp.core.numerics.precision import product
from jaxdp.losses import Squared
from jaxdp.losses.base import AbstractScalarLoss


class KnownRun(eqx.Module):
    r"""All iterates of a run, minus the steps of the known records.

    `before` holds $\theta_0, \dots, \theta_{T-1}$, `left` the remaining increments.
    """

    weights: Float[Array, "features dim"]
    activation: Callable[[Array], Array] = eqx.field(static=True)
    algorithm: DPGD
    before: Float[Array, "steps features"]
    left: Float[Array, "steps features"]
    num_samples: int = eqx.field(static=True)
    loss: AbstractScalarLoss = eqx.field(default_factory=Squared)

    def log_likelihoods(
        self, row: Float[Array, " dim"], labels: Float[Array, " labels"]
    ) -> Float[Array, " labels"]:
        features = self.activation(product(self.weights, row))
        slopes = self.loss.slope(product(self.before, features)[:, None], labels)
        norms = jnp.broadcast_to(jnp.linalg.norm(features), labels.shape)
        clipped, _ = self.algorithm.clipped_slopes(slopes, norms)
        steps = self.algorithm.learning_rate / self.num_samples * clipped
        std = self.algorithm.noise_std(self.num_samples)
        along = product(self.left / std, features)[:, None]
        moved = steps / std
        return -jnp.sum(moved * along + moved**2 * jnp.sum(features**2) / 2, axis=0)


def known_run(
    iterates, weights, activation, algorithm, known_inputs, known_labels, *, num_samples, loss
) -> KnownRun:
    """A run without its known records, from arguments checked as `without_known_rows` describes."""
    require_kind("algorithm", algorithm, DPGD, "a DPGD")
    require_activation(activation)
    loss = Squared() if loss is None else loss
    expected = "the loss that training used, of one output, such as Squared()"
    require_kind("loss", loss, AbstractScalarLoss, expected)
    num_samples = require_count("num_samples", num_samples)
    names = "iterates", "weights", "known_inputs", "known_labels"
    given = zip((iterates, weights, known_inputs, known_labels), names, strict=True)
    arrays = [as_wide_float(value, name) for value, name in given]
    iterates, weights, inputs, labels = arrays
    require_shape("weights", weights, (None, None))
    require_shape("iterates", iterates, (None, weights.shape[0]))
    require_shape("known_inputs", inputs, (None, weights.shape[1]))
    require_shape("known_labels", labels, (inputs.shape[0],))
    for name, value in zip(names, arrays, strict=True):
        require_finite(name, value)
    if len(iterates) < 2:
        raise ValueError(f"expected two iterates or more, got {len(iterates)}")
    if len(iterates) > 1 + int(algorithm.num_steps):
        raise ValueError(
            f"expected at most {1 + int(algorithm.num_steps)} iterates of {algorithm.num_steps} "
            f"steps, the start among them, got {len(iterates)}"
        )
    if len(inputs) >= num_samples:
        raise ValueError(f"expected fewer known rows than {num_samples}, got {len(inputs)}")
    return less_known(iterates, weights, activation, algorithm, inputs, labels, num_samples, loss)


def less_known(
    iterates, weights, activation, algorithm, inputs, labels, num_samples, loss
) -> KnownRun:
    """A run without its known records, from matching arrays, traced or not."""
    features = activation(product(inputs, weights.T))
    slopes = loss.slope(product(iterates[:-1], features.T), labels[None])
    slopes, _ = algorithm.clipped_slopes(slopes, jnp.linalg.norm(features, axis=1))
    moved = algorithm.learning_rate / num_samples * product(slopes, features)
    left = jnp.diff(iterates, axis=0) + moved
    return KnownRun(weights, activation, algorithm, iterates[:-1], left, num_samples, loss)


def run_without_one(*arguments, num_samples: int, loss: AbstractScalarLoss | None) -> KnownRun:
    require_host("arguments", arguments)
    run = known_run(*arguments, num_samples=num_samples, loss=loss)
    if (known := len(arguments[-1])) != num_samples - 1:
        raise ValueError(f"expected {num_samples - 1} known records, all but one, got {known}")
    if not run.algorithm.noise_std(num_samples) > 0:
        raise ValueError(
            "expected an algorithm that adds noise, got one without: attack the run by "
            "`without_known_rows` and `reconstruct`"
        )
    return run


def without_known_rows(
    iterates: Float[Array, "iterates features"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    algorithm: DPGD,
    known_inputs: Float[Array, "known dim"],
    known_labels: Float[Array, " known"],
    *,
    num_samples: int,
    loss: AbstractScalarLoss | None = None,
) -> RandomFeaturesTarget:
    r"""The target that remains of a run after subtracting the steps of the known records.

    Its parameters are $\sum_t \bigl(\theta_t - \theta_{t-1}\bigr) + \frac{\eta}{n}\sum_{t,i}
    \mathrm{clip}(g_i)$ over the known i: the clipped gradients of the unknown records, and the
    noise. For one unknown record `reconstruct(target, 1, key=key)` finds it; after one clipped step
    that is maximum likelihood. Without labels or earlier iterates, give
    `reconstruct` the `known_inputs`.

    Args:
        iterates: $\theta_0, \dots, \theta_T$ from the start of training on, (T + 1, p).
        weights, activation: V, (p, d), in memory, and phi, elementwise.
        algorithm: the algorithm of the run; its noise is not used.
        known_inputs, known_labels: (m, d) and (m,), m < n.
        num_samples: n, the algorithm's divisor.
        loss: the training loss, of one output; None for `Squared`.

    Returns:
        A target with the remaining increment as parameters.

    Raises:
        ValueError, TypeError: shapes do not match, or all records are known.

    Example:
        >>> import jax, jaxdp, numpy as np
        >>> from jaxdp.attacks import without_known_rows
        >>> algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=1, noise_scale=0.0)
        >>> known = jax.nn.relu, algorithm, np.ones((1, 3)), np.ones(1)
        >>> without_known_rows(np.eye(2, 40), np.ones((40, 3)), *known, num_samples=2).num_features
        40
    """
    given = iterates, weights, activation, algorithm, known_inputs, known_labels
    run = known_run(*given, num_samples=num_samples, loss=loss)
    return RandomFeaturesTarget(run.weights, activation, jnp.sum(run.left, axis=0))


class AttainedTradeoff(NamedTuple):
    """Error rates of a membership test, counted on runs.

    `false_negatives` is the share of the runs with the record that the test misses;
    `standard_errors` include the threshold's own uncertainty.
    """

    false_negatives: Float[np.ndarray, " rates"]
    standard_errors: Float[np.ndarray, " rates"]


def membership_scores(
    iterates: Float[Array, "runs iterates features"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
    algorithm: DPGD,
    known_inputs: Float[Array, "known dim"],
    known_labels: Float[Array, " known"],
    inputs: Float[Array, "2 dim"],
    labels: Float[Array, "2"],
    *,
    num_samples: int,
    loss: AbstractScalarLoss | None = None,
) -> Float[np.ndarray, " runs"]:
    r"""Log-likelihood ratio of each run, with the first record against with the second.

    Args:
        iterates: $\theta_0, \dots, \theta_T$ of every run, or the first of them, (runs, T + 1, p).
        weights, activation, algorithm, known_inputs, known_labels, num_samples, loss: the arguments
            of `without_known_rows`; the algorithm has noise, and n - 1 records are known.
        inputs, labels: the two records, (2, d) and (2,).

    Returns:
        The ratio of each run, (runs,); positive values favour the first record.

    Raises:
        ValueError, TypeError: shapes do not match, or there is no noise.

    Example:
        >>> import jax, jaxdp, numpy as np
        >>> from jaxdp.attacks import membership_scores
        >>> algorithm = jaxdp.DPGD(0.01, 1.0, num_steps=1, noise_scale=0.01)
        >>> runs = np.array([[[0, 0], [0.01, 0]], [[0, 0], [0, 0.01]]])
        >>> known = np.eye(2), jax.nn.relu, algorithm, np.zeros((0, 2)), np.zeros(0)
        >>> membership_scores(runs, *known, np.eye(2), np.ones(2), num_samples=1).round(1)
        array([ 25., -25.])
    """
    runs = as_wide_float(iterates, "iterates")
    require_shape("iterates", runs, (None, None, None))
    if not len(runs):
        raise ValueError("expected one run or more, got none")
    given = weights, activation, algorithm, known_inputs, known_labels
    run = run_without_one(runs[0], *given, num_samples=num_samples, loss=loss)
    pair, answers = as_wide_float(inputs, "inputs"), as_wide_float(labels, "labels")
    require_shape("inputs", pair, (2, run.weights.shape[1]))
    require_shape("labels", answers, (2,))
    for name, value in (("iterates", runs), ("inputs", pair), ("labels", answers)):
        require_finite(name, value)
    known = as_wide_float(known_inputs), as_wide_float(known_labels)
    return np.asarray(_ratios(run, runs, *known, pair, answers), np.float64)


def attained_tradeoff(
    member_scores: Float[Any, " members"],
    other_scores: Float[Any, " others"],
    false_positive_rates: Float[Any, " rates"],
) -> AttainedTradeoff:
    """The trade-off curve of a membership test: false negatives at given false positives.

    The threshold for a rate is a quantile of the other runs' scores. Scores are log-likelihood
    ratios, so the curve's slope there, which weighs the quantile's uncertainty, is its exponential.

    Args:
        member_scores, other_scores: `membership_scores` of runs with either record.
        false_positive_rates: rates strictly between 0 and 1.

    Returns:
        The false-negative rates with their standard errors.

    Raises:
        ValueError: there are no scores, they are not finite, or a rate is out of range.

    Example:
        >>> import numpy as np
        >>> from jaxdp.attacks import attained_tradeoff
        >>> normals = np.random.default_rng(0).normal(size=(2, 2000))
        >>> curve = attained_tradeoff(normals[0] + 0.5, normals[1] - 0.5, [0.1])  # mu = 1
        >>> print(f"{curve.false_negatives[0]:.2f}")  # Phi(1.28 - 1) = 0.61
        0.62
    """
    members = host_array("member_scores", member_scores)
    others = host_array("other_scores", other_scores)
    rates = host_array("false_positive_rates", false_positive_rates)
    for name, scores in (("member_scores", members), ("other_scores", others)):
        if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
            raise ValueError(f"expected finite {name} of shape (runs,), got {scores.shape}")
    if rates.ndim != 1 or not np.all((rates > 0) & (rates < 1)):
        raise ValueError(f"expected a row of false-positive rates between 0 and 1, got {rates}")
    thresholds = np.quantile(others, 1 - rates)
    missed = np.mean(members <= thresholds[:, None], axis=1)
    slopes = np.exp(thresholds)
    variances = missed * (1 - missed) / len(members) + slopes**2 * rates * (1 - rates) / len(others)
    return AttainedTradeoff(missed, np.sqrt(variances))


@eqx.filter_jit
def _ratios(first, runs, known_inputs, known_labels, pair, labels):
    parts = first.weights, first.activation, first.algorithm

    def ratio(iterates):
        run = less_known(
            iterates, *parts, known_inputs, known_labels, first.num_samples, first.loss
        )
        one, other = (run.log_likelihoods(pair[i], labels[i, None])[0] for i in (0, 1))
        return one - other

    return jax.lax.map(ratio, runs)
