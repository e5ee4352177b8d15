r"""Private ridge regression on random features: its excess risk's deterministic equivalent.

The learner releases $\hat C + E$ and $\hat u + e$, averages over n rows of M features, and predicts
by $(\hat C + E + \lambda)^{-1}(\hat u + e)$. Each of three random matrices is replaced by an
equivalent ridge. With $\mu_l$, $\theta_l$ of the kernel and its target, and $N$, $N_2$ the sums of
$\mu/(\mu + \kappa)$ and of its square:

1. *Privacy.* E is symmetric with variances v off the diagonal and 2v on it, e has variances
   $s_u^2$. To leading order in M the mean of $Q = (\hat C + E + \lambda)^{-1}$ is
   $G = (\hat C + \lambda_1)^{-1}$ with $\lambda = \lambda_1 + v\operatorname{tr}G$, and that of
   $QBQ$ is $GBG + v\operatorname{tr}(GBG)\,G^2/(1 - v\operatorname{tr}G^2)$ (Wigner). So the risk
   is that of the public ridge $\beta = G\hat u$ at the *smaller* $\lambda_1$, plus $(s_u^2 +
   v\lVert\beta\rVert^2)\operatorname{tr}(GCG)/(1 - v\operatorname{tr}G^2)$.
2. *Samples* (Marchenko and Pastur). $\lambda_1 = \kappa_1(1 - D_1/n)$ and the public risk is
   $B + \tau^2D_2/n$ with $\tau^2 = (B + \sigma^2)/(1 - D_2/n)$: $D_i$ is the trace of the i-th
   power of $C(C + \kappa_1)^{-1}$, B the risk of the ridge $\kappa_1$ on C itself.
3. *Projection* (the same, with M for n). $\kappa_1 = \kappa(1 - N/M)$, $D_1 = N$,
   $D_1 - D_2 = (N - N_2)(M - N)/(M - N_2)$ and
   $B = \sum\kappa^2\theta^2/(\mu + \kappa)^2 + \kappa S(N - N_2)/(M - N_2)$ with
   $S = \sum\theta^2\mu/(\mu + \kappa)^2$.

The prediction is exact as n, M and N grow and the projected rows look Gaussian; on the torus it is
within the simulation's error from N = 8 on. To first order, with $S$ near the target's squared norm
in the RKHS, the risk is
$$ \sum_l\frac{\lambda^2\theta_l^2}{(\mu_l + \lambda)^2} + \frac{\lambda N S}{M} +
   \frac{\sigma^2 N_2}{n} + (s_u^2 + v\lVert\beta\rVert^2)\frac{N - N_2}{\lambda}. $$
PK Lemma 14 bounds the last term with $M/\lambda$ in place of $(N - N_2)/\lambda$. Not modelled:
clipping of features, and the projection of the noisy second moment on the positive cone, which
matters near the noise's own spectrum. Derived: test_kernel_risk.py.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from jaxdp.core.checks import require_host, require_kind, require_non_negative, require_positive
from jaxdp.theory.kernels.spectrum import Dimensions, KernelSpectrum

# The search for kappa ends this many decades below the largest. With matrix noise and no projection
# it also ends at this share of the least eigenvalue, below which rounding hides the noise.
_DECADES = 30
_LEAST_SHARE = 1e-7
_TOLERANCE = 1e-13
# Offset of ln kappa past the edge of the noise's spectrum: more than the root's error.
_BEYOND = 1e-12
# Starting points of a search along each of ridge and projections.
_GRID = 14


class ExcessRisk(NamedTuple):
    """Mean squared distance to the target in four parts, in units of the squared label.

    All four are infinite if the ridge lies within the noise's own spectrum.

    Attributes:
        bias: part due to the ridge.
        projection: part due to random projection.
        sampling: part due to random labels and inputs.
        privacy: part due to the noise.

    Example:
        >>> from jaxdp.theory import ExcessRisk
        >>> print(f"{ExcessRisk(bias=0.01, projection=0.0, sampling=0.02, privacy=0.03).total:.2f}")
        0.06
    """

    bias: float
    projection: float
    sampling: float
    privacy: float

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return math.fsum(self)


class TunedRisk(NamedTuple):
    """The best ridge and number of projections for a spectrum, and the risk there."""

    ridge: float
    num_projections: float
    risk: ExcessRisk


class ReleaseNoise(NamedTuple):
    r"""Standard deviations of the noise of a private learner, in units of the averaged statistics.

    Attributes:
        matrix: noise on a diagonal entry of the second moment C; $1/\sqrt 2$ of it off the
            diagonal.
        vector: noise on an entry of u, or of b/n in objective perturbation of the squared loss.
        coefficients: noise on a fitted coefficient: output perturbation, and Algorithm 5, whose
            Gaussian process of covariance k has such coefficients.

    Example:
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge
        >>> from jaxdp.theory import ReleaseNoise
        >>> learner = PrivateKernelRidge(Gaussian(1.0), label_bound=1.0)
        >>> stds = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> noise = ReleaseNoise(matrix=stds["C"], vector=stds["u"])
        >>> print(f"{noise.matrix:.5f}, {noise.vector:.5f}, {noise.coefficients}")
        0.00079, 0.00079, 0.0
    """

    matrix: float = 0.0
    vector: float = 0.0
    coefficients: float = 0.0


class RidgeEquivalent(NamedTuple):
    """A learner's risk as a function of the innermost ridge kappa, here called `effective`."""

    spectrum: KernelSpectrum
    num_projections: float
    num_outputs: float
    num_samples: float
    label_noise: float
    noise: ReleaseNoise

    def ridge(self, effective: float) -> float:
        """lambda, from kappa; increasing outside the noise's spectrum."""
        dim = self.spectrum.effective_dimension(effective)
        within = self._within(effective, dim)
        if not self._variance:
            return within
        return within + self._variance * self._left(effective, dim) / within

    def effective_ridge(self, ridge: float) -> float | None:
        """kappa, from lambda; None inside the noise's spectrum."""
        # At the upper end N is at most a quarter of M and of n, so that lambda_1 > lambda there.
        room = min(self.num_projections, self.num_samples)
        high = math.log(4 * (ridge + self.spectrum.trace / room))
        low = high - _DECADES * math.log(10)
        if self._variance and math.isinf(self.num_projections):
            mu = self.spectrum.eigenvalues
            low = max(low, math.log(_LEAST_SHARE * mu[mu > 0].min()))
        if self._margin(high) <= 0:
            return None
        if self._margin(low) <= 0:
            low = _root(self._margin, low, high) + _BEYOND
        if self.ridge(math.exp(low)) > ridge:
            return None
        return math.exp(_root(lambda log: self.ridge(math.exp(log)) - ridge, low, high))

    def risk(self, effective: float) -> ExcessRisk:
        if self._margin(math.log(effective)) <= 0:
            return ExcessRisk(*[math.inf] * 4)
        mu, target = self.spectrum.eigenvalues, self.spectrum.squared_target
        times, features, rows = self.spectrum.multiplicities, self.num_projections, self.num_samples
        sizes = self.spectrum.dimensions(effective)
        dim, square, apart = sizes
        spread = self._spread(sizes)
        bias = times @ (target * (effective / (mu + effective)) ** 2)
        seen = times @ (target * mu / (mu + effective) ** 2)
        swell = 1 / (1 - square / features)
        lost = effective * seen * apart / features * swell
        middle = effective * (1 - dim / features)
        error = (bias + lost + self.label_noise**2) / (1 - (dim - spread) / rows)
        squared_norm = seen * swell + error / rows * spread / middle
        per_entry = self.noise.vector**2 + self._variance * squared_norm
        private = per_entry * self._gain(effective, sizes) / self._determinacy(effective, sizes)
        private += self.noise.coefficients**2 * self.spectrum.trace
        return ExcessRisk(*map(float, (bias, lost, error * (dim - spread) / rows, private)))

    @property
    def _variance(self) -> float:
        return self.noise.matrix**2 / 2

    def _within(self, effective: float, dim: float) -> float:
        """lambda_1, from kappa and N."""
        return effective * (1 - dim / self.num_projections) * (1 - dim / self.num_samples)

    def _left(self, effective: float, dim: float) -> float:
        """M - D_1, without cancellation if the number of projections is infinite."""
        if math.isfinite(self.num_projections):
            return self.num_outputs - dim
        mu, times = self.spectrum.eigenvalues, self.spectrum.multiplicities
        is_seen = mu > 0
        lost = times[is_seen] @ (effective / (mu[is_seen] + effective))
        return self.num_outputs - times[is_seen].sum() + lost

    def _spread(self, sizes: Dimensions) -> float:
        """D_1 - D_2."""
        dim, square, apart = sizes
        kept = (1 - dim / self.num_projections) / (1 - square / self.num_projections)
        return apart * kept

    def _gain(self, effective: float, sizes: Dimensions) -> float:
        """tr GCG: the squared norm that the ridge leaves of white noise on u."""
        dim, spread = sizes.first, self._spread(sizes)
        middle = effective * (1 - dim / self.num_projections)
        rows = self.num_samples
        return spread / middle / (1 - (dim - spread) / rows) / (1 - dim / rows) ** 2

    def _determinacy(self, effective: float, sizes: Dimensions) -> float:
        """1 - v tr G^2, which is 0 at the edge of the noise's spectrum."""
        if not self._variance:
            return 1.0
        dim, spread = sizes.first, self._spread(sizes)
        within = self._within(effective, dim)
        middle = effective * (1 - dim / self.num_projections)
        slope = spread / middle / (1 - (dim - spread) / self.num_samples)
        return 1 - self._variance * (self._left(effective, dim) / within - slope) / within

    def _margin(self, log_effective: float) -> float:
        """Positive exactly if kappa belongs to a lambda > 0 outside the noise's spectrum."""
        effective = math.exp(log_effective)
        sizes = self.spectrum.dimensions(effective)
        room = 1 - sizes.first / min(self.num_projections, self.num_samples)
        return min(room, self._determinacy(effective, sizes)) if room > 0 else room


_NO_NOISE = ReleaseNoise()


def predicted_excess_risk(
    spectrum: KernelSpectrum,
    *,
    ridge: float,
    num_projections: float = math.inf,
    num_outputs: float | None = None,
    num_samples: float = math.inf,
    label_noise: float = 0.0,
    noise: ReleaseNoise = _NO_NOISE,
) -> ExcessRisk:
    """Predict the excess risk of a private kernel learner, by its equivalent ridge.

    Args:
        spectrum: spectrum of the kernel whose sample paths are the features. If `num_projections`
            is infinite, spectrum of the features themselves (Fourier features, eigenfunctions).
        ridge: lambda > 0, added to the averaged second moment.
        num_projections: M; infinite (default) for features without projection.
        num_outputs: number of features that carry matrix noise; M by default.
        num_samples: n; infinite (default) for the population.
        label_noise: standard deviation of y - f(x).
        noise: noise of the release; none by default.

    Returns:
        The risk in parts.

    Raises:
        ValueError: an argument is out of range, or there is noise on an infinite matrix.

    Example:
        >>> from jaxdp.theory import KernelSpectrum, ReleaseNoise, predicted_excess_risk
        >>> spectrum = KernelSpectrum.power_law(capacity=0.5, source=0.75)
        >>> given = {"num_projections": 50, "num_samples": 10_000, "label_noise": 0.1}
        >>> noise = ReleaseNoise(matrix=1e-3, vector=1e-3)
        >>> risk = predicted_excess_risk(spectrum, ridge=0.05, **given, noise=noise)
        >>> print(f"bias {risk.bias:.4f}, privacy {risk.privacy:.4f}, total {risk.total:.4f}")
        bias 0.0089, privacy 0.0001, total 0.0136
    """
    require_kind("spectrum", spectrum, KernelSpectrum, "a jaxdp.theory.KernelSpectrum")
    require_host("ridge", ridge)
    require_positive("ridge", ridge)
    _check_release(num_projections, num_samples, label_noise, noise)
    num_outputs = num_projections if num_outputs is None else num_outputs
    require_positive("num_outputs", num_outputs, infinite=True)
    if noise.matrix > 0 and not math.isfinite(num_outputs):
        raise ValueError("expected finite num_outputs with noise on the matrix, got inf")
    learner = RidgeEquivalent(
        spectrum, num_projections, num_outputs, num_samples, label_noise, noise
    )
    effective = learner.effective_ridge(ridge)
    return ExcessRisk(*[math.inf] * 4) if effective is None else learner.risk(effective)


def tuned_excess_risk(
    spectrum: KernelSpectrum,
    *,
    num_samples: float = math.inf,
    label_noise: float = 0.0,
    noise: ReleaseNoise,
) -> TunedRisk:
    """The least predicted excess risk over the ridge and the number of projections, a real number.

    Args:
        spectrum: spectrum of the kernel.
        num_samples: n; infinite (default) for the population.
        label_noise: standard deviation of y - f(x).
        noise: noise of the release. Its `matrix` must be positive: otherwise more features are
            always better.

    Returns:
        The best `ridge` and `num_projections`, and the `risk` there, in parts.

    Raises:
        ValueError: an argument is out of range, or the matrix has no noise.

    Example:
        >>> from jaxdp.theory import KernelSpectrum, ReleaseNoise, tuned_excess_risk
        >>> spectrum = KernelSpectrum.power_law(capacity=0.5, source=0.75)
        >>> noise = ReleaseNoise(matrix=1e-3, vector=1e-3)
        >>> tuned = tuned_excess_risk(spectrum, num_samples=10_000, label_noise=0.1, noise=noise)
        >>> print(f"ridge {tuned.ridge:.3f}, risk {tuned.risk.total:.4f}")
        ridge 0.024, risk 0.0033
    """
    require_kind("spectrum", spectrum, KernelSpectrum, "a jaxdp.theory.KernelSpectrum")
    _check_release(math.inf, num_samples, label_noise, noise)
    require_positive("noise.matrix", noise.matrix)

    def learner(log_projections: float) -> RidgeEquivalent:
        features = math.exp(log_projections)
        return RidgeEquivalent(spectrum, features, features, num_samples, label_noise, noise)

    def objective(point) -> float:
        total = learner(point[1]).risk(math.exp(point[0])).total
        return math.log(total) if math.isfinite(total) else math.inf

    top, size = math.log(spectrum.eigenvalues.max()), math.log(noise.matrix)
    ridges = np.linspace(min(size, top) - 2, top, _GRID)
    features = np.linspace(0.5, max(-2 * size, 1), _GRID)
    start = min(((ridge, count) for ridge in ridges for count in features), key=objective)
    found = scipy.optimize.minimize(
        objective, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9}
    )
    effective, best = math.exp(found.x[0]), learner(found.x[1])
    return TunedRisk(best.ridge(effective), best.num_projections, best.risk(effective))


def _check_release(
    num_projections: float, num_samples: float, label_noise: float, noise: ReleaseNoise
) -> None:
    require_kind("noise", noise, ReleaseNoise, "a jaxdp.theory.ReleaseNoise")
    require_host("arguments", (num_projections, num_samples, label_noise, tuple(noise)))
    require_positive("num_projections", num_projections, infinite=True)
    require_positive("num_samples", num_samples, infinite=True)
    require_non_negative("label_noise", label_noise)
    for name, value in noise._asdict().items():
        require_non_negative(f"noise.{name}", value)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=_TOLERANCE))  # pyright: ignore[reportArgumentType]
