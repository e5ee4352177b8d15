r"""PK Algorithms 1 and 3: ridge regression from two Gaussian releases, each with half the budget.

The averages $C = \frac1n\sum z z^\top$ and $u = \frac1n\sum y z$ each get noise of their own, and
what a ridge regression makes of them is post-processing. The noisy $C + \lambda I$ is not projected
on the cone: it is often indefinite, and is inverted all the same. The peaks of PK's Figure 2 are
its resonances.

**Algorithm 1**, on a random projection. Each release has the sensitivity of a projected record that
is as long as Lemma 7 allows. The paper's Theorem 8 says that this is $(\epsilon, \delta)$-DP.

*Proved.* For one pair of neighbours that is fixed before the projection is drawn, let E be the
event that both their inputs have $|h_M|^2 \le \kappa^2 q$ (`projection_factor`; each fails with
probability $\delta/8$ at most). E depends on the projection alone. Given a projection in E the two
releases are one Gaussian mechanism, with the mu of `joint_mu` for $B^2 = \kappa^2 q$; so
$\delta(\epsilon) \le H(\mu, \epsilon) + P(E^c)$, the latter exactly twice a chi-square tail. The
paper composes two statements that hold except on events of the same projection; its composition
theorem would need the second for every value of the first. Composed inside E, Proposition 2 gives
$3\delta/4$ if it holds.

*False.* Theorem 8 fails for a projection that is published, reused or reproducible: the records may
then be chosen by it. For every data set the guarantee is that of the Gaussian mechanism of the
largest norm that this projection has at any input.

*Joint sample paths.* Features that are drawn jointly at all inputs make every record's features
depend on every other record. Drawn from secret randomness they have the right distribution, and
releases from them at points that depend on no record are covered by the proof above.

**Algorithm 3**, on random Fourier features. The printed sensitivities $\Delta_1 = 2$ and
$\Delta_2 = \sqrt2\,T$ are those of removing a record; replacing one moves nC by
$2\sqrt2$ and nu by $2\sqrt2\,T$, and both claims "is $(\epsilon/2, \delta/2)$-DP" of its proof are
false. The two worst cases exclude one another and the multiplier is loose, so the release as a
whole is what Theorem 16 says it is up to $\epsilon = 16$: it is one Gaussian mechanism of
$\mu = \frac{3\sqrt2}4\epsilon/c(\delta/2)$, exactly, for whatever features. With the exact
multiplier in place of c it would not be private.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy
from jaxtyping import Float

from experiments.private_kernel_learning.published.curated import (
    AbstractJointPathLearner,
    CuratedFunction,
    SecretPaths,
)
from experiments.private_kernel_learning.published.exact_paths import NUGGET
from experiments.private_kernel_learning.published.learner import (
    ROUNDING,
    AbstractPublishedLearner,
    check_noise_arguments,
    classic_multiplier,
    host_rows,
    scaled_down,
    statement,
)
from experiments.private_kernel_learning.published.projection import (
    GaussianUnlessFailure,
    cosine_features,
    kernel_size,
    projection,
    projection_factor,
)
from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, require_kernel
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.release.joint_release import joint_sensitivity
from jaxdp.kernels.release.private_learner import FitRequest
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.kernels.release.tables import in_order
from jaxdp.privacy.mechanisms import GaussianMechanism, Unproved
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise

_PROJECTED = "noisy averages C and u of projected records, and the function made of them"
_PUBLIC = (
    "PK Theorem 8 is false for a projection that is published: it holds on average over one that "
    "is drawn afresh and hidden from the chooser of the records"
)
_UNBOUNDED = (
    "nothing bounds the projected inputs of a published projection, and PK Theorem 8 is false there"
)
_SECRET = (
    "PK Theorem 8's proof composes two releases that share their projection; this is its repair, "
    "for answers at points that depend on no record"
)
_COSINES = "noisy averages C and u of random Fourier features, and the function made of them"
_FALSE_PARTS = (
    "PK's proof is wrong, C and u alone are not (epsilon/2, delta/2)-DP; proved here is the exact "
    "Gaussian mechanism of both, which is worse than PK Theorem 16 states from epsilon 16 on"
)


class Statistics(NamedTuple):
    """The averages C and u."""

    covariance: Float[np.ndarray, "outputs outputs"]
    correlation: Float[np.ndarray, " outputs"]


def averaged_statistics(
    blocks: Iterable[Float[np.ndarray, "rows outputs"]],
    labels: Float[np.ndarray, " n"],
    norm_bound: float = math.inf,
) -> Statistics:
    """C and u in float64, over consecutive blocks of rows of features.

    Rows that rounding took beyond `norm_bound` are scaled back to it.
    """
    covariance, correlation, start = np.zeros(()), np.zeros(()), 0
    for block in blocks:
        rows = scaled_down(np.asarray(block, np.float64), norm_bound)
        covariance = covariance + rows.T @ rows
        correlation = correlation + labels[start : start + len(rows)] @ rows
        start += len(rows)
    return Statistics(covariance / len(labels), correlation / len(labels))


def perturbed(statistics: Statistics, stds: dict[str, float], source: SecretNoise) -> Statistics:
    r"""C plus $\sigma_C (E + E^\top)/2$ and u plus $\sigma_u e$, all entries standard normal.

    On the diagonal of C the noise has the standard deviation $\sigma_C$, off it $\sigma_C/\sqrt2$.
    """
    size = len(statistics.correlation)
    source = source.hiding(*statistics, stds["C"], stds["u"])
    square, vector = source.normals((size, size), "C"), source.normals(size, "u")
    return Statistics(
        statistics.covariance + stds["C"] * (square + square.T) / 2,
        statistics.correlation + stds["u"] * vector,
    )


def _noisy_ridge(
    statistics: Statistics, stds: dict[str, float], ridge: float, source: SecretNoise
) -> Float[np.ndarray, " outputs"]:
    r"""$(C + \lambda I)^{-1} u$ of noisy averages, whether or not it is positive definite."""
    covariance, correlation = perturbed(statistics, stds, source)
    return np.linalg.solve(covariance + ridge * np.eye(len(correlation)), correlation)


def _joint_mu(
    stds: dict[str, float], *, norm_bound: float, label_bound: float, num_samples: int
) -> float:
    r"""mu of both releases together when $|z| \le B$ and $|y| \le T$ for every record: exact.

    Two Gaussian releases are one of (C, w u) with $w = \sigma_C/\sigma_u$; `joint_sensitivity`
    has the largest step that a replaced record makes, attained for M >= 2 at a cosine of
    $\min(a/2, 1)$, $a = (wT/B)^2$.
    """
    if not math.isfinite(norm_bound):
        return math.inf
    weight = stds["C"] / stds["u"]
    step = joint_sensitivity(input_bound=norm_bound, label_bound=label_bound, weight=weight)
    return step / (num_samples * stds["C"]) * (1 + ROUNDING)


class Algorithm1(AbstractJointPathLearner[ReleasedFunction | CuratedFunction]):
    r"""PK Algorithm 1 as printed, with the scope of the root that its proof has.

    $\Delta_1 = 2\kappa^2 q$, $\Delta_2 = 2\kappa T\sqrt q$ and noise
    $2\Delta(1 + \sqrt{2\log(4/\delta)})/(n\epsilon)$ on C, symmetrised, and on u. Source: PK
    Algorithm 1, Theorem 8.

    A fit without test inputs publishes the projection of its public seed. With them the paths are
    drawn jointly from the secret seed, as printed; nothing is drawn from the public one, and the
    result answers queries and is never published itself.

    Args:
        kernel: k.
        num_projections: M.
        ridge: $\lambda \ge 0$, on the averages.
        label_bound: T > 0, to which labels are truncated.
        num_features: L, the number of features behind the paths, if no test inputs are given.
        input_bound: rows are scaled down to this norm first; needed if nothing else bounds
            the kernel.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm1
        >>> learner = Algorithm1(Gaussian(1.0), num_projections=50, ridge=0.1, label_bound=1.0)
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 3) for name, std in found.items()}
        {'C': 0.006, 'u': 0.004}
    """

    kernel: AbstractKernel
    num_projections: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    label_bound: float = eqx.field(static=True, converter=plain_float)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048, kw_only=True)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        require_non_negative("ridge", self.ridge)
        require_positive("label_bound", self.label_bound)
        kernel_size(self.kernel, self.input_bound)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviations "C", on its diagonal, and "u" of the noise on the averages."""
        check_noise_arguments(num_samples, epsilon, delta)
        scale = 2 * classic_multiplier(delta / 4) / (num_samples * epsilon)
        bound = self._tail_bound(delta)
        return {"C": scale * 2 * bound**2, "u": scale * 2 * bound * self.label_bound}

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """$h_M$ as a fit with this seed and no test inputs uses it: no data are asked for."""
        sizes = self.num_projections, self.num_features, dim
        seed, bound = public_seed, self.input_bound
        return projection(self.kernel, *sizes, public_seed=seed, input_bound=bound)

    def _release_read_at(self, request, test_inputs):
        request = request.truncated(self.label_bound)
        source = self._noise(request)
        if test_inputs is not None:
            return self._curated(request, test_inputs, source)
        features = self.features(request.dim, request.public_seed)
        norm_bound = features.norm_bound
        blocks = row_blocks(features, request.table)
        statistics = averaged_statistics(blocks, request.targets, norm_bound)
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        coefficients = _noisy_ridge(statistics, stds, self.ridge, source)
        claim = self._public_statement(request, norm_bound, source)
        return request.released(features, coefficients, claim)

    def _curated(
        self, request: FitRequest, test_inputs: Any, source: SecretNoise
    ) -> CuratedFunction:
        """The learner with joint paths, whose values and continuation only the curator has."""
        points = host_rows("test_inputs", in_order(test_inputs, request.columns))
        bound = self.input_bound
        paths = SecretPaths(self.kernel, self.num_projections, source, input_bound=bound)
        everywhere = np.concatenate([host_rows("inputs", request.table), points])
        rows = paths.at(everywhere)[: request.num_samples]
        statistics = averaged_statistics([rows], request.targets)
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        coefficients = _noisy_ridge(statistics, stds, self.ridge, source)
        secretly, columns = self._secret_statement(request, source), request.columns
        return CuratedFunction(paths, coefficients, secretly, request.delta, columns=columns)

    def _tail_bound(self, delta: float) -> float:
        r"""$\kappa\sqrt q$, which a given input's projection exceeds once in $8/\delta$ times."""
        factor = projection_factor(self.num_projections, math.log(8 / delta))
        return kernel_size(self.kernel, self.input_bound) * math.sqrt(factor)

    def _mu(self, request: FitRequest, norm_bound: float) -> float:
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        bounds = {"norm_bound": norm_bound, "label_bound": self.label_bound}
        return _joint_mu(stds, num_samples=request.num_samples, **bounds)

    def _public_statement(
        self, request: FitRequest, norm_bound: float, source: SecretNoise
    ) -> Release:
        mu = self._mu(request, norm_bound)
        if not math.isfinite(mu):
            return statement(_PROJECTED, Unproved(_UNBOUNDED), source, request=request)
        proved = (
            f"proved for every table: this projection's norm is at most {norm_bound:.4g} anywhere; "
            f"the noise is printed for {self._tail_bound(request.delta):.4g}"
        )
        mechanism = GaussianMechanism(mu)
        return statement(_PROJECTED, mechanism, source, _PUBLIC, proved, request=request)

    def _secret_statement(self, request: FitRequest, source: SecretNoise) -> Release:
        bound = self._tail_bound(request.delta)
        # The paths' variances are the kernel's and a nugget more.
        square = (bound / kernel_size(self.kernel, self.input_bound)) ** 2 / (1 + NUGGET)
        half = self.num_projections / 2
        tail = float(scipy.special.gammaincc(half, half * square))
        mechanism = GaussianUnlessFailure(self._mu(request, bound), 2 * tail * (1 + ROUNDING))
        return statement(_PROJECTED, mechanism, source, _SECRET, request=request)


class Algorithm3(AbstractPublishedLearner[ReleasedFunction]):
    r"""PK Algorithm 3 as printed: $\Delta_1 = 2$, $\Delta_2 = \sqrt2$, $c(\delta/2)$.

    Noise of $2\Delta_1 c/(n\epsilon)$ on C, symmetrised, and $2\Delta_2 T c/(n\epsilon)$ on u,
    $c = 1 + \sqrt{2\log(2/\delta)}$. Printed for kernels with k(x, x) = 1. Source: PK Algorithm 3,
    Theorem 16.

    Args:
        kernel: k, shift-invariant.
        num_features: M, single cosines with a random phase.
        ridge: $\lambda \ge 0$, on the averages.
        label_bound: T > 0, to which labels are truncated.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm3
        >>> learner = Algorithm3(Gaussian(1.0), num_features=50, ridge=0.1, label_bound=1.0)
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 4) for name, std in found.items()}
        {'C': 0.0024, 'u': 0.0017}
    """

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    label_bound: float = eqx.field(static=True, converter=plain_float)

    def __check_init__(self):
        require_kernel(self.kernel)
        require_count("num_features", self.num_features)
        require_non_negative("ridge", self.ridge)
        require_positive("label_bound", self.label_bound)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviations "C", on its diagonal, and "u" of the noise on the averages."""
        check_noise_arguments(num_samples, epsilon, delta)
        scale = 2 * classic_multiplier(delta / 2) / (num_samples * epsilon)
        return {"C": scale * 2, "u": scale * 2**0.5 * self.label_bound}

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)

    def _release(self, request):
        request = request.truncated(self.label_bound)
        features = self.features(request.dim, request.public_seed)
        bound, num_samples = features.norm_bound, request.num_samples
        blocks = row_blocks(features, request.table)
        statistics = averaged_statistics(blocks, request.targets, bound)
        stds = self.noise_std(num_samples, request.epsilon, request.delta)
        source, limit = self._noise(request), self.label_bound
        mu = _joint_mu(stds, norm_bound=bound, label_bound=limit, num_samples=num_samples)
        claim = statement(_COSINES, GaussianMechanism(mu), source, _FALSE_PARTS, request=request)
        coefficients = _noisy_ridge(statistics, stds, self.ridge, source)
        return request.released(features, coefficients, claim)
