r"""Excess risk of private kernel ridge regression on a known spectrum, with its constants.

To first order, with N and N_2 the effective dimensions of order 1 and 2, the risk is
$$ \sum_l\frac{\lambda^2\theta_l^2}{(\mu_l + \lambda)^2} + \frac{\lambda N S}{M} +
   \frac{\sigma^2 N_2}{n} + (s_u^2 + v\lVert\beta\rVert^2)\frac{N - N_2}{\lambda}, $$
with S near the target's squared norm in the RKHS. The bound by norms of PK Lemma 14 has $M/\lambda$
where the last term has $(N - N_2)/\lambda$: the ridge filters the noise, and more features add
little to it.

Two things are left out: clipping of features, which must be rare, and the projection of the noisy
second moment on the positive cone, which matters near the noise's own spectrum.
"""

import math

import numpy as np
import scipy

from jaxdp.core.checks import (
    require_host,
    require_kind,
    require_non_negative,
    require_positive,
)
from jaxdp.theory.kernels.ridge_equivalent import (
    ExcessRisk,
    ReleaseNoise,
    RidgeEquivalent,
    TunedRisk,
)
from jaxdp.theory.kernels.spectrum import KernelSpectrum

_GRID = 14
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
    """The predicted mean squared distance to the target, by the equivalent of `ridge_equivalent`.

    Args:
        spectrum: of the kernel whose sample paths are the features; of the features themselves
            (Fourier features, eigenfunctions) where `num_projections` is infinite.
        ridge: lambda > 0, added to the averaged second moment.
        num_projections: M; infinite where the features are not projected.
        num_outputs: features that carry matrix noise; M by default.
        num_samples: n; infinite for the population.
        label_noise: standard deviation of y - f(x).
        noise: of the release.

    Returns:
        The risk in parts.

    Raises:
        ValueError: an argument is out of its range, or there is noise on an infinite matrix.

    Example:
        >>> from jaxdp.theory import KernelSpectrum, ReleaseNoise, predicted_excess_risk
        >>> spectrum = KernelSpectrum.power_law(capacity=0.5, source=0.75)
        >>> given = {"num_projections": 50, "num_samples": 10_000, "label_noise": 0.1}
        >>> noise = ReleaseNoise(matrix=1e-3, vector=1e-3)
        >>> risk = predicted_excess_risk(spectrum, ridge=0.05, **given, noise=noise)
        >>> print(f"bias {risk.bias:.4f}, privacy {risk.privacy:.4f}, total {risk.total:.4f}")
        bias 0.0089, privacy 0.0001, total 0.0136
    """
    _check_spectrum(spectrum)
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
    """The least predicted excess risk over the ridge and M, the number of projections.

    M is taken as a real number.

    Args:
        spectrum: of the kernel.
        num_samples: n; infinite for the population.
        label_noise: standard deviation of y - f(x).
        noise: of the release, on the matrix: without it more features would always be better.

    Returns:
        The best `ridge` and `num_projections`, and the `risk` there, in parts.

    Raises:
        ValueError: an argument is out of its range, or the matrix has no noise.

    Example:
        >>> from jaxdp.theory import KernelSpectrum, ReleaseNoise, tuned_excess_risk
        >>> spectrum = KernelSpectrum.power_law(capacity=0.5, source=0.75)
        >>> noise = ReleaseNoise(matrix=1e-3, vector=1e-3)
        >>> tuned = tuned_excess_risk(spectrum, num_samples=10_000, label_noise=0.1, noise=noise)
        >>> print(f"ridge {tuned.ridge:.3f}, risk {tuned.risk.total:.4f}")
        ridge 0.024, risk 0.0033
    """
    _check_spectrum(spectrum)
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


def _check_spectrum(spectrum: KernelSpectrum) -> None:
    require_kind("spectrum", spectrum, KernelSpectrum, "a jaxdp.theory.KernelSpectrum")


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
