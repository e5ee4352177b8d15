r"""PK Algorithm 1: ridge regression on a random projection, from two Gaussian releases.

Each release has half the budget and the sensitivity of a projected record that is as long as
Lemma 7 allows. The paper's Theorem 8 says that this is $(\epsilon, \delta)$-DP.

*What is proved.* For one pair of neighbours that is fixed before the projection is drawn, let E be
the event that both their inputs have $|h_M|^2 \le \kappa^2 q$ (`projection_factor`, each but for
$\delta/8$). E looks at the projection alone. Given a projection in E the two releases are one
Gaussian mechanism, whose mu is that of `joint_mu` with $B^2 = \kappa^2 q$; so
$\delta(\epsilon) \le H(\mu, \epsilon) + P(E^c)$, the latter exactly twice a chi-square tail. The
paper composes two statements that hold but for events of the same projection; its composition
theorem would need the second for every value of the first. Composed inside E, Proposition 2 gives
$3\delta/4$ where it holds.

*What is false.* Theorem 8 for a projection that is published, reused or reproducible: the records
may then be chosen by it. What holds for every data set is the Gaussian mechanism of the largest
norm that this projection has anywhere.

*Joint sample paths.* Features that are drawn jointly at all inputs make every record's features
depend on every other record. Drawn from secret randomness they have the right law, and what
follows from them at points that depend on no record is covered by the proof above.
"""

import math

import equinox as eqx
import numpy as np
import scipy

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.features.exact_paths import NUGGET
from jaxdp.kernels.published.curated import AbstractJointPathLearner, CuratedFunction, SecretPaths
from jaxdp.kernels.published.learner import classic_multiplier, statement
from jaxdp.kernels.published.projection import (
    GaussianUnlessFailure,
    kernel_size,
    projection,
    projection_factor,
)
from jaxdp.kernels.published.statistics import (
    averaged_statistics,
    joint_mu,
    perturbed,
    ridge_solution,
)
from jaxdp.kernels.release.columns import in_order
from jaxdp.kernels.release.fit_request import FitRequest
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.kernels.release.table_inputs import host_rows
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.mechanisms import GaussianMechanism, Unproved
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise

_WHAT = "noisy averages C and u of projected records, and the function made of them"
_PUBLIC = (
    "PK Theorem 8 is false for a projection that is published: it holds on average over one that "
    "is drawn afresh and kept from whoever chooses the records"
)
_UNBOUNDED = (
    "nothing bounds the projected inputs of a published projection, and PK Theorem 8 is false there"
)
_SECRET = (
    "PK Theorem 8's proof composes two releases that share their projection; this is its repair, "
    "for answers at points that depend on no record"
)


class Algorithm1(AbstractJointPathLearner[ReleasedFunction | CuratedFunction]):
    r"""PK Algorithm 1 as printed, with the scope of the root that its proof has.

    $\Delta_1 = 2\kappa^2 q$, $\Delta_2 = 2\kappa T\sqrt q$ and noise
    $2\Delta(1 + \sqrt{2\log(4/\delta)})/(n\epsilon)$ on C, symmetrised, and on u. The noisy matrix
    is not projected on the cone: $C + \lambda I$ may be indefinite. Source: PK Algorithm 1,
    Theorem 8.

    A fit without test inputs publishes the projection of its public seed. With them the paths are
    drawn jointly from the secret seed, as printed; nothing is drawn from the public one, and what
    is returned answers queries and is never published itself.

    Args:
        kernel: k.
        num_projections: M.
        ridge: $\lambda \ge 0$, on the averages.
        label_bound: T > 0, to which labels are truncated.
        num_features: L, of the random features behind the paths, where no test inputs are given.
        input_bound: rows are scaled down to this norm first; needed where the kernel is bounded
            nowhere else.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the kernel unbounded.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from jaxdp.kernels.published import Algorithm1
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
        """Standard deviations "C", on its diagonal, and "u" of the noise on the averages.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        check_budget(epsilon, delta)
        scale = (
            2
            * classic_multiplier(delta / 4)
            / (require_count("num_samples", num_samples) * epsilon)
        )
        bound = self._tail_bound(delta)
        return {"C": scale * 2 * bound**2, "u": scale * 2 * bound * self.label_bound}

    def _release(self, request):
        request = request.truncated(self.label_bound)
        source = self._noise(request)
        if request.test_inputs is not None:
            return self._curated(request, source)
        features = self.features(request.dim, request.public_seed)
        norm_bound = features.norm_bound
        statistics = averaged_statistics(
            row_blocks(features, request.table),
            request.targets,
            num_outputs=self.num_projections,
            norm_bound=norm_bound,
        )
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        coefficients = ridge_solution(perturbed(statistics, stds, source), self.ridge)
        claim = self._public_statement(request, norm_bound, source)
        return request.released(features, coefficients, claim)

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """$h_M$ as a fit with this seed and no test inputs uses it: no data are asked for."""
        sizes = self.num_projections, self.num_features, dim
        seed, bound = public_seed, self.input_bound
        return projection(self.kernel, *sizes, public_seed=seed, input_bound=bound)

    def _curated(self, request: FitRequest, source: SecretNoise) -> CuratedFunction:
        """The learner with joint paths, whose values and continuation only the curator has."""
        points = host_rows("test_inputs", in_order(request.test_inputs, request.columns))
        bound = self.input_bound
        paths = SecretPaths(self.kernel, self.num_projections, source, input_bound=bound)
        everywhere = np.concatenate([host_rows("inputs", request.table), points])
        rows = paths.at(everywhere)[: request.num_samples]
        statistics = averaged_statistics([rows], request.targets, num_outputs=self.num_projections)
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        coefficients = ridge_solution(perturbed(statistics, stds, source), self.ridge)
        secretly, columns = self._secret_statement(request, source), request.columns
        return CuratedFunction(paths, coefficients, secretly, request.delta, columns=columns)

    def _tail_bound(self, delta: float) -> float:
        r"""$\kappa\sqrt q$, which a given input's projection exceeds once in $8/\delta$ times."""
        factor = projection_factor(self.num_projections, math.log(8 / delta))
        return kernel_size(self.kernel, self.input_bound) * math.sqrt(factor)

    def _mu(self, request: FitRequest, norm_bound: float) -> float:
        stds = self.noise_std(request.num_samples, request.epsilon, request.delta)
        bounds = {"norm_bound": norm_bound, "label_bound": self.label_bound}
        return joint_mu(stds, num_samples=request.num_samples, **bounds)

    def _public_statement(
        self, request: FitRequest, norm_bound: float, source: SecretNoise
    ) -> Release:
        mu = self._mu(request, norm_bound)
        if not math.isfinite(mu):
            return statement(_WHAT, Unproved(_UNBOUNDED), source, request=request)
        proved = (
            f"proved for every table: this projection's norm is at most {norm_bound:.4g} anywhere; "
            f"the noise is printed for {self._tail_bound(request.delta):.4g}"
        )
        return statement(_WHAT, GaussianMechanism(mu), source, _PUBLIC, proved, request=request)

    def _secret_statement(self, request: FitRequest, source: SecretNoise) -> Release:
        bound = self._tail_bound(request.delta)
        # The paths' variances are the kernel's and a nugget more.
        square = (bound / kernel_size(self.kernel, self.input_bound)) ** 2 / (1 + NUGGET)
        half = self.num_projections / 2
        tail = float(scipy.special.gammaincc(half, half * square))
        mechanism = GaussianUnlessFailure(self._mu(request, bound), 2 * tail * (1 + 1e-9))
        return statement(_WHAT, mechanism, source, _SECRET, request=request)
