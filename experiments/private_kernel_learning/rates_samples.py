r"""How the excess risk falls with n: without privacy, and at a fixed mu, where $n\mu$ grows with n.

The other runs have n = 10^9 and measure exponents of $n\epsilon$ alone. The learner is random
projection, with the squared loss and, as an oracle's, the ridge of the least mean risk.
"""

import math

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.rates_runs import (
    LABEL_NOISE,
    SPAN,
    Setting,
    best,
    joint_noise,
    ridge_runs,
)
from experiments.statements.private_kernel_learning.rates import random_projection_rate
from jaxdp.theory import predicted_excess_risk, tuned_excess_risk

# Rows of norm near 1 are hardly ever longer: where nothing is private nothing has to be clipped.
_UNCLIPPED = 4.0
_RIDGES = np.geomspace(5, 1e-2, 60)


def without_privacy(
    setting: Setting, source: float, capacity: float
) -> tuple[Float[np.ndarray, " runs"], float]:
    """Runs and the predicted risk without noise, at Theorem 11's M for n (constants 1)."""
    rate, num_samples = random_projection_rate(source, capacity), setting.num_samples
    assert rate.ridge is not None
    assert rate.projections is not None
    count = math.ceil(num_samples**rate.projections.samples)
    ridges = _RIDGES * num_samples**-rate.ridge.samples
    predicted = [
        predicted_excess_risk(
            setting.torus.spectrum(),
            ridge=ridge,
            num_projections=count,
            num_samples=num_samples,
            label_noise=LABEL_NOISE,
        ).total
        for ridge in ridges
    ]
    runs = ridge_runs(
        setting._replace(level=math.inf),
        lambda rng: setting.torus.paths(count, rng),
        ridges[np.argmin(predicted)] * SPAN,
        _UNCLIPPED,
    )
    return best(runs), min(predicted)


def at_fixed_budget(setting: Setting) -> tuple[Float[np.ndarray, " runs"], float]:
    """The same of the private learner, at the M and ridge of the least predicted risk."""
    tuned = tuned_excess_risk(
        setting.torus.spectrum(),
        noise=joint_noise(setting.level),
        num_samples=setting.num_samples,
        label_noise=LABEL_NOISE,
    )
    count = min(round(tuned.num_projections), setting.torus.num_points // 2)
    runs = ridge_runs(setting, lambda rng: setting.torus.paths(count, rng), tuned.ridge * SPAN)
    return best(runs), tuned.risk.total
