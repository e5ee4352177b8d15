"""Functions that are released by a curator who answers queries, not as an object.

Sample paths that are drawn jointly with the training inputs are continued to the points asked for,
given the known values: the distribution is that of drawing all at once. But the state behind the
answers reveals the training inputs, so it is never published.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Real

from experiments.private_kernel_learning.published.exact_paths import ExactPaths
from experiments.private_kernel_learning.published.learner import (
    AbstractPublishedLearner,
    host_rows,
    scaled_down,
)
from jaxdp.kernels.base import AbstractKernel
from jaxdp.kernels.release.private_learner import FitRequest, Released
from jaxdp.kernels.release.tables import ColumnNames, in_order
from jaxdp.privacy.accounting import Cost, cost_of
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise


class SecretPaths:
    r"""M exact paths of GP(0, k) over $\sqrt M$, drawn at each point when it is first asked for.

    The only mutable object of this package; values once answered never change. Its normals come
    from the operating system or a secret seed, never from a key that could be drawn again. Points
    are scaled down to the norm `input_bound` first.
    """

    def __init__(
        self,
        kernel: AbstractKernel,
        num_paths: int,
        source: SecretNoise,
        *,
        input_bound: float | None = None,
    ):
        self._kernel, self._num_paths, self._input_bound = kernel, num_paths, input_bound
        self._source = source
        self._paths: ExactPaths | None = None
        self._places: dict[bytes, int] = {}

    def at(self, points: Float[Any, "n dim"]) -> Float[np.ndarray, "n paths"]:
        """The paths at the points; those seen before have the values that they had."""
        # A zero has two signs.
        rows = scaled_down(host_rows("inputs", points), self._input_bound) + 0.0
        names = [row.tobytes() for row in rows]
        fresh = {name: row for name, row in zip(names, rows, strict=True)}
        fresh = {name: row for name, row in fresh.items() if name not in self._places}
        if fresh:
            self._continue(np.stack(list(fresh.values())))
            places = range(len(self._places), len(self._places) + len(fresh))
            self._places.update(zip(fresh, places, strict=True))
        assert self._paths is not None
        return self._paths.values[[self._places[name] for name in names]]

    def _continue(self, rows: Float[np.ndarray, "n dim"]) -> None:
        """Draw the paths at further points, given their values at the earlier ones."""
        # The factor depends on no normals; those of this key give way to secret ones.
        key, size = jr.key(0), (len(rows), self._num_paths)
        if self._paths is None:
            known = ExactPaths.sample(self._kernel, rows, self._num_paths, key=key)
            earlier = np.zeros((0, self._num_paths))
        else:
            known = self._paths.continued(rows, key=key)
            earlier = self._paths.normals
        # Another history is followed by other normals: two continuations that shared them would
        # give their difference away.
        self._source = self._source.hiding(rows)
        drawn = self._source.normals(size, f"path from point {len(earlier)} on")
        normals = np.concatenate([earlier, drawn])
        self._paths = eqx.tree_at(lambda paths: paths.normals, known, normals)


class CuratedFunction:
    r"""A function on exact sample paths, which its curator evaluates and never publishes.

    $f(x) = m(x) + \beta \cdot h_M(x)$ with exact paths.

    Its cost covers the answers, for queries that depend on no secret. It does not cover the state
    that it holds, so it cannot be saved. Values are those of the paths at exactly these inputs, in
    float64: an input in another precision is another input.

    Attributes:
        coefficients: beta, (M,), if they are public; None if only values are.
        delta: the delta at which `cost` states epsilon.

    Args:
        paths: $h_M$ at the points asked for so far; secret.
        weights: factors of the paths, (M,).
        statement: the release of the answers, with its proved guarantee, if any.
        delta: the delta at which `cost` states epsilon.
        mean: m, a function of rows; None for zero, and then the weights are public.
        columns: names of the table's columns, public, if it was fitted to a data frame.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm5
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm5(Gaussian(1.0), ridge=0.1, loss=Logistic())
        >>> inputs = np.linspace(-1, 1, 20)[:, None]
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> answers = learner.fit(inputs, np.sign(inputs[:, 0]), test_inputs=inputs[:3], **budget)
        >>> type(answers).__name__, answers(inputs[:3]).shape
        ('CuratedFunction', (3,))
    """

    def __init__(
        self,
        paths: SecretPaths,
        weights: Float[np.ndarray, " paths"],
        statement: Release,
        delta: float,
        *,
        mean: Callable[[np.ndarray], np.ndarray] | None = None,
        columns: ColumnNames | None = None,
    ):
        self._paths, self._weights, self._mean = paths, weights, mean
        self._statement, self.delta, self._columns = statement, delta, columns
        self.coefficients = jnp.asarray(weights) if mean is None else None

    def __call__(self, inputs: Float[Any, "m dim"]) -> Float[Array, " m"]:
        """The function's values at the inputs; its paths are continued to new ones.

        $O((n + m)^3)$ for n points known and m new ones.
        """
        rows = host_rows("inputs", in_order(inputs, self._columns))
        values = self._paths.at(rows) @ self._weights
        return jnp.asarray(values if self._mean is None else values + self._mean(rows))

    @property
    def cost(self) -> Cost:
        """The joint cost of the answers, at the delta of the fit."""
        return cost_of(self._statement, self.delta)

    def release(self) -> Release:
        """The release of the answers; `jaxdp.account` reads it at any delta."""
        return self._statement

    def __repr__(self):
        return f"CuratedFunction(epsilon={self.cost.epsilon:.4g}, delta={self.delta:g})"


class AbstractJointPathLearner(AbstractPublishedLearner[Released]):
    """A learner whose sample paths can be drawn jointly at the training and the test inputs."""

    def fit(
        self,
        inputs: Real[Any, "n dim"],
        labels: Real[Any, " n"],
        *,
        epsilon: float,
        delta: float,
        public_seed: int,
        noise_seed: int | None = None,
        test_inputs: Real[Any, "m dim"] | None = None,
    ) -> Released:
        """Learn from a table, as `AbstractPrivateLearner.fit` does.

        Args:
            inputs, labels, epsilon, delta, public_seed, noise_seed: the same as there.
            test_inputs: public inputs, at which the function will be read first. The paths are
                drawn jointly there and at the training inputs, exactly and from the secret seed.
        """
        budget = {"epsilon": epsilon, "delta": delta, "noise_seed": noise_seed}
        given = {"public_seed": public_seed, "warning": self._warning}
        request = FitRequest.checked(inputs, labels, **budget, **given)
        return self._release_read_at(request, test_inputs)

    def _release(self, request):
        return self._release_read_at(request, None)

    @abc.abstractmethod
    def _release_read_at(self, request: FitRequest, test_inputs: Any) -> Released:
        """The release, from checked arguments; the test inputs are as `fit` is given them."""
