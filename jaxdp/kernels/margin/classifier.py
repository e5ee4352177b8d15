r"""Private kernel classification: a convex loss of the margin, or the softmax loss of k classes.

`objective_learner` holds the algorithm and its proof.
"""

import equinox as eqx

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_kind
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.margin.objective_learner import AbstractObjectiveLearner
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.losses import AbstractClassificationLoss, Logistic


class PrivateKernelClassifier(AbstractObjectiveLearner):
    r"""$(\epsilon, \delta)$-DP kernel classification, proved for a published projection.

    Args:
        kernel: k; None is allowed where a feature map is given.
        num_projections: M, how many Gaussian-process paths the features are.
        num_features: L, of the random features that the paths are made of.
        loss: $\ell$, of the margin y f(x) for labels -1 and +1: `jaxdp.losses.Logistic()` or
            `HuberHinge`. For labels 0, ..., k - 1 `Softmax(k)`: the release then gives k scores a
            row, of which the largest names the class.
        ridge: $\lambda > 0$ of $\frac\lambda2 \|\beta\|^2$ beside the average loss; raised to the
            floor that the proof needs. None: as large as the noise, $\sigma B/n$ with the floor's
            $\sigma$, so that the linear term moves no score by more than 1 in standard deviation.
        max_steps: of Newton's method, >= 1; None for 200. Gradient steps end what they leave, on
            every data set; with few of the former they take long.
        tolerance: of the gradient's norm over $c_1 B$, > 0; the noise on the coefficients is
            proportional to it. One that rounding puts out of reach is refused, whatever the data.
        input_bound: rows are scaled down to this Euclidean norm first; needed where the kernel is
            bounded nowhere else. Infinity says that public numbers have scaled them already.
        feature_map: instead of sample paths, a map of one input that is public: drawn without the
            data.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the loss is not what it states.

    Source: PK Algorithm 2, Assumption 6 and Theorem 9.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelClassifier
        >>> learner = PrivateKernelClassifier(Gaussian(1.0), num_projections=20, input_bound=1.0)
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> release = learner.fit(inputs, np.where(inputs[:, 0] > 0, 1, -1), **budget)
        >>> release(inputs[:3]).shape, release.cost.adjacency
        ((3,), 'replace-one')
    """

    kernel: AbstractKernel | None
    num_projections: int = eqx.field(static=True, converter=plain_number, default=200)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048)
    loss: AbstractClassificationLoss = eqx.field(default_factory=Logistic, converter=on_host)
    ridge: float | None = eqx.field(static=True, converter=plain_number, default=None)
    max_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)
    tolerance: float = eqx.field(static=True, converter=plain_number, default=1e-9)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    feature_map: AbstractFeatureMap | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        expected = "a margin loss, such as jaxdp.losses.Logistic(), or Softmax(k)"
        require_kind("loss", self.loss, AbstractClassificationLoss, expected)
