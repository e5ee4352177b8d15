r"""Private kernel learning on a circle of grid points, where n rows cost no more than the grid.

Inputs are uniform on G points j/G, on which the Fourier basis is orthonormal up to frequency G/2:
the eigenfunctions of every shift-invariant kernel. All that n rows say is how many fell on each
point and what their labels add up to, so these are drawn, exactly, and n may be a billion.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.theory import KernelSpectrum

_Grid = Float[np.ndarray, " points"]
_Features = Float[np.ndarray, "points outputs"]


class Torus(NamedTuple):
    r"""A kernel with $\mu_k \propto k^{-1/\gamma}$ per frequency, of trace 1, and a target.

    eigenvalues: of frequencies 0 to G/2 - 1, each but the first for a cosine and a sine.
    coefficients: of the target on 1, cosine, sine, cosine, ...
    values: of the target at the grid's points, at most 1/2.
    """

    eigenvalues: Float[np.ndarray, " frequencies"]
    coefficients: Float[np.ndarray, " modes"]
    values: _Grid

    @classmethod
    def power_law(cls, capacity: float, source: float, num_points: int) -> "Torus":
        r"""$\mu_l \propto l^{-1/\gamma}$ and $\theta_l^2 \propto \mu_l^{2r}/l$, at $l = 2k$."""
        index = np.maximum(2 * np.arange(num_points // 2), 1.0)
        eigenvalues = index ** (-1 / capacity)
        coefficients = np.repeat(eigenvalues**source * index**-0.5, 2)[1:]
        values = synthesised(coefficients[:, None])[:, 0]
        scale = 0.5 / np.abs(values).max()
        trace = 2 * eigenvalues.sum() - eigenvalues[0]
        return cls(eigenvalues / trace, coefficients * scale, values * scale)

    @property
    def num_points(self) -> int:
        """G."""
        return len(self.values)

    def spectrum(self, power: float = 1.0) -> KernelSpectrum:
        """What theory is told; of the rougher kernel with eigenvalues mu^power."""
        return KernelSpectrum(np.repeat(self.powers(power), 2)[1:], self.coefficients**2)

    def powers(self, power: float) -> Float[np.ndarray, " frequencies"]:
        """mu^power, scaled back to trace 1."""
        raised = self.eigenvalues**power
        return raised / (2 * raised.sum() - raised[0])

    def paths(
        self, num_projections: int, rng: np.random.Generator, power: float = 1.0
    ) -> _Features:
        """Sample paths of the kernel over sqrt(M), at the grid's points: exact in law."""
        scales = np.sqrt(np.repeat(self.powers(power), 2)[1:] / num_projections)
        return synthesised(scales[:, None] * rng.standard_normal((len(scales), num_projections)))

    def fourier_counts(self, num_frequencies: int, rng: np.random.Generator):
        """How often each frequency is drawn from the kernel's spectrum."""
        weights = self.eigenvalues * np.where(np.arange(len(self.eigenvalues)), 2, 1)
        return rng.multinomial(num_frequencies, weights / weights.sum())

    def fourier_features(self, counts) -> _Features:
        """Paired random features of norm 1 for the frequencies drawn, repetitions included."""
        frequencies = np.repeat(np.arange(len(counts)), counts)
        turns = np.outer(np.arange(self.num_points), frequencies) % self.num_points
        angles = 2 * np.pi * turns / self.num_points
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(frequencies))


class Table(NamedTuple):
    """n rows: how many fell on each point, and the sum of their labels there, both over n."""

    shares: _Grid
    labels: _Grid


def drawn_table(torus: Torus, num_samples: int, label_noise: float, rng) -> Table:
    """Labels are the target plus or minus `label_noise`, each with probability 1/2."""
    counts = rng.multinomial(num_samples, np.full(torus.num_points, 1 / torus.num_points))
    signs = 2.0 * rng.binomial(counts, 0.5) - counts
    return Table(counts / num_samples, (counts * torus.values + label_noise * signs) / num_samples)


def synthesised(coefficients: Float[np.ndarray, "modes columns"]) -> _Features:
    """Values on the grid of functions of given coefficients on 1, sqrt2 cos, sqrt2 sin, ..."""
    num_points = len(coefficients) + 1
    waves = np.zeros((num_points // 2 + 1, coefficients.shape[1]), complex)
    waves[0] = coefficients[0]
    waves[1:-1] = (coefficients[1::2] - 1j * coefficients[2::2]) / np.sqrt(2)
    return np.fft.irfft(waves, num_points, axis=0) * num_points
