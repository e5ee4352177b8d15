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
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import gammaincc

from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative, require_positive
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.blocks import row_blocks
from jaxdp.kernels.exact_paths import NUGGET
from jaxdp.kernels.fit_arguments import (
    check_budget,
    check_seeds,
    training_table,
)
from jaxdp.kernels.gram import host_rows
from jaxdp.kernels.published.calibration import classic_multiplier, kernel_size, projection_factor
from jaxdp.kernels.published.curated import CuratedFunction, SecretPaths
from jaxdp.kernels.published.failure_event import GaussianUnlessFailure
from jaxdp.kernels.published.noise_source import noise_of_learner
from jaxdp.kernels.published.projection import projection
from jaxdp.kernels.published.statements import statement
from jaxdp.kernels.published.statistics import (
    averaged_statistics,
    joint_mu,
    perturbed,
    ridge_solution,
)
from jaxdp.kernels.released import ReleasedFunction
from jaxdp.privacy.mechanisms import Gaussian, Unproved
from jaxdp.privacy.release import Release

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


class Algorithm1(eqx.Module):
    r"""PK Algorithm 1 as printed, with the scope of the root that its proof has.

    $\Delta_1 = 2\kappa^2 q$, $\Delta_2 = 2\kappa T\sqrt q$ and noise
    $2\Delta(1 + \sqrt{2\log(4/\delta)})/(n\epsilon)$ on C, symmetrised, and on u. The noisy matrix
    is not projected on the cone: $C + \lambda I$ may be indefinite. Source: PK Algorithm 1,
    Theorem 8.

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

    def fit(
        self,
        inputs: Float[Any, "n dim"],
        labels: Float[Any, " n"],
        *,
        epsilon: float,
        delta: float,
        public_seed: int,
        noise_seed: int | None = None,
        test_inputs: Float[Any, "m dim"] | None = None,
    ) -> ReleasedFunction | CuratedFunction:
        """Learn from a table.

        Args:
            inputs: one record a row.
            labels: one for each, truncated to the label bound without a word.
            epsilon: > 0 and finite.
            delta: in (0, 1).
            public_seed: of the projection; with test inputs nothing is drawn from it.
            noise_seed: None for the operating system's entropy; else as secret as the data.
            test_inputs: where the function will be read first. With them the paths are drawn
                exactly and jointly, as printed, from the secret seed, and what is returned answers
                queries and is never published itself.

        Raises:
            ValueError, TypeError: an argument is out of its range, or not finite.
        """
        check_budget(epsilon, delta)
        check_seeds(public_seed, noise_seed)
        table, targets = training_table(inputs, labels)
        targets = np.clip(targets, -self.label_bound, self.label_bound)
        budget = float(epsilon), float(delta)
        source = noise_of_learner(self, table, targets, (public_seed, noise_seed), budget)
        if test_inputs is not None:
            return self._curated(table, targets, test_inputs, budget, source)
        features = self.features(table.shape[1], int(public_seed))
        statistics = averaged_statistics(
            row_blocks(features, table),
            targets,
            num_outputs=self.num_projections,
            norm_bound=features.norm_bound,
        )
        stds = self.noise_std(len(table), *budget)
        return ReleasedFunction(
            features=features,
            coefficients=ridge_solution(perturbed(statistics, stds, source), self.ridge),
            public_seed=int(public_seed),
            statement=self._public_statement(len(table), features.norm_bound, source, *budget),
            delta=float(delta),
        )

    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """$h_M$ as a fit with this seed and no test inputs uses it: no data are asked for."""
        sizes = self.num_projections, self.num_features, dim
        seed, bound = public_seed, self.input_bound
        return projection(self.kernel, *sizes, public_seed=seed, input_bound=bound)

    def _curated(self, table, targets, test_inputs, budget, source) -> CuratedFunction:
        """The same with joint paths, whose values and continuation nobody but the curator has."""
        bound = self.input_bound
        paths = SecretPaths(self.kernel, self.num_projections, source, input_bound=bound)
        points = host_rows("test_inputs", test_inputs)
        rows = paths.at(np.concatenate([host_rows("inputs", table), points]))[: len(table)]
        statistics = averaged_statistics([rows], targets, num_outputs=self.num_projections)
        stds = self.noise_std(len(table), *budget)
        coefficients = ridge_solution(perturbed(statistics, stds, source), self.ridge)
        secretly = self._secret_statement(len(table), source, *budget)
        return CuratedFunction(paths, coefficients, secretly, budget[1])

    def _tail_bound(self, delta: float) -> float:
        r"""$\kappa\sqrt q$, which a given input's projection exceeds once in $8/\delta$ times."""
        factor = projection_factor(self.num_projections, math.log(8 / delta))
        return kernel_size(self.kernel, self.input_bound) * math.sqrt(factor)

    def _mu(self, num_samples: int, norm_bound: float, epsilon: float, delta: float) -> float:
        stds = self.noise_std(num_samples, epsilon, delta)
        bounds = {"norm_bound": norm_bound, "label_bound": self.label_bound}
        return joint_mu(stds, num_samples=num_samples, **bounds)

    def _public_statement(self, num_samples, norm_bound, source, epsilon, delta) -> Release:
        mu = self._mu(num_samples, norm_bound, epsilon, delta)
        mechanism, remarks = Unproved(_UNBOUNDED), ()
        if math.isfinite(mu):
            mechanism = Gaussian(mu)
            remarks = (
                _PUBLIC,
                (
                    f"proved for every table: this projection's norm is at most {norm_bound:.4g} "
                    f"anywhere; the noise is printed for {self._tail_bound(delta):.4g}"
                ),
            )
        return statement(_WHAT, mechanism, source, *remarks, epsilon=epsilon, delta=delta)

    def _secret_statement(self, num_samples, source, epsilon, delta) -> Release:
        bound = self._tail_bound(delta)
        mu = self._mu(num_samples, bound, epsilon, delta)
        # The paths' variances are the kernel's and a nugget more.
        square = (bound / kernel_size(self.kernel, self.input_bound)) ** 2 / (1 + NUGGET)
        half = self.num_projections / 2
        tail = float(gammaincc(half, half * square))
        mechanism = GaussianUnlessFailure(mu, 2 * tail * (1 + 1e-9))
        return statement(_WHAT, mechanism, source, _SECRET, epsilon=epsilon, delta=delta)
