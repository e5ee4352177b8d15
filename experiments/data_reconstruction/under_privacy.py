r"""Reconstruction from privately trained random features: what epsilon, T, p and C do to it.

Not a figure of DR: its attack on `DPGD`, beside the law of `jaxdp.theory.reconstruction.error` and
the bound that holds for any attack. Rows uniform on the sphere, ReLU features, and training whose
choices do not read the data (`private_training`).
"""

import xarray

from experiments import harness
from experiments.data_reconstruction.private_training import DELTA
from experiments.data_reconstruction.under_privacy_checks import checks as checks
from experiments.data_reconstruction.under_privacy_checks import summary as summary
from experiments.data_reconstruction.under_privacy_drawing import plot as plot
from experiments.data_reconstruction.under_privacy_runs import Config as Config
from experiments.data_reconstruction.under_privacy_runs import by_epsilon
from experiments.data_reconstruction.under_privacy_settings import (
    by_clip,
    by_law,
    by_steps,
    by_width,
)


def run(config: Config) -> xarray.Dataset:
    """Every panel's runs; run number i has the same rows and the same noise in all of them."""
    parts = [by_epsilon, by_steps, by_width, by_clip, by_law]
    found = [part(config) for part in harness.track(parts, lambda part: part.__name__)]
    dataset = xarray.merge(found)
    dataset.attrs = {
        "delta": DELTA,
        "adjacency": "replace-one",
        "dim": config.dim,
        "num_samples": config.num_samples,
        "width": config.width,
        "choices": "learning rate 1 / (|V|_op^2 d), C = share * sqrt(p / 2): from V, d and p alone",
    }
    return dataset


claims = harness.claims_of(checks)
harness.main(__name__)
