"""Values that algorithms and their training refuse, in one clear line.

Wrong kinds stand in test_wrong_calls.py, numbers and budgets in test_numbers.py.

Another refusal is one line of a table: what is changed in a call that is right, and what is said.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import NonPrivateOptimiser, train
from jaxdp.privacy import SecretNoise, ShuffledEpochs, square_root_strategy

STRATEGY = square_root_strategy(4, 0.1)
SGD = optax.sgd(0.1)
PRIVATE = {
    "optimiser": SGD,
    "clip_norm": 1.0,
    "noise_multiplier": 2.0,
    "num_steps": 3,
    "sampler": ShuffledEpochs(12, 12),
}
BUDGET = {"epsilon": 1.0, "delta": 1 / 2000, "learning_rate": 1e-3, "clip_norm": 2.0}
BUDGET |= {"num_steps": 1000, "calibration": jaxdp.ExactCalibration()}
PUBLISHED = {"calibration": jaxdp.PublishedCalibration()}


def _train(optimiser=PRIVATE, key=None, **options):
    """Twelve records; the optimiser is one, or the arguments of a private one."""
    made = jaxdp.PrivateOptimiser(**optimiser) if isinstance(optimiser, dict) else optimiser
    rows = jnp.zeros(2), jnp.ones((12, 2)), jnp.zeros(12)
    key = jr.key(0) if key is None else key
    return train(made, lambda weight, x, y: (weight @ x - y) ** 2, *rows, key=key, **options)


# name: (what is called, arguments that are right)
CALLS = {
    "one pass": (
        jaxdp.OnePassDPSGD,
        {"learning_rate": jaxdp.Constant(1.0), "clip_scale": 1.0, "rho": 1.0, "num_steps": 10},
    ),
    "descent": (
        jaxdp.DPGD,
        {"learning_rate": 0.1, "clip_norm": 1.0, "num_steps": 5, "noise_scale": 1.0},
    ),
    "calibrated": (jaxdp.DPGD.calibrated, BUDGET),
    "correlated": (
        jaxdp.CorrelatedDPSGD,
        {"rates": np.ones(4), "clip_scale": 0.5, "rho": 1.5, "batch_size": 5, "strategy": STRATEGY},
    ),
    "private": (jaxdp.PrivateOptimiser, PRIVATE),
    "baseline": (NonPrivateOptimiser, {"optimiser": SGD, "num_steps": 3}),
    "average": (jaxdp.ExponentialAverage, {"decay": 0.5}),
    "training": (_train, {}),
}
SECRET = {"noise": SecretNoise(2**200)}
REFUSED = [
    (
        "one pass",
        {"learning_rate": lambda t: 1 + (t > 0.5) - (t > 0.9)},
        "non-increasing learning rate",
    ),
    ("one pass", {"clip_scale": [1.0, 2.0]}, "vmap over the constructor"),
    ("one pass", {"clip_scale": np.inf}, "finite clip_scale"),
    ("one pass", {"rho": -1.0}, r"rho > 0, got -1\.0"),
    ("one pass", {"rho": np.nan}, "rho > 0, got nan"),
    ("one pass", {"num_steps": 0}, "num_steps >= 1, got 0"),
    ("one pass", {"num_steps": 2**31}, "num_steps < 2"),
    ("one pass", {"batch_size": 0}, "batch_size >= 1, got 0"),
    ("descent", {"learning_rate": 0.0}, "learning_rate > 0, got 0"),
    ("descent", {"clip_norm": -1.0}, "clip_norm > 0, got -1"),
    ("descent", {"clip_norm": np.inf}, "expected a finite clip_norm with noise_scale"),
    ("descent", {"num_steps": 0}, "num_steps >= 1, got 0"),
    ("descent", {"noise_scale": -1.0}, "noise_scale >= 0, got -1"),
    ("calibrated", {"epsilon": 61.0, **PUBLISHED}, r"8 log\(1/delta\) = 60.8"),
    ("correlated", {"strategy": STRATEGY.T}, "lower triangular"),
    ("correlated", {"strategy": 2 * np.eye(4)}, "columns of the strategy of norm at most 1"),
    ("correlated", {"rates": np.ones(5)}, r"strategy of shape \(5, 5\)"),
    ("correlated", {"rates": [1.0, -0.5, 1.0, 1.0]}, r"finite rates >= 0, got one of -0\.5"),
    ("correlated", {"rates": [1.0, np.inf, 1.0, 1.0]}, "finite rates >= 0, got one of inf"),
    ("correlated", {"rates": 1.0}, r"a vector of one rate a step, got shape \(\)"),
    ("correlated", {"rates": []}, r"a vector of one rate a step, got shape \(0,\)"),
    ("correlated", {"clip_scale": 0.0}, "clip_scale > 0"),
    ("correlated", {"rho": -1.0}, "rho > 0"),
    ("correlated", {"clip_scale": np.inf}, "without clipping no finite noise is private"),
    ("correlated", {"batch_size": 0}, "batch_size >= 1"),
    ("private", {"noise_multiplier": -1.0}, "noise_multiplier >= 0"),
    ("private", {"noise_multiplier": np.inf}, "finite noise_multiplier"),
    ("private", {"noise_multiplier": 0.0, **SECRET}, "noise_multiplier > 0 with secret noise"),
    ("private", {"num_steps": 0}, "num_steps >= 1"),
    ("private", {"average": jaxdp.PolyakAverage}, "expected average to be None or an average"),
    ("baseline", {"num_steps": 0}, "num_steps >= 1"),
    ("average", {"decay": -0.1}, "expected 0 <= decay < 1"),
    ("average", {"decay": 1.0}, "expected 0 <= decay < 1"),
    ("average", {"decay": np.nan}, "expected 0 <= decay < 1"),
    ("training", {"key": jr.PRNGKey(0)}, "old kind, PRNGKey"),
    ("training", {"optimiser": NonPrivateOptimiser(SGD, 1), "key": jr.PRNGKey(0)}, "old kind"),
    ("training", {"optimiser": PRIVATE | {"sampler": ShuffledEpochs(31, 31)}}, "31 training rows"),
    ("training", {"every": 0}, "every >= 1"),
]


@pytest.mark.parametrize(("call", "changes", "message"), REFUSED)
def test_values_out_of_range_are_refused_in_one_line(call, changes, message):
    function, good = CALLS[call]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        function(**good | changes)
    assert "\n" not in str(caught.value)
