r"""The strongest membership test of one record, and its error rates.

The adversary knows the run, all records but one, and two candidates for this one. The
log-likelihood ratio of the two (`informed`) is the test of Neyman and Pearson. If every step clips
both records, the error rates lie on the curve of $\mu$-GDP, with $\mu$ the distance of the two
gradients in units of the noise; `jaxdp.theory.membership_mu` predicts it, and `DPGD.mu` is never
below it. Derived: tests/unit/attacks/test_membership.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.attacks.informed import less_known, run_without_one
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import host_array, require_finite, require_shape
from jaxdp.losses.base import AbstractScalarLoss


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
    ratios, so the curve's slope at a threshold, which weighs the quantile's uncertainty, is its
    exponential.

    Args:
        member_scores, other_scores: `membership_scores` of runs with the first and the second
            record.
        false_positive_rates: rates strictly between 0 and 1.

    Returns:
        The false-negative rates with their standard errors.

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
