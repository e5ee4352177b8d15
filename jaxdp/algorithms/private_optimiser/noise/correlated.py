"""Simulated noise that is correlated over the steps and takes back part of what it added."""

from jaxdp.algorithms.private_optimiser.noise.base import AbstractNoise, Claim
from jaxdp.algorithms.private_optimiser.noise.independent import (
    simulated_lines,
    simulated_noise,
    with_noise,
)
from jaxdp.core.errors import NotCoveredError
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise

_CORRELATED = (
    "the noise is correlated over the steps and scaled by its sensitivity, so that all steps cost "
    "what one with independent noise would (jaxdp.privacy.correlated_noise has the proof); the "
    "optimiser's state and its checkpoints hold past noise and are not released"
)


class CorrelatedNoise(AbstractNoise):
    """Simulated noise of a buffered linear Toeplitz mechanism, whose buffers are secret state."""

    correlation: BufferedToeplitzNoise
    has_one_scale = True

    @property
    def is_valid(self):
        return self.correlation.is_valid

    def sensitivity(self, num_steps):
        return self.correlation.sensitivity(num_steps)

    def start(self, weights):
        return self.correlation.start(weights)

    def shaped(self, fresh, buffers):
        return self.correlation.correlated(fresh, buffers), self.correlation.after(fresh, buffers)

    def added(self, total, scale, buffers, step, *, key):
        self.correlation.require_buffers(buffers, total.high)
        fresh = simulated_noise(total.high, scale.std, step, key=key)
        noise, buffers = self.shaped(fresh, buffers)
        return with_noise(total, noise), buffers

    def require_covered(self, sampler, num_steps):
        if sampler.most_batches(num_steps) == 1:
            return
        raise NotCoveredError(
            "correlated noise is proved for records that are in one batch at most, such as those "
            f"of the first epoch of ShuffledEpochs, got {num_steps} steps of {sampler!r}; with "
            "noise=None all are accounted for"
        )

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        lines = simulated_lines(noise_multiplier, sampler, num_steps, key)
        return Claim(mechanism, (_CORRELATED, *lines), False)
