r"""Private kernel ridge regression: a public projection, one Gaussian release, a function.

PK Algorithm 1 with five changes, each of which costs nothing or saves budget. (1) Each record's
features come from a public seed and that record alone, and are clipped to a public bound, so the
guarantee needs neither a secret projection nor a tail bound. (2) The statistics are released
together (`joint_release`), (3) by the exact Gaussian mechanism. (4) The noisy matrix is projected
on the positive semi-definite cone and (5) predictions are clipped to the label bound. An intercept
may be released first.

*Proof.* Fix the public seed: z is a fixed function of one input, $|z| \le B$. The intercept is the
mean of labels in $[-T, T]$, of sensitivity 2T/n, with Gaussian noise: $\mu_b$-GDP. Given its value
b, the residuals y - b clipped to $[-R, R]$ are functions of one record each, and the release of
(C, w u) has sensitivity $\Delta(a)/n$: mu_r-GDP for every b. The two compose to
$\sqrt{\mu_b^2 + \mu_r^2}$ (Dong, Roth and Su 2022, Corollary 3.3), which is $\mu(\epsilon, \delta)$
exactly. Whatever follows looks at nothing but b, (C, u) and public numbers: post-processing. The
proof holds for every data set, seed and input; how well the features stand for the kernel matters
to accuracy alone. Neighbours differ in one record (replace-one), n is public.

Outside the guarantee: that a fit raised an error, its running time, and warnings.
"""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_count, require_positive
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.bounded import ClippedFeatures
from jaxdp.kernels.fit_arguments import (
    check_budget,
    check_seeds,
    clipped_labels,
    noise_of_fit,
    require_positive_number,
    training_table,
)
from jaxdp.kernels.public_features import public_bound, public_features
from jaxdp.kernels.released import ReleasedFunction
from jaxdp.kernels.ridge_rules import (
    AbstractRidgeRule,
    FixedRidge,
    NoiseRidge,
    NoisyStatistics,
    ridge_path,
)
from jaxdp.kernels.ridge_statistics import (
    RidgeNoise,
    released_mean,
    released_statistics,
)
from jaxdp.privacy.gaussian import gaussian_mu
from jaxdp.privacy.mechanisms import Gaussian
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret_noise import SecretNoise

_ASSUMPTIONS = (
    "each record's features are a function of that record alone, to the last bit",
    "public, and chosen without looking at the data: the number of records, the bounds, the kernel "
    "or feature map, the seed of the features; inputs are scaled by public ranges, if at all",
    "errors, warnings and running times are not released",
)
_CERTIFIED = (
    "proved in the arithmetic of the machine: sums are exact, and what is released has exactly the "
    "law of rounded normal noise"
)


class PrivateKernelRidge(eqx.Module):
    r"""$(\epsilon, \delta)$-DP kernel ridge regression, proved for a published projection.

    The module's docstring holds the proof. The cost is exactly $\mu(\epsilon, \delta)$-GDP.

    Args:
        kernel: k; None is allowed where a feature map is given.
        num_projections: M, how many Gaussian-process paths the features are.
        num_features: L, of the random features that the paths are made of.
        label_bound: T > 0, public; labels beyond it are clipped.
        ridge: $\lambda$, added to the averaged statistics (C/n + lambda I); or a rule. None is
            `NoiseRidge`, as large as the noise.
        intercept_share: in [0, 1), the part of $\mu^2$ that is spent on the mean label. With
            strong privacy little but the mean can be learnt: .2, and a residual bound T/2, keep it.
        input_bound: rows are scaled down to this Euclidean norm first; needed where the kernel is
            bounded nowhere else.
        feature_map: instead of sample paths, a map of one input that is public: drawn without the
            data.
        residual_bound: R > 0, to which labels less the intercept are clipped; T when None.
        balance: $a = w^2 T^2 / B^2 > 0$, how the noise is shared by C and u. 1 gives both the same
            (for B = T = 1); at 2 u has the least noise that any balance gives it.

    Raises:
        ValueError, TypeError: an argument is out of its range.
    """

    kernel: AbstractKernel | None
    num_projections: int = eqx.field(static=True, converter=plain_number, default=200)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048)
    label_bound: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    ridge: Any = eqx.field(converter=plain_number, default=None)
    intercept_share: float = eqx.field(static=True, converter=plain_number, default=0.0)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    feature_map: AbstractFeatureMap | None = eqx.field(default=None, kw_only=True)
    residual_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    balance: float = eqx.field(static=True, converter=plain_number, default=1.0, kw_only=True)

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        for name in ("label_bound", "balance"):
            require_positive_number(name, getattr(self, name))
        for name in ("residual_bound", "input_bound"):
            if getattr(self, name) is not None:
                require_positive_number(name, getattr(self, name))
        if not 0 <= host_number("intercept_share", self.intercept_share) < 1:
            raise ValueError(f"expected 0 <= intercept_share < 1, got {self.intercept_share}")
        public_bound(self.kernel, self.feature_map, self.input_bound)
        if self.ridge is not None and not isinstance(self.ridge, AbstractRidgeRule):
            if np.ndim(self.ridge) or np.asarray(self.ridge).dtype.kind not in "fiu":
                raise TypeError(
                    "expected ridge to be None, a number or a rule such as "
                    f"jaxdp.kernels.SelectedRidge(), got {self.ridge!r}"
                )
            require_positive("ridge", self.ridge)

    @property
    def feature_bound(self) -> float:
        """B: what the map or the kernel guarantees, and features are clipped to."""
        return public_bound(self.kernel, self.feature_map, self.input_bound)

    def features(self, dim: int, public_seed: int) -> ClippedFeatures:
        """The clipped map that a fit with this seed uses: no data are asked for."""
        sizes = self.num_projections, self.num_features, dim
        maps = self.kernel, self.feature_map
        return public_features(*maps, sizes, input_bound=self.input_bound, public_seed=public_seed)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        r"""Standard deviations of the noise on the averaged statistics.

        Returns:
            "C": on the diagonal of $\sum z z^\top / n$; over $\sqrt 2$ off it. "u": on
            $\sum y z / n$. "intercept": on the mean label, where one is released.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        num_samples = require_count("num_samples", num_samples)
        mean, joint = self._noise(epsilon, delta)
        bound = self.feature_bound
        found = {
            "C": joint.covariance * bound**2 / num_samples,
            "u": joint.correlation * bound * self._residual_bound / num_samples,
        }
        if self.intercept_share:
            found["intercept"] = mean * self.label_bound / num_samples
        return found

    def fit(
        self,
        inputs: Float[Any, "n dim"],
        labels: Float[Any, " n"],
        *,
        epsilon: float,
        delta: float,
        public_seed: int,
        noise_seed: int | None = None,
    ) -> ReleasedFunction:
        """Learn from a table and release a function.

        Args:
            inputs: one record a row; scale them by public ranges, never by their own statistics.
            labels: one for each; those beyond the label bound are clipped, with a warning to
                whoever fits that the release does not repeat.
            epsilon: > 0 and finite.
            delta: in (0, 1).
            public_seed: of the features; it is published with the function.
            noise_seed: None for the operating system's entropy. One that is given must stay as
                secret as the data and be at least 2^128 (`secrets.randbits(256)`), else the cost
                is infinite; fits that hide other numbers have independent noise under it.

        Raises:
            ValueError, TypeError: an argument is out of its range, or not finite.
        """
        check_budget(epsilon, delta)
        check_seeds(public_seed, noise_seed)
        table, targets = training_table(inputs, labels)
        features = self.features(table.shape[1], int(public_seed))
        targets = clipped_labels(targets, self.label_bound)
        seeds, budget = (public_seed, noise_seed), (epsilon, delta)
        noise, source = (
            self._noise(*budget),
            noise_of_fit(table, targets, seeds=seeds, budget=budget),
        )
        intercept = released_mean(targets, self.label_bound, noise, source)
        statistics = released_statistics(
            features,
            table,
            targets - intercept,
            bounds=(self.feature_bound, self._residual_bound),
            noise=noise,
            source=source,
            epsilon=float(epsilon),
        )
        dtype = jnp.promote_types(jnp.asarray(table[:0]).dtype, jnp.float32)
        return ReleasedFunction(
            features=features,
            coefficients=jnp.asarray(self._coefficients(statistics, int(public_seed)), dtype),
            intercept=jnp.asarray(intercept, dtype),
            label_bound=self.label_bound,
            public_seed=int(public_seed),
            statement=self._statement(epsilon, delta, source),
            delta=float(delta),
        )

    @property
    def _residual_bound(self) -> float:
        return self.label_bound if self.residual_bound is None else self.residual_bound

    def _noise(self, epsilon: float, delta: float) -> RidgeNoise:
        check_budget(epsilon, delta)
        mu = gaussian_mu(epsilon, delta)
        if not 0 < mu < math.inf:
            raise ValueError(f"expected an epsilon that some noise is calibrated to, got {epsilon}")
        return RidgeNoise.calibrated(mu, self.intercept_share, self.balance)

    def _coefficients(self, statistics: NoisyStatistics, public_seed: int):
        rule, bound = self.ridge, self.feature_bound
        if rule is None:
            rule = NoiseRidge(1.0 if self.intercept_share else 0.5)
        elif not isinstance(rule, AbstractRidgeRule):
            rule = FixedRidge(float(rule) / bound**2)
        ridge = np.asarray([rule.choose(statistics, public_seed=public_seed)])
        found = ridge_path(statistics.covariance, statistics.correlation, ridge)[0]
        return found * self._residual_bound / bound

    def _statement(self, epsilon: float, delta: float, source: SecretNoise) -> Release:
        what = "noisy sums of clipped features and labels, and the function made of them"
        if self.intercept_share:
            what = f"a noisy mean label, {what}"
        return Release(
            what,
            "replace-one",
            source.proved(Gaussian(gaussian_mu(epsilon, delta))),
            (*_ASSUMPTIONS, *source.assumptions(_CERTIFIED)),
            is_certified=not source.is_guessable,
        )
