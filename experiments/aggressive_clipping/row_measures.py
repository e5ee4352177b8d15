r"""How far rows are from what the theory takes them for.

The theory knows data by two numbers, descent $\mu_c$ and noise $\nu_c$ of clipped gradients, in
the limit where $\|x\|^2/d$ is 1 and residuals are Gaussian whatever the input. Both are measured
on the rows of a table and on Gaussian rows of the same covariance, over their limits.
"""

import numpy as np
import xarray

import jaxdp
from experiments.harness import dataset
from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor

COLUMNS = ("table", "surrogate")
# Shares of the way from 0 to theta* at which descent is measured.
_PROGRESS = (0.0, 0.8)


def measure(problem: jaxdp.TabularRegression, clip_scale: float, seed: int) -> xarray.Dataset:
    """How far a table's rows, and as good as infinitely many Gaussian ones, are from the theory.

    Args:
        problem: the table.
        clip_scale: c.
        seed: of the Gaussian rows.
    """
    surrogate = problem.surrogate
    spectrum, target = (np.asarray(of, np.float64) for of in (surrogate.spectrum, surrogate.target))
    noise, dim = float(surrogate.label_noise), problem.dim
    inputs = np.asarray(problem.rows, np.float64)
    residuals = np.asarray(problem.centred_labels, np.float64) - inputs @ target
    random = np.random.default_rng(seed)
    count = max(len(inputs) // 2, 4_000_000 // dim)
    gaussian = random.normal(size=(count, dim)) * np.sqrt(spectrum)
    columns = [(inputs, residuals), (gaussian, noise * random.normal(size=count))]
    factors = [_factors(spectrum, target, noise, clip_scale, *rows) for rows in columns]
    square_sum = np.sum(spectrum**2)
    spread = np.std(np.sum(inputs**2, axis=1) / dim)
    # |x|^2/d has variance 2 tr(Sigma^2)/d^2 when x is Gaussian.
    spreads = [spread, np.sqrt(2 * square_sum) / dim]
    numbers = {
        "dim": dim,
        "num_rows": len(inputs),
        "initial_risk": np.sum(spectrum * target**2) / 2,
        "label_noise": noise,
        "effective_dim": dim**2 / square_sum,
        "residual_kurtosis": np.mean(residuals**4) / np.mean(residuals**2) ** 2 - 3,
    }
    descents, errors, noises = map(list, zip(*factors, strict=True))
    return dataset(
        {"column": COLUMNS, "progress": _PROGRESS},
        {
            (): numbers,
            "column": {"norm_spread": spreads, "noise_ratio": noises},
            ("column", "progress"): {"descent_ratio": descents, "descent_ratio_error": errors},
        },
    )


def _factors(spectrum, target, noise, clip_scale, inputs, residuals):
    r"""Clipped descent at each share of the way, its standard errors, and noise at theta*.

    Descent is $E[\mathrm{clip}(g)]^\top\nabla R$ over $\mu_c\|\nabla R\|^2$, noise is
    $E\|\mathrm{clip}(g)\|^2$ over $\nu_c\zeta^2 d$. Source: AC (27) to (30).
    """
    norms = np.linalg.norm(inputs, axis=1)
    limit = clip_scale * np.sqrt(len(spectrum))

    def clipped(residual):
        size = norms * np.abs(residual)
        return residual * limit / np.maximum(size, limit)

    means, errors = [], []
    for progress in _PROGRESS:
        offset = (1 - progress) * target
        slope = spectrum * offset
        scale = np.sqrt(np.sum(offset * slope) + noise**2)
        descents = clipped(inputs @ offset + residuals) * (inputs @ slope)
        descents /= float(descent_factor(clip_scale / scale)) * np.sum(slope**2)
        means.append(descents.mean())
        errors.append(descents.std() / len(descents) ** 0.5)
    power = np.mean((clipped(residuals) * norms) ** 2)
    variance = float(variance_factor(clip_scale / noise)) * noise**2 * len(spectrum)
    return means, errors, power / variance
