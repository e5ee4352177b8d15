"""Checks of the seeds of a fit."""

from typing import Any

import numpy as np

from jaxdp.privacy.secret.secret_noise import check_noise_seed

# Public seeds are below.
_PUBLIC_SEEDS = 2**63


def check_seeds(public_seed: Any, noise_seed: Any, public_name: str = "public_seed") -> None:
    """Raise TypeError or ValueError unless the seeds are ints, and not one and the same.

    Args:
        public_seed: of the features; published.
        noise_seed: of the noise, secret; None for the operating system's entropy.
        public_name: what the caller calls the public one, for the error.
    """
    if isinstance(public_seed, bool) or not isinstance(public_seed, (int, np.integer)):
        raise TypeError(f"expected {public_name} to be an int, got {type(public_seed).__name__}")
    if not 0 <= public_seed < _PUBLIC_SEEDS:
        raise ValueError(f"expected 0 <= {public_name} < 2^63, got one beyond")
    check_noise_seed(noise_seed)
    if noise_seed is not None and noise_seed == public_seed:
        raise ValueError(
            f"expected noise_seed to differ from {public_name}: the one is published, and the "
            "other takes the noise off"
        )
