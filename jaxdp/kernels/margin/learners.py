"""Private kernel classification and regression: algorithm and proof are in `objective_learner`."""

import equinox as eqx

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_kind, require_positive
from jaxdp.kernels.margin.objective_learner import AbstractObjectiveLearner
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.losses import AbstractClassificationLoss, AbstractResidualLoss, Logistic


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
        max_steps: of Newton's method, >= 1; None for 200. Gradient steps end what they leave.
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

    loss: AbstractClassificationLoss = eqx.field(default_factory=Logistic, converter=on_host)
    ridge: float | None = eqx.field(static=True, converter=plain_number, default=None)
    max_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)
    tolerance: float = eqx.field(static=True, converter=plain_number, default=1e-9)

    def __check_init__(self):
        expected = "a margin loss, such as jaxdp.losses.Logistic(), or Softmax(k)"
        require_kind("loss", self.loss, AbstractClassificationLoss, expected)


class PrivateKernelRegressor(AbstractObjectiveLearner):
    r"""$(\epsilon, \delta)$-DP kernel regression by absolute, quantile or Huber's loss, proved.

    The released function estimates a median (`SmoothedAbsolute`), a quantile (`SmoothedQuantile`)
    or a robust mean (`Huber`) of a label given its input. `PrivateKernelRidge` has noise in
    proportion to the labels' bound; here it is, at a given ridge, in proportion to the largest
    slope of the loss.

    Args:
        kernel, num_projections, num_features, max_steps, tolerance, input_bound, feature_map: as of
            `PrivateKernelClassifier`.
        loss: $\ell$, of the residual f(x) - y, its slope bounded and Lipschitz.
        label_bound: T > 0, public; labels beyond it are clipped, and so are predictions. The
            default ridge depends on it, and so does the least tolerance that is within reach.
        ridge: $\lambda > 0$ of $\frac\lambda2 \|\beta\|^2$ beside the average loss; raised to the
            floor that the proof needs. None: $\sigma B/(nT)$ with the floor's $\sigma$, so that the
            linear term moves no prediction by more than T in standard deviation.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the loss is not what it states.

    Source: PK Algorithm 2, Assumption 6 and Theorem 9.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRegressor
        >>> from jaxdp.losses import SmoothedQuantile
        >>> loss, bounds = SmoothedQuantile(0.9, 0.1), {"label_bound": 2.0, "input_bound": 1.0}
        >>> learner = PrivateKernelRegressor(Gaussian(1.0), 20, loss=loss, **bounds)
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> release = learner.fit(inputs, np.sin(3 * inputs[:, 0]), **budget)
        >>> release(inputs[:3]).shape, release.cost.is_certified
        ((3,), True)
    """

    loss: AbstractResidualLoss = eqx.field(kw_only=True, converter=on_host)
    label_bound: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    ridge: float | None = eqx.field(static=True, converter=plain_number, default=None)
    max_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)
    tolerance: float = eqx.field(static=True, converter=plain_number, default=1e-9)

    def __check_init__(self):
        expected = "a loss of residuals with a bounded slope, such as jaxdp.losses.Huber(1.0)"
        require_kind("loss", self.loss, AbstractResidualLoss, expected)
        require_positive("label_bound", host_number("label_bound", self.label_bound))

    def _labels_within(self):
        return self.label_bound
