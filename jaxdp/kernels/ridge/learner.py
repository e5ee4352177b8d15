r"""Private kernel ridge regression: a public projection, one Gaussian release, a function.

PK Algorithm 1 with changes that cost no budget: each record's features come from a public seed and
that record alone, clipped to a public bound, so the guarantee needs neither a secret projection nor
a tail bound; the statistics are released together (`joint_release`), by the exact Gaussian
mechanism; the noisy matrix is projected on the positive semi-definite cone, and predictions are
clipped to the label bound. An intercept may be released first.

*Proof.* Fix the public seed: z is a fixed function of one input, $|z| \le B$. The intercept is the
mean of labels in $[-T, T]$, of sensitivity 2T/n, with Gaussian noise: $\mu_b$-GDP. Given its value
b, the residuals y - b clipped to $[-R, R]$ are functions of one record each, and the release of (C,
w u) has sensitivity $\Delta(a)/n$: $\mu_r$-GDP for every b. The two compose to $\sqrt{\mu_b^2 +
\mu_r^2}$ (Dong, Roth and Su 2022, Corollary 3.3), which is $\mu(\epsilon, \delta)$ exactly. All
later steps use only b, (C, u) and public numbers: post-processing. The proof holds for every data
set, seed and input. Neighbours differ in one record (replace-one), n is public. Errors, warnings
and the running time are outside the guarantee.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import described, host_number, require_count, require_positive
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.features.public_features import AbstractFeatureLearner
from jaxdp.kernels.release.joint_release import (
    MAX_BLOCK_ROWS,
    JointNoise,
    exact_sums,
    grid_bits,
    noisy_sums,
    unit_labels,
)
from jaxdp.kernels.ridge.rules import AbstractRidgeRule, NoiseRidge, NoisyStatistics, ridge_solution
from jaxdp.privacy.budgets import AbstractBudget, budget_of
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise

_ASSUMPTIONS = (
    "each record's features are a function of that record alone, to the last bit",
    "public, and chosen without looking at the data: the number of records, the names of columns, "
    "the bounds, the kernel or feature map, the seed of the features; inputs are scaled by public "
    "ranges, if at all",
    "errors, warnings and running times are not released",
)
_CERTIFIED = (
    "proved in the arithmetic of the machine, IEEE float64 on the host: sums are exact, and what "
    "is released has exactly the law of rounded normal noise"
)
_ROUNDING = 1e-10


class RidgeNoise(NamedTuple):
    """Standard deviations of the noise, for bounds of one; `mean` is 0 without a mean label."""

    mean: float
    joint: JointNoise

    @classmethod
    def calibrated(cls, mu: float, share: float, balance: float) -> "RidgeNoise":
        r"""Noise for mu in all; the mean label, of sensitivity 2, gets this share of $\mu^2$."""
        mean = 2 / (mu * math.sqrt(share)) * (1 + _ROUNDING) if share else 0.0
        return cls(mean, JointNoise.calibrated(mu * math.sqrt(1 - share), balance))

    def grid_bits(self, num_samples: int) -> int:
        return grid_bits(num_samples, max(self.mean, *self.joint))


class PrivateKernelRidge(AbstractFeatureLearner):
    r"""$(\epsilon, \delta)$-DP kernel ridge regression, exactly $\mu(\epsilon, \delta)$-GDP.

    Args:
        kernel: the kernel k; None is allowed with a feature map.
        num_projections: M, the number of Gaussian-process paths used as features.
        num_features: L, the number of random features of which the paths are made.
        label_bound: T > 0, public; labels beyond it are clipped.
        ridge: $\lambda$, added to the averaged statistics (C/n + lambda I), or a rule such as
            `SelectedRidge`. None is `NoiseRidge`, as large as the noise.
        intercept_share: part in [0, 1) of $\mu^2$ spent on the mean label. With strong privacy
            little but the mean can be learnt: 0.2, with a residual bound T/2, preserves it.
        input_bound: Euclidean norm to which rows are first scaled down; needed if nothing else
            bounds the kernel. Infinity: public numbers have scaled the inputs already.
        input_range: (low, high), public ends of the columns' ranges, (d,) each, which are clipped
            to them and mapped to [-1, 1]. Excludes `input_bound`.
        feature_map: replaces the sample paths: a public map or any function of one row, chosen
            without the data; features of a function are clipped to norm one.
        residual_bound: R > 0, to which labels minus the intercept are clipped; None for T.
        balance: $a = w^2 T^2 / B^2 > 0$, which shares the noise between C and u. At 1 both get the
            same noise (for B = T = 1); at 2 u gets the least noise of any balance.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge
        >>> learner = PrivateKernelRidge(Gaussian(0.5), 20, label_bound=1.0, input_bound=1.0)
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> learner.fit(np.ones((9, 2)), np.ones(9), **budget)(np.ones((3, 2))).shape
        (3,)
    """

    label_bound: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    ridge: Any = eqx.field(converter=plain_number, default=None)
    intercept_share: float = eqx.field(static=True, converter=plain_number, default=0.0)
    residual_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    balance: float = eqx.field(static=True, converter=plain_number, default=1.0, kw_only=True)

    def __check_init__(self):
        for name in ("label_bound", "balance"):
            require_positive(name, host_number(name, getattr(self, name)))
        if self.residual_bound is not None:
            require_positive("residual_bound", host_number("residual_bound", self.residual_bound))
        if not 0 <= host_number("intercept_share", self.intercept_share) < 1:
            raise ValueError(f"expected 0 <= intercept_share < 1, got {self.intercept_share}")
        if self.ridge is not None and not isinstance(self.ridge, AbstractRidgeRule):
            if np.ndim(self.ridge) or np.asarray(self.ridge).dtype.kind not in "fiu":
                raise TypeError(
                    "expected ridge to be None, a number or a rule such as "
                    f"jaxdp.kernels.SelectedRidge(), got {described(self.ridge)}"
                )
            require_positive("ridge", self.ridge)

    def noise_std(self, num_samples: int, epsilon: Any, delta: Any = None) -> dict[str, float]:
        r"""Standard deviations of the noise on the averaged statistics.

        "C" is on the diagonal of $\sum z z^\top / n$ (divided by $\sqrt 2$ off it), "u" on $\sum y
        z / n$, "intercept" on the mean label, if one is released.
        """
        num_samples = require_count("num_samples", num_samples)
        mean, joint = self._noise(budget_of(epsilon, delta))
        bound = self.feature_bound
        found = {
            "C": joint.covariance * bound**2 / num_samples,
            "u": joint.correlation * bound * self._residual_bound / num_samples,
        }
        if self.intercept_share:
            found["intercept"] = mean * self.label_bound / num_samples
        return found

    def _release(self, request):
        features = self.features(request.dim, request.public_seed)
        request = request.clipped(self.label_bound)
        noise = self._noise(request.budget)
        source, num_samples = request.noise(), request.num_samples
        bits = noise.grid_bits(num_samples)
        intercept = 0.0
        if noise.mean:
            total = unit_labels(request.targets, self.label_bound, bits).astype(np.int64).sum()
            hidden = source.hiding(total, noise.mean, bits)
            mean = int(hidden.noisy_integers(total, noise.mean * 2.0**bits, "intercept"))
            mean /= num_samples * 2.0**bits
            intercept = float(np.clip(mean, -1, 1)) * self.label_bound
        sums = exact_sums(
            row_blocks(features, request.table, rows=MAX_BLOCK_ROWS),
            request.targets - intercept,
            num_outputs=features.num_outputs,
            feature_bound=self.feature_bound,
            label_bound=self._residual_bound,
            bits=bits,
        )
        covariance, correlation = noisy_sums(sums, source, noise.joint, bits)
        statistics = NoisyStatistics(
            covariance / num_samples,
            correlation / num_samples,
            JointNoise(*(std / num_samples for std in noise.joint)),
            num_samples,
            request.epsilon,
        )
        coefficients = self._coefficients(statistics, request.public_seed)
        return request.released(
            features,
            request.in_precision(coefficients),
            self._statement(request.budget, source),
            intercept=request.in_precision(intercept),
            label_bound=self.label_bound,
        )

    @property
    def _residual_bound(self) -> float:
        return self.label_bound if self.residual_bound is None else self.residual_bound

    def _noise(self, budget: AbstractBudget) -> RidgeNoise:
        mu = budget.largest_mu
        if not 0 < mu < math.inf:
            raise ValueError(
                f"expected an epsilon that some noise is calibrated to, got {budget!r}"
            )
        return RidgeNoise.calibrated(mu, self.intercept_share, self.balance)

    def _coefficients(self, statistics: NoisyStatistics, public_seed: int):
        rule, bound = self.ridge, self.feature_bound
        if rule is None:
            rule = NoiseRidge(1.0 if self.intercept_share else 0.5)
        if isinstance(rule, AbstractRidgeRule):
            ridge = rule.choose(statistics, public_seed=public_seed)
        else:
            ridge = float(rule) / bound**2
        return ridge_solution(statistics, ridge) * self._residual_bound / bound

    def _statement(self, budget: AbstractBudget, source: SecretNoise) -> Release:
        what = "noisy sums of clipped features and labels, and the function made of them"
        if self.intercept_share:
            what = f"a noisy mean label, {what}"
        return Release(
            what,
            "replace-one",
            source.proved(GaussianMechanism(budget.largest_mu)),
            (*_ASSUMPTIONS, *source.assumptions(_CERTIFIED)),
            is_certified=not source.is_guessable,
        )
