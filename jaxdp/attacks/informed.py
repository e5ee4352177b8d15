r"""The informed adversary of private training, who knows all records but one, with their labels.

A step of full-batch gradient descent is Gaussian given the iterate before it: $\theta_t -
\theta_{t-1} + \frac\eta n\sum_{i\ \mathrm{known}} \mathrm{clip}(g_i)$ has the mean $-\frac\eta
n\,\mathrm{clip}(g_x(\theta_{t-1}))$ and the standard deviation s of the noise in every parameter.
So the likelihood of all iterates is exact; up to a constant,

$$ \log p(x, y) = -\frac{1}{2s^2}\sum_t \bigl(2 c_t\,\Delta_t\cdot\varphi(x)
   + c_t^2\,|\varphi(x)|^2\bigr), \qquad c_t = \tfrac\eta n\,\mathrm{clip}(\ell'_t(x, y)). $$

By Neyman and Pearson no test of two records is better than its difference (`membership`). Source:
Balle, Cherubin and Hayes (2022). Derived: tests/unit/attacks/test_informed.py compares the
likelihood with the run's own density.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.attacks.base import require_activation
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import (
    require_count,
    require_finite,
    require_host,
    require_kind,
    require_shape,
)
from jaxdp.losses import Squared
from jaxdp.losses.base import AbstractScalarLoss


class KnownRun(eqx.Module):
    r"""All iterates of a run, minus the steps of the known records.

    `before` holds $\theta_0, \dots, \theta_{T-1}$, `left` the remaining increments $\Delta_1,
    \dots, \Delta_T$.
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
        """The log-likelihood of one row with each of the labels, up to a constant."""
        features = self.activation(_product(self.weights, row))
        slopes = self.loss.slope(_product(self.before, features)[:, None], labels)
        norms = jnp.broadcast_to(jnp.linalg.norm(features), labels.shape)
        clipped, _ = self.algorithm.clipped_slopes(slopes, norms)
        steps = self.algorithm.learning_rate / self.num_samples * clipped
        std = self.algorithm.noise_std(self.num_samples)
        along = _product(self.left / std, features)[:, None]
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
    iterates, weights = as_wide_float(iterates, "iterates"), as_wide_float(weights, "weights")
    inputs = as_wide_float(known_inputs, "known_inputs")
    labels = as_wide_float(known_labels, "known_labels")
    require_shape("weights", weights, (None, None))
    require_shape("iterates", iterates, (None, weights.shape[0]))
    require_shape("known_inputs", inputs, (None, weights.shape[1]))
    require_shape("known_labels", labels, (inputs.shape[0],))
    for name, value in (
        ("iterates", iterates),
        ("weights", weights),
        ("known_inputs", inputs),
        ("known_labels", labels),
    ):
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
    features = activation(_product(inputs, weights.T))
    slopes = loss.slope(_product(iterates[:-1], features.T), labels[None])
    slopes, _ = algorithm.clipped_slopes(slopes, jnp.linalg.norm(features, axis=1))
    moved = algorithm.learning_rate / num_samples * _product(slopes, features)
    left = jnp.diff(iterates, axis=0) + moved
    return KnownRun(weights, activation, algorithm, iterates[:-1], left, num_samples, loss)


def run_without_one(*arguments, num_samples: int, loss: AbstractScalarLoss | None) -> KnownRun:
    """A noisy run with all records known but one."""
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


def _product(first: Array, second: Array) -> Array:
    return jnp.matmul(first, second, precision=Precision.HIGHEST)


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
    that is maximum likelihood. Without labels, or with the last iterate only, use `reconstruct(...,
    known_inputs=...)`.

    Args:
        iterates: $\theta_0, \dots, \theta_T$ from the start of training on, (T + 1, p).
        weights, activation: V, (p, d), in memory, and phi, elementwise.
        algorithm: the algorithm of the run; its noise is not used.
        known_inputs, known_labels: (m, d) and (m,), m < n.
        num_samples: n, the algorithm's divisor.
        loss: the training loss, of one output; None for `Squared`.

    Returns:
        A target with the remaining increment as parameters.

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
